"""The host of a URL, in the one spelling that everything after it relies on."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address

from duebox.exceptions import Blocked

LONGEST = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def read_host(text: str) -> str:
    """A name in ASCII and lower case, or an address as it is usually written. Blocked if it is neither."""
    if text.startswith("["):
        return _bracketed(text)
    name = _in_ascii(text) if len(text) <= LONGEST else ""
    labels = name.split(".")
    # A name that ends in a number is an address to whoever resolves it: 127.1, 0x7f000001 and 2130706433 all are.
    if _NUMBER.fullmatch(labels[-1]):
        return _dotted(labels)
    if len(name) > LONGEST or not all(_LABEL.fullmatch(label) for label in labels):
        raise Blocked("The host of the URL is not a name; check how it is spelled.")
    return name


def _in_ascii(text: str) -> str:
    """The name in punycode. It also makes plain digits of ones in circles, and dots of ideographic stops."""
    try:
        name = text.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise Blocked("The host of the URL is not a name; check how it is spelled.") from None
    return name.removesuffix(".")


def _bracketed(text: str) -> str:
    inside = text[1:-1] if text.endswith("]") else ""
    try:
        # A zone, as in fe80::1%eth0, names a card of this machine, which no stranger can know.
        return _one_spelling(IPv6Address(inside if "%" not in inside else ""))
    except ValueError:
        raise Blocked("The host of the URL is not an IPv6 address; write it as [2001:db8::1].") from None


def _one_spelling(address: IPv6Address) -> str:
    """As Python before 3.13 writes it, which since then has another way for IPv4 inside of IPv6."""
    if address.ipv4_mapped is None:
        return address.compressed
    high, low = divmod(int(address.ipv4_mapped), 1 << 16)
    return f"::ffff:{high:x}:{low:x}"


def _dotted(labels: list[str]) -> str:
    """An IPv4 address from one to four numbers, each decimal, octal or hexadecimal; the last one fills what is left."""
    try:
        *first, last = [_number(label) for label in labels]
        if len(first) > 3:
            raise ValueError
        return str(IPv4Address(bytes(first) + last.to_bytes(4 - len(first), "big")))
    except (ValueError, OverflowError):
        raise Blocked("The host of the URL is not an IPv4 address; write it as 192.0.2.1.") from None


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError
    if text.startswith("0x"):
        return int(text, 16) if len(text) > 2 else 0
    return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)
