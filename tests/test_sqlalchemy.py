"""`duebox.sqlalchemy`: events in a transaction of SQLAlchemy, from a process that knows no Django."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from django.db import connection
from psycopg import sql
from sqlalchemy import URL, create_engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from duebox.context import bound
from duebox.exceptions import InvalidEvent, InvalidPayload, UndeclaredEvent
from duebox.models import Attempt, Delivery, Event
from duebox.sqlalchemy import aemit, emission, emit
from duebox.testing import drain
from tests.docs.pages import ROOT, blocks
from tests.support import connection_params, eventually

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = ROOT / "docs" / "howto" / "emit-from-sql.md"


def url():
    given = connection_params()
    query = {"host": given["host"], "port": str(given.get("port", ""))} if given.get("host", "").startswith("/") else {}
    there = {} if query else {"host": given.get("host"), "port": given.get("port")}
    return URL.create(
        "postgresql+psycopg", given.get("user"), given.get("password"), database=given["dbname"], query=query, **there
    )


@pytest.fixture
def engine():
    made = create_engine(url())
    yield made
    made.dispose()


# The statement


def test_an_event_is_committed_with_the_session_or_not_at_all(engine):
    with Session(engine) as session:
        emit(session, "order.paid", {"total": 30})
        session.rollback()
        assert not Event.objects.exists()
        id = emit(session, "order.paid", {"total": 30})
        assert not Event.objects.exists()
        session.commit()
    assert isinstance(id, UUID)
    assert Event.objects.get().pk == id
    assert Delivery.objects.get().subscriber == "duebox.route"


@pytest.mark.parametrize("expires", [timedelta(hours=1), datetime(2100, 1, 1, tzinfo=UTC)])
def test_an_event_may_expire(engine, on, expires):
    heard = []
    on("order.paid", name="it")(lambda event: heard.append(event.expires_at))
    with Session(engine) as session:
        emit(session, "order.paid", {"number": 1}, expires=expires)
        emit(session, "order.paid", {"number": 2}, expires=datetime.now(UTC) - timedelta(seconds=1))
        session.commit()
    drain()
    until = expires if isinstance(expires, datetime) else datetime.now(UTC) + expires
    assert [abs(until - each) < timedelta(minutes=1) for each in heard] == [True]
    assert Attempt.objects.get(outcome="expired").subscriber == "duebox.route"


def test_an_expiry_without_a_zone_is_refused():
    with pytest.raises(InvalidEvent, match="expires=2100-01-01 00:00:00 is naive"):
        emission("order.paid", expires=datetime(2100, 1, 1))


def test_connections_and_scoped_sessions_do_as_well(engine):
    with engine.begin() as connection:
        emit(connection, "order.paid")
    registry = scoped_session(sessionmaker(engine))
    emit(registry, "order.paid")
    registry.commit()
    registry.remove()
    assert Event.objects.count() == 2


def test_an_async_session_or_connection_is_awaited():
    async def work():
        engine = create_async_engine(url())
        async with AsyncSession(engine) as session:
            await aemit(session, "order.paid", {"number": 0})
            await session.rollback()
            await aemit(session, "order.paid", {"number": 1})
            await session.commit()
            with pytest.raises(TypeError, match=r"emit\(\) got an AsyncSession; write: await duebox.sqlalchemy.aemit"):
                emit(session, "order.paid")
        async with engine.begin() as connection:
            await aemit(connection, "order.paid", {"number": 2})
        await engine.dispose()

    asyncio.run(work())
    assert [event.data["number"] for event in Event.objects.order_by("id")] == [1, 2]


def test_everything_that_is_given_is_stored(engine):
    cause, moment = uuid4(), datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    given = {
        "organization": 12, "correlation_id": "req-1", "idempotency_key": "order-7", "version": 3,
        "occurred_at": moment, "causation_id": cause, "producer": "billing", "metadata": {"job": "nightly"},
    }  # fmt: skip
    data = {"id": cause, "price": Decimal("9.90"), "day": date(2026, 3, 1), "at": moment}
    with engine.begin() as connection:
        id = emit(connection, "order.paid", data, about=("order", 7), **given)
    event = Event.objects.get(pk=id)
    assert (event.aggregate_type, event.aggregate_id) == ("order", "7")
    stored = {name: getattr(event, name) for name in given}
    assert stored == {**given, "organization": "12"}
    assert event.data == {"id": str(cause), "price": "9.90", "day": "2026-03-01", "at": "2026-03-01T09:30:00+00:00"}


def test_there_are_as_many_arguments_as_the_function_has():
    """Their order is what the test above shows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT proargnames FROM pg_proc WHERE proname = 'duebox_emit'")
        [names] = cursor.fetchone()
    [call] = emission("order.paid").selected_columns
    assert len(call.clauses) == len(names)


def test_an_instance_of_an_event_class_carries_its_type_version_and_data(engine, declare):
    @declare("order.paid", version=2)
    class OrderPaid:
        total: int

    with engine.begin() as connection:
        id = emit(connection, OrderPaid(total=30))
        with pytest.raises(InvalidPayload, match=r"data.total"):
            emit(connection, OrderPaid(total="thirty"))
        with pytest.raises(InvalidEvent, match="A OrderPaid carries its own data and version; leave both out"):
            emit(connection, OrderPaid(total=30), {"total": 31})
    event = Event.objects.get(pk=id)
    assert (event.type, event.version, event.data) == ("order.paid", 2, {"total": 30})


def test_a_name_that_is_declared_here_is_held_to_its_newest_version(engine, declare):
    @declare("order.paid", version=2)
    class OrderPaid:
        total: int

    with engine.begin() as connection:
        id = emit(connection, "order.paid", {"total": 30})
        with pytest.raises(InvalidPayload, match="lacks 'total'"):
            emit(connection, "order.paid")
    assert Event.objects.get(pk=id).version == 2


def test_the_correlation_id_of_the_story_is_taken(engine):
    with engine.begin() as connection, bound(correlation_id="req-9"):
        id = emit(connection, "order.paid")
    assert Event.objects.get(pk=id).correlation_id == "req-9"


def test_the_same_key_gives_the_first_event(engine):
    with engine.begin() as connection:
        first = emit(connection, "order.paid", {"total": 30}, idempotency_key="once")
        assert emit(connection, "order.paid", {"total": 30}, idempotency_key="once") == first
        with pytest.raises(IntegrityError, match="with a different data"), connection.begin_nested():
            emit(connection, "order.paid", {"total": 31}, idempotency_key="once")
        assert emit(connection, "order.paid", {}, idempotency_key="once", on_conflict="first") == first
    assert Event.objects.count() == 1


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"about": object()},
            InvalidEvent,
            r"about is a object; pass a saved model instance, or a pair like \('shop.order', 42\)",
        ),
        ({"about": ("order", 1.5)}, InvalidEvent, "about is a float; pass a text, a whole number, a UUID"),
        ({"organization": object()}, InvalidEvent, "organization is a object; pass a text"),
        ({"actor": object()}, InvalidEvent, "actor is a object; pass a saved user"),
        ({"actor": {"id": "7"}}, InvalidEvent, "actor is a dict with id; it must have 'type' and 'id'"),
        ({"occurred_at": datetime(2026, 3, 1)}, InvalidEvent, "is naive; give it a time zone"),
        ({"data": {"x": object()}}, InvalidPayload, "data.x: is a builtins.object, which JSON cannot represent"),
        (
            {"type": 7},
            UndeclaredEvent,
            "The event is a int; emit a name, or an instance of a class under @duebox.event",
        ),
        ({"abut": ("order", 1)}, TypeError, "unexpected keyword argument 'abut'"),
    ],
)
def test_a_mistake_is_refused_with_the_repair(engine, given, error, message):
    with engine.begin() as connection, pytest.raises(error, match=message), connection.begin_nested():
        emit(connection, **{"type": "order.paid", **given})


# The page, to the letter


@pytest.fixture
def invoices(elsewhere):
    """The table of the page, and the role that it gives the right to emit."""
    role = f"billing_{uuid4().hex[:8]}"
    elsewhere.execute("CREATE TABLE invoice (id bigint PRIMARY KEY, amount int NOT NULL)")
    elsewhere.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
    elsewhere.execute(sql.SQL("GRANT ALL ON invoice TO {}").format(sql.Identifier(role)))
    elsewhere.commit()
    yield role
    elsewhere.rollback()
    elsewhere.execute("DROP TABLE invoice; DROP FUNCTION IF EXISTS tell_of_invoice")
    elsewhere.execute(sql.SQL("DROP OWNED BY {role}; DROP ROLE {role}").format(role=sql.Identifier(role)))
    elsewhere.commit()


@pytest.fixture
def issued(declare, on):
    """What the Django side of the page remembers."""
    namespace = {"__name__": "billing.handlers"}
    for block in blocks(PAGE):
        if block.language == "python" and not block.mark:
            exec(compile(block.text, str(PAGE), "exec", dont_inherit=True), namespace)
    return namespace["issued"]


def test_the_sql_of_the_page_runs_as_printed(invoices, issued, settings):
    settings.DUEBOX = {}
    with psycopg.connect(**connection_params(), autocommit=True) as session:
        for block in blocks(PAGE):
            if block.language in ("sql", "postgresql"):
                session.execute(block.text.replace("TO billing;", f"TO {invoices};"))
        session.execute("INSERT INTO invoice (id, amount) VALUES (70, 100)")  # the trigger tells of it
    drain()
    assert issued == ["7", "70"]


@pytest.fixture
def service(tmp_path, invoices, elsewhere):
    """The FastAPI service of the page, in a process that knows no Django."""
    [block] = [block for block in blocks(PAGE) if block.mark == "file"]
    [command] = [block.text for block in blocks(PAGE) if "uvicorn" in block.text and block.language == "console"]
    elsewhere.execute(sql.SQL("GRANT EXECUTE ON FUNCTION duebox_emit TO {}").format(sql.Identifier(invoices)))
    elsewhere.commit()
    (tmp_path / block.rest).write_text(block.text)
    port = free_port()
    words = shlex.split(command.removeprefix("$ "))
    assert words[0].startswith("DATABASE_URL=postgresql+psycopg://billing@")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "DUEBOX"))}
    environment |= {"DATABASE_URL": url().set(username=invoices).render_as_string(hide_password=False)}
    environment |= {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        [sys.executable, "-m", *words[1:], "--port", str(port)], cwd=tmp_path, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        try:
            eventually(lambda: answers(client, process), 60)
            yield client
        finally:
            process.terminate()
            process.communicate(timeout=120)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def answers(client, process):
    assert process.poll() is None, process.stderr.read()
    try:
        return client.get("/openapi.json").is_success
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("path", ["/invoices", "/async-invoices"])
def test_a_fastapi_service_emits_in_its_transaction_and_a_worker_delivers(service, issued, hire, settings, path):
    settings.DUEBOX = {}
    hire()
    accepted = service.post(path, params={"id": 1, "amount": 3000})
    assert accepted.status_code == 201
    refused = service.post(path, params={"id": 2, "amount": 20_000})
    assert refused.status_code == 422
    assert service.post(path, params={"id": 3, "amount": 5}).status_code == 201
    eventually(lambda: sorted(issued) == ["1", "3"])  # two threads may deliver them in any order
    assert Event.objects.filter(pk=accepted.json()["event"]).exists()
    assert Event.objects.count() == 2
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM invoice ORDER BY id")
        assert cursor.fetchall() == [(1,), (3,)]
    eventually(lambda: not Delivery.objects.exists())
    assert Attempt.objects.filter(subscriber="duebox.route", outcome="delivered").count() == 2


def test_the_module_needs_neither_settings_nor_greenlet(tmp_path):
    program = (
        "import sys; sys.modules['greenlet'] = None\n"
        "import duebox.sqlalchemy\n"
        "from django.conf import settings\n"
        "print(duebox.sqlalchemy.emission('order.paid', {'total': 30}), settings.configured)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("SELECT duebox_emit(")
    assert done.stdout.endswith(" False\n")
