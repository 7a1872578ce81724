"""A destination as a subscriber: what its routes take is delivered to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from typing import Any

from django.utils.module_loading import import_string

from duebox.conf import conf
from duebox.context import handling
from duebox.destinations.base import Destination, Result
from duebox.destinations.options import refuse_other_kinds
from duebox.destinations.routes import RESERVED, Route, read_route
from duebox.destinations.terms import Terms, read_terms, refuse_unknown
from duebox.exceptions import DueboxError, InvalidDestination
from duebox.fact import Fact, FactRow
from duebox.outcome import Discard, Snooze
from duebox.subscribers import OUTSIDE, Subscriber

_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routed(Subscriber):
    """Whoever gets what the routes to a destination let through."""

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
    """Made of settings alone: a process that only emits needs no driver, and opens no connection."""

    entry: Mapping[str, Any] = field(repr=False)
    terms: Terms
    made: dict[str, Destination] = field(default_factory=dict, repr=False, compare=False)

    def destination(self, using: str | None = None) -> Destination:
        """The destination itself, made on first use; one for each database that is served in this process."""
        using = using or conf().DATABASE
        with _one_at_a_time:
            if using not in self.made:
                new = make(self.alias, self.entry)
                new.using = using
                self.made[using] = new
            return self.made[using]

    def part(self, name: str) -> Subscriber:
        """For deliveries to a part of it: served as the whole is."""
        key = name.partition("/")[2]
        return replace(self, name=name, handler=lambda fact: _deliver_to(self.destination(_served()).part(key), fact))


def read_entry(alias: str, entry: Any, routes: tuple[Route, ...]) -> list[Routed]:
    """The subscribers that an entry of DUEBOX['DESTINATIONS'] stands for, or InvalidDestination."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("BACKEND"), str):
        raise InvalidDestination("needs a BACKEND, such as 'duebox.destinations.sqs.SQS'.")
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
    terms = read_terms(entry, kind.terms)
    if terms.ordered and not kind.keeps_order:
        raise InvalidDestination(f"ORDERED is set, but {kind.__name__} keeps no order; leave it out.")
    whole = Subscription(
        name=f"{OUTSIDE}{alias}", pattern="*", handler=lambda fact: _deliver_one(whole, fact), atomic=False,
        ordered=terms.ordered, on_dead=terms.on_dead, retry=terms.retry, picky=picky,
        alias=alias, entry=entry, terms=terms, routes=() if kind.expands else mine,
    )  # fmt: skip
    if not kind.expands:
        return [whole]
    fan_out = Routed(
        name=f"fan-out:{alias}", pattern="*", handler=lambda fact: _expand(kind, alias, fact),
        together=lambda facts, using: kind.expand(alias, facts, using), picky=picky, alias=alias, routes=mine,
    )  # fmt: skip
    return [whole, fan_out]


def _refuse_in_vain(route: Route, kind: type[Destination]) -> None:
    """A route takes the place of what a destination takes by itself: one of which it takes nothing would silence it."""
    if not kind.only or route.reaches(kind.only):
        return
    repair = f"name a type that begins with {kind.only!r} under 'event_type', or leave the route out"
    if isinstance(route.match, str):
        repair = "leave the route out"
        if not route.match.startswith(RESERVED):
            repair = f"write {kind.only + route.match!r}, or {repair}"
    raise InvalidDestination(
        f"A route to it takes {route.match!r}, but {kind.__name__} takes only types that begin with {kind.only!r}; "
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
        raise InvalidDestination(f"BACKEND {path!r} is no Destination; name a class below it.")
    return found


def make(alias: str, entry: Mapping[str, Any]) -> Destination:
    kind, options = backend(entry), entry.get("OPTIONS", {})
    refuse_other_kinds(kind, options)
    try:
        return kind(alias, **options)
    except DueboxError:
        raise
    except Exception as error:  # a driver may say anything to what it cannot read
        known = [each.name for each in signature(kind).parameters.values() if each.kind is Parameter.KEYWORD_ONLY]
        raise InvalidDestination(
            f"OPTIONS do not fit {kind.__name__} ({error or type(error).__name__}); known are {', '.join(known)}."
        ) from error


def _deliver_one(subscription: Subscription, fact: Fact) -> Result:
    """For whoever has one event and no crowd: the drain of tests, and a delivery on its last chance."""
    return _deliver_to(subscription.destination(_served()), fact)


def _served() -> str | None:
    """The database that a worker is serving here."""
    here = handling.get()
    return here.using if here else None


def _deliver_to(destination: Destination, fact: Fact) -> Result:
    [result] = destination.deliver([fact])
    if isinstance(result, Exception) and not isinstance(result, Snooze | Discard):
        raise result
    return result
