"""The one meaning of `*`: any text, in patterns of event types and of names.

Patterns of event types are `order.paid`, `order.*`, `*.paid` and `*`. Names of handlers and functions are chosen by
shell patterns, which have `?` and `[…]` as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

_WORDS = r"[a-z0-9_]+(\.[a-z0-9_]+)*"
_TYPES = re.compile(rf"\*|\*\.{_WORDS}|{_WORDS}\.\*|{_WORDS}")


def is_pattern_of_types(text: str) -> bool:
    """Whether it looks like 'a.b', 'a.*', '*.b' or '*'."""
    return _TYPES.fullmatch(text) is not None


def fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern)


def fits_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
