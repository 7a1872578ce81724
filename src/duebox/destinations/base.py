"""The base class of destinations, and their delivery policy: retries, rate, concurrency, order, circuit breaker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from duebox.conf import conf
from duebox.destinations.options import listed, number, only_known, truth, whole
from duebox.events.fact import Fact
from duebox.events.outcomes import Delivered, Discard, Retry, Snooze
from duebox.exceptions import InvalidDestination, did_you_mean

OUTSIDE_RETRY = Retry(limit=12, first=5.0, factor=3.0, cap=6 * 3600.0, jitter=0.2)
"""After 5 and 15 seconds, then later, at most every 6 hours: an event is dead after about 29 hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A circuit breaker: it opens once `share` of at least `calls` calls in the last `window` seconds failed; after
    `pause` seconds one event is tried. If it fails too, the pause doubles, up to `longest`."""

    share: float = 0.5
    calls: int = 10
    window: float = 60.0
    pause: float = 30.0
    longest: float = 600.0

    def __post_init__(self) -> None:
        for each in fields(self):
            name, value = f"BREAKER[{each.name!r}]", getattr(self, each.name)
            (whole if each.name == "calls" else number)(name, value)
            if value <= 0:
                raise InvalidDestination(f"{name} is {value!r}; it must be above 0.")
        if self.share > 1:
            raise InvalidDestination(f"BREAKER['share'] is {self.share!r}; it must be above 0 and at most 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationPolicy:
    retry: Retry = OUTSIDE_RETRY
    rate: float = 0.0
    """Events per second, of all workers together; 0 for no limit."""
    burst: int = 0
    """How many events may be sent at once after a pause; 0 for those of a tenth of a second."""
    concurrency: int = 4
    """Concurrent calls of each worker."""
    ordered: bool = False
    on_dead: str = "block"
    breaker: Breaker | None = field(default_factory=Breaker)

    def __post_init__(self) -> None:
        if number("RATE", self.rate) < 0:
            raise InvalidDestination(f"RATE is {self.rate!r}; it must be above 0, or 0 for no limit.")
        if whole("BURST", self.burst) < 0:
            raise InvalidDestination(
                f"BURST is {self.burst!r}; it must be above 0, or 0 for the events of a tenth of a second."
            )
        if whole("CONCURRENCY", self.concurrency) < 1:
            raise InvalidDestination(f"CONCURRENCY is {self.concurrency}; it must be 1 or more.")
        truth("ORDERED", self.ordered)
        if self.on_dead not in ("block", "skip"):
            raise InvalidDestination(f"ON_DEAD is {self.on_dead!r}; it must be 'block' or 'skip'.")

    @property
    def bucket(self) -> float:
        """The size of the token bucket."""
        return float(self.burst) if self.burst else max(1.0, self.rate / 10)


def _retry(given: Any, before: DestinationPolicy) -> Retry:
    if not isinstance(given, Mapping):
        raise InvalidDestination(f"RETRY is {given!r}; it must be a dict, such as {{'limit': 5, 'first': 10.0}}.")
    only_known("RETRY", given, [each.name for each in fields(Retry)])
    values = {name: _of_retry(name, value) for name, value in given.items()}
    try:
        return replace(before.retry, **({"delays": ()} | values))
    except ValueError as error:
        raise InvalidDestination(f"RETRY is invalid: {error}") from error


def _of_retry(name: str, given: Any) -> Any:
    place = f"RETRY[{name!r}]"
    if name == "delays":
        found = listed(place, given, "numbers")
        return tuple(number(f"{place}[{index}]", each) for index, each in enumerate(found))
    if name in ("permanent", "transient"):
        return given  # it validates them itself
    return whole(place, given) if name == "limit" else number(place, given)


def _breaker(given: Any, before: DestinationPolicy) -> Breaker | None:
    if given is None or isinstance(given, bool):
        return Breaker() if given else None
    if not isinstance(given, Mapping):
        raise InvalidDestination(f"BREAKER is {given!r}; it must be a dict, such as {{'pause': 60.0}}, or False.")
    only_known("BREAKER", given, [each.name for each in fields(Breaker)])
    return replace(before.breaker or Breaker(), **given)


_READERS: dict[str, Callable[[Any, DestinationPolicy], Any]] = {"retry": _retry, "breaker": _breaker}
"""The others are passed on unchanged: `DestinationPolicy` validates them."""
NAMES = tuple(each.name.upper() for each in fields(DestinationPolicy))


def read_policy(entry: Mapping[str, Any], default: DestinationPolicy) -> DestinationPolicy:
    """The policy of an entry in DUEBOX['DESTINATIONS']; keys that are left out have the defaults of the class."""
    given = {name.lower(): entry[name] for name in NAMES if name in entry}
    read = {name: _READERS[name](value, default) if name in _READERS else value for name, value in given.items()}
    return replace(default, **read)


def refuse_unknown(entry: Mapping[str, Any]) -> None:
    known = ("BACKEND", "OPTIONS", *NAMES)
    for name in entry:
        if name not in known:
            hint = did_you_mean(str(name).upper(), known) or f"known are {', '.join(known)}."
            raise InvalidDestination(f"{name!r} is not known; {hint}")


Result = Delivered | Snooze | Discard | Exception | None
"""The result of one event of a batch. None is "delivered"; the retry policy of the destination decides about an error:
it is transient unless it is a `Permanent`."""

Problem = tuple[str, str]
"""A problem of the configuration, and the repair."""


class Destination:
    """Subclass it to send events to another system, and name the subclass as BACKEND in DUEBOX['DESTINATIONS'].

    There is one instance for each alias and process, created on the first delivery and shared by several threads.
    OPTIONS are its keyword arguments. `deliver` must return within its own timeout, and may be called again with the
    same event, whose id stays the same. Import the driver in `__init__` and not in the module: a process that only
    emits does not need it.
    """

    batch_size = 1
    """The maximum number of events in one call."""
    keeps_order = False
    """Whether the destination preserves the order of events, so that ORDERED makes sense."""
    forgets_repeats = False
    """Whether the destination drops duplicates by the id of the event."""
    policy = DestinationPolicy()
    """The default policy."""
    match = ""
    """The events that it receives if no route names it."""
    only = ""
    """The required prefix of event types: a route may narrow it, but not widen it."""
    expands = False
    """Whether an event becomes several deliveries, each to an endpoint `to:<alias>/<key>`."""
    only_once = False
    """Whether only one alias may have this class or a subclass of it: several would each send everything."""

    def __init__(self, alias: str, **options: Any) -> None:
        if options:
            raise TypeError(f"unexpected {', '.join(options)}")
        self.alias = alias
        self.using = conf().DATABASE
        """The database whose events are delivered; the worker sets it if it is not the default."""

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        """Send a batch, and return a result for each event, in the same order. An exception counts for all of them."""
        raise NotImplementedError

    @classmethod
    def expand(cls, alias: str, facts: Sequence[Fact], using: str) -> None:
        """If it expands: store a delivery for each endpoint that subscribed to one of the events. Runs in the
        transaction that settles the expansion."""
        raise NotImplementedError

    def prepare(self, keys: Sequence[str]) -> None:
        """Called before `part` with all keys, so that their rows can be loaded together."""

    def part(self, key: str) -> Destination:
        """The destination behind `to:<alias>/<key>`, for one that expands into several."""
        raise InvalidDestination(
            f"Destination {self.alias!r} has no endpoint {key!r}; it is one destination as a whole."
        )

    def check(self) -> list[Problem]:
        """Problems that can be found without a connection; for `manage.py check`."""
        return []

    def fails_since(self, since: datetime) -> None:
        """Called by the worker from time to time while every attempt since then has failed, to warn or to give up.
        Called outside of a transaction."""

    def close(self) -> None:
        """Close connections; called when the worker stops."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.alias}>"
