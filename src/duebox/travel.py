"""Travel in time, for tests: a year of birthdays, both clock changes included, in seconds.

Moves the clock that Duebox decides by, in Python and in its statements alike, and `django.utils.timezone.now` with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.utils import timezone

from duebox import clock
from duebox.conf import conf
from duebox.store.deliveries import seconds_to_next
from duebox.subscribers import by_name
from duebox.when.times import instant
from duebox.worker.drain import Drained, drain


class Traveller:
    """The clock inside a `travel` block: frozen until you move it."""

    def __init__(self, start: datetime) -> None:
        self._now = instant(start, "The start of a travel")

    @property
    def now(self) -> datetime:
        return self._now

    def to(self, moment: datetime) -> None:
        """Jump; nothing that lies in between happens, until somebody looks."""
        self._now = instant(moment, "The moment to travel to")

    def by(self, distance: timedelta) -> None:
        """Jump by a distance, back if it is negative."""
        self._now += distance

    def run(self, until: datetime | timedelta, *, using: str | None = None, raises: bool = True) -> Drained:
        """Live through the time up to and including a moment: everything that comes due on the way fires at its
        instant and is delivered. The first error of a handler is raised, unless `raises` is False."""
        end = self._now + until if isinstance(until, timedelta) else instant(until, "The moment to run until")
        alias, total = using or conf().DATABASE, Drained()
        while True:
            drained = drain(using=alias, limit=1_000_000)
            total += drained
            if raises and drained.errors:
                raise drained.errors[0]
            following = self._next(alias)
            if following is None or following > end:
                self._now = max(self._now, end)
                return total
            self._now = following

    def _next(self, alias: str) -> datetime | None:
        """The next instant at which anything is due; to the microsecond, as it is stored."""
        waits = [each for each in seconds_to_next(alias, list(by_name())) if each is not None]
        return self._now + timedelta(microseconds=max(1, round(min(waits) * 1e6))) if waits else None


_under_way: list[Traveller] = []


@contextmanager
def travel(to: datetime) -> Iterator[Traveller]:
    """Stand still at a moment, and move from there by `to`, `by` and `run` of what the block gets."""
    traveller = Traveller(to)
    now_before = timezone.now
    _under_way.append(traveller)
    clock.replace(lambda: _under_way[-1].now, speed=0.0)
    timezone.now = clock.now
    try:
        yield traveller
    finally:
        timezone.now = now_before
        if len(_under_way) == 1:
            clock.replace(None)
        _under_way.remove(traveller)
