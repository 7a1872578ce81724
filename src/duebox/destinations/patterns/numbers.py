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


def as_double(number: float) -> float | None:
    """The double that a number stands for; None if it does not survive as one. Then it takes part in no comparison."""
    if number.__class__ is float or -EXACT <= number <= EXACT:
        return number if math.isfinite(number) else None
    try:
        double = float(number)
    except OverflowError:
        return None
    return double if Decimal(repr(double)) == number else None


def equals(number: float) -> Test:
    """The same number, however it is written. One that is not a double is equal to itself."""
    wanted = _one_form(number)
    return lambda value: is_number(value) and _one_form(value) == wanted


def _one_form(number: float) -> float:
    double = as_double(number)
    return number if double is None else double


def compares(terms: list[tuple[str, float]]) -> Test:
    """A number that stands in every one of these relations."""
    tests = tuple((COMPARISONS[sign], _one_form(bound)) for sign, bound in terms)

    def takes(value: Any) -> bool:
        double = as_double(value) if is_number(value) else None
        return double is not None and all(holds(double, bound) for holds, bound in tests)

    return takes
