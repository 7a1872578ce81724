"""Tests on text that is an IP address."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from duebox.destinations.patterns.values import Test

# Other text is not even tried: most text is no address, and a failed reading costs ten times a failed search.
LOOKS_LIKE_ONE = re.compile(r"\d+\.\d+\.\d+\.\d+|[0-9a-fA-F:]*:[0-9a-fA-F:]*", re.ASCII)
LONGEST = 39


def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address that a text is, an IPv4 one where it is only wrapped into IPv6; None if it is not one."""
    # Asked first, so that what is remembered is small.
    return _read(text) if len(text) <= LONGEST else None


@lru_cache(maxsize=4096)
def _read(text: str) -> IPv4Address | IPv6Address | None:
    if not LOOKS_LIKE_ONE.fullmatch(text):
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.version == 6 and address.ipv4_mapped) or address


def is_address(address: IPv4Address | IPv6Address) -> Test:
    return lambda value: value.__class__ is str and read_address(value) == address


def within(network: IPv4Network | IPv6Network) -> Test:
    version, first, last = network.version, int(network.network_address), int(network.broadcast_address)

    def takes(value: Any) -> bool:
        address = read_address(value) if value.__class__ is str else None
        return address is not None and address.version == version and first <= int(address) <= last

    return takes


def read_network(text: str) -> IPv4Network | IPv6Network:
    """The network of a text such as 10.0.0.0/24. ValueError says what is wrong with it."""
    start, slash, bits = text.partition("/")
    address = read_address(start)
    if not slash or address is None or not re.fullmatch(r"\d{1,3}", bits, re.ASCII):
        raise ValueError("is not a network")
    if int(bits) >= address.max_prefixlen:
        raise ValueError(f"has a mask of {bits} bits, and {address.max_prefixlen - 1} is the most")
    return ip_network((address, int(bits)), strict=False)
