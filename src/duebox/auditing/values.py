"""What a value of a column looks like in an entry: plain JSON, not too long, and masked where the policy says so."""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

from django.utils.duration import duration_iso_string

from duebox.auditing import keys

LONGEST = 10_000
"""Characters. What is longer is cut, and says so: a record of a change is no backup."""
MASK = "****"
SHOWN = 4
LONG_ENOUGH = 12
"""A value shorter than this shows nothing: four of six characters would be most of it."""


def plain(value: Any) -> Any:
    match value:
        case None | bool() | int():
            return value
        case str():
            return _cut(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return duration_iso_string(value)
        case bytes() | bytearray() | memoryview():
            return f"{len(value):,} bytes, {keyed('bytes', value)}"
        case Mapping():
            return _whole({str(name): plain(item) for name, item in value.items()})
        case list() | tuple():
            return _whole([plain(item) for item in value])
    return _cut(str(value))  # Decimal, UUID, addresses, ranges


def masked(value: Any) -> str | None:
    """The last four characters, if the value is long enough to keep the rest to itself."""
    if value is None:
        return None
    text = str(value) if isinstance(value, str | int) else ""
    return MASK + (text[-SHOWN:] if len(text) >= LONG_ENOUGH else "")


def keyed(name: str, value: Any) -> str | None:
    """A hash by the key of the log: equal values of one column are seen to be equal, and nothing else is seen."""
    if value is None:
        return None
    text = bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)
    return f"hmac:{hmac.digest(keys.current('value'), f'{name}:{text}'.encode(), 'sha256')[:16].hex()}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def _whole(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= LONGEST else _cut(text)
