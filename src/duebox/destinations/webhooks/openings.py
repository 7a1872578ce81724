"""Which addresses besides the public ones an operator opens for webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from duebox.destinations.webhooks.addresses import RANGES, Address, Network, Tier, not_public
from duebox.destinations.webhooks.hosts import read_host
from duebox.exceptions import Blocked, InvalidGuard


@dataclass(frozen=True, slots=True)
class Openings:
    """Networks, addresses and hosts that may be reached although they are not public."""

    networks: tuple[Network, ...] = ()
    addresses: frozenset[Address] = frozenset()
    hosts: frozenset[str] = frozenset()

    def admit(self, host: str, address: Address, tier: Tier) -> bool:
        """Whether an address of a tier may be reached by this host."""
        if tier is Tier.NEVER:
            return False
        if host in self.hosts or address in self.addresses:
            return True
        return tier is Tier.NETWORK and any(
            address.version == network.version and address in network for network in self.networks
        )


def read_openings(entries: Iterable[str]) -> Openings:
    """The openings of a setting such as ("10.1.0.0/16", "127.0.0.1", "hooks.internal")."""
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
    return Openings(tuple(networks), frozenset(addresses), frozenset(hosts))


def _network(entry: str) -> Network | None:
    try:
        return ip_network(entry if isinstance(entry, str) else "/")
    except ValueError:
        if isinstance(entry, str) and "/" not in entry:
            return None
        raise InvalidGuard(f"allow_private holds {entry!r}, which is not a network; write it as 10.1.0.0/16.") from None


def _address(entry: str, network: Network) -> Address:
    address = ip_address(network.network_address)
    found = not_public(address)
    if found is not None and found.tier is Tier.NEVER:
        raise InvalidGuard(f"allow_private holds {entry!r}, which is {found.what}; no webhook can go there.")
    return address


def _private(entry: str, network: Network) -> Network:
    for each in RANGES:
        if each.network.version == network.version and network.subnet_of(each.network):  # type: ignore[arg-type]
            if each.tier is Tier.NETWORK:
                return network
            repair = (
                "no webhook can go there" if each.tier is Tier.NEVER else "name the exact address or the exact host"
            )
            raise InvalidGuard(f"allow_private holds {entry!r}, which is {each.what}; {repair}.")
    raise InvalidGuard(
        f"allow_private holds {entry!r}, which does not lie within one private range; name one that does."
    )


def _host(entry: str) -> str:
    try:
        return read_host(entry)
    except Blocked:
        raise InvalidGuard(
            f"allow_private holds {entry!r}; write a network, an address or the full name of a host, without *."
        ) from None
