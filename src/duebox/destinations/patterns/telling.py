"""Why an event matches a pattern, or why not, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duebox.destinations.patterns.arrays import hold_together
from duebox.destinations.patterns.values import Condition, shallow_first
from duebox.destinations.patterns.words import shown

MOST = 3
"""So many values or alternatives are named."""

Alternatives = Sequence[Sequence[Condition]]


def tell(alternatives: Alternatives, event: Any) -> str:
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
    return f"{', '.join(paths[:-1])} and {paths[-1]} are never right in the same element of a list"
