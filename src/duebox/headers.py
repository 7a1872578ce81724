"""What may be believed of the headers of a request. Text in, checked text out; knows nobody.

The correlation id goes into every log line, event and response, so a stranger's text must not get there unread.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address

CORRELATION_ID = "X-Correlation-ID"

_LONGEST_ID = 128
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_LONGEST_AGENT = 256
_LONGEST_ADDRESS = 64
_LONGEST_SHOWN = 80
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_WITH_PORT = re.compile(r"\[(?P<six>[^\[\]]*)\](?::\d{1,5})?|(?P<four>[\d.]+):\d{1,5}", re.ASCII)


def why_not(correlation_id: str) -> str:
    """What is wrong with a correlation id, in a word; nothing if it may pass."""
    if len(correlation_id) > _LONGEST_ID:  # before anything reads all of it
        return "length"
    if "," in correlation_id:
        # A header that comes twice is joined with a comma, by WSGI servers and by Django under ASGI.
        return "repeated"
    return "" if _ID.fullmatch(correlation_id) else "characters"


def shown(value: str) -> str:
    """A stranger's text for the log: one line of printable ASCII, at most 80 characters with its quotes."""
    text = ascii(value[:_LONGEST_SHOWN])
    whole = len(value) <= _LONGEST_SHOWN and len(text) <= _LONGEST_SHOWN
    return text if whole else text[: _LONGEST_SHOWN - 3] + "..."


def client_ip(remote: str, forwarded: str, *, trusted_proxies: int) -> str:
    """The address of the client, or nothing where it is not known.

    Every proxy adds the address it was called from at the right-hand side of X-Forwarded-For. What your own proxies
    added can be believed, so the client is as many places from the right as there are of them. What is further left
    was written by anybody.
    """
    if trusted_proxies < 1 or not forwarded:
        return _address(remote)
    hops = forwarded.rsplit(",", trusted_proxies)
    # Too short, or no address: the request took another way than the setting says. None is better than a wrong one.
    return _address(hops[-trusted_proxies]) if len(hops) >= trusted_proxies else ""


def user_agent(text: str) -> str:
    return _CONTROL.sub("", text[:_LONGEST_AGENT])


def _address(text: str) -> str:
    """The one spelling of an address: no port, no brackets, no zone, IPv4 not dressed up as IPv6."""
    text = text.strip(" \t")
    if len(text) > _LONGEST_ADDRESS:
        return ""
    if with_port := _WITH_PORT.fullmatch(text):
        text = with_port["six"] or with_port["four"] or ""
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    if isinstance(address, IPv6Address):
        # Made anew from its number: a zone (fe80::1%eth0) may hold any text.
        return str(address.ipv4_mapped or IPv6Address(int(address)))
    return str(address)
