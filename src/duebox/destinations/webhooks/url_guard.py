"""The URL guard of webhooks: parse the URL, resolve the host once, allow only public addresses and configured
exceptions.

`ipaddress.is_global` is not enough: depending on the version of Python it treats multicast, 6to4 and NAT64 addresses as
public. So all ranges that are not public are listed here.

A host is resolved once, every address is checked, and the connection goes to a checked address. The host is not
resolved again, so DNS rebinding has no effect.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple

from duebox.exceptions import Blocked, InvalidGuard

LONGEST_HOST = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def read_host(text: str) -> str:
    """A host name in ASCII and lower case, or an address in its normal form. Raises Blocked if it is neither."""
    if text.startswith("["):
        return _bracketed(text)
    name = _in_ascii(text) if len(text) <= LONGEST_HOST else ""
    labels = name.split(".")
    # Resolvers treat a name that ends in a number as an address: 127.1, 0x7f000001 and 2130706433 all are.
    if _NUMBER.fullmatch(labels[-1]):
        return _dotted(labels)
    if len(name) > LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise Blocked("The host of the URL is not a name; check how it is spelled.")
    return name


def _in_ascii(text: str) -> str:
    """The name in punycode. This also normalizes circled digits to digits, and ideographic full stops to dots."""
    try:
        name = text.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise Blocked("The host of the URL is not a name; check how it is spelled.") from None
    return name.removesuffix(".")


def _bracketed(text: str) -> str:
    inside = text[1:-1] if text.endswith("]") else ""
    try:
        # A zone, as in fe80::1%eth0, names a network interface of this machine, so the URL of an endpoint has none.
        return _one_spelling(IPv6Address(inside if "%" not in inside else ""))
    except ValueError:
        raise Blocked("The host of the URL is not an IPv6 address; write it as [2001:db8::1].") from None


def _one_spelling(address: IPv6Address) -> str:
    """The spelling of Python before 3.13, which has changed it for IPv4 inside of IPv6."""
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


LONGEST_URL = 2048
PORTS = {"https": 443, "http": 80}
_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)(?P<fragment>#.*)?", re.DOTALL
)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(:(?P<port>[1-9][0-9]{0,4}))?")
_REST = re.compile(r"[!-~]*")
_ENCODED_CONTROL = re.compile(r"%(?:[01][0-9a-f]|7f)", re.IGNORECASE)


class Target(NamedTuple):
    """The parts of a URL. The host is a name in ASCII or an address, without brackets."""

    scheme: str
    host: str
    port: int
    path: str
    """The path with the query."""

    def __repr__(self) -> str:
        """Without the path, which may be secret."""
        return f"Target({self.scheme}, {self.host}, {self.port}, …)"


def read_url(url: str, *, http: bool = False, ports: Collection[int] = ()) -> Target:
    """Parse the URL of a webhook, and raise Blocked if its text shows that it is not allowed.

    `http=True` allows it without TLS; `ports` are allowed besides 443 and 80.
    """
    parts = _PARTS.fullmatch(_checked(url))
    if parts is None:
        raise Blocked("The URL is invalid; write it as https://example.com/path.")
    scheme = parts["scheme"].lower()
    if scheme not in PORTS or (scheme == "http" and not http):
        option = "http" if scheme == "http" else ""
        raise Blocked("The URL does not begin with https://; only that is allowed.", option=option)
    if parts["fragment"] is not None:
        raise Blocked("The URL has a fragment, which is never sent; leave out the # and what follows.")
    host, port = _authority(parts["authority"], scheme)
    if port not in {*PORTS.values(), *ports}:
        raise Blocked(f"Port {port} is not allowed; use 443, or let the operator allow it.", option="ports")
    return Target(scheme, host, port, _path(parts["rest"]))


def _checked(url: str) -> str:
    if not isinstance(url, str) or len(url) > LONGEST_URL:
        raise Blocked(f"The URL is not a text of up to {LONGEST_URL} characters; use a shorter one.")
    if not url.isprintable() or any(character.isspace() for character in url) or _ENCODED_CONTROL.search(url):
        raise Blocked("The URL holds spaces or control characters; leave them out.")
    if "\\" in url:
        raise Blocked("The URL holds a backslash, which some read as a slash; leave it out.")
    return url


def _authority(authority: str, scheme: str) -> tuple[str, int]:
    if "@" in authority:
        raise Blocked("The URL holds a user name or a password; use a signature or a header of your own instead.")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None or not parts["host"]:
        raise Blocked("The URL has no host, or a port that is not a number; write it as https://example.com/path.")
    return read_host(parts["host"]), int(parts["port"] or PORTS[scheme])


def _path(rest: str) -> str:
    if not _REST.fullmatch(rest):
        raise Blocked("The path of the URL is not ASCII; percent-encode it.")
    return rest if rest.startswith("/") else f"/{rest}"


Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Tier(Enum):
    """What `allow_private` must contain to allow a range that is not public."""

    NETWORK = "a network that holds it, or its address, or its host"
    EXACT = "its address or its host, never a network"
    NEVER = "it cannot be allowed"


class Range(NamedTuple):
    network: Network
    what: str
    tier: Tier


def _ranges(tier: Tier, what: str, *networks: str) -> list[Range]:
    return [Range(ip_network(network), what, tier) for network in networks]


# The first range that contains an address decides, so a range inside of another comes before it.
RANGES = (
    *_ranges(
        Tier.EXACT, "a metadata address of a cloud",
        "169.254.169.254/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
        "fd00:ec2::254/128", "fd20:ce::254/128",
    ),
    *_ranges(Tier.EXACT, "loopback", "127.0.0.0/8", "::1/128"),
    *_ranges(Tier.EXACT, "link-local", "169.254.0.0/16", "fe80::/10"),
    *_ranges(Tier.NETWORK, "private", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    *_ranges(Tier.NETWORK, "shared by a carrier", "100.64.0.0/10"),
    *_ranges(Tier.NEVER, "of this host", "0.0.0.0/8", "::/128"),
    *_ranges(Tier.NEVER, "multicast", "224.0.0.0/4", "ff00::/8"),
    *_ranges(
        Tier.NEVER, "for documentation",
        "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20",
    ),
    *_ranges(Tier.NEVER, "for benchmarks", "198.18.0.0/15"),
    *_ranges(
        Tier.NEVER, "between IPv4 and IPv6",
        "192.88.99.0/24", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16",
    ),
    *_ranges(Tier.NEVER, "for protocols", "192.0.0.0/24", "2001::/23", "5f00::/16"),
    *_ranges(Tier.NEVER, "reserved", "240.0.0.0/4", "100::/64", "fec0::/10"),
)  # fmt: skip
# All public IPv6 addresses are in here.
_PUBLIC_V6 = ip_network("2000::/3")


def read_address(text: str) -> Address:
    """The address of a text, without its zone, and as IPv4 if it is mapped to IPv6."""
    address = ip_address(text.partition("%")[0])
    return (address.version == 6 and address.ipv4_mapped) or address


@lru_cache(maxsize=4096)
def not_public(address: Address) -> Range | None:
    """The range of an address that is not public; None if it is public."""
    for each in RANGES:
        if address.version == each.network.version and address in each.network:
            return each
    if (address.version == 6 and address not in _PUBLIC_V6) or not address.is_global:
        return Range(ip_network(address), "reserved", Tier.NEVER)
    return None


def is_public(text: str) -> bool:
    return not_public(read_address(text)) is None


@dataclass(frozen=True, slots=True)
class AllowedNetworks:
    """Networks, addresses and hosts that are allowed although they are not public."""

    networks: tuple[Network, ...] = ()
    addresses: frozenset[Address] = frozenset()
    hosts: frozenset[str] = frozenset()

    def admit(self, host: str, address: Address, tier: Tier) -> bool:
        """Whether an address of a tier is allowed for this host."""
        if tier is Tier.NEVER:
            return False
        if host in self.hosts or address in self.addresses:
            return True
        return tier is Tier.NETWORK and any(
            address.version == network.version and address in network for network in self.networks
        )


def read_openings(entries: Iterable[str]) -> AllowedNetworks:
    """The exceptions of a setting such as ("10.1.0.0/16", "127.0.0.1", "hooks.internal")."""
    if isinstance(entries, str):
        raise InvalidGuard(f"allow_private is {entries!r}; write a list: [{entries!r}].")
    networks: list[Network] = []
    addresses: set[Address] = set()
    hosts: set[str] = set()
    for entry in entries:
        network = _network(entry)
        if network is None:
            hosts.add(_host(entry))
        elif network.prefixlen == network.max_prefixlen:
            addresses.add(_address(entry, network))
        else:
            networks.append(_private(entry, network))
    return AllowedNetworks(tuple(networks), frozenset(addresses), frozenset(hosts))


def _network(entry: str) -> Network | None:
    try:
        return ip_network(entry if isinstance(entry, str) else "/")
    except ValueError:
        if isinstance(entry, str) and "/" not in entry:
            return None
        raise InvalidGuard(
            f"allow_private contains {entry!r}, which is not a network; write it as 10.1.0.0/16."
        ) from None


def _address(entry: str, network: Network) -> Address:
    address = ip_address(network.network_address)
    found = not_public(address)
    if found is not None and found.tier is Tier.NEVER:
        raise InvalidGuard(f"allow_private contains {entry!r}, which is {found.what}; no webhook can go there.")
    return address


def _private(entry: str, network: Network) -> Network:
    for each in RANGES:
        if each.network.version == network.version and network.subnet_of(each.network):  # type: ignore[arg-type]
            if each.tier is Tier.NETWORK:
                return network
            repair = (
                "no webhook can go there" if each.tier is Tier.NEVER else "name the exact address or the exact host"
            )
            raise InvalidGuard(f"allow_private contains {entry!r}, which is {each.what}; {repair}.")
    raise InvalidGuard(f"allow_private contains {entry!r}, which is not inside of one private range; name one that is.")


def _host(entry: str) -> str:
    try:
        return read_host(entry)
    except Blocked:
        raise InvalidGuard(
            f"allow_private contains {entry!r}; write a network, an address or the full name of a host, without *."
        ) from None


Resolver = Callable[..., Iterable[tuple[Any, ...]]]
"""As `socket.getaddrinfo`."""


class Pinned(NamedTuple):
    """A checked address. Connect to it, and use the host for TLS and for the Host header."""

    family: int
    address: str
    port: int


class Route(NamedTuple):
    """The target of a webhook and its checked addresses."""

    target: Target
    addresses: tuple[Pinned, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Allows webhooks to public addresses and to those in `allow_private`."""

    http: bool = False
    ports: Collection[int] = ()
    allow_private: Sequence[str] = ()
    resolver: Resolver = socket.getaddrinfo
    _openings: AllowedNetworks = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_openings", read_openings(self.allow_private))

    def route(self, url: str) -> Route:
        """Check a URL completely, its text and its addresses, and return the route to it."""
        target = self.read(url)
        return Route(target, self.resolve(target.host, target.port))

    def read(self, url: str) -> Target:
        """The parts of a URL. Nothing is resolved; an address in it is checked."""
        target = read_url(url, http=self.http, ports=self.ports)
        if _is_address(target.host):
            self._check(target.host, target.host)
        return target

    def resolve(self, host: str, port: int) -> tuple[Pinned, ...]:
        """The addresses of a host, if all of them are allowed. One that is not blocks the host.

        A host that cannot be resolved raises `OSError`, as the resolver does: that may be temporary.
        """
        host = read_host(f"[{host}]" if ":" in host and not host.startswith("[") else host)
        if _is_address(host):
            found = [Pinned(socket.AF_INET6 if ":" in host else socket.AF_INET, host, port)]
        else:
            answers = self.resolver(host, port, type=socket.SOCK_STREAM)
            found = [Pinned(family, str(where[0]), port) for family, _, _, _, where in answers]
        if not found:
            raise OSError(f"{host} has no address.")
        for each in found:
            self._check(host, each.address)
        return tuple(dict.fromkeys(found))

    def allowed(self, address: str, *, host: str = "") -> bool:
        """Whether a connection to this address is allowed, for this host if one is given."""
        try:
            self._check(host, address)
        except Blocked:
            return False
        return True

    def _check(self, host: str, text: str) -> None:
        try:
            address = read_address(text)
        except ValueError:
            raise Blocked(f"{host} was resolved to something that is not an address.") from None
        found = not_public(address)
        if found is None or self._openings.admit(host, address, found.tier):
            return
        subject = f"{host} is {address}, which" if host and host != text else f"{address}"
        option = "" if found.tier is Tier.NEVER else "allow_private"
        raise Blocked(f"{subject} is {found.what}; only public addresses are allowed.", option=option)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
