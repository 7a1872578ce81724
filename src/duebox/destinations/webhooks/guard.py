"""The guard of webhooks: what an outsider typed → addresses that may be connected to.

A name is resolved once, every answer is looked at, and the connection goes to an address that was looked at.
Nobody asks a second time, so an answer that changes in between changes nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, NamedTuple

from duebox.destinations.webhooks.addresses import Tier, not_public, read_address
from duebox.destinations.webhooks.hosts import read_host
from duebox.destinations.webhooks.openings import Openings, read_openings
from duebox.destinations.webhooks.urls import Target, read_url
from duebox.exceptions import Blocked

Resolver = Callable[..., Iterable[tuple[Any, ...]]]
"""As `socket.getaddrinfo`."""


class Pinned(NamedTuple):
    """An address that was looked at. Connect to it, and keep the host for TLS and for the header."""

    family: int
    address: str
    port: int


class Route(NamedTuple):
    """Where a webhook goes, and by which addresses."""

    target: Target
    addresses: tuple[Pinned, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Keeps webhooks to the public internet, and to what `allow_private` opens."""

    http: bool = False
    ports: Collection[int] = ()
    allow_private: Sequence[str] = ()
    resolver: Resolver = socket.getaddrinfo
    _openings: Openings = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_openings", read_openings(self.allow_private))

    def route(self, url: str) -> Route:
        """The way to a URL: every rule there is, on its text and on its addresses."""
        target = self.read(url)
        return Route(target, self.resolve(target.host, target.port))

    def read(self, url: str) -> Target:
        """The parts of a URL. Nothing is resolved; an address in it is looked at."""
        target = read_url(url, http=self.http, ports=self.ports)
        if _is_address(target.host):
            self._check(target.host, target.host)
        return target

    def resolve(self, host: str, port: int) -> tuple[Pinned, ...]:
        """The addresses of a host, all of them allowed. One that is not blocks the others with it.

        A name that cannot be resolved raises `OSError`, as the resolver does: that may pass.
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
        """Whether an address may be connected to, for this host."""
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
