"""Handlers, destinations and endpoints as people name them, and as deliveries to them are stored."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from uuid import UUID

from django.db.models import Q

from duebox.destinations.configured import subscriptions
from duebox.destinations.subscription import Subscription, backend
from duebox.exceptions import InvalidAction
from duebox.models import Delivery, WebhookEndpoint
from duebox.store import outside
from duebox.subscribers import OUTSIDE, by_name

ENDPOINTS = "`duebox endpoints list` lists the endpoints."


def handler_name(using: str, given: str) -> str:
    """A handler of this code, or one that the code has no more while deliveries of it are stored."""
    is_handler = given in by_name() and not given.startswith(OUTSIDE)
    if is_handler or (
        not given.startswith(OUTSIDE) and Delivery.objects.using(using).filter(subscriber=given).exists()
    ):
        return given
    alias = given.removeprefix(OUTSIDE).partition("/")[0]
    if alias in subscriptions():
        raise InvalidAction(f"{given!r} is a destination and not a handler; ask for it as such.")
    names = [name for name in by_name() if not name.startswith((OUTSIDE, "duebox."))]
    raise InvalidAction(f"No handler is called {given!r}; {near(given, names)}")


def destination_name(using: str, given: str) -> str:
    """A destination by its alias, with `to:` or without, or a part of it: an endpoint also by the beginning of its id.
    One that the settings have no more is known while deliveries to it are stored."""
    name = f"{OUTSIDE}{given.removeprefix(OUTSIDE)}"
    found = name if name in by_name() else _endpoint_name(using, name)
    if found is None and _has_left(using, name):
        found = name
    if found is not None:
        return found
    alias, _, key = name.removeprefix(OUTSIDE).partition("/")
    if key and serves_endpoints(alias):
        raise InvalidAction(f"{given!r} is no endpoint; {ENDPOINTS}")
    if given in by_name():
        raise InvalidAction(f"{given!r} is a handler and not a destination; ask for it as such.")
    raise InvalidAction(f"No destination is called {given!r}; {near(alias, subscriptions())}")


def near(given: str, names: Iterable[str]) -> str:
    """What may have been meant, or all that there is."""
    known = sorted(names)
    found = get_close_matches(given, known, n=1)
    return f"did you mean {found[0]!r}?" if found else f"there are: {', '.join(known) or 'none'}."


def webhooks() -> Subscription | None:
    """The destination whose parts are endpoints."""
    return next((each for alias, each in subscriptions().items() if serves_endpoints(alias)), None)


def serves_endpoints(alias: str) -> bool:
    """Whether the parts of a destination are endpoints of webhooks."""
    from duebox.destinations.webhooks import Webhooks

    found = subscriptions().get(alias)
    return found is not None and issubclass(backend(found.entry), Webhooks)


def endpoint_of(using: str, key: str) -> WebhookEndpoint | None:
    """By its id, or by a beginning of it that no other has."""
    rows = WebhookEndpoint.objects.using(using)
    try:
        found = list(rows.filter(pk=UUID(key)))
    except ValueError:  # not a whole one
        found = list(rows.filter(pk__startswith=key.lower())[:2]) if key else []
    if len(found) > 1:
        raise InvalidAction(f"Several endpoints have the id {key!r}; {ENDPOINTS}")
    return found[0] if found else None


def _endpoint_name(using: str, name: str) -> str | None:
    alias, _, key = name.removeprefix(OUTSIDE).partition("/")
    row = endpoint_of(using, key) if serves_endpoints(alias) else None
    return f"{OUTSIDE}{alias}/{row.pk}" if row else None


def _has_left(using: str, name: str) -> bool:
    """Something of it lies about, or of a part of it."""
    rows = Delivery.objects.using(using).filter(Q(subscriber=name) | Q(subscriber__startswith=f"{name}/"))
    if rows.filter(status__in=["dead", "parked", "waiting"]).exists():
        return True
    return any(each.name == name or each.name.startswith(f"{name}/") for each in outside.ready(using))
