"""What stands behind an operator, or the refusal of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duebox.destinations.patterns import numbers, texts
from duebox.destinations.patterns.words import shown
from duebox.exceptions import InvalidPattern


def only_entry(mapping: Mapping[Any, Any], where: str) -> tuple[Any, Any]:
    if len(mapping) != 1:
        names = ", ".join(shown(name) for name in mapping) or "nothing"
        raise InvalidPattern(where, f"has {names}", "name one operator; write two entries of the list for two")
    return next(iter(mapping.items()))


def text_of(operand: Any, where: str) -> str:
    if not isinstance(operand, str):
        raise InvalidPattern(where, f"{shown(operand)} is not a text", "put it in quotes")
    return str(operand)


def wildcard_of(operand: Any, where: str) -> list[str]:
    text = text_of(operand, where)
    try:
        return texts.wildcard_pieces(text)
    except ValueError as error:
        raise InvalidPattern(
            where, f"{shown(text)} {error}", r"write * for any text, \* and \\ for themselves"
        ) from None


def comparable(operand: Any, where: str) -> float:
    if not numbers.is_number(operand) or numbers.as_double(operand) is None:
        raise InvalidPattern(
            where, f"{shown(operand)} is not a number that can be compared", "use one of up to 15 digits"
        )
    return operand  # type: ignore[no-any-return]
