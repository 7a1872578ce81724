"""Which addresses belong to the public internet.

`ipaddress.is_global` is not enough: depending on the version of Python it calls multicast, 6to4 and NAT64 addresses
public. So everything that is not is on a list here.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Tier(Enum):
    """What it takes to open a range that is not public."""

    NETWORK = "a network that holds it, or its address, or its host"
    EXACT = "its address or its host, never a network"
    NEVER = "nothing opens it"


class Range(NamedTuple):
    network: Network
    what: str
    tier: Tier


def _ranges(tier: Tier, what: str, *networks: str) -> list[Range]:
    return [Range(ip_network(network), what, tier) for network in networks]


# The first that holds an address decides, so what lies within another comes before it.
RANGES = (
    *_ranges(
        Tier.EXACT, "where a cloud keeps its metadata",
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
    *_ranges(Tier.NEVER, "for nobody", "240.0.0.0/4", "100::/64", "fec0::/10"),
)  # fmt: skip
# All of IPv6 that is given out to the public lies in here.
_PUBLIC_V6 = ip_network("2000::/3")


def read_address(text: str) -> Address:
    """The address of a text, without its zone, and the IPv4 one where it is only wrapped into IPv6."""
    address = ip_address(text.partition("%")[0])
    return (address.version == 6 and address.ipv4_mapped) or address


@lru_cache(maxsize=4096)
def not_public(address: Address) -> Range | None:
    """The range that keeps an address from being public; None if it is."""
    for each in RANGES:
        if address.version == each.network.version and address in each.network:
            return each
    if (address.version == 6 and address not in _PUBLIC_V6) or not address.is_global:
        return Range(ip_network(address), "for nobody", Tier.NEVER)
    return None


def is_public(text: str) -> bool:
    return not_public(read_address(text)) is None
