"""Event patterns of Amazon EventBridge, with which routes select events.

A pattern has the shape of an event. Every leaf is a list of which one entry must match; all fields must match.

    >>> pattern = compile({"detail-type": [{"prefix": "order."}], "detail": {"amount": [{"numeric": [">", 100]}]}})
    >>> pattern.matches({"detail-type": "order.paid", "detail": {"amount": 150}})
    True
    >>> pattern.why({"detail-type": "order.paid", "detail": {"amount": 20}})
    'detail.amount is 20; wanted above 100'

The answers are those of AWS's own engine, event-ruler 2.0.1. Where it would silently ignore a part of a pattern, the
pattern is refused: a repeated field, an invalid `$or`, an empty list of exclusions. Where it is wrong (a plain text
beside a number and a prefix, a CIDR block and a number), the documented answer is given.

Conditions are sorted by path, so those that share a list are neighbours. After each of them the elements are known in
which all conditions so far hold, and only the part that the next condition shares is stored: the work grows with the
event, not with the number of combinations in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from duebox.destinations.event_pattern_matchers import (
    ABSENT,
    COMPARISONS,
    INTRICATE,
    OPERATORS,
    Chain,
    Condition,
    condition_of,
    read_matcher,
    shallow_first,
    shown,
)
from duebox.exceptions import InvalidPattern

__all__ = ["Pattern", "compile"]


def hold_together(conditions: Sequence[Condition], event: Any) -> bool:
    reached: set[Chain] = {()}
    for at, condition in enumerate(conditions):
        shared = _shared_steps(condition, conditions[at + 1]) if at + 1 < len(conditions) else -1
        reached = {_cut(chain, shared) for chain in _next(condition, event, reached)}
        if not reached:
            return False
    return True


def _next(condition: Condition, event: Any, reached: set[Chain]) -> Iterator[Chain]:
    found = condition.search(event)
    taken = _Elements(chain for value, chain in found if condition.accepts(value))
    for chain in reached:
        yield from taken.joined(chain)
    if condition.absent:
        # A field is absent from an element that is already chosen; before one is, it must be absent from all.
        present = _Elements(chain for _, chain in found)
        yield from (chain for chain in reached if not present.touch(chain))


class _Elements:
    """Chains of elements, indexed by their prefix."""

    def __init__(self, chains: Iterable[Chain]) -> None:
        self.chains = set(chains)
        self.beginning: dict[Chain, list[Chain]] = {}
        for chain in self.chains:
            for length in range(len(chain) + 1):
                self.beginning.setdefault(chain[:length], []).append(chain)

    def joined(self, chain: Chain) -> Iterator[Chain]:
        """The continuations of a chain: the longer one of each two that do not contradict each other."""
        yield from self.beginning.get(chain, ())
        if any(chain[:length] in self.chains for length in range(len(chain))):
            yield chain

    def touch(self, chain: Chain) -> bool:
        return next(self.joined(chain), None) is not None


def _shared_steps(one: Condition, other: Condition) -> int:
    count = 0
    for mine, theirs in zip(one.steps, other.steps, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _cut(chain: Chain, steps: int) -> Chain:
    return tuple(element for element in chain if element[0] <= steps)


OR = "$or"
DEEPEST = 64
MOST_ALTERNATIVES = 1000
MOST_FIELDS = 256
# The engine reserves these names inside a $or.
RESERVED = frozenset({
    *OPERATORS, *COMPARISONS, "regex", "not-wildcard", "not-equals-ignore-case", "date-after", "date-on-or-after",
    "date-before", "date-on-or-before", "in-date-range", "ip-address-in-range", "ip-address-not-in-range",
})  # fmt: skip

Fields = dict[str, Condition]


def read_pattern(pattern: Any) -> list[tuple[Condition, ...]]:
    """The alternatives of a pattern. Raises `InvalidPattern`."""
    if not isinstance(pattern, Mapping):
        raise InvalidPattern("pattern", f"{shown(pattern)} is not an object", "name the fields of the event in it")
    return [_conditions(fields) for fields in _read_object([{}], "", pattern, depth=0, in_or=False)]


def _conditions(fields: Fields) -> tuple[Condition, ...]:
    if len(fields) > MOST_FIELDS:
        raise InvalidPattern("pattern", f"has {len(fields)} fields", f"keep to {MOST_FIELDS}")
    return tuple(sorted(fields.values(), key=lambda each: each.steps))


def _read_object(
    alternatives: list[Fields], at: str, part: Mapping[Any, Any], *, depth: int, in_or: bool
) -> list[Fields]:
    if not part:
        raise InvalidPattern(at or "pattern", "is an empty object", "name a field in it, or leave it out")
    if depth > DEEPEST:
        raise InvalidPattern("pattern", f"is nested deeper than {DEEPEST} levels", "make it flatter")
    for name, value in part.items():
        if not isinstance(name, str):
            raise InvalidPattern(at or "pattern", f"has the name {shown(name)}", "names are texts")
        where = f"{at}.{name}" if at else name
        if name == OR:
            alternatives = _read_or(alternatives, at, value, depth=depth + 1)
        elif in_or and name in RESERVED:
            raise InvalidPattern(
                where, f"{shown(name)} cannot be a field inside $or", "write the operator inside the list of a field"
            )
        elif isinstance(value, Mapping):
            alternatives = _read_object(alternatives, where, value, depth=depth + 1, in_or=in_or)
        else:
            _add(alternatives, _read_field(value, where))
    return alternatives


def _read_or(alternatives: list[Fields], at: str, branches: Any, *, depth: int) -> list[Fields]:
    where = f"{at}.{OR}" if at else OR
    if not isinstance(branches, list | tuple) or len(branches) < 2:
        raise InvalidPattern(where, f"is {shown(branches)}", "write a list of two or more objects")
    found: list[Fields] = []
    for index, branch in enumerate(branches):
        if not isinstance(branch, Mapping):
            raise InvalidPattern(
                f"{where}[{index}]", f"{shown(branch)} is not an object", "name fields of the event in it"
            )
        found += _read_object([dict(fields) for fields in alternatives], at, branch, depth=depth, in_or=True)
        if len(found) > MOST_ALTERNATIVES:
            raise InvalidPattern(
                where, f"makes more than {MOST_ALTERNATIVES} combinations", "make several patterns of it"
            )
    return found


def _read_field(value: Any, where: str) -> Condition:
    if not isinstance(value, list | tuple):
        raise InvalidPattern(where, f"{shown(value)} is not in a list", f"put it in a list: [{shown(value)}]")
    if not value:
        raise InvalidPattern(where, "is an empty list, which nothing can match", "name a value, or leave the field out")
    if where.count(".") > DEEPEST:
        raise InvalidPattern("pattern", f"is nested deeper than {DEEPEST} levels", "make it flatter")
    return condition_of(where, tuple(read_matcher(entry, f"{where}[{index}]") for index, entry in enumerate(value)))


def _add(alternatives: list[Fields], added: Condition) -> None:
    for fields in alternatives:
        if added.path in fields:
            raise InvalidPattern(added.path, "is repeated; one would be ignored", "put all its values into one list")
        fields[added.path] = added


MOST = 3
"""The maximum number of values or alternatives in an explanation."""

Alternatives = Sequence[Sequence[Condition]]


def explain_match(alternatives: Alternatives, event: Any) -> str:
    for conditions in alternatives:
        if hold_together(conditions, event):
            return "; ".join(_what_fits(condition, event) for condition in shallow_first(conditions))
    reasons = list(dict.fromkeys(_first_failure(conditions, event) for conditions in alternatives))
    left = len(reasons) - MOST
    return " | ".join(reasons[:MOST]) + (f" | and {left} more" if left > 0 else "")


def _what_fits(condition: Condition, event: Any) -> str:
    for value, _ in condition.search(event):
        for matcher in condition.matchers:
            if matcher.takes(value):
                said = f"{condition.path} is {shown(value)}"
                return said if matcher.words == shown(value) else f"{said}: {matcher.words}"
    return f"{condition.path} has no value"


def _first_failure(conditions: Sequence[Condition], event: Any) -> str:
    for condition in shallow_first(conditions):
        if not hold_together([condition], event):
            values = [shown(value) for value, _ in condition.search(event)]
            named = ", ".join(values[:MOST]) + (", …" if len(values) > MOST else "")
            said = f"is {named}" if values else "has no value"
            return f"{condition.path} {said}; wanted {condition.wanted}"
    paths = [condition.path for condition in conditions]
    return f"{', '.join(paths[:-1])} and {paths[-1]} never match in the same element of a list"


Event = Mapping[str, Any]


def compile(pattern: Mapping[str, Any]) -> Pattern:
    """Compile a pattern. Raises `InvalidPattern` with the path and the reason."""
    return Pattern(pattern)


class Pattern:
    """A compiled pattern: it tells whether an event matches, and why."""

    __slots__ = ("_alternatives", "matches", "source")

    matches: Callable[[Event], bool]
    """Whether the event matches."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.source = source
        self._alternatives = read_pattern(source)
        tests = [_all_of(conditions) for conditions in self._alternatives]
        self.matches = tests[0] if len(tests) == 1 else lambda event: any(test(event) for test in tests)

    def may_match(self, **known: Any) -> bool:
        """Whether an event with these fields may match, whatever its other fields are."""
        return any(
            all(each.accepts(known[each.path]) for each in conditions if each.path in known)
            for conditions in self._alternatives
        )

    def why(self, event: Event) -> str:
        """One line: what made the event match, or the first thing that did not. It quotes values of the event."""
        return explain_match(self._alternatives, event)

    def __repr__(self) -> str:
        return f"compile({self.source!r})"


def _all_of(conditions: Sequence[Condition]) -> Callable[[Event], bool]:
    parts = tuple((each.look, each.accepts, each.absent) for each in shallow_first(conditions))

    def holds(event: Event) -> bool:
        for find, accepts, absent in parts:
            value = find(event)
            if value is INTRICATE:
                return hold_together(conditions, event)
            if value is ABSENT:
                if not absent:
                    return False
            elif not (any(map(accepts, value)) if value.__class__ is list else accepts(value)):
                return False
        return True

    return holds
