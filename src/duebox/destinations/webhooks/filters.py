"""The options of an endpoint: event types such as `order.paid`, `order.*`, `*.paid` or `*`, and its own headers.

Organizations see event types without the prefix `public.`, so it is left out here; it may be written, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from duebox.conf import conf
from duebox.contracts import event_types
from duebox.events.wildcards import fits, is_pattern_of_types
from duebox.exceptions import InvalidEndpoint, did_you_mean

PUBLIC = "public."
MOST_TYPES = 100
SHOWN = 10


def checked_types(patterns: Iterable[str]) -> list[str]:
    """The patterns, each once, as they are stored."""
    if isinstance(patterns, str):
        raise InvalidEndpoint(f"types={patterns!r} is a text; pass a list, as in types=[{patterns!r}].")
    found = list(dict.fromkeys(_checked(each) for each in patterns))
    if not 1 <= len(found) <= MOST_TYPES:
        raise InvalidEndpoint(
            f"types has {len(found)} patterns; pass 1 to {MOST_TYPES}, or ['*'] for all public events."
        )
    if conf().UNDECLARED != "allow" and (said := unmet(found)):
        raise InvalidEndpoint(said[0])
    return found


def unmet(patterns: Iterable[str]) -> list[str]:
    """A sentence for each pattern that matches no declared public event: nothing would ever be sent for it."""
    names = _public()
    return [
        f"No public event matches {each!r}; {_near(each, names)}"
        for each in map(seen, patterns)
        if each != "*" and not any(fits(name, each) for name in names)
    ]


def _public() -> list[str]:
    """The public event types, without their prefix."""
    return sorted({seen(each.name) for each in event_types.declared() if each.twin_of})


def _near(pattern: str, names: list[str]) -> str:
    """A suggestion from the public names only: the user may belong to another organization."""
    if not names:
        return "there are none yet: declare one with public={...}."
    likely = names
    if pattern.endswith(".*"):
        likely = [f"{name.rpartition('.')[0]}.*" for name in names]
    elif pattern.startswith("*."):
        likely = [f"*.{name.rpartition('.')[2]}" for name in names]
    if near := did_you_mean(pattern, likely):
        return near
    rest = f", … ({len(names)} in all)" if len(names) > SHOWN else ""
    return f"there are: {', '.join(names[:SHOWN])}{rest}."


def _checked(pattern: str) -> str:
    name = pattern.removeprefix(PUBLIC) if isinstance(pattern, str) else ""
    if not is_pattern_of_types(name) or len(name) > 200:
        raise InvalidEndpoint(f"The event type {pattern!r} must look like 'order.paid', 'order.*', '*.paid' or '*'.")
    return name


def seen(event_type: str) -> str:
    """The event type without the prefix `public.`."""
    return event_type.removeprefix(PUBLIC)


MOST_HEADERS = 20
LONGEST = 4096
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
# Visible ASCII with spaces in between; a line break would start another header.
_VALUE = re.compile(r"[!-~]([ \t!-~]*[!-~])?")
OURS = frozenset({
    "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
    "http2-settings", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
    "x-correlation-id",
})  # fmt: skip
OURS_BY_PREFIX = ("webhook-", "proxy-", "x-forwarded-", "sec-")


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers, validated. Messages never contain a value, which may be a credential."""
    if not isinstance(headers, Mapping) or len(headers) > MOST_HEADERS:
        raise InvalidEndpoint(f"Headers are a dict of at most {MOST_HEADERS}, such as {{'X-Token': '...'}}.")
    known: set[str] = set()
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidEndpoint("The name of a header is invalid; use letters, digits and hyphens.")
        if name.lower() in OURS or name.lower().startswith(OURS_BY_PREFIX):
            raise InvalidEndpoint(f"The header {name!r} is set by Duebox, or by HTTP; leave it out.")
        if name.lower() in known:
            raise InvalidEndpoint(f"The header {name!r} is repeated; leave one out.")
        if not isinstance(value, str) or len(value) > LONGEST or not _VALUE.fullmatch(value):
            raise InvalidEndpoint(
                f"The value of the header {name!r} is not 1 to {LONGEST} characters of visible ASCII on one line; "
                "encode it, for example as base64."
            )
        known.add(name.lower())
    return dict(headers)
