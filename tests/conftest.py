from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from django.test import TransactionTestCase

import duebox
from duebox.audit_log import policy, triggers
from duebox.contracts import event_types
from duebox.events import subscribers
from duebox.store import audit_triggers, database_state
from duebox.testing import travel
from duebox.worker.connections import close_connections
from duebox.worker.tunables import TUNABLES
from duebox.worker.worker import Worker
from tests.app import planned
from tests.app.people import Appointment, Person
from tests.database import clone, delete_rows, drop, template
from tests.support import connection_params, eventually

# Found by its entry point where Duebox was installed since; named here for those who run the tests from a checkout.
pytest_plugins = ["pytest_duebox"]


def pytest_configure() -> None:
    """A shell starts what runs in the background with SIGINT ignored, and so would every process of a test be."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
        with pytest.MonkeyPatch.context() as patch:
            if _is_superuser():
                patch.setattr(TransactionTestCase, "_fixture_teardown", _flush)
            yield
        for alias, database in mine.items():
            connections[alias].close()
            drop(entry, database)


def _is_superuser() -> bool:
    """Only a superuser may switch triggers off; without one, tables are emptied by Django's `flush`."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        return bool(cursor.fetchone()[0])


def _flush(case: Any) -> None:
    """In the place of Django's `flush`, after a test that has committed."""
    for alias in case._databases_names(include_mirrors=False):
        delete_rows(connections[alias])
        audit_triggers.write_key(alias, "value", *triggers._pads())  # Django's flush does it by `post_migrate`


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
    before = {each.name for each in (*event_types.declared(), *event_types.misspelt())}
    yield duebox.event
    for name in {each.name for each in (*event_types.declared(), *event_types.misspelt())} - before:
        event_types.forget(name)


@pytest.fixture
def tune() -> Iterator[Callable[..., None]]:
    """Changes tunables of the worker for one test."""
    before = asdict(TUNABLES)

    def change(**values: Any) -> None:
        assert values.keys() <= before.keys(), f"no such tunable: {values}"
        for name, value in values.items():
            object.__setattr__(TUNABLES, name, value)

    yield change
    change(**before)


@pytest.fixture
def forget_plans() -> Iterator[None]:
    """Plans that a test declares are forgotten after it."""
    with planned.forgetting():
        yield


@pytest.fixture
def quiet_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the tests has rows that earlier tests deleted, and sessions of tests that run beside this one."""
    facts = database_state.ServerFacts([], 0, None, None, None, 0.0)
    monkeypatch.setattr(database_state, "server_facts", lambda using: facts)


@pytest.fixture
def capturing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit log follows nothing, so that all triggers are those of plans."""
    monkeypatch.setattr(policy, "_policies", {})


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
