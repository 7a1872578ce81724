"""Streams with a crowd behind their head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from duebox.store.statements import run

Stream = tuple[str, str]
"""A subscriber, and what it keeps in order."""


class Aside(NamedTuple):
    many: int
    last: int
    """The id of the last delivery that was parked."""


def set_aside(using: str, crowds: Mapping[Stream, int], limit: int) -> dict[Stream, Aside]:
    """Park up to `limit` deliveries of each stream, after the id given for it. Promote the streams after the commit."""
    params = {
        "subscriber": [subscriber for subscriber, _ in crowds],
        "stream": [stream for _, stream in crowds],
        "after": list(crowds.values()),
        "limit": limit,
        "now": None,
    }
    return {(row[0], row[1]): Aside(row[2], row[3]) for row in run("set_aside", using, params)}
