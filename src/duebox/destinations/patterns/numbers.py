"""Tests on numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from duebox.destinations.patterns.values import Test

EXACT = 2**53
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
WORDS = {"=": "equal to", "<": "below", "<=": "at most", ">": "above", ">=": "at least"}


def is_number(value: Any) -> bool:
    return value.__class__ is int or value.__class__ is float


def is_comparable(number: float) -> bool:
    """Whether it survives as a double. Other numbers are equal to themselves, and take part in no comparison."""
    if -EXACT <= number <= EXACT:
        return True
    try:
        double = float(number)
    except OverflowError:
        return False
    return math.isfinite(double) and Decimal(repr(double)) == number


def equals(number: float) -> Test:
    return lambda value: is_number(value) and value == number


def compares(terms: list[tuple[str, float]]) -> Test:
    """A number that stands in every one of these relations."""
    tests = tuple((COMPARISONS[sign], bound) for sign, bound in terms)

    def takes(value: Any) -> bool:
        return is_number(value) and is_comparable(value) and all(holds(value, bound) for holds, bound in tests)

    return takes
