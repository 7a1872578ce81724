"""What DUEBOX['DESTINATIONS'] and DUEBOX['ROUTES'] say, registered among the subscribers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.signals import setting_changed

from duebox.conf import conf
from duebox.destinations.base import Destination, Problem
from duebox.destinations.routes import read_route
from duebox.destinations.subscription import Routed, Subscription, backend, read_entry
from duebox.exceptions import DueboxError, InvalidDestination
from duebox.subscribers import OUTSIDE, add, by_name, refuse_all, remove

logger = logging.getLogger("duebox.worker")


def set_up() -> None:
    """Make the destinations of the settings known. A mistake in them stops every emission: an event that was stored
    without its deliveries would be missed by nobody."""
    for gone in [name for name, each in by_name().items() if isinstance(each, Routed)]:
        remove(gone)
    found = [*_of_wrong_kind(), *mistakes()]
    for each in () if found else _subscribers():
        add(each)
    refuse_all(found[0][0] if found else None)


def subscriptions() -> dict[str, Subscription]:
    """By alias."""
    return {each.alias: each for each in by_name().values() if isinstance(each, Subscription)}


def close_all() -> None:
    """The process ends; let go of connections. What is used again is made again."""
    for each in subscriptions().values():
        while each.made:
            _, destination = each.made.popitem()
            try:
                destination.close()
            except Exception as error:  # the next one is closed all the same
                logger.warning("destination could not be closed: name=%s error=%s", each.alias, error)


def destination_of(name: str) -> Destination:
    """The destination, or the part of one, that deliveries to this name go to."""
    alias, _, key = name.removeprefix(OUTSIDE).partition("/")
    found = subscriptions().get(alias)
    if found is None:
        raise InvalidDestination(f"Destination {alias!r} is not configured; add it to DUEBOX['DESTINATIONS'].")
    whole = found.destination()
    return whole.part(key) if key else whole


def mistakes() -> Iterator[Problem]:
    """What is wrong, for the system checks; only what can be said without making a destination."""
    if list(_of_wrong_kind()):
        return  # the check of settings says so
    settings, routes = conf(), []
    for number, given in enumerate(settings.ROUTES):
        try:
            routes.append(read_route(given, settings.DESTINATIONS))
        except DueboxError as error:
            yield f"DUEBOX['ROUTES'][{number}]: {error}", "A route is {'match': 'order.*', 'to': 'alias'}."
    for alias, entry in settings.DESTINATIONS.items():
        try:
            read_entry(_checked(alias), entry, tuple(routes))
        except DueboxError as error:
            yield f"DUEBOX['DESTINATIONS'][{alias!r}]: {error}", "See the reference of settings, under DESTINATIONS."
    yield from _twice(settings.DESTINATIONS)


def _of_wrong_kind() -> Iterator[Problem]:
    for name, kind, hint in (
        ("DESTINATIONS", Mapping, "a dict of entries by alias"),
        ("ROUTES", (list, tuple), "a list"),
    ):
        if not isinstance(given := getattr(conf(), name), kind):
            yield f"DUEBOX[{name!r}] is a {type(given).__name__}.", f"It must be {hint}."


def _twice(entries: Mapping[str, Any]) -> Iterator[Problem]:
    """Those of a kind that there can be one of only."""
    first: dict[type[Destination], str] = {}
    for alias, entry in entries.items():
        try:
            kind = backend(entry)
        except (DueboxError, LookupError, TypeError, AttributeError):
            continue  # said before
        if not kind.only_once:
            continue
        family = [each for each in kind.__mro__ if vars(each).get("only_once")][-1]
        before = first.setdefault(family, alias)
        if before != alias:
            yield (
                f"DUEBOX['DESTINATIONS'][{alias!r}]: {before!r} is a {family.__name__}, too, and there can be one "
                "only; each would send everything.",
                "Put the options of both into one of them, and remove the other.",
            )


def _checked(alias: Any) -> str:
    if not isinstance(alias, str) or not alias.replace("_", "").replace("-", "").isalnum() or not alias.isascii():
        raise InvalidDestination("an alias holds letters, digits, _ and - only.")
    return alias


def _subscribers() -> Iterator[Routed]:
    settings = conf()
    routes = tuple(read_route(given, settings.DESTINATIONS) for given in settings.ROUTES)
    for alias, entry in settings.DESTINATIONS.items():
        yield from read_entry(alias, entry, routes)


def _follow(*, setting: str, **kwargs: Any) -> None:
    if setting == "DUEBOX":
        set_up()


# Connected after duebox.conf, which has dropped the old settings by then.
setting_changed.connect(_follow, dispatch_uid="duebox.destinations")
