"""Time travel for tests: a year of schedules, with both clock changes, runs in seconds.

It moves the clock of Duebox, in Python and in its SQL statements, and `django.utils.timezone.now` with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import connections
from django.utils import timezone

from duebox import clock
from duebox.conf import conf
from duebox.schedules.periodic import by_name, live_keys, matching, start, stop
from duebox.when.times import instant
from duebox.worker.drain import Drained, Draining, patterns


class Traveller:
    """The clock inside a `travel` block: frozen until you move it."""

    def __init__(self, start: datetime) -> None:
        self._now = instant(start, "The start of a travel")

    @property
    def now(self) -> datetime:
        return self._now

    def to(self, moment: datetime) -> None:
        """Set the clock to a moment. Nothing that is due in between runs until something processes it."""
        self._now = instant(moment, "The moment to travel to")

    def by(self, distance: timedelta) -> None:
        """Move the clock by a timedelta, back if it is negative."""
        self._now += distance

    def run(
        self,
        until: datetime | timedelta,
        *,
        only: str | Sequence[str] = (),
        periodic: bool | str | Sequence[str] = False,
        using: str | None = None,
        raises: bool = True,
    ) -> Drained:
        """Run until a moment, inclusive: everything that becomes due meanwhile fires at its instant and is delivered,
        with `only` just to handlers whose names match. Periodic functions run if requested, all of them or by name. The
        first error of a handler is raised, unless `raises` is False."""
        end = self._now + until if isinstance(until, timedelta) else instant(until, "The moment to run until")
        alias, total = using or conf().DATABASE, Drained()
        with _running(periodic, alias), Draining(alias, patterns(only)) as draining:
            while True:
                drained = draining.until_idle(1_000_000)
                total += drained
                if raises and drained.errors:
                    raise drained.errors[0]
                following = draining.next_moment()
                if following is None or following > end:
                    self._now = max(self._now, end)
                    return total
                self._now = following


@contextmanager
def _running(periodic: bool | str | Sequence[str], using: str) -> Iterator[None]:
    """Schedule periodic functions for the duration of a run, unless a worker has scheduled them already."""
    if not periodic:
        yield
        return
    wanted = ("*",) if periodic is True else (periodic,) if isinstance(periodic, str) else tuple(periodic)
    functions = matching(wanted) if periodic is not True or by_name() else []
    before = live_keys(using)
    for each in functions:
        start(each, using)
    try:
        yield
    finally:
        if not connections[using].needs_rollback:
            stop([each.key for each in functions if each.key not in before], using)


_under_way: list[Traveller] = []


@contextmanager
def travel(to: datetime) -> Iterator[Traveller]:
    """Freeze the clock at a moment. The block receives a clock with `to`, `by` and `run`, which move it."""
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
