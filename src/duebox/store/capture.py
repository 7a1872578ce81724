"""Change-data-capture, as far as the database has a part in it."""

from __future__ import annotations

from typing import NamedTuple

from duebox.store.statements import run


class CaptureState(NamedTuple):
    wal_level: str
    schema: str
    """In which the table of events is."""
    published: bool
    """Whether the publication exists, and holds that table."""


def capture_state(using: str, publication: str) -> CaptureState:
    [row] = run("capture_state", using, {"publication": publication})
    return CaptureState(*row)
