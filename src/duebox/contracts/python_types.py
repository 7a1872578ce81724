"""Python annotations as a JSON Schema; dataclass instances as data, and back.

Data has the form that `duebox.events.payload` writes: UUID and Decimal as text, dates and times as ISO 8601.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from itertools import chain, count
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from duebox.contracts.json_schema import Schema
from duebox.exceptions import InvalidContract

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
    """The dataclasses inside of another one, each under a unique name."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def reference(self, shape: type) -> Schema:
        if shape not in self._names:
            numbered = (f"{shape.__name__}{number}" for number in count(2))  # two classes may have the same name
            name = next(each for each in chain([shape.__name__], numbered) if each not in self.schemas)
            self._names[shape] = name
            self.schemas[name] = {}  # it may contain itself
            self.schemas[name] = object_schema(shape, self)
        return {"$ref": f"#/$defs/{self._names[shape]}"}


def object_schema(shape: type, definitions: Definitions) -> Schema:
    """The schema of a dataclass; the schemas of dataclasses inside of it are added to the definitions."""
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
    """The annotations of a class, `Annotated` included."""
    try:
        try:
            return get_type_hints(shape, include_extras=True)
        except NameError:  # it may contain itself, and its name is not defined yet
            return get_type_hints(shape, localns={shape.__name__: shape}, include_extras=True)
    except (NameError, AttributeError, SyntaxError) as error:
        raise InvalidContract(
            f"The annotations of {shape.__qualname__} cannot be read ({error}); put the classes that they name at the "
            "top of a module, above this one."
        ) from error
    except TypeError as error:
        raise InvalidContract(
            f"The annotations of {shape.__qualname__} cannot be read ({error}); where a field may be None and has "
            "JSON Schema keywords, put these around the union, as in Annotated[str | None, {...}]."
        ) from error


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def described(schema: Schema, extras: Sequence[Any]) -> Schema:
    """The schema with the extras of `Annotated`: a text is the description, a mapping adds keywords."""
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


_FROM_TEXT: dict[Any, Callable[[str], Any]] = {
    UUID: UUID,
    Decimal: Decimal,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
}
_UNCHANGED = frozenset({str, int, float, bool, type(None), UUID, Decimal, datetime, date})


@cache
def _fields(shape: Any) -> dict[str, bool]:
    """The fields, and whether each is left out when it is None: None is its default, but not in its annotation."""
    hints = hints_of(shape)
    fields = dataclasses.fields(shape)
    return {field.name: field.default is None and not _takes_none(hints[field.name]) for field in fields}


def _takes_none(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _takes_none(get_args(hint)[0])
    return hint is Any or hint is type(None) or type(None) in get_args(hint) or None in get_args(hint)


def data_of(instance: Any) -> dict[str, Any]:
    """The fields of a dataclass and their values."""
    shape: Any = type(instance)
    found = {}
    for name, left_out_when_none in _fields(shape).items():
        value = getattr(instance, name)
        if value is not None or not left_out_when_none:
            found[name] = plain(value)
    return found


def plain(value: Any) -> Any:
    """Dataclasses and enums as plain data; `duebox.events.payload` checks the rest."""
    if type(value) in _UNCHANGED:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return data_of(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=repr)
    return value


def instance_of(shape: type, data: Mapping[str, Any]) -> Any:
    """A dataclass with the data; fields that the class does not have are left out."""
    hints = hints_of(shape)
    fields = [field for field in dataclasses.fields(shape) if field.name in data]
    read = {field.name: _read(hints[field.name], data[field.name]) for field in fields}
    instance = shape(**{field.name: read[field.name] for field in fields if field.init})
    for field in fields:
        if not field.init:  # keeps the stored value, even if the class would compute another one now
            object.__setattr__(instance, field.name, read[field.name])
    return instance


def _read(hint: Any, value: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _read(arguments[0], value)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value)
    if origin in LISTS and isinstance(value, list):
        return _read_list(origin, arguments, value)
    if origin in MAPPINGS and arguments and isinstance(value, dict):
        return {key: _read(arguments[1], each) for key, each in value.items()}
    if hint in _FROM_TEXT and isinstance(value, str):
        return _FROM_TEXT[hint](value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        return instance_of(hint, value)
    return float(value) if hint is float and isinstance(value, int) else value


def _read_list(origin: Any, arguments: tuple[Any, ...], value: list[Any]) -> Any:
    if origin is tuple and Ellipsis not in arguments:
        return tuple(_read(hint, each) for hint, each in zip(arguments, value, strict=True))
    items = [_read(arguments[0], each) for each in value]
    return origin(items) if origin in (tuple, set, frozenset) else items


def _read_union(choices: tuple[Any, ...], value: Any) -> Any:
    """The value as the first choice that accepts it."""
    if value is None:
        return None
    for choice in choices:
        if choice is type(None):
            continue
        try:
            read = _read(choice, value)
        except (ValueError, TypeError, KeyError, ArithmeticError):
            continue
        if _fits(choice, read):
            return read
    return value


def _fits(hint: Any, value: Any) -> bool:
    kind = get_origin(hint) or hint
    if kind is Annotated:
        return _fits(get_args(hint)[0], value)
    if kind is Literal:
        return value in get_args(hint)
    if kind is int and isinstance(value, bool):
        return False
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)
