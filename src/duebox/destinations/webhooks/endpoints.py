"""Create, change and test the webhook endpoints of organizations, and rotate their secrets.

    endpoint, secret = endpoints.create("org_7", "https://example.com/hooks", ["order.*"])

The secret is returned once; afterwards only its encrypted form exists. Every change of an endpoint is recorded in the
audit log, in the same transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from django.db import transaction

from duebox import clock
from duebox.audit_log.policy import MASK
from duebox.conf import conf
from duebox.destinations.registry import Subscription, backend, subscriptions
from duebox.destinations.webhooks import endpoint_lifecycle, filters
from duebox.destinations.webhooks.destination import Webhooks
from duebox.destinations.webhooks.encryption import encrypted, readable, reencrypted
from duebox.destinations.webhooks.filters import PUBLIC
from duebox.destinations.webhooks.signatures import new_secret
from duebox.events.address import OUTSIDE
from duebox.events.fact import Fact, FactRow
from duebox.events.identities import identity, uuid7
from duebox.exceptions import DueboxError, InvalidDestination, InvalidEndpoint
from duebox.models import DestinationState, WebhookEndpoint
from duebox.store import destinations

__all__ = [
    "Created", "Tried", "change", "create", "disable", "enable", "pause", "reencrypt", "remove", "resume", "rotate",
    "test",
]  # fmt: skip

OVERLAP = timedelta(hours=24)
TEST = "duebox.webhook.test"
HIGHEST_RATE = 1_000_000


class Created(NamedTuple):
    endpoint: WebhookEndpoint
    secret: str
    """Show it once; it cannot be read again."""

    def __repr__(self) -> str:
        return f"Created({self.endpoint!r}, …)"


class Tried(NamedTuple):
    """The result of a test. Without a response there is an error instead of a status."""

    status: int | None
    took_ms: float
    text: str
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def create(
    organization: object,
    url: str,
    types: Iterable[str],
    *,
    description: str = "",
    headers: Mapping[str, str] | None = None,
    rate: float | None = None,
    alias: str | None = None,
    using: str | None = None,
) -> Created:
    """Create an enabled endpoint, and return it with its secret."""
    row = WebhookEndpoint(organization=identity(organization, "organization"), description=description)
    if not row.organization:
        raise InvalidEndpoint("An endpoint belongs to an organization, but none is given; pass its id.")
    _set(row, destination(alias), url=url, types=types, headers=headers or {}, rate=rate)
    secret = new_secret()
    row.secret = encrypted(secret)
    with transaction.atomic(using=using or conf().DATABASE):
        row.save(using=using or conf().DATABASE, force_insert=True)
        row.refresh_from_db()
        endpoint_lifecycle.created(row, _home(row))
    return Created(row, secret)


def change(
    endpoint: WebhookEndpoint,
    *,
    url: str | None = None,
    types: Iterable[str] | None = None,
    description: str | None = None,
    headers: Mapping[str, str] | None = None,
    rate: float | None = None,
    alias: str | None = None,
) -> WebhookEndpoint:
    """Change an endpoint. Arguments that are left out do not change; `headers={}` and `rate=0` remove the values."""
    given = {"url": url, "types": types, "description": description, "headers": headers, "rate": rate}
    changed = [name for name, value in given.items() if value is not None]
    if description is not None:
        endpoint.description = description
    moves = url is not None and url != endpoint.url
    _set(endpoint, destination(alias), url=url, types=types, headers=headers, rate=rate)
    if moves:
        endpoint.enabled_at = clock.now()  # earlier failures were those of the old URL
        changed.append("enabled_at")
    with endpoint_lifecycle.changing(endpoint, "endpoint.changed", _home(endpoint)):
        _saved(endpoint, *changed)
    return _go_on(endpoint) if moves else endpoint


def rotate(endpoint: WebhookEndpoint, *, overlap: timedelta = OVERLAP) -> str:
    """Create a new secret, to be shown once. Until the overlap ends the previous one signs as well; an older one ends
    now."""
    if overlap < timedelta():
        raise InvalidEndpoint(f"overlap={overlap!r} is negative; give a timedelta of 0 or more.")
    using, secret = _home(endpoint), new_secret()
    with endpoint_lifecycle.changing(endpoint, "endpoint.secret_rotated", using) as also:
        row = WebhookEndpoint.objects.using(using).get(pk=endpoint.pk)
        also["secret"] = MASK, MASK
        # A secret that cannot be decrypted would prevent the new one from signing.
        endpoint.previous_secret = row.secret if overlap and readable(row.secret) else ""
        endpoint.previous_until = clock.now() + overlap if endpoint.previous_secret else None
        endpoint.secret = encrypted(secret)
        _saved(endpoint, "secret", "previous_secret", "previous_until")
    return secret


def enable(endpoint: WebhookEndpoint) -> WebhookEndpoint:
    """Enable it from now on; events that it missed are in the history, as discarded."""
    if endpoint.disabled_at is not None:
        endpoint.enabled_at = clock.now()
    endpoint.disabled_at, endpoint.disabled_reason = None, ""
    with endpoint_lifecycle.changing(endpoint, "endpoint.enabled", _home(endpoint)):
        _saved(endpoint, "enabled_at", "disabled_at", "disabled_reason")
    return _go_on(endpoint)


def disable(endpoint: WebhookEndpoint, reason: str) -> WebhookEndpoint:
    """Disable it: nothing is sent until it is enabled again."""
    endpoint_lifecycle.disable(endpoint, reason, _home(endpoint))
    endpoint.refresh_from_db()
    return endpoint


def pause(endpoint: WebhookEndpoint, note: str = "") -> None:
    """Pause it: its events wait until it is resumed. To discard them instead, disable it."""
    using = _home(endpoint)
    with endpoint_lifecycle.changing(endpoint, "endpoint.paused", using, reason=note) as also:
        for name in _gates(endpoint):
            also["paused"] = _is_paused(name, using), True
            destinations.pause(using, name, note)


def resume(endpoint: WebhookEndpoint) -> bool:
    """Resume it, also if the circuit breaker is open; False if it was neither paused nor stopped."""
    using = _home(endpoint)
    with endpoint_lifecycle.changing(endpoint, "endpoint.resumed", using) as also:
        for name in _gates(endpoint):
            what = "paused" if _is_paused(name, using) else "breaker_open"
            if destinations.resume(using, name):
                also[what] = True, False
    return bool(also)


def remove(endpoint: WebhookEndpoint) -> None:
    """Remove an endpoint. The worker discards its pending deliveries, and records that in the history."""
    using, key = _home(endpoint), endpoint.pk
    with endpoint_lifecycle.changing(endpoint, "endpoint.removed", using):
        endpoint.delete()
        # The deliveries of a paused endpoint would wait forever.
        DestinationState.objects.using(using).filter(name__startswith=OUTSIDE, name__endswith=f"/{key}").delete()


def test(endpoint: WebhookEndpoint, *, alias: str | None = None) -> Tried:  # noqa: PT028 - not one of pytest's
    """Send an event of the type duebox.webhook.test now, also to a disabled endpoint. Call it outside of a transaction,
    which would be open until the endpoint has responded."""
    started, answer, error = time.perf_counter(), None, ""
    try:
        answer = destination(alias).recipient(endpoint).send(_test_event(endpoint))
    except DueboxError as found:
        error = str(found)
    took = (time.perf_counter() - started) * 1000
    endpoint_lifecycle.tested(endpoint, answer.status if answer else None, _home(endpoint))
    return Tried(answer.status if answer else None, took, answer.text if answer else "", error)


test.__test__ = False  # type: ignore[attr-defined]  # pytest collects what begins with this word


def reencrypt(using: str | None = None) -> int:
    """Encrypt everything with the newest key; returns the number of endpoints."""
    done = 0
    for row in WebhookEndpoint.objects.using(using or conf().DATABASE).order_by("pk").iterator():
        with transaction.atomic(using=row._state.db):
            locked = WebhookEndpoint.objects.using(row._state.db).select_for_update().get(pk=row.pk)
            for name in ("secret", "previous_secret", "headers"):
                setattr(locked, name, reencrypted(getattr(locked, name)))
            _saved(locked, "secret", "previous_secret", "headers")
        done += 1
    return done


def _set(
    row: WebhookEndpoint,
    whole: Webhooks,
    *,
    url: str | None,
    types: Iterable[str] | None,
    headers: Mapping[str, str] | None,
    rate: float | None,
) -> None:
    if url is not None:
        _refuse_address(whole, url)
        row.url = url
    if types is not None:
        row.types = filters.checked_types(types)
    if headers is not None:
        row.headers = encrypted(json.dumps(filters.checked_headers(headers))) if headers else ""
    if rate is not None:
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= HIGHEST_RATE:
            raise InvalidEndpoint(
                f"rate={rate!r} must be events a second, above 0 and at most {HIGHEST_RATE:,}, or 0 for no limit."
            )
        row.rate = rate or None


def _go_on(row: WebhookEndpoint) -> WebhookEndpoint:
    """Reset the circuit breaker. A paused endpoint stays paused."""
    for name in _gates(row):
        if not _is_paused(name, _home(row)):
            destinations.resume(_home(row), name)
    return row


def _gates(row: WebhookEndpoint) -> list[str]:
    return [f"{each.name}/{row.pk}" for each in _serving()]


def _is_paused(name: str, using: str) -> bool:
    return DestinationState.objects.using(using).filter(name=name, paused_at__isnull=False).exists()


def _refuse_address(whole: Webhooks, url: str) -> None:
    """Check the URL as each attempt does. A host that does not resolve now may resolve later."""
    target = whole.guard.read(url)
    with suppress(OSError):
        whole.guard.resolve(target.host, target.port)


def destination(alias: str | None = None) -> Webhooks:
    """The webhook destination, whose options define the allowed URLs."""
    found = _serving()
    mine = [each for each in found if alias in (None, each.alias)]
    if len(mine) != 1:
        known = ", ".join(each.alias for each in found) or "none"
        raise InvalidDestination(
            f"There must be one webhook destination, but there is {known}; add BACKEND "
            "'duebox.destinations.webhooks.Webhooks' to DUEBOX['DESTINATIONS'], or pass alias=."
        )
    made = mine[0].destination()
    assert isinstance(made, Webhooks)
    return made


def _serving() -> list[Subscription]:
    return [each for each in subscriptions().values() if issubclass(backend(each.entry), Webhooks)]


def _test_event(endpoint: WebhookEndpoint) -> Fact:
    new = str(uuid7())
    row = FactRow(
        id=new, type=PUBLIC + TEST, version=1, occurred=time.time(), aggregate_type="endpoint",
        aggregate_id=str(endpoint.pk), organization=endpoint.organization, correlation=new, causation=None, actor=None,
        producer=conf().PRODUCER, key=None, data=json.dumps({"endpoint": str(endpoint.pk)}), metadata="{}",
    )  # fmt: skip
    return Fact(row)


def _saved(row: WebhookEndpoint, *fields: str) -> None:
    row.save(using=_home(row), update_fields=fields)


def _home(row: WebhookEndpoint) -> str:
    return row._state.db or conf().DATABASE
