"""What annotations say about data, as a JSON Schema.

Data travels as `duebox.payload` writes it: UUID and Decimal as text, moments as ISO 8601.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from itertools import chain, count
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from duebox.exceptions import InvalidContract

Schema = dict[str, Any]

DECIMAL = r"^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$"
_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string", "pattern": DECIMAL},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    Any: {},
    dict: {"type": "object"},
    list: {"type": "array"},
}
LISTS = (list, Sequence, tuple, set, frozenset)
MAPPINGS = (dict, Mapping)


class Definitions:
    """The dataclasses inside of another one, each under a name of its own."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def reference(self, shape: type) -> Schema:
        if shape not in self._names:
            name = self._names[shape] = self._free(shape.__name__)
            self.schemas[name] = {}  # it may hold itself
            self.schemas[name] = object_schema(shape, self)
        return {"$ref": f"#/$defs/{self._names[shape]}"}

    def _free(self, name: str) -> str:
        """Two classes of one name are two things."""
        numbered = (f"{name}{number}" for number in count(2))
        return next(each for each in chain([name], numbered) if each not in self.schemas)


def object_schema(shape: type, definitions: Definitions) -> Schema:
    """The schema of a dataclass; dataclasses inside of it go to the definitions."""
    hints = hints_of(shape)
    properties, required = {}, []
    for field in dataclasses.fields(shape):
        part = _schema(hints[field.name], definitions, f"{shape.__name__}.{field.name}")
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            required.append(field.name)
        elif field.default is not dataclasses.MISSING and isinstance(field.default, str | int | float | bool):
            part = {**part, "default": _value(field.default)}
        properties[field.name] = part
    found: Schema = {"type": "object", "properties": properties}
    return {**found, "required": required} if required else found


def _schema(hint: Any, definitions: Definitions, where: str) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return described(_schema(arguments[0], definitions, where), arguments[1:])
    if origin is None and hint in _PLAIN:
        return dict(_PLAIN[hint])
    if origin is Literal:
        return {"enum": [_value(each) for each in arguments]}
    if origin in (Union, types.UnionType):
        return _any_of([_schema(each, definitions, where) for each in arguments])
    if origin in LISTS:
        return _array(origin, arguments, definitions, where)
    if origin in MAPPINGS and arguments and arguments[0] is str:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions, where)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [each.value for each in hint]}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return definitions.reference(hint)
    raise InvalidContract(
        f"{where} is annotated with {hint!r}, which has no JSON Schema; use str, int, float, bool, UUID, Decimal, "
        "date, datetime, Literal, an Enum, list[...], dict[str, ...], a dataclass, or unions of them."
    )


@cache
def hints_of(shape: type) -> dict[str, Any]:
    """The annotations of a class, with what stands in `Annotated`."""
    try:
        try:
            return get_type_hints(shape, include_extras=True)
        except NameError:  # it may hold itself, and nobody knows it by its name yet
            return get_type_hints(shape, localns={shape.__name__: shape}, include_extras=True)
    except (NameError, AttributeError, SyntaxError) as error:
        raise InvalidContract(
            f"The annotations of {shape.__qualname__} cannot be read ({error}); put the classes that they name at the "
            "top of a module, above this one."
        ) from error
    except TypeError as error:
        raise InvalidContract(
            f"The annotations of {shape.__qualname__} cannot be read ({error}); where a field may be None and has "
            "words of JSON Schema, put these around the union, as in Annotated[str | None, {...}]."
        ) from error


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def described(schema: Schema, extras: Sequence[Any]) -> Schema:
    """The schema with what stands in `Annotated`: a text describes, a mapping adds words."""
    for extra in extras:
        if isinstance(extra, str):
            schema["description"] = extra
        elif isinstance(extra, Mapping):
            schema.update(extra)
    return schema


def _any_of(choices: list[Schema]) -> Schema:
    if all(set(choice) == {"type"} for choice in choices):
        return {"type": [choice["type"] for choice in choices]}
    return {"anyOf": choices}


def _array(origin: Any, arguments: tuple[Any, ...], definitions: Definitions, where: str) -> Schema:
    if origin is tuple and Ellipsis not in arguments:
        parts = [_schema(each, definitions, where) for each in arguments]
        return {"type": "array", "prefixItems": parts, "items": False, "minItems": len(parts)}
    schema: Schema = {"type": "array", "items": _schema(arguments[0], definitions, where)}
    return {**schema, "uniqueItems": True} if origin in (set, frozenset) else schema
