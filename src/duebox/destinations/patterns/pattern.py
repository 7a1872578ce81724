"""A pattern, ready to be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duebox.destinations.patterns.arrays import hold_together
from duebox.destinations.patterns.finding import ABSENT, INTRICATE
from duebox.destinations.patterns.reading import read_pattern
from duebox.destinations.patterns.telling import tell
from duebox.destinations.patterns.values import Condition, shallow_first

Event = Mapping[str, Any]


def compile(pattern: Mapping[str, Any]) -> Pattern:
    """A pattern that can be asked about events. InvalidPattern says where and why it is not one."""
    return Pattern(pattern)


class Pattern:
    """Answers whether an event is wanted, and why."""

    __slots__ = ("_alternatives", "matches", "source")

    matches: Callable[[Event], bool]
    """Whether the event is wanted."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.source = source
        self._alternatives = read_pattern(source)
        tests = [_all_of(conditions) for conditions in self._alternatives]
        self.matches = tests[0] if len(tests) == 1 else lambda event: any(test(event) for test in tests)

    def may_match(self, **known: Any) -> bool:
        """Whether an event with these fields may be wanted, whatever its other fields are."""
        return any(
            all(each.accepts(known[each.path]) for each in conditions if each.path in known)
            for conditions in self._alternatives
        )

    def why(self, event: Event) -> str:
        """One line: what made the event match, or the first thing that did not. It quotes values of the event."""
        return tell(self._alternatives, event)

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
