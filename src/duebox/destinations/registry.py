"""DUEBOX['DESTINATIONS'] and DUEBOX['ROUTES'] as subscribers; opening, closing, pausing and resuming destinations."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from typing import Any

from django.core.signals import setting_changed
from django.db import transaction
from django.utils.module_loading import import_string

from duebox.audit_log.record import audit
from duebox.conf import conf
from duebox.context.current import handling
from duebox.destinations.base import Destination, DestinationPolicy, Problem, Result, read_policy, refuse_unknown
from duebox.destinations.options import refuse_other_kinds
from duebox.destinations.routes import RESERVED, Route, read_route
from duebox.events.address import Address
from duebox.events.fact import Fact, FactRow
from duebox.events.outcomes import Discard, Snooze
from duebox.events.subscribers import Subscriber, add, by_name, refuse_all, remove
from duebox.exceptions import DueboxError, InvalidDestination
from duebox.store import destinations

_destinations_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routed(Subscriber):
    """A subscriber that receives the events selected by the routes to a destination."""

    alias: str
    routes: tuple[Route, ...] = ()
    as_stored: bool = True

    def receives(self, event_type: str) -> bool:
        return any(route.may_take(event_type) for route in self.routes)

    def accepts(self, row: FactRow) -> bool:
        return any(route.takes(row) for route in self.routes)

    def asks_for(self, event_type: str) -> list[str]:
        matches = [route.match for route in self.routes if route.may_take(event_type)]
        return [match if isinstance(match, str) else json.dumps(match) for match in matches]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subscription(Routed):
    """Created from the settings alone: a process that only emits needs no driver, and opens no connection."""

    entry: Mapping[str, Any] = field(repr=False)
    policy: DestinationPolicy
    made: dict[str, Destination] = field(default_factory=dict, repr=False, compare=False)

    def destination(self, using: str | None = None) -> Destination:
        """The destination itself, created on first use; one for each database that is served in this process."""
        using = using or conf().DATABASE
        with _destinations_lock:
            if using not in self.made:
                new = make(self.alias, self.entry)
                new.using = using
                self.made[using] = new
            return self.made[using]

    def part(self, name: str) -> Subscriber:
        """The subscriber for deliveries to one of its endpoints, with the policy of the destination."""
        key = Address.parse(name).key
        return replace(self, name=name, handler=lambda fact: _deliver_to(self.destination(_served()).part(key), fact))


def read_entry(alias: str, entry: Any, routes: tuple[Route, ...]) -> list[Routed]:
    """The subscribers of an entry of DUEBOX['DESTINATIONS']. Raises InvalidDestination."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("BACKEND"), str):
        raise InvalidDestination("needs a BACKEND, such as 'duebox.destinations.aws.SQS'.")
    refuse_unknown(entry)
    if not isinstance(entry.get("OPTIONS", {}), Mapping):
        raise InvalidDestination("OPTIONS must be a dict.")
    kind = backend(entry)
    mine = tuple(route for route in routes if alias in route.to)
    if not mine and kind.match:
        mine = (read_route({"match": kind.match, "to": alias}, {alias: entry}),)
    for route in mine:
        _refuse_in_vain(route, kind)
    picky = any(route.pattern is not None for route in mine)
    policy = read_policy(entry, kind.policy)
    if policy.ordered and not kind.keeps_order:
        raise InvalidDestination(f"ORDERED is set, but {kind.__name__} does not preserve the order; leave it out.")
    whole = Subscription(
        name=str(Address.of_destination(alias)), pattern="*", handler=lambda fact: _deliver_one(whole, fact),
        atomic=False,
        ordered=policy.ordered, on_dead=policy.on_dead, retry=policy.retry, picky=picky,
        alias=alias, entry=entry, policy=policy, routes=() if kind.expands else mine,
    )  # fmt: skip
    if not kind.expands:
        return [whole]
    fan_out = Routed(
        name=str(Address.of_fan_out(alias)), pattern="*", handler=lambda fact: _expand(kind, alias, fact),
        together=lambda facts, using: kind.expand(alias, facts, using), picky=picky, alias=alias, routes=mine,
    )  # fmt: skip
    return [whole, fan_out]


def _refuse_in_vain(route: Route, kind: type[Destination]) -> None:
    """A route replaces the default of a destination: a route that can never match would stop all deliveries to it."""
    if not kind.only or route.reaches(kind.only):
        return
    repair = f"name a type that begins with {kind.only!r} under 'event_type', or leave the route out"
    if isinstance(route.match, str):
        repair = "leave the route out"
        if not route.match.startswith(RESERVED):
            repair = f"write {kind.only + route.match!r}, or {repair}"
    raise InvalidDestination(
        f"A route to it matches {route.match!r}, but {kind.__name__} accepts only types that begin with {kind.only!r}; "
        f"{repair}."
    )


def _expand(kind: type[Destination], alias: str, fact: Fact) -> None:
    here = handling.get()
    assert here is not None, "expanded by a worker"
    kind.expand(alias, [fact], here.using)


def backend(entry: Mapping[str, Any]) -> type[Destination]:
    path = entry["BACKEND"]
    try:
        found = import_string(path)
    except ImportError as error:
        raise InvalidDestination(f"BACKEND {path!r} cannot be imported ({error}).") from error
    if not (isinstance(found, type) and issubclass(found, Destination)):
        raise InvalidDestination(f"BACKEND {path!r} is not a Destination; name a subclass of it.")
    return found


def make(alias: str, entry: Mapping[str, Any]) -> Destination:
    kind, options = backend(entry), entry.get("OPTIONS", {})
    refuse_other_kinds(kind, options)
    try:
        return kind(alias, **options)
    except DueboxError:
        raise
    except Exception as error:  # a driver may raise anything for invalid options
        known = [each.name for each in signature(kind).parameters.values() if each.kind is Parameter.KEYWORD_ONLY]
        raise InvalidDestination(
            f"OPTIONS do not fit {kind.__name__} ({error or type(error).__name__}); known are {', '.join(known)}."
        ) from error


def _deliver_one(subscription: Subscription, fact: Fact) -> Result:
    """Deliver a single event: used by the drain of tests, and for a delivery on its last attempt."""
    return _deliver_to(subscription.destination(_served()), fact)


def _served() -> str | None:
    """The database that a worker serves in this thread."""
    here = handling.get()
    return here.using if here else None


def _deliver_to(destination: Destination, fact: Fact) -> Result:
    [result] = destination.deliver([fact])
    if isinstance(result, Exception) and not isinstance(result, Snooze | Discard):
        raise result
    return result


logger = logging.getLogger("duebox.worker")


def set_up() -> None:
    """Register the destinations of the settings. If they are invalid, nothing can be emitted: an event stored without
    its deliveries would be lost unnoticed."""
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
    """Close all connections when the process ends. A destination that is used again is created again."""
    for each in subscriptions().values():
        while each.made:
            _, destination = each.made.popitem()
            try:
                destination.close()
            except Exception as error:  # the others are closed nevertheless
                logger.warning("destination could not be closed: name=%s error=%s", each.alias, error)


def destination_of(name: str) -> Destination:
    """The destination or endpoint for deliveries to this name."""
    address = Address.parse(name)
    found = subscriptions().get(address.alias)
    if found is None:
        raise InvalidDestination(f"Destination {address.alias!r} is not configured; add it to DUEBOX['DESTINATIONS'].")
    whole = found.destination()
    return whole.part(address.key) if address.key else whole


def mistakes() -> Iterator[Problem]:
    """Problems for the system checks that can be found without creating a destination."""
    if list(_of_wrong_kind()):
        return  # the check of the settings reports it
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
    """Repeated destinations of a class that allows only one alias."""
    first: dict[type[Destination], str] = {}
    for alias, entry in entries.items():
        try:
            kind = backend(entry)
        except (DueboxError, LookupError, TypeError, AttributeError):
            continue  # reported before
        if not kind.only_once:
            continue
        family = [each for each in kind.__mro__ if vars(each).get("only_once")][-1]
        before = first.setdefault(family, alias)
        if before != alias:
            yield (
                f"DUEBOX['DESTINATIONS'][{alias!r}]: {before!r} is a {family.__name__} too, and only one "
                "is allowed; each would send everything.",
                "Put the options of both into one of them, and remove the other.",
            )


def _checked(alias: Any) -> str:
    if not isinstance(alias, str) or not alias.replace("_", "").replace("-", "").isalnum() or not alias.isascii():
        raise InvalidDestination("an alias may contain only letters, digits, _ and -.")
    return alias


def _subscribers() -> Iterator[Routed]:
    settings = conf()
    routes = tuple(read_route(given, settings.DESTINATIONS) for given in settings.ROUTES)
    for alias, entry in settings.DESTINATIONS.items():
        yield from read_entry(alias, entry, routes)


def _follow(*, setting: str, **kwargs: Any) -> None:
    if setting == "DUEBOX":
        set_up()


# Connected after duebox.conf, which has reset its settings by then.
setting_changed.connect(_follow, dispatch_uid="duebox.destinations")


# Reentrant: a program may stop an engine in a signal handler, which may interrupt the code that holds the lock.
_engines_lock = threading.RLock()
_under_way: list[object] = []
_ended: list[object] = []


@contextmanager
def engine(ends_for_good: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Wrap the run of an engine. If it will run again, its connections stay open."""
    me = object()
    with _engines_lock:  # no thread gets a destination that is being closed
        _under_way.append(me)
    try:
        yield
    finally:
        with _engines_lock:
            _under_way.remove(me)
            if ends_for_good():
                _ended.append(me)
            if _ended and not _under_way:
                _ended.clear()
                close_all()


def ended() -> None:
    """Close the connections after an engine that was not running has ended for good."""
    with engine():
        pass


def pause(using: str, name: str, note: str) -> None:
    with transaction.atomic(using=using):
        destinations.pause(using, name, note)
        _record("destination.paused", using, name, note)


def resume(using: str, name: str) -> bool:
    """False if it was neither paused nor stopped by the circuit breaker."""
    with transaction.atomic(using=using):
        resumed = destinations.resume(using, name)
        if resumed:
            _record("destination.resumed", using, name)
    return resumed


def _record(action: str, using: str, name: str, note: str | None = None) -> None:
    audit(action, ("destination", Address.parse(name).plain), reason=note, using=using)
