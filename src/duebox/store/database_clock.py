"""The time for decisions about schedules: the database's, asked again when the last answer is old."""

from __future__ import annotations

import time
from datetime import datetime

from duebox import clock
from duebox.store.statements import run


def database_time(using: str) -> float:
    """Seconds since 1970."""
    now: float = run("database_time", using, {})[0][0]
    return now


def now(using: str) -> datetime:
    """One round trip a minute; in between the clock of this process is used with the known difference."""
    if clock.override() is None and clock.database.is_stale():
        asked_at = time.perf_counter()
        clock.database.set(database_time(using), asked_at)
    return clock.now()
