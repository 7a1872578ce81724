from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections

import duebox
from duebox import subscribers
from duebox.contracts import types
from duebox.testing import travel
from duebox.worker.loop import Worker
from duebox.worker.tidy import close_connections
from tests.app import planned
from tests.app.people import Appointment, Person
from tests.database import clone, drop, template
from tests.support import connection_params, eventually

# Found by its entry point where Duebox was installed since; named here for those who run the tests from a checkout.
pytest_plugins = ["pytest_duebox"]


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: Any) -> Iterator[None]:
    """One migrated template per run, cloned for this process: a clone takes a tenth of a second."""
    entry = connections["default"].settings_dict
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)[:8]
    name = f"duebox_{run}"
    with django_db_blocker.unblock():
        with template(entry, name) as missing:
            if missing:
                _connect("default", name)
                call_command("migrate", verbosity=0, run_syncdb=True)
                connections["default"].close()
        mine = {alias: f"{name}_{os.getpid()}_{alias}" for alias in ("default", "other")}
        for alias, database in mine.items():
            clone(entry, name, database)
            _connect(alias, database)
        yield
        for alias, database in mine.items():
            connections[alias].close()
            drop(entry, database)


@pytest.fixture(scope="session", autouse=True)
def _drop_template(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None or os.environ.get("PYTEST_XDIST_WORKER") != "gw0":
        return
    # The clones do not need it any more, and a late process would make it anew.
    drop(connections["default"].settings_dict, f"duebox_{run[:8]}")


def _connect(alias: str, database: str) -> None:
    connections[alias].close()
    connections[alias].settings_dict["NAME"] = database


@pytest.fixture
def on() -> Iterator[Callable[..., Any]]:
    """`duebox.on`, whose subscribers are forgotten after the test."""
    before = dict(subscribers.by_name())
    yield duebox.on
    for name in [name for name in subscribers.by_name() if name not in before]:
        if name in subscribers.by_name():
            subscribers.remove(subscribers.by_name()[name].name)


@pytest.fixture
def declare() -> Iterator[Callable[..., Any]]:
    """`duebox.event`, whose types are forgotten after the test."""
    before = {each.name for each in types.declared()}
    yield duebox.event
    for name in {each.name for each in types.declared()} - before:
        types.forget(name)


@pytest.fixture
def forget_plans() -> Iterator[None]:
    """Plans that a test declares are forgotten after it."""
    with planned.forgetting():
        yield


@pytest.fixture
def capturing(settings: Any) -> None:
    """Plans follow their rows by triggers as well, as far as a test installs them."""
    settings.DUEBOX = {**settings.DUEBOX, "CAPTURE": True}


@pytest.fixture
def trip() -> Iterator[Any]:
    """A journey that begins in March, four weeks before summer time does in London."""
    with travel(planned.utc("2026-03-01 00:00")) as traveller:
        yield traveller


@pytest.fixture
def ann(trip: Any) -> Person:
    return Person.objects.create()


@pytest.fixture
def reminders(trip: Any) -> Any:
    return planned.declare(planned.Reminders)


@pytest.fixture
def birthdays(trip: Any) -> Any:
    return planned.declare(planned.Birthdays)


@pytest.fixture
def booked(reminders: Any, ann: Person) -> Appointment:
    """At ten in the morning of Ann's London, on the day on which summer time begins."""
    return Appointment.objects.create(person=ann, starts_at=planned.SUNDAY)


@pytest.fixture
def elsewhere(transactional_db: None) -> Iterator[psycopg.Connection]:
    """Another session on the same database."""
    with psycopg.connect(**connection_params()) as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def hire(transactional_db: None) -> Iterator[Callable[..., Worker]]:
    """Starts workers, each in a thread; they are stopped after the test."""
    staff: list[tuple[Worker, threading.Thread]] = []

    def start(**options: Any) -> Worker:
        worker = Worker(**options)
        thread = threading.Thread(target=_run, args=[worker], name="worker-of-test")
        staff.append((worker, thread))
        thread.start()
        eventually(lambda: worker.lease.id)
        return worker

    yield start
    for worker, _ in staff:
        worker.stop()
    for _, thread in staff:
        thread.join(15)
        assert not thread.is_alive(), "the worker did not stop"


def _run(worker: Worker) -> None:
    try:
        worker.run()
    finally:
        close_connections()


@pytest.fixture
def emit() -> Callable[..., duebox.Fact]:
    return duebox.emit
