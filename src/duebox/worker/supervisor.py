"""Workers as processes: signals, several processes under a supervisor, and runs that end before a deadline."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

from duebox.conf import conf
from duebox.destinations.registry import close_all
from duebox.worker.connections import close_connections
from duebox.worker.tunables import TUNABLES
from duebox.worker.worker import Worker


def deliver_in_time(seconds: float, *, using: str | None = None, grace: float | None = None) -> dict[str, int]:
    """Deliver for this long; returns the counts by outcome. Handlers that run at the end get `grace`, or as much of
    `seconds` as SHUTDOWN_SECONDS says.

    Atomic ones that take longer are rolled back and released, for the next run; no attempt is used up. The others end
    in their own time."""
    worker = _InTime(seconds, using, grace)
    timer = threading.Timer(worker.working_seconds, worker.stop)
    timer.daemon = True
    timer.start()
    try:
        worker.run()
    finally:
        timer.cancel()
        close_connections()  # a Lambda function that is frozen must not hold one
    return worker.outcome_counts.as_dict()


class _InTime(Worker):
    """A worker that waits for running handlers no longer than there is time."""

    def __init__(self, seconds: float, using: str | None, grace: float | None) -> None:
        super().__init__(using=using, until_idle=True, lives_on=True)
        if grace is not None:
            self._shutdown_seconds, self.working_seconds = grace, seconds
            return
        self._shutdown_seconds = min(self._shutdown_seconds, seconds * TUNABLES.deadline_grace_share)
        spare = min(TUNABLES.deadline_spare_seconds, seconds * TUNABLES.deadline_spare_share)
        self.working_seconds = max(0.0, seconds - self._shutdown_seconds - spare)


logger = logging.getLogger("duebox.worker")

STDERR = 2


def run_worker(worker: Worker) -> None:
    """Run until SIGTERM or SIGINT; a second signal ends it at once. The process does not outlive the first one by more
    than SHUTDOWN_SECONDS and a few seconds."""
    asked_at = float("inf")

    def stop(signum: int, frame: FrameType | None) -> None:
        nonlocal asked_at
        if time.monotonic() > asked_at + TUNABLES.same_signal_seconds:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        if asked_at == float("inf"):
            asked_at = time.monotonic()
            # If something hangs then, also at the end of the interpreter: print where each thread is, and exit.
            faulthandler.dump_traceback_later(
                conf().SHUTDOWN_SECONDS + TUNABLES.exit_spare_seconds, exit=True, file=STDERR
            )
            worker.stop()
            name = signal.Signals(signum).name
            logger.info("stopping: signal=%s", name, extra={"signal": name})

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    try:
        worker.run()
    finally:
        close_all()


class Supervisor:
    """Keeps N copies of this very command running, without its --processes option. With a health port, the first has
    this port and the others have those that follow it."""

    def __init__(self, processes: int, health_port: int = 0) -> None:
        self._command = _without("--health-port", _without("--processes", sys.orig_argv))
        self._health_port = health_port
        self._children: list[subprocess.Popen[bytes]] = []
        self._processes = processes
        self._stopping = False
        self._signalled: set[subprocess.Popen[bytes]] = set()
        """Children that were told to stop. A second signal would end them at once."""

    def run(self) -> int:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._stop)
        while len(self._children) < self._processes and not self._stopping:
            self._children.append(self._start(len(self._children)))
        while not self._stopping:
            time.sleep(TUNABLES.restart_seconds)
            self._restart_ended()
        self._signal_children()  # those that were being started when the signal came
        return self._wait()

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        port = ["--health-port", str(self._health_port + index)] if self._health_port else []
        return subprocess.Popen([*self._command, *port])  # noqa: S603 - our own command line

    def _restart_ended(self) -> None:
        for index, child in enumerate(self._children):
            if child.poll() is not None and not self._stopping:
                logger.error("worker process ended: pid=%s code=%s; starting another", child.pid, child.returncode)
                self._children[index] = self._start(index)

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        self._stopping = True
        self._signal_children()

    def _signal_children(self) -> None:
        for child in self._children:
            if child not in self._signalled and child.poll() is None:
                self._signalled.add(child)
                child.send_signal(signal.SIGTERM)

    def _wait(self) -> int:
        deadline = time.monotonic() + conf().SHUTDOWN_SECONDS + TUNABLES.kill_child_seconds
        for child in self._children:
            try:
                child.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
        return max((abs(child.wait()) for child in self._children), default=0)


def _without(option: str, command: list[str]) -> list[str]:
    others: list[str] = []
    skip = False
    for word in command:
        if not skip and word != option and not word.startswith(f"{option}="):
            others.append(word)
        skip = word == option
    return others
