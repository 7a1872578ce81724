"""Subscribers as people name them: a handler by its name, a destination by its alias, with `to:` or without."""

from __future__ import annotations

from difflib import get_close_matches
from uuid import UUID

from django.core.management.base import CommandError
from django.db.models import Q

from duebox.destinations.configured import subscriptions
from duebox.destinations.subscription import Subscription, backend
from duebox.models import Delivery, Endpoint
from duebox.store import outside
from duebox.subscribers import OUTSIDE, by_name

ENDPOINTS = "`duebox endpoints list` lists the endpoints."


def stored_name(using: str, given: str) -> str:
    """As deliveries to it are stored; of one that the code has forgotten, as its dead letters say."""
    names = [given] if given.startswith(OUTSIDE) else [given, f"{OUTSIDE}{given}"]
    known = next((name for name in names if name in by_name()), None) or _endpoint_name(using, names[-1])
    found = known or next((name for name in names if _has_left(using, name)), None)
    if found is None:
        raise CommandError(f"Nobody is known as {given!r}; {_repair(given)}")
    return found


def webhooks() -> Subscription | None:
    """The destination whose parts are endpoints."""
    return next((each for alias, each in subscriptions().items() if serves_endpoints(alias)), None)


def serves_endpoints(alias: str) -> bool:
    """Whether the parts of a destination are endpoints of webhooks."""
    from duebox.destinations.webhooks import Webhooks

    found = subscriptions().get(alias)
    return found is not None and issubclass(backend(found.entry), Webhooks)


def endpoint_of(using: str, key: str) -> Endpoint | None:
    """By its id, or by a beginning of it that no other has."""
    rows = Endpoint.objects.using(using)
    try:
        found = list(rows.filter(pk=UUID(key)))
    except ValueError:  # not a whole one
        found = list(rows.filter(pk__startswith=key.lower())[:2]) if key else []
    if len(found) > 1:
        raise CommandError(f"Several endpoints have the id {key!r}; {ENDPOINTS}")
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


def _repair(given: str) -> str:
    alias, _, key = given.removeprefix(OUTSIDE).partition("/")
    if key and serves_endpoints(alias):
        return ENDPOINTS
    names = sorted({each.removeprefix(OUTSIDE) for each in by_name() if not each.startswith("duebox.")})
    found = get_close_matches(alias, names, n=1)
    return f"did you mean {found[0]!r}?" if found else f"there are: {', '.join(names) or 'none'}."
