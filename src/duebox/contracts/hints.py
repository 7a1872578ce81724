"""What an annotation says about data: as a JSON Schema, and as a way to read the data back.

Data travels as `duebox.payload` writes it: UUID and Decimal as text, moments as ISO 8601.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from duebox.exceptions import InvalidContract

Schema = dict[str, Any]

_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string", "pattern": r"^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    Any: {},
    dict: {"type": "object"},
    list: {"type": "array"},
}
_FROM_TEXT: dict[Any, Callable[[str], Any]] = {
    UUID: UUID,
    Decimal: Decimal,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
}
_AS_IT_IS = frozenset({str, int, float, bool, type(None), UUID, Decimal, datetime, date})
_LISTS = (list, Sequence, tuple, set, frozenset)
_MAPPINGS = (dict, Mapping)


def object_schema(shape: type, definitions: dict[str, Schema]) -> Schema:
    """The schema of a dataclass; dataclasses inside of it go to the definitions."""
    hints = _hints(shape)
    properties, required = {}, []
    for field in dataclasses.fields(shape):
        part = _schema(hints[field.name], definitions, f"{shape.__name__}.{field.name}")
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            required.append(field.name)
        elif field.default is not dataclasses.MISSING and isinstance(field.default, str | int | float | bool):
            part = {**part, "default": plain(field.default)}
        properties[field.name] = part
    found: Schema = {"type": "object", "properties": properties}
    return {**found, "required": required} if required else found


def _schema(hint: Any, definitions: dict[str, Schema], where: str) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _described(_schema(arguments[0], definitions, where), arguments[1:])
    if origin is None and hint in _PLAIN:
        return dict(_PLAIN[hint])
    if origin is Literal:
        return {"enum": [plain(each) for each in arguments]}
    if origin in (Union, types.UnionType):
        return _any_of([_schema(each, definitions, where) for each in arguments])
    if origin in _LISTS:
        return _array(origin, arguments, definitions, where)
    if origin in _MAPPINGS and arguments and arguments[0] is str:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions, where)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [each.value for each in hint]}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _referred(hint, definitions)
    raise InvalidContract(
        f"{where} is annotated with {hint!r}, which has no JSON Schema; use str, int, float, bool, UUID, Decimal, "
        "date, datetime, Literal, an Enum, list[...], dict[str, ...], a dataclass, or unions of them."
    )


def _hints(shape: type) -> dict[str, Any]:
    try:
        return get_type_hints(shape, include_extras=True)
    except TypeError as error:
        raise InvalidContract(
            f"The annotations of {shape.__qualname__} cannot be read ({error}); where a field may be None and has "
            "words of JSON Schema, put these around the union, as in Annotated[str | None, {...}]."
        ) from error


def _described(schema: Schema, extras: Sequence[Any]) -> Schema:
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


def _array(origin: Any, arguments: tuple[Any, ...], definitions: dict[str, Schema], where: str) -> Schema:
    if origin is tuple and Ellipsis not in arguments:
        parts = [_schema(each, definitions, where) for each in arguments]
        return {"type": "array", "prefixItems": parts, "items": False, "minItems": len(parts)}
    schema: Schema = {"type": "array", "items": _schema(arguments[0], definitions, where)}
    return {**schema, "uniqueItems": True} if origin in (set, frozenset) else schema


def _referred(shape: type, definitions: dict[str, Schema]) -> Schema:
    if shape.__name__ not in definitions:
        definitions[shape.__name__] = {}  # it may hold itself
        definitions[shape.__name__] = object_schema(shape, definitions)
    return {"$ref": f"#/$defs/{shape.__name__}"}


@cache
def _names(shape: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(shape))


@cache
def _left_out(shape: Any) -> tuple[str, ...]:
    """Fields that are None when not given, though their annotation does not speak of None: these are not sent."""
    hints = _hints(shape)
    silent = [field.name for field in dataclasses.fields(shape) if field.default is None]
    return tuple(name for name in silent if not _takes_none(hints[name]))


def _takes_none(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _takes_none(get_args(hint)[0])
    return hint is Any or hint is type(None) or type(None) in get_args(hint) or None in get_args(hint)


def carried(instance: Any) -> dict[str, Any]:
    """The fields of a dataclass with what they hold."""
    shape: Any = type(instance)
    found = {name: plain(getattr(instance, name)) for name in _names(shape)}
    for name in _left_out(shape):
        if found[name] is None:
            del found[name]
    return found


def plain(value: Any) -> Any:
    """Dataclasses and enums as what they carry; the payload's own checks see to the rest."""
    if type(value) in _AS_IT_IS:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return carried(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=repr)
    return value


def filled(shape: type, data: Mapping[str, Any]) -> Any:
    """A dataclass with what data says; what it does not know is left out."""
    hints = _hints(shape)
    known = {field.name for field in dataclasses.fields(shape)}
    return shape(**{name: _read(hints[name], value) for name, value in data.items() if name in known})


def _read(hint: Any, value: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _read(arguments[0], value)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value)
    if origin in _LISTS and isinstance(value, list):
        return _read_list(origin, arguments, value)
    if origin in _MAPPINGS and arguments and isinstance(value, dict):
        return {key: _read(arguments[1], each) for key, each in value.items()}
    if hint in _FROM_TEXT and isinstance(value, str):
        return _FROM_TEXT[hint](value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        return filled(hint, value)
    return float(value) if hint is float and isinstance(value, int) else value


def _read_list(origin: Any, arguments: tuple[Any, ...], value: list[Any]) -> Any:
    if origin is tuple and Ellipsis not in arguments:
        return tuple(_read(hint, each) for hint, each in zip(arguments, value, strict=True))
    items = [_read(arguments[0], each) for each in value]
    return origin(items) if origin in (tuple, set, frozenset) else items


def _read_union(choices: tuple[Any, ...], value: Any) -> Any:
    """The first choice that takes the value; None takes only null."""
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
