"""A worker as an operating-system process: signals, and several of them under a supervisor."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import subprocess
import sys
import time
from types import FrameType

from duebox.conf import conf
from duebox.destinations.configured import close_all
from duebox.worker.loop import Worker

logger = logging.getLogger("duebox.worker")

RESTART_SECONDS = 1.0
# Where a service manager signals the whole group, a child hears it from him and from its supervisor.
SAME_SIGNAL_SECONDS = 1.0
# For what is done after SHUTDOWN_SECONDS: giving back what still runs, and closing destinations.
SPARE_SECONDS = 4.0
STDERR = 2


def run_worker(worker: Worker) -> None:
    """Run until SIGTERM or SIGINT; a second signal ends it at once. The process does not outlive the first one by more
    than SHUTDOWN_SECONDS and a few seconds."""
    asked_at = float("inf")

    def stop(signum: int, frame: FrameType | None) -> None:
        nonlocal asked_at
        if time.monotonic() > asked_at + SAME_SIGNAL_SECONDS:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        if asked_at == float("inf"):
            asked_at = time.monotonic()
            # Whatever hangs then, also at the end of the interpreter: shows where each thread is, and exits.
            faulthandler.dump_traceback_later(conf().SHUTDOWN_SECONDS + SPARE_SECONDS, exit=True, file=STDERR)
            worker.stop()
            logger.info("stopping: signal=%s", signal.Signals(signum).name)

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    try:
        worker.run()
    finally:
        close_all()


class Supervisor:
    """Keeps N copies of this very command running, without its --processes option."""

    def __init__(self, processes: int) -> None:
        self._command = _without_processes(sys.orig_argv)
        self._children: list[subprocess.Popen[bytes]] = []
        self._processes = processes
        self._stopping = False
        self._told: set[subprocess.Popen[bytes]] = set()
        """Who was asked to stop. A second time would mean: at once."""

    def run(self) -> int:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._stop)
        while len(self._children) < self._processes and not self._stopping:
            self._children.append(self._start())
        while not self._stopping:
            time.sleep(RESTART_SECONDS)
            self._replace_the_dead()
        self._tell_children()  # those who were on their way when the signal came
        return self._wait()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command)  # noqa: S603 - our own command line

    def _replace_the_dead(self) -> None:
        for index, child in enumerate(self._children):
            if child.poll() is not None and not self._stopping:
                logger.error("worker process ended: pid=%s code=%s; starting another", child.pid, child.returncode)
                self._children[index] = self._start()

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        self._stopping = True
        self._tell_children()

    def _tell_children(self) -> None:
        for child in self._children:
            if child not in self._told and child.poll() is None:
                self._told.add(child)
                child.send_signal(signal.SIGTERM)

    def _wait(self) -> int:
        deadline = time.monotonic() + conf().SHUTDOWN_SECONDS + 5
        for child in self._children:
            try:
                child.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
        return max((abs(child.wait()) for child in self._children), default=0)


def _without_processes(command: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in command:
        if not skip and word != "--processes" and not word.startswith("--processes="):
            kept.append(word)
        skip = word == "--processes"
    return kept
