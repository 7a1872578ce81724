"""The act: the house opens while the clock waits, then it runs, and where it stands still everything is counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import partial
from queue import SimpleQueue
from threading import Event

import duebox
from duebox.when import ClockChange, clock_changes
from examples.clinic.demo.client import Client
from examples.clinic.demo.curtain import Curtain
from examples.clinic.demo.lapse.book import Book
from examples.clinic.demo.lapse.conductor import Conductor
from examples.clinic.demo.lapse.desk import Desk, Visitor
from examples.clinic.demo.lapse.lines import Lines
from examples.clinic.demo.lapse.script import Script
from examples.clinic.demo.lapse.sights import Sights, still_due
from examples.clinic.demo.lapse.verdict import Verdict, judge, show_verdict
from examples.clinic.demo.screen import Screen
from examples.clinic.demo.stage import Stage

TICK_SECONDS = 0.03
SETTLE_SECONDS = 20.0
DAYS_AHEAD = 365


class Lapse:
    def __init__(self, stage: Stage, screen: Screen, curtain: Curtain, conductor: Conductor) -> None:
        self._stage = stage
        self._screen = screen
        self._curtain = curtain
        self._conductor = conductor
        self._lines = Lines(screen, conductor.lapse)
        self._remarks: SimpleQueue[tuple[datetime, str]] = SimpleQueue()
        self._sights = Sights()
        self._book = Book()
        self._desk = Desk(Client(stage.port), conductor, self._book, lambda *remark: self._remarks.put(remark))
        self._changes: list[tuple[str, ClockChange]] = []

    def run(self) -> Verdict:
        """Without problems when every moment that was agreed came once, at its time, and no other did."""
        self._curtain.rise()
        self._lines.header()
        script = Script(self._desk)
        leapling = script.opening()
        self._changes = self._clock_changes()
        changes = len(self._changes)
        gone = Event()
        with ThreadPoolExecutor(1) as people:
            self._conductor.go()
            visitors = people.submit(self._play, script, gone)
            try:
                self._look_until_the_end(visitors)
            finally:
                gone.set()
        visitors.result()
        self._settle()
        self._show_what_comes(leapling)
        # Read once more from the beginning: what was seen before must still be there.
        found = judge(self._book, Sights().new(), self._conductor.lapse)
        found.still_due = still_due(self._conductor.lapse.end)
        found.demand(found.still_due, "are due and did not happen")
        show_verdict(self._screen, found, self._desk, self._conductor.lapse, changes - len(self._changes))
        return found

    def _play(self, script: Script, gone: Event) -> None:
        for moment, do in script.steps():
            if not self._conductor.wait_until(moment, gone):
                return
            do()

    def _clock_changes(self) -> list[tuple[str, ClockChange]]:
        lapse = self._conductor.lapse
        found = [(zone, change) for zone in self._desk.zones for change in clock_changes(zone, lapse.start, lapse.end)]
        return sorted(found, key=lambda each: (each[1].instant, each[0]))

    def _look_until_the_end(self, visitors: Future[None]) -> None:
        while not self._conductor.is_over:
            if self._curtain.fallen.is_set():
                self._conductor.halt()
            self._look()
            self._stage.must_be_alive()
            if visitors.done():
                visitors.result()
            time.sleep(TICK_SECONDS)

    def _settle(self) -> None:
        """The clock stands still; what was due is allowed its time."""
        end, deadline = self._conductor.lapse.end, time.monotonic() + SETTLE_SECONDS
        while still_due(end) and time.monotonic() < deadline:
            self._stage.must_be_alive()
            time.sleep(TICK_SECONDS)
        self._look()

    def _look(self) -> None:
        """What came since the last look, in the order of the fast clock."""
        now, show = self._conductor.now(), self._lines
        news: list[tuple[datetime, Callable[[], None]]] = []
        news += [(sight.due, partial(show.sight, sight)) for sight in self._sights.new()]
        while self._changes and self._changes[0][1].instant <= now:
            zone, change = self._changes.pop(0)
            news.append((change.instant, partial(show.clock_change, zone, change)))
        while not self._remarks.empty():
            moment, text = self._remarks.get()
            news.append((moment, partial(show.remark, moment, text)))
        for _, tell in sorted(news, key=lambda each: each[0]):
            tell()

    def _show_what_comes(self, leapling: Visitor) -> None:
        self._screen.say(f"\nto come for {leapling.name}, as duebox.upcoming(about=...) tells", "dim")
        end = self._conductor.lapse.end
        for about in [*self._desk.appointments_of(leapling), ("patient", leapling.pk)]:
            for one in duebox.upcoming(about, start=end, days=DAYS_AHEAD, limit=3):
                self._lines.upcoming(one, leapling.name)
