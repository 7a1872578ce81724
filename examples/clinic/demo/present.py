"""The present: visitors come, the worker works, the terminal tells, and in the end everything is counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Event

from examples.clinic.demo.audit import audit
from examples.clinic.demo.client import Client
from examples.clinic.demo.curtain import Curtain
from examples.clinic.demo.oncall import OnCall
from examples.clinic.demo.practice import Practice
from examples.clinic.demo.screen import Screen
from examples.clinic.demo.stage import Stage
from examples.clinic.demo.summary import show_summary
from examples.clinic.demo.visitors import Visitors
from examples.clinic.demo.watch import Watch, due_within, still_open

TICK_SECONDS = 0.05
SETTLE_LIMIT = timedelta(seconds=20)
# Nothing may fire while everything is being counted.
QUIET_SECONDS = 1.5


class Present:
    def __init__(self, stage: Stage, screen: Screen, curtain: Curtain) -> None:
        self._stage = stage
        self._screen = screen
        self._curtain = curtain
        self._remarks: SimpleQueue[str] = SimpleQueue()
        self._watch = Watch()
        self._late_ms: list[float] = []
        self._client = Client(stage.port)
        self._oncall = OnCall(self._client, self._remarks.put)

    def run(self, seconds: float) -> bool:
        """True when everything committed was delivered and nothing else was."""
        self._curtain.rise()
        self._screen.header()
        gone, began = Event(), time.monotonic()
        with ThreadPoolExecutor(3) as people:
            oncall = people.submit(self._oncall.watch)
            visitors = [
                people.submit(Visitors(self._client, self._remarks.put).come, gone),
                people.submit(Practice(self._client, self._remarks.put).live, gone),
            ]
            try:
                self._look_until(lambda: self._is_over(began, seconds), *visitors, oncall)
                gone.set()
                lasted = time.monotonic() - began
                self._settle(visitors, oncall)
            finally:
                gone.set()
                self._oncall.go_home()
        found = audit(self._client)
        found.demand(still_open(), "deliveries are still open")
        found.demand(due_within(0), "schedules are due and did not fire")
        show_summary(self._screen, found, self._client, self._late_ms, lasted)
        return not found.problems

    def _is_over(self, began: float, seconds: float) -> bool:
        return self._curtain.fallen.is_set() or (seconds > 0 and time.monotonic() - began >= seconds)

    def _settle(self, visitors: list[Future[None]], oncall: Future[None]) -> None:
        """Let the visitors finish their request, then wait for every reminder, retry, snooze and redrive."""
        self._screen.remark("no more visitors; letting the rest settle")
        deadline = time.monotonic() + SETTLE_LIMIT.total_seconds()

        def settled() -> bool:
            is_quiet = not still_open() and not due_within(QUIET_SECONDS)
            gone = all(each.done() for each in visitors)
            return gone and (is_quiet or time.monotonic() > deadline)

        self._look_until(settled, *visitors, oncall)

    def _look_until(self, over: Callable[[], bool], *people: Future[None]) -> None:
        while not over():
            self._look()
            self._stage.must_be_alive()
            for each in people:
                if each.done():
                    each.result()
            time.sleep(TICK_SECONDS)
        self._look()

    def _look(self) -> None:
        for sight in self._watch.new():
            self._screen.sight(sight)
            if sight.late_ms is not None:
                self._late_ms.append(sight.late_ms)
            if sight.row.outcome == "dead":
                self._oncall.call()
        try:
            while True:
                self._screen.remark(self._remarks.get_nowait())
        except Empty:
            pass
