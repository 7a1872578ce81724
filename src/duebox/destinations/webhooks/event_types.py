"""Which public events an endpoint wants: `order.paid`, `order.*`, `*.paid` or `*`.

Organizations know events by the name that is in their body, so `public.` is left out; it may be written, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from duebox.exceptions import InvalidEndpoint

PUBLIC = "public."
MOST = 100
_WORDS = r"[a-z0-9_]+(\.[a-z0-9_]+)*"
_PATTERN = re.compile(rf"\*|\*\.{_WORDS}|{_WORDS}\.\*|{_WORDS}")


def checked(patterns: Iterable[str]) -> list[str]:
    """The patterns, each once, as they are stored."""
    if isinstance(patterns, str):
        raise InvalidEndpoint(f"types={patterns!r} is a text; pass a list, as in types=[{patterns!r}].")
    found = list(dict.fromkeys(_checked(each) for each in patterns))
    if not 1 <= len(found) <= MOST:
        raise InvalidEndpoint(f"types holds {len(found)} patterns; give 1 to {MOST}, or ['*'] for all public events.")
    return found


def _checked(pattern: str) -> str:
    name = pattern.removeprefix(PUBLIC) if isinstance(pattern, str) else ""
    if not _PATTERN.fullmatch(name) or len(name) > 200:
        raise InvalidEndpoint(f"The event type {pattern!r} must look like 'order.paid', 'order.*', '*.paid' or '*'.")
    return name


def seen(event_type: str) -> str:
    """The name by which others know an event."""
    return event_type.removeprefix(PUBLIC)
