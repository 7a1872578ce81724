"""What a pattern is made of once it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from duebox.destinations.patterns.finding import Chain, everywhere, straight

Test = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Matcher:
    """One entry of a list in a pattern."""

    words: str
    """How it is said: `begins with 'order.'`."""
    takes: Test
    literal: str | None = None
    """The only text it takes, if there is only one. Such entries are looked up together."""
    absent: bool = False
    """It is content when the field is not there."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What one field must be like."""

    path: str
    steps: tuple[str, ...]
    matchers: tuple[Matcher, ...]
    look: Callable[[Any], Any]
    """The value in an event, where there is only one way to it."""
    search: Callable[[Any], list[tuple[Any, Chain]]]
    """All values in an event."""
    accepts: Test
    absent: bool

    @property
    def wanted(self) -> str:
        return " or ".join(matcher.words for matcher in self.matchers)


def condition(path: str, matchers: tuple[Matcher, ...]) -> Condition:
    steps = tuple(path.split("."))
    return Condition(
        path=path,
        steps=steps,
        matchers=matchers,
        look=straight(steps),
        search=everywhere(steps),
        accepts=_any_of(matchers),
        absent=any(matcher.absent for matcher in matchers),
    )


def shallow_first(conditions: Sequence[Condition]) -> list[Condition]:
    """Those on source and type of an event come first: they cost least and decide most."""
    return sorted(conditions, key=lambda each: len(each.steps))


def _any_of(matchers: tuple[Matcher, ...]) -> Test:
    texts = frozenset(matcher.literal for matcher in matchers if matcher.literal is not None)
    tests = tuple(matcher.takes for matcher in matchers if matcher.literal is None)
    if not tests:
        return texts.__contains__
    if not texts and len(tests) == 1:
        return tests[0]

    def accepts(value: Any) -> bool:
        return value in texts or any(test(value) for test in tests)

    return accepts
