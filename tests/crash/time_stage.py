"""Processes that the tests of time start and talk to, and what they ask the database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.db import connections

from duebox.models import Event
from tests.app.models import Effect
from tests.crash.stage import ROOT, SETTINGS, Processes

Order = dict[str, Any]


class Talker:
    """A process that answers on its standard output, line by line, what it is told on its standard input."""

    def __init__(self, process: subprocess.Popen[str], stage: Processes) -> None:
        self.process = process
        self._stage = stage

    def tell(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            said = self._stage.logs()[-6000:]
            raise AssertionError(f"process {self.process.pid} ended with {code} instead of answering:\n{said}")
        return line.strip()


class TimeProcesses(Processes):
    """Those of the other crash tests, and some that know the guests or live in another time."""

    def runners(self, count: int) -> list[Talker]:
        """Workers in lock-step, see `time_runner`."""
        return self._talkers("tests.crash.time_runner", count)

    def clocked_worker(self, *options: str, start: str = "now", **settings: Any) -> subprocess.Popen[str]:
        """A worker with the plans and handlers of these tests, see `time_worker`."""
        return self._start(["-m", "tests.crash.time_worker", start, *options], self._logs, {**SETTINGS, **settings})

    def movers(self, count: int) -> list[Talker]:
        """Processes that change their minds, see `time_mover`."""
        return self._talkers("tests.crash.time_mover", count)

    def _talkers(self, module: str, count: int) -> list[Talker]:
        found = [Talker(self._start(["-m", module], subprocess.PIPE, {}), self) for _ in range(count)]
        assert all(talker.answer() == "ready" for talker in found)
        return found

    def _start(self, command: list[str], stdout: Any, settings: Mapping[str, Any]) -> subprocess.Popen[str]:
        default = connections["default"].settings_dict
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DUEBOX_TEST_NAME": default["NAME"],
            "DUEBOX_TEST_HOST": default["HOST"],
            "DUEBOX_TEST_SETTINGS": json.dumps(settings),
        }
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=stdout, stderr=self._logs,
        )  # fmt: skip
        self._running.append(process)
        return process


def carried_out(movers: list[Talker], orders: list[Order]) -> list[Order]:
    """The orders, dealt out to the movers in the order of their moments, each with what its transaction saw."""
    orders = sorted(orders, key=lambda order: order["at"])
    for number, mover in enumerate(movers):
        mover.tell(json.dumps(orders[number :: len(movers)]))
    return [order for mover in movers for order in json.loads(mover.answer())]


def assert_handled_once(atomic: str, outside: str, *, type: str) -> None:
    """Effects in the database exactly once, those outside of it at least once, for every event of a type."""
    events = set(Event.objects.filter(type=type).values_list("id", flat=True))
    once = Counter(Effect.objects.filter(subscriber=atomic).values_list("event_id", flat=True))
    assert once == dict.fromkeys(events, 1)
    assert set(Effect.objects.filter(subscriber=outside).values_list("event_id", flat=True)) == events
