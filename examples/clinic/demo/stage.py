"""PostgreSQL, the web server and the worker: real processes, started here and always stopped here."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO

import django
import psycopg
from django.apps import apps
from django.core.management import call_command
from django.db import connection

from duebox import embedded
from duebox.exceptions import DueboxError
from examples.clinic import database
from examples.clinic.demo.curtain import Curtain
from examples.clinic.demo.process import MANAGE, Process, Trouble
from examples.clinic.demo.screen import Screen

FOLDER = Path(__file__).resolve().parents[3] / ".duebox" / "demo"
READY_SECONDS = 30.0


class Stage:
    """PostgreSQL as long as the block lasts; the web server and the worker for each act, from `open` to `close`."""

    def __init__(self, folder: Path, screen: Screen, curtain: Curtain, *, port: int = 0) -> None:
        """On this port of 127.0.0.1 if it is free, else on another one."""
        self.folder = folder.resolve()
        self.port = free_port(port)
        self._screen = screen
        self._curtain = curtain
        self._lock: IO[str] | None = None
        self._postgres: embedded.Embedded | None = None
        self._processes: list[Process] = []

    def __enter__(self) -> Stage:
        try:
            self._claim_folder()
            with self._screen.step("starting PostgreSQL"):
                self._start_postgres()
        except BaseException:
            self._tear_down()
            raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        troubles = self._tear_down()
        if troubles and error is None:
            raise Trouble("\n".join(troubles))

    def must_be_alive(self) -> None:
        for process in self._processes:
            process.must_be_alive()

    def open(self, **environment: str) -> None:
        """An empty house, whatever the last act left, and the processes that serve it, with this environment."""
        shutil.rmtree(self.folder / "outbox", ignore_errors=True)
        self._empty_house()
        web = self._start("web", "runserver", "--noreload", f"127.0.0.1:{self.port}", **environment)
        with self._screen.step("creating the tables"):
            django.setup()
            call_command("migrate", verbosity=0)
        worker = self._start("worker", "duebox", "worker", **environment)
        with self._screen.step(f"starting the web server on http://127.0.0.1:{self.port}"):
            _wait_until(self._web_answers, web)
        with self._screen.step("starting the worker"):
            _wait_until(_worker_listens, worker)

    def start_receiver(self, port: int, folder: Path) -> None:
        """The program that webhooks go to; it is there a second later."""
        folder.mkdir(parents=True)
        self._run("receiver", "-m", "examples.clinic.receiver", "--port", str(port), str(folder))

    def start_billing(self, port: int) -> None:
        """The second service; it is there some seconds later."""
        command = ("-m", "uvicorn", "--port", str(port), "--log-level", "warning", "examples.clinic.billing:app")
        self._run("billing", *command, CLINIC_ADDRESS=f"http://127.0.0.1:{self.port}")

    def start_aws(self, port: int) -> None:
        """The local AWS server; it is there some seconds later."""
        self._run("aws", "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port))

    def close(self) -> None:
        """Stop what `open` started."""
        while self._processes:
            trouble = self._processes[-1].stop()
            self._processes.pop()
            if trouble:
                raise Trouble(trouble)

    def _claim_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "demo.lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for log in self.folder.glob("*.log"):
                log.unlink()
        except BlockingIOError:
            raise Trouble(f"Another demo runs in {self.folder}; give this one its own with --folder.") from None
        except PermissionError as error:
            raise Trouble(f"{error}; remove the folder, or give the demo another one with --folder.") from None

    def _start_postgres(self) -> None:
        try:
            self._postgres = database.start(self.folder / "postgres")
        except (DueboxError, OSError, subprocess.SubprocessError, psycopg.Error) as error:
            raise Trouble(f"PostgreSQL did not start in {self.folder}: {error}") from error

    def _empty_house(self) -> None:
        assert self._postgres is not None
        if apps.ready:
            connection.close()
        with psycopg.connect(self._postgres.url, autocommit=True) as server:
            server.execute("DROP DATABASE IF EXISTS demo WITH (FORCE)")
        url = database.to_url(self._postgres.database("demo"))
        settings = {"DJANGO_SETTINGS_MODULE": "examples.clinic.settings", "PYTHONUNBUFFERED": "1"}
        os.environ.update(settings, DATABASE_URL=url, CLINIC_FOLDER=str(self.folder))

    def _start(self, name: str, *command: str, **environment: str) -> Process:
        return self._run(name, str(MANAGE), *command, **environment)

    def _run(self, name: str, *command: str, **environment: str) -> Process:
        process = Process(name, command, log=self.folder / f"{name}.log", environment=environment)
        self._processes.append(process)
        return process

    def _web_answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _tear_down(self) -> list[str]:
        self._curtain.lock()
        troubles = [trouble for process in self._processes if (trouble := process.stop())]
        if apps.ready:
            connection.close()
        if self._postgres:
            self._postgres.stop()
        if self._lock:
            self._lock.close()
        return troubles


def free_port(wanted: int = 0) -> int:
    with socket.socket() as probe:
        # As Django's server does; otherwise the port of a demo that has just ended would not count as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return free_port()
        return int(probe.getsockname()[1])


def _worker_listens() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM duebox_worker WHERE listening)")
        return bool(cursor.fetchone()[0])


def _wait_until(ready: Callable[[], bool], process: Process) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not ready():
        process.must_be_alive()
        if time.monotonic() > deadline:
            raise Trouble(f"The {process.name} was not ready after {READY_SECONDS:.0f} s:\n{process.last_words()}")
        time.sleep(0.02)
