"""Find handlers, destinations and endpoints by the names that people use, and return the stored names."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Q

from duebox.destinations.registry import Subscription, backend, subscriptions
from duebox.events.address import Address, is_outside
from duebox.events.subscribers import by_name
from duebox.exceptions import InvalidAction, did_you_mean
from duebox.models import Delivery, WebhookEndpoint
from duebox.store import destinations

ENDPOINTS = "`duebox endpoints list` lists the endpoints."


def handler_name(using: str, given: str) -> str:
    """A handler of this code, or a removed one that still has stored deliveries."""
    stored = Delivery.objects.using(using).filter(subscriber=given)
    if not is_outside(given) and (given in by_name() or stored.exists()):
        return given
    if Address.of_destination(given).alias in subscriptions():
        raise InvalidAction(f"{given!r} is a destination and not a handler; pass it as a destination.")
    names = [name for name in by_name() if not is_outside(name) and not name.startswith("duebox.")]
    raise InvalidAction(f"No handler is called {given!r}; {near(given, names)}")


def destination_name(using: str, given: str) -> str:
    """A destination by its alias, with or without `to:`, or one of its endpoints by its id or a unique prefix of it. A
    removed destination is found while deliveries to it are stored."""
    address = Address.of_destination(given)
    name = str(address)
    found = name if name in by_name() else _endpoint_name(using, address)
    if found is None and _has_left(using, name):
        found = name
    if found is not None:
        return found
    if address.key and serves_endpoints(address.alias):
        raise InvalidAction(f"{given!r} is not an endpoint; {ENDPOINTS}")
    if given in by_name():
        raise InvalidAction(f"{given!r} is a handler and not a destination; pass it as a handler.")
    raise InvalidAction(f"No destination is called {given!r}; {near(address.alias, subscriptions())}")


def near(given: str, names: Iterable[str]) -> str:
    """A suggestion with the closest name, or the list of all names."""
    known = sorted(names)
    return did_you_mean(given, known) or f"there are: {', '.join(known) or 'none'}."


def webhooks() -> Subscription | None:
    """The destination that has webhook endpoints."""
    return next((each for alias, each in subscriptions().items() if serves_endpoints(alias)), None)


def serves_endpoints(alias: str) -> bool:
    """Whether a destination has webhook endpoints."""
    from duebox.destinations.webhooks import Webhooks

    found = subscriptions().get(alias)
    return found is not None and issubclass(backend(found.entry), Webhooks)


def endpoint_of(using: str, key: str) -> WebhookEndpoint | None:
    """An endpoint by its id, or by a unique prefix of it."""
    rows = WebhookEndpoint.objects.using(using)
    try:
        found = list(rows.filter(pk=UUID(key)))
    except ValueError:  # not a complete id
        found = list(rows.filter(pk__startswith=key.lower())[:2]) if key else []
    if len(found) > 1:
        raise InvalidAction(f"Several endpoints have the id {key!r}; {ENDPOINTS}")
    return found[0] if found else None


def _endpoint_name(using: str, address: Address) -> str | None:
    row = endpoint_of(using, address.key) if serves_endpoints(address.alias) else None
    return str(Address.of_destination(address.alias, row.pk)) if row else None


def _has_left(using: str, name: str) -> bool:
    """Whether deliveries to it, or to one of its endpoints, are stored."""
    rows = Delivery.objects.using(using).filter(Q(subscriber=name) | Q(subscriber__startswith=f"{name}/"))
    if rows.filter(status__in=["dead", "parked", "waiting"]).exists():
        return True
    return any(each.name == name or each.name.startswith(f"{name}/") for each in destinations.ready(using))
