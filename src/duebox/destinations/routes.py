"""Routes: which events go to which destination.

    DUEBOX = {"ROUTES": [
        {"match": "order.paid", "to": "bus"},                       # exact
        {"match": "order.*", "to": ["bus", "queue"]},               # by prefix; also "*.paid", "order.*.paid", "*"
        {"match": {"event_type": [{"prefix": "order."}], "data": {"total": [{"numeric": [">", 1000]}]}}, "to": "risk"},
    ]}

A pattern matches the envelope. Event types that begin with `public.`, `duebox.` or `periodic.` are matched only by a
route that names the prefix: otherwise a route for everything would send each public event in addition to its internal
event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from duebox.destinations.envelope import as_dict
from duebox.destinations.event_pattern import Pattern, compile
from duebox.events.fact import FactRow
from duebox.events.subscribers import PERIODIC
from duebox.events.wildcards import fits
from duebox.exceptions import InvalidDestination, did_you_mean

RESERVED = ("public.", "duebox.", PERIODIC)
FIELDS = (
    "event_id", "event_type", "schema_version", "occurred_at", "workspace_id", "aggregate_type", "aggregate_id",
    "organization_id", "correlation_id", "causation_id", "actor", "producer", "data", "metadata",
)  # fmt: skip
"""The fields of the envelope that a pattern may use."""
NESTED = ("data", "metadata", "actor")
OR = "$or"
_TEXT = re.compile(r"(\*|[a-z0-9_]+)(\.(\*|[a-z0-9_]+))*")


@dataclass(frozen=True, slots=True)
class Route:
    match: str | Mapping[str, Any]
    to: tuple[str, ...]
    may_take: Callable[[str], bool]
    """Whether an event of this type could match."""
    pattern: Pattern | None = None

    def takes(self, row: FactRow) -> bool:
        return self.may_take(row.type) and (self.pattern is None or self.pattern.matches(as_dict(row)))

    def reaches(self, prefix: str) -> bool:
        """Whether it names a reserved prefix."""
        named = [self.match] if isinstance(self.match, str) else _types_named(self.match)
        return any(text.startswith(prefix) for text in named)

    def why(self, event_type: str) -> str:
        """The reason of a match, in words."""
        if self.pattern is not None:
            return f"the pattern {self.match}"
        if self.match == event_type:
            return "its type"
        return f"its type matches {self.match!r}"


def read_route(given: Any, aliases: Mapping[str, Any]) -> Route:
    """A route of DUEBOX['ROUTES']. Raises InvalidDestination."""
    if not isinstance(given, Mapping) or set(given) != {"match", "to"}:
        raise InvalidDestination(f"{given!r} is not a route; write {{'match': 'order.*', 'to': 'alias'}}.")
    to = _aliases(given["to"], aliases)
    match = given["match"]
    if isinstance(match, str):
        return Route(match, to, _by_text(match))
    pattern = compile(match)
    _refuse_unknown_fields(match)
    return Route(match, to, _by_pattern(pattern), pattern)


def _aliases(given: Any, known: Mapping[str, Any]) -> tuple[str, ...]:
    if not isinstance(given, str | list | tuple):
        raise InvalidDestination(f"A route goes to {given!r}; name the alias of a destination, or a list of them.")
    to = (given,) if isinstance(given, str) else tuple(given)
    if not to:
        raise InvalidDestination("A route has no destination; name the alias of one in 'to'.")
    for alias in to:
        if not isinstance(alias, str) or alias not in known:
            hint = did_you_mean(alias, map(str, known)) or "add it to DUEBOX['DESTINATIONS']."
            raise InvalidDestination(f"A route goes to {alias!r}, which is not a destination; {hint}")
    return to


def _refuse_unknown_fields(pattern: Mapping[str, Any]) -> None:
    """A pattern with an unknown field never matches. All fields of the envelope are known, so others are refused."""
    for name, value in pattern.items():
        if name == OR:
            for branch in value:
                _refuse_unknown_fields(branch)
            continue
        field, dot, _ = name.partition(".")  # a dot is the same as nesting
        if field not in FIELDS:
            near = did_you_mean(field, FIELDS)
            hint = f"{near} Known are" if near else "known are"
            raise InvalidDestination(
                f"A pattern names {field!r}, which is not a field of the envelope; {hint} {', '.join(FIELDS)}."
            )
        if field not in NESTED and (dot or isinstance(value, Mapping)):
            raise InvalidDestination(
                f"A pattern has fields below {field!r}, which is a single value; write a list, as in "
                f"{{{field!r}: ['…']}}."
            )


def _by_text(match: str) -> Callable[[str], bool]:
    if not _TEXT.fullmatch(match):
        raise InvalidDestination(f"{match!r} must look like 'a.b', 'a.*', '*.b', 'a.*.b' or '*', in lower snake case.")
    if "*" not in match:
        return match.__eq__
    open_to = tuple(each for each in RESERVED if match.startswith(each))
    return lambda event_type: _is_open(event_type, open_to) and fits(event_type, match)


def _by_pattern(pattern: Pattern) -> Callable[[str], bool]:
    open_to = tuple(each for each in RESERVED if any(text.startswith(each) for text in _types_named(pattern.source)))
    return lambda event_type: _is_open(event_type, open_to) and pattern.may_match(event_type=event_type)


def _is_open(event_type: str, open_to: tuple[str, ...]) -> bool:
    return not event_type.startswith(RESERVED) or event_type.startswith(open_to)


def _types_named(part: Any, *, inside: bool = False) -> Iterator[str]:
    """All texts with which a pattern compares the type."""
    if isinstance(part, str) and inside:
        yield part
    elif isinstance(part, Mapping):
        for name, value in part.items():
            yield from _types_named(value, inside=inside or name == "event_type")
    elif isinstance(part, list | tuple):
        for each in part:
            yield from _types_named(each, inside=inside)
