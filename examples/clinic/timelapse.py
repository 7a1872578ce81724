"""A clock that runs fast, the same in every process: a day in a second, for those who cannot wait for a reminder.

CLINIC_TIME_LAPSE names a file that says where the lapse starts, how fast it runs, and where it stands still again.
Whoever writes the file conducts: all processes that follow it look whether it changed each time they read the clock.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.utils import timezone

from duebox import clock
from duebox.when import CatchUp

VARIABLE = "CLINIC_TIME_LAPSE"
PATIENCE_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLapse:
    """From `start` to `end`, `speed` times as fast as real time, from the real moment `since`; until then it waits."""

    start: datetime
    end: datetime
    speed: float
    since: float | None = None

    def now(self) -> datetime:
        if self.since is None:
            return self.start
        passed = timedelta(seconds=(time.time() - self.since) * self.speed)
        return min(self.end, self.start + passed)

    def real_ms(self, distance: timedelta) -> float:
        """How long a distance on this clock takes."""
        return distance.total_seconds() / self.speed * 1000

    def write(self, path: Path) -> None:
        text = {**asdict(self), "start": self.start.isoformat(), "end": self.end.isoformat()}
        # Readers see the old file or the new one, never half of it.
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(text))
        draft.replace(path)


def set_clock(path: Path, moment: datetime) -> None:
    """From now on it is that moment, and time passes at its usual pace."""
    TimeLapse(start=moment, end=datetime.max.replace(tzinfo=UTC), speed=1.0, since=time.time()).write(path)


def read(path: Path) -> TimeLapse:
    given = json.loads(path.read_text())
    start, end = (datetime.fromisoformat(given[name]) for name in ("start", "end"))
    return TimeLapse(start=start, end=end, speed=given["speed"], since=given["since"])


class SharedClock:
    """The time by the file, read anew when it was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self.lapse = self._look()

    def now(self) -> datetime:
        return self._look().now()

    def _look(self) -> TimeLapse:
        state = self._path.stat()
        seen = (state.st_ino, state.st_mtime_ns)
        if seen != self._seen:
            self.lapse = read(self._path)
            self._seen = seen
        return self.lapse


def follow() -> None:
    """Put the shared clock in the place of Duebox's and of Django's, if there is one."""
    path = os.environ.get(VARIABLE)
    if path:
        shared = SharedClock(Path(path))
        clock.replace(shared.now, speed=shared.lapse.speed)
        timezone.now = shared.now


def patience() -> CatchUp | None:
    """A reminder that is later than its own lead is not sent. In a time lapse a quarter of an hour is over in ten
    milliseconds, which no machine is punctual enough for; there it may come some real seconds late."""
    path = os.environ.get(VARIABLE)
    speed = read(Path(path)).speed if path else 1.0
    return CatchUp(window=timedelta(seconds=PATIENCE_SECONDS * speed)) if speed > 1.0 else None
