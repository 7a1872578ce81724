"""Numbers worth trying: on, beside and between the bounds of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import floor

from duebox.contracts.compat.words import Schema

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_PLAIN = tuple(Fraction(text) for text in ("1", "0", "2", "-1", "1.5", "0.5", "-0.5", "1000"))
_MOST_STEPS = 4


def numbers(schemas: Sequence[Schema]) -> Iterator[int | float]:
    """The plain ones first, then those that the words of the schemas point to."""
    bounds = sorted({exact(schema[word]) for schema in schemas for word in _BOUNDS if _is_number(schema.get(word))})
    steps = [exact(schema["multipleOf"]) for schema in schemas if _is_number(schema.get("multipleOf"))][:_MOST_STEPS]
    steps = [*steps, *{one * other for one, other in product(steps, steps) if one != other}]
    points = [*_PLAIN, *_around(bounds)]
    yield from map(plain, dict.fromkeys([*points, *_on_steps(points, steps)]))


def _around(bounds: Sequence[Fraction]) -> Iterator[Fraction]:
    for bound in bounds:
        yield from (bound, bound - 1, bound + 1, bound - Fraction(1, 2), bound + Fraction(1, 2))
        yield from (Fraction(floor(bound)), Fraction(floor(bound) + 1))
    for low, high in pairwise(bounds):
        yield (low + high) / 2
        yield Fraction(floor((low + high) / 2))


def _on_steps(points: Sequence[Fraction], steps: Sequence[Fraction]) -> Iterator[Fraction]:
    for step in steps:
        yield from (step, -step, step * 2, step * 3, step / 2, step + 1)
        for point in points:
            below = floor(point / step) * step
            yield from (below, below + step, below - step)


def exact(number: int | float) -> Fraction:
    """As it is written: 0.1 is a tenth."""
    return Fraction(str(number))


def plain(number: Fraction) -> int | float:
    return int(number) if number.denominator == 1 else float(number)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
