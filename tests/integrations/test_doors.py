"""Every door of `docs/howto/doors.md`, started as it is printed there, and told to stop while a handler is running.

What counts is asked of the database: what ran is settled or given back, nothing is lost, and nothing ran twice.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from django.db import connections, transaction

import duebox
from duebox.integrations.apscheduler import Rounds
from duebox.models import Attempt, Delivery, Worker
from duebox.store.leases import rescue
from duebox.testing import drain
from tests.app.models import Effect
from tests.docs.pages import ROOT, blocks
from tests.support import eventually, nap_is_going_on

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = ROOT / "docs" / "howto" / "doors.md"
MANAGE = ROOT / "tests" / "manage.py"
LEDGER = 3
LONG = 60.0
SETTINGS = {"LEASE_SECONDS": 30, "SHUTDOWN_SECONDS": 10, "POLL_SECONDS": 0.2}


class Door(NamedTuple):
    command: str
    """As the page prints it."""
    code: int = 0
    """uvicorn raises the signal again when all is done, so that its parent sees what ended it."""


DOORS = {
    "worker": Door("python manage.py duebox worker --threads 1"),
    "once": Door("python manage.py duebox once --threads 1"),
    "apscheduler": Door("python clock.py"),
    "fastapi": Door("uvicorn api:app --host 127.0.0.1 --port 8000", -signal.SIGTERM),
}
FUNCTION = "python invoke.py 10"


class Street:
    """A folder with the files of the page. Opens doors on the test's database, and closes what is still open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: list[subprocess.Popen[str]] = []
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by close()
        self.port = _free_port()
        for block in blocks(PAGE):
            if block.mark == "file":
                (folder / block.rest).write_text(block.text)

    def open(self, command: str, **settings: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self._words(command),
            cwd=self._folder,
            env=_environment({**SETTINGS, **settings}),
            stdout=self._log,
            stderr=self._log,
            text=True,
        )
        self._open.append(process)
        return process

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def close(self) -> None:
        for process in self._open:
            if process.poll() is None:
                process.kill()
            process.wait()
        self._log.close()

    def _words(self, command: str) -> list[str]:
        meant = {
            "python": [sys.executable],
            "uvicorn": [sys.executable, "-m", "uvicorn"],
            "manage.py": [str(MANAGE)],
            "8000": [str(self.port)],
        }
        return [word for printed in shlex.split(command) for word in meant.get(printed, [printed])]


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    made = Street(tmp_path)
    yield made
    made.close()


def test_every_door_is_printed_on_the_page():
    printed = [block.text for block in blocks(PAGE) if block.language == "console"]
    assert printed == [f"$ {command}\n" for command in [*(door.command for door in DOORS.values()), FUNCTION]]


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_told_to_stop_it_lets_a_handler_end_and_begins_nothing_more(street, door):
    told = tell(nap_seconds=2.5)
    process = street.open(door.command)
    eventually(nap_is_going_on, LONG)
    process.terminate()
    assert process.wait(LONG) == door.code, street.log()
    assert not Worker.objects.exists()
    assert list(Attempt.objects.values_list("subscriber", "outcome")) == [("nap.sleeps", "delivered")]
    assert left() == told - 1
    drain()
    assert_all_ran_once(told)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_what_does_not_end_in_time_is_given_back_and_runs_once_elsewhere(street, door):
    told = tell(nap_seconds=2.5)
    process = street.open(door.command, SHUTDOWN_SECONDS=0.1)
    eventually(nap_is_going_on, LONG)
    process.terminate()
    assert process.wait(LONG) == door.code, street.log()
    assert not Worker.objects.exists()
    assert not Effect.objects.exists()
    assert not Attempt.objects.exists()
    assert left() == told
    drain()
    assert_all_ran_once(told)


def test_several_processes_under_one_parent_stop_together(street):
    parent = street.open("python manage.py duebox worker --processes 2 --threads 1")
    eventually(lambda: Worker.objects.count() == 2, LONG)
    told = tell(nap_seconds=2.5)
    eventually(nap_is_going_on, LONG)
    parent.terminate()
    assert parent.wait(LONG) == 0, street.log()
    assert not Worker.objects.exists()
    assert Effect.objects.filter(subscriber="nap.sleeps").count() == 1
    left()
    drain()
    assert_all_ran_once(told)


def test_a_request_is_answered_at_once_and_its_event_outlives_the_server(street):
    server = street.open(DOORS["fastapi"].command)
    eventually(Worker.objects.exists, LONG)
    answer = eventually(lambda: _post(street.port, seconds=2.5))
    eventually(nap_is_going_on, LONG)
    server.terminate()
    server.wait(LONG)
    assert answer.status_code == 202
    [delivered] = Attempt.objects.all()
    assert (str(delivered.event_id), delivered.outcome) == (answer.json()["id"], "delivered")


def test_a_function_gives_back_in_time_what_does_not_end(street):
    told = tell(nap_seconds=2.5)
    process = street.open(FUNCTION.replace("10", "2"), THREADS=1)
    assert process.wait(LONG) == 0, street.log()
    assert '"delivered": 0' in street.log()
    assert not Worker.objects.exists()
    assert not Effect.objects.exists()
    assert left() == told
    drain()
    assert_all_ran_once(told)


def test_a_function_that_is_ended_loses_nothing_once_its_lease_has_run_out(street):
    tell(nap_seconds=2.5)
    process = street.open(FUNCTION, THREADS=1, LEASE_SECONDS=3)
    eventually(nap_is_going_on, LONG)
    process.terminate()
    assert process.wait(LONG) == -signal.SIGTERM
    assert eventually(lambda: rescue("default", 5)) == 1
    assert not Effect.objects.exists()
    left_behind = Delivery.objects.count()
    drain()
    assert_each_wrote_once(left_behind)


def test_a_worker_on_a_copy_that_refuses_writes_delivers_nothing(street, monkeypatch):
    told = tell(nap_seconds=0)
    with monkeypatch.context() as environment:
        environment.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
        process = street.open(DOORS["worker"].command)
    assert process.wait(LONG) == 1
    assert "read-only transaction" in street.log()
    assert left() == told


def test_a_round_of_a_scheduler_that_was_stopped_does_not_begin():
    told = tell(nap_seconds=0)
    deliver = Rounds(threads=1)
    deliver.stop()
    assert str(deliver()) == "nothing to do"
    assert left() == told


def tell(nap_seconds: float) -> int:
    """An event whose handler takes a while, and others behind it; says how many deliveries that makes."""
    with transaction.atomic():  # counted before anybody can have taken one away
        duebox.emit("nap.asked", {"seconds": nap_seconds})
        for number in range(LEDGER):
            duebox.emit("ledger.posted", {"account": 1, "sequence": number}, about=("account", 1))
        return Delivery.objects.count()


def left() -> int:
    """How many deliveries wait, all of them free and with all their attempts."""
    waiting = list(Delivery.objects.values_list("lease", "attempt", "status"))
    assert {(lease, attempt) for lease, attempt, _ in waiting} <= {(None, 0)}
    assert {status for _, _, status in waiting} <= {"pending", "waiting"}
    return len(waiting)


def assert_all_ran_once(told: int) -> None:
    assert not Delivery.objects.exists()
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {"delivered"}
    assert Attempt.objects.count() == told
    assert_each_wrote_once(told)


def assert_each_wrote_once(told: int) -> None:
    effects = Counter(Effect.objects.values_list("event_id", "subscriber"))
    assert (len(effects), set(effects.values())) == (told, {1})
    assert "nap.sleeps" in {subscriber for _, subscriber in effects}


def _post(port: int, seconds: float) -> httpx.Response | None:
    try:
        return httpx.post(f"http://127.0.0.1:{port}/naps", params={"seconds": seconds}, timeout=10)
    except httpx.ConnectError:
        return None


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _environment(settings: dict[str, Any]) -> dict[str, str]:
    entry = connections["default"].settings_dict
    return {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DUEBOX_TEST_NAME": entry["NAME"],
        "DUEBOX_TEST_HOST": entry["HOST"],
        "DUEBOX_TEST_SETTINGS": json.dumps({"UNDECLARED": "allow", **settings}),
    }
