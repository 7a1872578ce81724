from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

from examples.clinic.timelapse import TimeLapse

# The Saturday before clocks change in Europe; eight days later they change in Sydney, the other way.
START = datetime(2026, 3, 28, tzinfo=UTC)
LENGTH = timedelta(days=8)


class Conductor:
    """Holds the clock that the web server, the worker and the visitors share: it waits, runs, and stands still."""

    def __init__(self, path: Path, *, speed: float, seconds: float) -> None:
        """Seconds are how long it may take in real time; 0: as long as it takes."""
        self.path = path
        length = min(LENGTH, timedelta(seconds=speed * seconds)) if seconds else LENGTH
        self.lapse = TimeLapse(start=START, end=START + length, speed=speed)
        self.lapse.write(path)

    def now(self) -> datetime:
        return self.lapse.now()

    def go(self) -> None:
        self._change(since=time.time())

    def halt(self) -> None:
        """The end is now."""
        self._change(end=self.now())

    @property
    def is_over(self) -> bool:
        return self.now() >= self.lapse.end

    def wait_until(self, moment: datetime, gone: Event) -> bool:
        """False if the lapse ends before that, or everybody was told to go."""
        if moment > self.lapse.end:
            return False
        ahead = self.lapse.real_ms(moment - self.now()) / 1000
        return not gone.wait(max(0.0, ahead))

    def _change(self, **parts: object) -> None:
        self.lapse = replace(self.lapse, **parts)  # type: ignore[arg-type]
        self.lapse.write(self.path)
