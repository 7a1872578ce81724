"""A dataclass as the data that it carries, and back."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from duebox.contracts.hints import LISTS, MAPPINGS, hints_of

_FROM_TEXT: dict[Any, Callable[[str], Any]] = {
    UUID: UUID,
    Decimal: Decimal,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
}
_AS_IT_IS = frozenset({str, int, float, bool, type(None), UUID, Decimal, datetime, date})


@cache
def _names(shape: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(shape))


@cache
def _left_out(shape: Any) -> tuple[str, ...]:
    """Fields that are None when not given, though their annotation does not speak of None: these are not sent."""
    hints = hints_of(shape)
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
    hints = hints_of(shape)
    fields = [field for field in dataclasses.fields(shape) if field.name in data]
    read = {field.name: _read(hints[field.name], data[field.name]) for field in fields}
    instance = shape(**{field.name: read[field.name] for field in fields if field.init})
    for field in fields:
        if not field.init:  # what the class set by itself is what it was, even if the class would do otherwise now
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
