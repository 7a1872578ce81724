"""Endpoints of organizations: make them, change them, replace their secret, try them.

    endpoint, secret = endpoints.create("org_7", "https://example.com/hooks", ["order.*"])

The secret is given back once; afterwards only its encrypted form exists. Whatever is done to an endpoint here is an
entry of the audit log, in the same transaction.
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
from duebox.auditing.values import MASK
from duebox.conf import conf
from duebox.destinations.configured import subscriptions
from duebox.destinations.subscription import Subscription, backend
from duebox.destinations.webhooks import custom_headers, event_types, failing, recorded
from duebox.destinations.webhooks.destination import Webhooks
from duebox.destinations.webhooks.event_types import PUBLIC
from duebox.destinations.webhooks.keys import new_secret
from duebox.destinations.webhooks.vault import encrypted, readable, reencrypted
from duebox.exceptions import DueboxError, InvalidDestination, InvalidEndpoint
from duebox.fact import Fact, FactRow
from duebox.identities import identity
from duebox.ids import uuid7
from duebox.models import DestinationState, WebhookEndpoint
from duebox.store import gates
from duebox.subscribers import OUTSIDE

OVERLAP = timedelta(hours=24)
TEST = "duebox.webhook.test"
HIGHEST_RATE = 1_000_000


class Created(NamedTuple):
    endpoint: WebhookEndpoint
    secret: str
    """To be shown once."""

    def __repr__(self) -> str:
        return f"Created({self.endpoint!r}, …)"


class Tried(NamedTuple):
    """How a test went. Without an answer there is an error instead of a status."""

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
    """A new endpoint, enabled, and its secret."""
    row = WebhookEndpoint(organization=identity(organization, "organization"), description=description)
    if not row.organization:
        raise InvalidEndpoint("An endpoint belongs to an organization, but none is given; pass its id.")
    _set(row, destination(alias), url=url, types=types, headers=headers or {}, rate=rate)
    secret = new_secret()
    row.secret = encrypted(secret)
    with transaction.atomic(using=using or conf().DATABASE):
        row.save(using=using or conf().DATABASE, force_insert=True)
        row.refresh_from_db()
        recorded.created(row, _home(row))
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
    """What is not given stays; `headers={}` and `rate=0` take them away."""
    given = {"url": url, "types": types, "description": description, "headers": headers, "rate": rate}
    changed = [name for name, value in given.items() if value is not None]
    if description is not None:
        endpoint.description = description
    moves = url is not None and url != endpoint.url
    _set(endpoint, destination(alias), url=url, types=types, headers=headers, rate=rate)
    if moves:
        endpoint.enabled_at = clock.now()  # what failed before was another place
        changed.append("enabled_at")
    with recorded.changing(endpoint, "endpoint.changed", _home(endpoint)):
        _saved(endpoint, *changed)
    return _go_on(endpoint) if moves else endpoint


def rotate(endpoint: WebhookEndpoint, *, overlap: timedelta = OVERLAP) -> str:
    """A new secret, to be shown once. Until the overlap ends the one before signs as well; one before that ends now."""
    if overlap < timedelta():
        raise InvalidEndpoint(f"overlap={overlap!r} lies in the past; give a timedelta of 0 or more.")
    using, secret = _home(endpoint), new_secret()
    with recorded.changing(endpoint, "endpoint.secret_rotated", using) as also:
        row = WebhookEndpoint.objects.using(using).get(pk=endpoint.pk)
        also["secret"] = MASK, MASK
        # One that cannot be read would keep the new one from signing.
        endpoint.previous_secret = row.secret if overlap and readable(row.secret) else ""
        endpoint.previous_until = clock.now() + overlap if endpoint.previous_secret else None
        endpoint.secret = encrypted(secret)
        _saved(endpoint, "secret", "previous_secret", "previous_until")
    return secret


def enable(endpoint: WebhookEndpoint) -> WebhookEndpoint:
    """From now on; what it missed meanwhile is in the history, as discarded."""
    if endpoint.disabled_at is not None:
        endpoint.enabled_at = clock.now()
    endpoint.disabled_at, endpoint.disabled_reason = None, ""
    with recorded.changing(endpoint, "endpoint.enabled", _home(endpoint)):
        _saved(endpoint, "enabled_at", "disabled_at", "disabled_reason")
    return _go_on(endpoint)


def disable(endpoint: WebhookEndpoint, reason: str) -> WebhookEndpoint:
    """Nothing is sent until it is enabled again."""
    failing.disable(endpoint, reason, _home(endpoint))
    endpoint.refresh_from_db()
    return endpoint


def pause(endpoint: WebhookEndpoint, note: str = "") -> None:
    """Its events wait until it is resumed. To miss them instead, disable it."""
    using = _home(endpoint)
    with recorded.changing(endpoint, "endpoint.paused", using, reason=note) as also:
        for name in _gates(endpoint):
            also["paused"] = _is_paused(name, using), True
            gates.pause(using, name, note)


def resume(endpoint: WebhookEndpoint) -> bool:
    """Go on, also where it was left alone because it failed; False when it was neither."""
    using = _home(endpoint)
    with recorded.changing(endpoint, "endpoint.resumed", using) as also:
        for name in _gates(endpoint):
            what = "paused" if _is_paused(name, using) else "left_alone"
            if gates.resume(using, name):
                also[what] = True, False
    return bool(also)


def remove(endpoint: WebhookEndpoint) -> None:
    """What is still to be delivered to it is discarded by the worker, which says so in the history."""
    using, key = _home(endpoint), endpoint.pk
    with recorded.changing(endpoint, "endpoint.removed", using):
        endpoint.delete()
        # Were it paused, that would never end.
        DestinationState.objects.using(using).filter(name__startswith=OUTSIDE, name__endswith=f"/{key}").delete()


def test(endpoint: WebhookEndpoint, *, alias: str | None = None) -> Tried:  # noqa: PT028 - not one of pytest's
    """Send an event of the type duebox.webhook.test now, as any other is sent, also to an endpoint that is disabled."""
    started, answer, error = time.perf_counter(), None, ""
    try:
        answer = destination(alias).recipient(endpoint).send(_test_event(endpoint))
    except DueboxError as found:
        error = str(found)
    took = (time.perf_counter() - started) * 1000
    return Tried(answer.status if answer else None, took, answer.text if answer else "", error)


test.__test__ = False  # type: ignore[attr-defined]  # pytest collects what begins with this word


def reencrypt(using: str | None = None) -> int:
    """Everything under the newest key; gives how many endpoints."""
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
        row.types = event_types.checked(types)
    if headers is not None:
        row.headers = encrypted(json.dumps(custom_headers.checked(headers))) if headers else ""
    if rate is not None:
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= HIGHEST_RATE:
            raise InvalidEndpoint(
                f"rate={rate!r} must be events a second, above 0 and at most {HIGHEST_RATE:,}, or 0 for no limit."
            )
        row.rate = rate or None


def _go_on(row: WebhookEndpoint) -> WebhookEndpoint:
    """Leave it alone no longer for what was before. What people have paused stays so."""
    for name in _gates(row):
        if not _is_paused(name, _home(row)):
            gates.resume(_home(row), name)
    return row


def _gates(row: WebhookEndpoint) -> list[str]:
    return [f"{each.name}/{row.pk}" for each in _serving()]


def _is_paused(name: str, using: str) -> bool:
    return DestinationState.objects.using(using).filter(name=name, paused_at__isnull=False).exists()


def _refuse_address(whole: Webhooks, url: str) -> None:
    """As each attempt does. A name that nobody knows may be known tomorrow."""
    target = whole.guard.read(url)
    with suppress(OSError):
        whole.guard.resolve(target.host, target.port)


def destination(alias: str | None = None) -> Webhooks:
    """The destination that serves endpoints, whose options say what a URL may be."""
    found = _serving()
    mine = [each for each in found if alias in (None, each.alias)]
    if len(mine) != 1:
        known = ", ".join(each.alias for each in found) or "none"
        raise InvalidDestination(
            f"There must be one destination for webhooks, but there is {known}; add BACKEND "
            "'duebox.destinations.webhooks.Webhooks' to DUEBOX['DESTINATIONS'], or say which one with alias=."
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
