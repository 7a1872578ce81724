"""Cases inside of a project: how they are declared and run, and what several of them need. Copied into each project."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import django
from django.db import connection, transaction

FOLDER = Path(os.environ["SOURCE_FOLDER"])


class Case(NamedTuple):
    row: str
    text: str
    function: Callable[[], None]
    rolled_back: bool


CASES: list[Case] = []


def case(row: str, text: str, *, rolled_back: bool = False) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """A use case. Those that travel in time run in a transaction that is rolled back."""

    def register(function: Callable[[], None]) -> Callable[[], None]:
        CASES.append(Case(row, text, function, rolled_back))
        return function

    return register


class RolledBack(Exception):
    pass


@contextlib.contextmanager
def rolled_back() -> Iterator[None]:
    try:
        with transaction.atomic():
            yield
            raise RolledBack
    except RolledBack:
        pass


def main(module: str, only: str) -> None:
    """Print a line of JSON for each case, in the order in which they are declared."""
    django.setup()
    importlib.import_module(module)
    for each in CASES:
        if not re.search(only, f"{each.row} {each.text}"):
            continue
        started = time.monotonic()
        why = ""
        try:
            with rolled_back() if each.rolled_back else contextlib.nullcontext():
                each.function()
        except BaseException:
            why = traceback.format_exc()
        finally:
            connection.close()
        seconds = time.monotonic() - started
        result = {"row": each.row, "text": each.text, "ok": not why, "seconds": seconds, "why": why}
        print(json.dumps(result), flush=True)


def eventually(check: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What `check` returns once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {found!r} after {seconds:g} s")
        time.sleep(0.02)
    return found


def raised(error: type[BaseException], function: Callable[[], Any]) -> str:
    """The message of the error that the function raises."""
    try:
        function()
    except error as caught:
        return str(caught)
    raise AssertionError(f"{error.__name__} was not raised")


def manage(*words: str, code: int = 0, seconds: float = 60, **variables: str) -> str:
    """A command of manage.py; what it printed."""
    return command("python", "manage.py", *words, code=code, seconds=seconds, **variables)


def command(*words: str, code: int = 0, seconds: float = 60, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(words, cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == code, f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


class Process:
    def __init__(self, *words: str, **variables: str) -> None:
        self.log = FOLDER / f"{time.monotonic_ns()}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                words, cwd=FOLDER, env={**os.environ, **variables}, stdout=log, stderr=subprocess.STDOUT
            )

    def said(self) -> str:
        return self.log.read_text()

    def stop(self, number: int = signal.SIGTERM, seconds: float = 30) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(seconds)


@contextlib.contextmanager
def process(*words: str, ready: str = "", **variables: str) -> Iterator[Process]:
    """A process that is stopped at the end of the block; ready when it has printed a text."""
    one = Process(*words, **variables)
    try:
        if ready:
            eventually(lambda: ready in one.said() or one.process.poll() is not None, 40)
            assert one.process.poll() is None, one.said()
        yield one
    except AssertionError as error:
        raise AssertionError(f"{error}\n{' '.join(words)}:\n{one.said()[-3000:]}") from error
    finally:
        if one.process.poll() is None:
            one.process.terminate()
            try:
                one.process.wait(30)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()


def worker(*options: str, **variables: str) -> contextlib.AbstractContextManager[Process]:
    return process("python", "manage.py", "duebox", "worker", *options, ready="Duebox worker", **variables)


def python() -> str:
    return sys.executable
