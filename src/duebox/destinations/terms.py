"""The terms on which a destination is served: retries, rate, calls at the same time, order, breaker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any

from duebox.destinations.given import listed, number, only_known, truth, whole
from duebox.exceptions import InvalidDestination
from duebox.outcome import Retry

OUTSIDE_RETRY = Retry(limit=12, first=5.0, factor=3.0, cap=6 * 3600.0, jitter=0.2)
"""5 and 15 seconds, then longer: about a day and a half before an event is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Leave a destination alone that fails: open once `share` of at least `calls` calls in the last `window` seconds
    failed; after `pause` seconds one event is tried. If it fails too, the pause doubles, up to `longest`."""

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
class Terms:
    retry: Retry = OUTSIDE_RETRY
    rate: float = 0.0
    """Events a second, by all workers together; 0 is as many as it takes."""
    burst: int = 0
    """How many may go at once when there was a pause; 0 is a tenth of a second's worth."""
    concurrency: int = 4
    """Calls at the same time, by each worker."""
    ordered: bool = False
    on_dead: str = "block"
    breaker: Breaker | None = field(default_factory=Breaker)

    def __post_init__(self) -> None:
        if number("RATE", self.rate) < 0:
            raise InvalidDestination(f"RATE is {self.rate!r}; it must be above 0, or 0 for no limit.")
        if whole("BURST", self.burst) < 0:
            raise InvalidDestination(
                f"BURST is {self.burst!r}; it must be above 0, or 0 for a tenth of a second's worth."
            )
        if whole("CONCURRENCY", self.concurrency) < 1:
            raise InvalidDestination(f"CONCURRENCY is {self.concurrency}; it must be 1 or more.")
        truth("ORDERED", self.ordered)
        if self.on_dead not in ("block", "skip"):
            raise InvalidDestination(f"ON_DEAD is {self.on_dead!r}; it must be 'block' or 'skip'.")

    @property
    def bucket(self) -> float:
        """How many tokens the bucket holds."""
        return float(self.burst) if self.burst else max(1.0, self.rate / 10)


def _retry(given: Any, before: Terms) -> Retry:
    if not isinstance(given, Mapping):
        raise InvalidDestination(f"RETRY is {given!r}; it must be a dict, such as {{'limit': 5, 'first': 10.0}}.")
    only_known("RETRY", given, [each.name for each in fields(Retry)])
    values = {name: _of_retry(name, value) for name, value in given.items()}
    try:
        return replace(before.retry, **({"delays": ()} | values))
    except ValueError as error:
        raise InvalidDestination(f"RETRY cannot be meant: {error}") from error


def _of_retry(name: str, given: Any) -> Any:
    place = f"RETRY[{name!r}]"
    if name == "delays":
        found = listed(place, given, "numbers")
        return tuple(number(f"{place}[{index}]", each) for index, each in enumerate(found))
    if name in ("permanent", "transient"):
        return given  # it looks at them itself
    return whole(place, given) if name == "limit" else number(place, given)


def _breaker(given: Any, before: Terms) -> Breaker | None:
    if given is None or isinstance(given, bool):
        return Breaker() if given else None
    if not isinstance(given, Mapping):
        raise InvalidDestination(f"BREAKER is {given!r}; it must be a dict, such as {{'pause': 60.0}}, or False.")
    only_known("BREAKER", given, [each.name for each in fields(Breaker)])
    return replace(before.breaker or Breaker(), **given)


_READERS: dict[str, Callable[[Any, Terms], Any]] = {"retry": _retry, "breaker": _breaker}
"""The others are taken as they are: terms look at their values themselves."""
NAMES = tuple(each.name.upper() for each in fields(Terms))


def read_terms(entry: Mapping[str, Any], default: Terms) -> Terms:
    """The terms of an entry in DUEBOX['DESTINATIONS']; what it does not say is as the kind of destination has it."""
    given = {name.lower(): entry[name] for name in NAMES if name in entry}
    read = {name: _READERS[name](value, default) if name in _READERS else value for name, value in given.items()}
    return replace(default, **read)


def refuse_unknown(entry: Mapping[str, Any]) -> None:
    known = ("BACKEND", "OPTIONS", *NAMES)
    for name in entry:
        if name not in known:
            near = get_close_matches(str(name).upper(), known, n=1)
            raise InvalidDestination(
                f"{name!r} is not known; "
                + (f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}.")
            )
