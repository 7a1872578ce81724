"""Webhooks as a destination: each public event is delivered independently to each endpoint of its organization."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duebox.destinations.base import Destination, DestinationPolicy
from duebox.destinations.options import driver, listed, number, positive, truth
from duebox.destinations.registry import subscriptions
from duebox.destinations.webhooks.filters import PUBLIC
from duebox.destinations.webhooks.url_guard import Guard
from duebox.events.fact import Fact
from duebox.events.identities import is_uuid
from duebox.events.outcomes import Retry
from duebox.exceptions import InvalidDestination
from duebox.models import WebhookEndpoint
from duebox.store import destinations as store

if TYPE_CHECKING:
    from duebox.destinations.webhooks.endpoint_delivery import EndpointDestination, MissingEndpoint
    from duebox.destinations.webhooks.http import HttpClient

MINUTE, HOUR = 60.0, 3600.0
RETRY = Retry(
    delays=(5.0, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR), jitter=0.2
)
"""Three days and a few hours, as Standard Webhooks proposes."""
FRESH_SECONDS = 2.0
"""How long a worker may use an outdated row of an endpoint."""
FORGET_SECONDS = 300.0


class Webhooks(Destination):
    """Options: `timeout` of an attempt in seconds; `http` and `ports` besides https on 443; `allow_private` networks,
    addresses and hosts; `ca_file` of authorities of your own; `refused`, statuses that are not retried;
    `disable_after_days`, after how many days of failures an endpoint is disabled, 0 for never.
    """

    policy = DestinationPolicy(retry=RETRY, concurrency=4)
    match = f"{PUBLIC}*"
    only = PUBLIC
    expands = True
    only_once = True  # endpoints have no alias: a second one would send to all of them too, with another URL guard

    def __init__(
        self,
        alias: str,
        *,
        timeout: float = 15.0,
        http: bool = False,
        ports: Collection[int] = (),
        allow_private: Sequence[str] = (),
        ca_file: str | PathLike[str] = "",
        refused: Collection[int] = (),
        disable_after_days: float = 5.0,
    ) -> None:
        super().__init__(alias)
        self.guard = Guard(
            http=truth("http", http),
            ports=tuple(_wholes("ports", ports, "numbers", 1, 65_535)),
            allow_private=tuple(listed("allow_private", allow_private, "networks, addresses and hosts")),
        )
        self.refused = frozenset(_wholes("refused", refused, "statuses", 100, 599))
        self.disable_after_days = _days("disable_after_days", disable_after_days)
        self.http_client = _http_client(self.guard, ca_file, positive("timeout", number("timeout", timeout)))
        self._parts: dict[str, tuple[EndpointDestination | MissingEndpoint, float]] = {}
        self._swept = time.monotonic()
        self._lock = threading.Lock()

    @classmethod
    def expand(cls, alias: str, facts: Sequence[Fact], using: str) -> None:
        public = [fact.row.id for fact in facts if fact.type.startswith(PUBLIC) and fact.organization]
        if public:
            store.fan_out(using, alias, public)

    def prepare(self, keys: Sequence[str]) -> None:
        now = time.monotonic()
        with self._lock:
            known = {key: self._parts.get(key, (None, 0.0)) for key in keys}
        stale = {key: before for key, (before, until) in known.items() if before is None or now >= until}
        if not stale:
            return
        rows = {str(row.pk): row for row in self._rows(list(stale))}
        fresh = {key: self._made(key, rows.get(key), before) for key, before in stale.items()}
        with self._lock:
            self._forget_old(now)
            self._parts.update({key: (made, now + FRESH_SECONDS) for key, made in fresh.items()})

    def part(self, key: str) -> Destination:
        """The endpoint with this id, as it was at most two seconds ago."""
        self.prepare([key])
        with self._lock:
            made, _ = self._parts[key]
        return made

    def forget(self, key: UUID) -> None:
        """Forget the cached row of an endpoint that was changed in this process."""
        with self._lock:
            self._parts.pop(str(key), None)

    def recipient(self, row: WebhookEndpoint) -> EndpointDestination:
        """The destination of an endpoint, whether it is enabled or not."""
        from duebox.destinations.webhooks.endpoint_delivery import EndpointDestination

        mine = subscriptions().get(self.alias)
        return EndpointDestination(self, row, mine.policy if mine else self.policy)

    def close(self) -> None:
        self.http_client.close()

    def _forget_old(self, now: float) -> None:
        """Remove cached endpoints that were not used for a while."""
        if now - self._swept < FORGET_SECONDS:
            return
        self._swept = now
        for key in [key for key, (_, until) in self._parts.items() if now - until >= FORGET_SECONDS]:
            del self._parts[key]

    def _rows(self, keys: list[str]) -> Iterable[WebhookEndpoint]:
        return WebhookEndpoint.objects.using(self.using).filter(pk__in=[key for key in keys if is_uuid(key)])

    def _made(
        self, key: str, row: WebhookEndpoint | None, before: EndpointDestination | MissingEndpoint | None
    ) -> EndpointDestination | MissingEndpoint:
        from duebox.destinations.webhooks.endpoint_delivery import EndpointDestination, MissingEndpoint

        if row is None:
            return MissingEndpoint(f"{self.alias}/{key}")
        if isinstance(before, EndpointDestination) and before.is_for(row):
            return before
        return self.recipient(row)


def _wholes(name: str, given: Any, of: str, first: int, last: int) -> list[int]:
    found = listed(name, given, of)
    for each in found:
        if isinstance(each, bool) or not isinstance(each, int) or not first <= each <= last:
            raise InvalidDestination(f"{name} contains {each!r}; it must contain whole numbers from {first} to {last}.")
    return found


def _days(name: str, given: Any) -> float:
    if number(name, given) < 0:
        raise InvalidDestination(f"{name} is {given!r}; it must be a number of days, or 0 for never.")
    return float(given)


def _http_client(guard: Guard, ca_file: str | PathLike[str], timeout: float) -> HttpClient:
    driver("urllib3", "webhooks")
    driver("cryptography", "webhooks")
    from duebox.destinations.webhooks.http import HttpClient, made_context

    if not isinstance(ca_file, str | PathLike):
        raise InvalidDestination(f"ca_file is {ca_file!r}; name a PEM file.")
    try:
        return HttpClient(guard, made_context(fspath(ca_file)), timeout)
    except OSError as error:
        raise InvalidDestination(f"ca_file {ca_file!r} cannot be read ({error}); name a PEM file.") from error
