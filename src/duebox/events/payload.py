"""The data of an event: strict JSON, and Python types that are common in Django projects.

Stored as: UUID and Decimal as strings, datetime as ISO 8601 with its offset, date as ISO 8601, tuple as list.
Everything else raises `InvalidPayload` with the path of the value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from duebox.exceptions import InvalidPayload

_dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False).encode
_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER_LIMIT = 10**1000  # jsonb stores any number, but other JSON parsers do not


def encode(
    data: Any, *, limit: int, depth: int, root: str = "data", check: Callable[[dict[str, Any]], None] | None = None
) -> str:
    """The JSON text of a payload; `None` is `{}`. `check` may refuse the data, which it receives as plain JSON."""
    if data is not None and not isinstance(data, Mapping):
        raise InvalidPayload(root, f"is a {type(data).__name__}", "pass a dict")
    plain = _mapping(data, root, depth) if data else {}
    if check is not None:
        check(plain)
    if not plain:
        return "{}"
    text = _dump(plain)
    size = len(text) if text.isascii() else len(text.encode())
    if size > limit:
        raise InvalidPayload(
            root,
            f"is {size:,} bytes as JSON, over the limit of {limit:,}",
            "store it elsewhere and send a reference, or raise DUEBOX['PAYLOAD_LIMIT_BYTES']",
        )
    return text


def _plain(value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    if kind is str:
        return _text(value, path)
    if value is None or kind is bool:
        return value
    if kind is int:
        return _integer(value, path)
    if kind is dict:
        return _mapping(value, path, depth)
    if kind is list or kind is tuple:
        _descend(path, depth)
        return [_plain(item, f"{path}[{index}]", depth - 1) for index, item in enumerate(value)]
    return _rarer(value, path, depth)


def _rarer(value: Any, path: str, depth: int) -> Any:
    """Floats, dates and times, and subclasses of the plain types (enums, SafeString, OrderedDict)."""
    match value:
        case float():
            return _number(value, path)
        case UUID():
            return str(value)
        case Decimal():
            return _decimal(value, path)
        case datetime():
            return _moment(value, path)
        case date():
            return value.isoformat()
        case str():
            return _text(str.__str__(value), path)
        case int():
            return _integer(int(value), path)
        case Mapping():
            return _mapping(value, path, depth)
        case list() | tuple():
            return _plain(list(value), path, depth)
    raise InvalidPayload(
        path,
        f"is a {type(value).__module__}.{type(value).__qualname__}, which JSON cannot represent",
        "pass its id or a plain value",
    )


def _descend(path: str, depth: int) -> None:
    if depth <= 0:
        raise InvalidPayload(path, "is nested too deeply", "flatten it, or raise DUEBOX['PAYLOAD_DEPTH']")


def _mapping(value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
    _descend(path, depth)
    plain = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidPayload(path, f"has the key {key!r}, which is not a string", "use string keys")
        plain[_text(str.__str__(key), f"{path} key")] = _plain(item, f"{path}.{key}", depth - 1)
    return plain


def _text(value: str, path: str) -> str:
    if "\x00" in value or not (value.isascii() or _SURROGATE.search(value) is None):
        what = "a NUL character" if "\x00" in value else "a lone surrogate"
        raise InvalidPayload(path, f"holds {what}, which PostgreSQL cannot store", "remove it")
    return value


def _integer(value: int, path: str) -> int:
    if -_INTEGER_LIMIT < value < _INTEGER_LIMIT:
        return value
    raise InvalidPayload(path, "is an integer of over 1,000 digits", "pass it as a string")


def _number(value: float, path: str) -> float:
    if math.isfinite(value):
        # Floats from here on are whole numbers. jsonb would write 1e+23 as 10**23, which is another number.
        return value if abs(value) < 1e16 else int(value)
    raise InvalidPayload(path, f"is {value}, which JSON cannot represent", "pass None, or a string")


def _decimal(value: Decimal, path: str) -> str:
    if value.is_finite():
        return str(value)
    raise InvalidPayload(path, f"is Decimal('{value}')", "pass None, or a string")


def _moment(value: datetime, path: str) -> str:
    if value.utcoffset() is not None:
        text = value.isoformat()
        # RFC 3339 has offsets of whole minutes; before 1972 some zones were seconds off.
        return text if text[-6] in "+-" else _in_utc(value, path)
    raise InvalidPayload(path, "is a naive datetime", "make it aware with django.utils.timezone")


def _in_utc(value: datetime, path: str) -> str:
    try:
        return value.astimezone(UTC).isoformat()
    except OverflowError:
        raise InvalidPayload(path, "is a datetime that has no year in UTC", "pass a later or earlier one") from None
