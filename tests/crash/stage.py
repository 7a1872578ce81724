"""Processes for the crash tests: workers to kill, emitters to read from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from django.db import connections

ROOT = Path(__file__).parent.parent.parent
SETTINGS = {"LEASE_SECONDS": 3, "THREADS": 2, "SHUTDOWN_SECONDS": 5}


class Emitter(NamedTuple):
    process: subprocess.Popen[str]
    told: IO[str]

    def fates(self) -> list[tuple[str, str]]:
        """What became of each event: (committed or rolled_back, id)."""
        self.process.wait()
        with self.told:
            self.told.seek(0)
            return [(fate, id) for fate, id in map(str.split, self.told)]


class Processes:
    """Starts processes on the test's database and ends whatever is still running."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[str]] = []
        self._logs = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by end()
        self._way: dict[str, str] = {}

    def worker(self, *options: str, **settings: Any) -> subprocess.Popen[str]:
        return self._start(["tests/manage.py", "duebox", "worker", *options], self._logs, {**SETTINGS, **settings})

    def freezing_worker(self, idle_seconds: float, **settings: Any) -> subprocess.Popen[str]:
        command = ["-m", "tests.crash.frozen_worker", str(idle_seconds)]
        return self._start(command, self._logs, {**SETTINGS, **settings})

    def connect_by(self, host: str, port: int | str, **options: Any) -> None:
        """Processes that start from now on reach the database this way, with these OPTIONS."""
        self._way = {
            "DUEBOX_TEST_HOST": host,
            "DUEBOX_TEST_PORT": str(port),
            "DUEBOX_TEST_OPTIONS": json.dumps(options),
        }

    def manage(self, *words: str, **settings: Any) -> subprocess.Popen[str]:
        return self._start(["tests/manage.py", "duebox", *words], subprocess.PIPE, {**SETTINGS, **settings})

    def emitter(self, count: int, seed: int) -> Emitter:
        # A file, not a pipe: nobody reads while it runs, and a full pipe would stop it.
        told = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by fates()
        return Emitter(self._start(["-m", "tests.crash.emitter", str(count), str(seed)], told, {}), told)

    def chaos_emitter(self, seed: int) -> Emitter:
        """Emits until it is killed."""
        told = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by fates()
        return Emitter(self._start(["-m", "tests.crash.chaos_emitter", str(seed)], told, {}), told)

    def logs(self) -> str:
        self._logs.seek(0)
        return self._logs.read()

    def end(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self._logs.close()

    def _start(self, command: list[str], stdout: Any, settings: Mapping[str, Any]) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DUEBOX_TEST_NAME": connections["default"].settings_dict["NAME"],
            "DUEBOX_TEST_HOST": connections["default"].settings_dict["HOST"],
            "DUEBOX_TEST_SETTINGS": json.dumps(settings),
            **self._way,
        }
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=environment, stdout=stdout, stderr=self._logs, text=True
        )
        self._running.append(process)
        return process


def wait_until(true: Callable[[], bool], seconds: float, what: str, told: Callable[[], str] = str) -> float:
    """How long it took."""
    started = time.monotonic()
    while not true():
        assert time.monotonic() - started < seconds, f"{what} did not happen within {seconds} s\n{told()}"
        time.sleep(0.05)
    return time.monotonic() - started
