"""Which public events an endpoint wants: `order.paid`, `order.*`, `*.paid` or `*`.

Organizations know events by the name that is in their body, so `public.` is left out; it may be written, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

from duebox.conf import conf
from duebox.contracts import types
from duebox.exceptions import InvalidEndpoint

PUBLIC = "public."
MOST = 100
SHOWN = 10
_WORDS = r"[a-z0-9_]+(\.[a-z0-9_]+)*"
_PATTERN = re.compile(rf"\*|\*\.{_WORDS}|{_WORDS}\.\*|{_WORDS}")


def checked(patterns: Iterable[str]) -> list[str]:
    """The patterns, each once, as they are stored."""
    if isinstance(patterns, str):
        raise InvalidEndpoint(f"types={patterns!r} is a text; pass a list, as in types=[{patterns!r}].")
    found = list(dict.fromkeys(_checked(each) for each in patterns))
    if not 1 <= len(found) <= MOST:
        raise InvalidEndpoint(f"types holds {len(found)} patterns; give 1 to {MOST}, or ['*'] for all public events.")
    if conf().UNDECLARED != "allow" and (said := unmet(found)):
        raise InvalidEndpoint(said[0])
    return found


def unmet(patterns: Iterable[str]) -> list[str]:
    """A sentence about each that no declared public event fits: nothing of it would ever come."""
    names = _public()
    return [
        f"No public event is like {each!r}; {_near(each, names)}"
        for each in map(seen, patterns)
        if each != "*" and not any(fnmatchcase(name, each) for name in names)
    ]


def _public() -> list[str]:
    """As others see them."""
    return sorted({seen(each.name) for each in types.declared() if each.twin_of})


def _near(pattern: str, names: list[str]) -> str:
    """Of the names that are public already, and of no others: who types this may be a stranger."""
    if not names:
        return "there are none yet: declare one with public={...}."
    likely = names
    if pattern.endswith(".*"):
        likely = [f"{name.rpartition('.')[0]}.*" for name in names]
    elif pattern.startswith("*."):
        likely = [f"*.{name.rpartition('.')[2]}" for name in names]
    if near := get_close_matches(pattern, likely, n=1):
        return f"did you mean {near[0]!r}?"
    rest = f", … ({len(names)} in all)" if len(names) > SHOWN else ""
    return f"there are: {', '.join(names[:SHOWN])}{rest}."


def _checked(pattern: str) -> str:
    name = pattern.removeprefix(PUBLIC) if isinstance(pattern, str) else ""
    if not _PATTERN.fullmatch(name) or len(name) > 200:
        raise InvalidEndpoint(f"The event type {pattern!r} must look like 'order.paid', 'order.*', '*.paid' or '*'.")
    return name


def seen(event_type: str) -> str:
    """The name by which others know an event."""
    return event_type.removeprefix(PUBLIC)
