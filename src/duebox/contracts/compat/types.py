"""The seven types of JSON Schema and the Python values that have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duebox.contracts.compat.words import Schema

ALL = ("object", "string", "number", "integer", "array", "boolean", "null")


def types_of(value: Any) -> tuple[str, ...]:
    """The types that a value has; a whole number has two."""
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("boolean",)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return ("integer", "number")
    if isinstance(value, float):
        return ("number",)
    return ("string",) if isinstance(value, str) else ("array",) if isinstance(value, list) else ("object",)


def allowed_types(schemas: Iterable[Schema]) -> list[str]:
    """The types that all of these schemas take."""
    left = list(ALL)
    for schema in schemas:
        given = schema.get("type", ALL)
        given = {given} if isinstance(given, str) else set(given)
        if "number" in given:
            given.add("integer")
        left = [each for each in left if each in given]
    return left
