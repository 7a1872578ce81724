from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import uuid4

import psycopg
from django.db import IntegrityError, connection, transaction
from play import case, eventually, manage, process, raised, rolled_back, worker
from uploads.events import FileDeleted, FileMeasured, FileStored
from uploads.models import Result, Upload
from uploads.settings import BROKERS

import duebox
from duebox.context import bound
from duebox.exceptions import IdempotencyConflict, InvalidPayload
from duebox.models import Delivery, Event
from duebox.testing import drain


def stored(name: str) -> bool:
    return Event.objects.filter(data__name=name).exists()


def times(name: str) -> int:
    return Result.objects.filter(text=name).count()


class Refused(Exception):
    pass


def store(name: str, *, fail: bool = False) -> Upload:
    """The service: change a row and emit, in one transaction."""
    with transaction.atomic():
        upload = Upload.objects.create(name=name, status="stored")
        duebox.emit(FileStored(name=name), about=upload)
        if fail:
            raise Refused
    return upload


@case("E1", "an event is there if and only if its row is: commit, rollback, savepoint, outer rollback")
def with_the_row() -> None:
    store("kept.pdf")
    raised(Refused, lambda: store("refused.pdf", fail=True))
    with transaction.atomic():
        Upload.objects.create(name="outer.pdf")
        raised(Refused, lambda: store("savepoint.pdf", fail=True))
        duebox.emit(FileStored(name="outer.pdf"))
    with rolled_back():
        store("inner.pdf")
    names = ("kept.pdf", "refused.pdf", "outer.pdf", "savepoint.pdf", "inner.pdf")
    assert [stored(name) for name in names] == [True, False, True, False, False]
    assert [Upload.objects.filter(name=name).exists() for name in names] == [True, False, True, False, False]
    drain()


@case("E3", "a key stores an event once for its type; other data is a conflict, another type is not", rolled_back=True)
def keys() -> None:
    first = duebox.emit(FileStored(name="k"), idempotency_key="upload-9")
    again = duebox.emit(FileStored(name="k"), idempotency_key="upload-9")
    assert (again.id, first.created, again.created) == (first.id, True, False)
    assert duebox.emit(FileDeleted(name="k"), idempotency_key="upload-9").id != first.id
    conflict = raised(IdempotencyConflict, lambda: duebox.emit(FileStored(name="other"), idempotency_key="upload-9"))
    assert "data" in conflict, conflict
    with connection.cursor() as cursor, transaction.atomic():
        copy = (
            "INSERT INTO duebox_event SELECT (jsonb_populate_record(e, jsonb_build_object('id', %s::text))).* "
            "FROM duebox_event e WHERE id = %s"
        )
        raised(IntegrityError, lambda: cursor.execute(copy, [str(uuid4()), first.id]))
        transaction.set_rollback(True)


@case("E4", "ids are UUIDs of version 7, tables have names of their own, and no migration is missing")
def identity() -> None:
    fact = duebox.emit(FileDeleted(name="v7"))
    assert fact.id.version == 7
    row = Event.objects.get(id=fact.id)
    assert row._meta.db_table == "duebox_event"
    assert "file.deleted" in str(row)
    drain()
    assert "No changes detected" in manage("makemigrations", "--check", "--dry-run")


@case("E5", "UUID, Decimal, date and aware datetime travel; nothing means an empty object", rolled_back=True)
def payloads() -> None:
    moment = datetime(2027, 2, 3, 4, 5, tzinfo=UTC)
    unique = uuid4()
    fact = duebox.emit(FileMeasured(file=unique, price=Decimal("7.30"), measured_at=moment, day=date(2027, 2, 3)))
    data = Event.objects.get(id=fact.id).data
    assert data["file"] == str(unique)
    assert Decimal(data["price"]) == Decimal("7.30")
    assert datetime.fromisoformat(data["measured_at"]) == moment
    assert (data["day"], data["note"]) == ("2027-02-03", None)


@case("E5", "formats are checked: no 'soon', no February 31, no naive time, no half of a UUID", rolled_back=True)
def formats() -> None:
    good = {"file": str(uuid4()), "price": "1", "measured_at": "2027-01-01T00:00:00Z", "day": "2027-01-01"}
    duebox.emit("file.measured", good)
    for field, bad in (
        ("measured_at", "soon"), ("measured_at", "2027-01-01T00:00:00"), ("day", "2027-02-31"), ("file", "0000"),
        ("price", "a lot"),
    ):  # fmt: skip
        why = raised(InvalidPayload, lambda field=field, bad=bad: duebox.emit("file.measured", {**good, field: bad}))
        assert f"data.{field}" in why, why


@case("E6", "a worker delivers within a second of the commit, and only after the outermost one")
def at_once() -> None:
    with worker():
        drain()
        asked = time.monotonic()
        duebox.emit(FileDeleted(name="at once"))
        eventually(lambda: times("at once"))
        assert time.monotonic() - asked < 2, time.monotonic() - asked
        with transaction.atomic():
            with transaction.atomic():
                duebox.emit(FileDeleted(name="nested"))
            time.sleep(0.5)
            with connect() as beside:
                seen = beside.execute("SELECT count(*) FROM uploads_result WHERE text = 'nested'").fetchone()
        assert seen == (0,)
        eventually(lambda: times("nested"))


def connect() -> psycopg.Connection:
    """Another session, which sees what is committed."""
    entry = connection.settings_dict
    place = {"host": entry["HOST"], "port": entry["PORT"], "user": entry["USER"], "password": entry.get("PASSWORD")}
    return psycopg.connect(dbname=entry["NAME"], **{name: value for name, value in place.items() if value})


@case("E6", "what no notification told is found by polling")
def polling() -> None:
    with worker(SOURCE_DEAF="1"):
        duebox.emit(FileDeleted(name="polled"))
        eventually(lambda: times("polled"), 10)


@case("E8", "500 events in one call come back in order, and async code emits", rolled_back=True)
def bulk() -> None:
    facts = duebox.emit_many([FileDeleted(name=f"{number}") for number in range(500)])
    assert [fact.data["name"] for fact in facts] == [str(number) for number in range(500)]


@case("E8", "async code changes a row and emits in one transaction")
def in_async_code() -> None:
    async def view() -> None:
        await duebox.atomically(store, "async.pdf")
        await duebox.aemit(FileDeleted(name="async alone"))

    asyncio.run(view())
    assert stored("async.pdf")
    assert stored("async alone")


@case("E8", "what a handler emits has its cause, its correlation id and its actor, and no recursion")
def causes() -> None:
    with bound(correlation_id="import-1", actor="17"):
        store("caused.pdf")
    drain()
    cause = Event.objects.get(type="file.stored", data__name="caused.pdf")
    effect = Event.objects.get(type="file.indexed", data__name="caused.pdf")
    assert (effect.causation_id, effect.correlation_id) == (cause.id, "import-1")
    assert effect.actor == cause.actor
    assert "17" in str(effect.actor)
    out = manage("shell", "-v", "0", "-c", "from uploads.cases import store; store('inline.pdf')", SOURCE_MODE="inline")
    assert "Error" not in out
    assert times("inline.pdf") == 1


@case("D1", "two processes deliver 400 events, none twice")
def two_processes() -> None:
    duebox.emit_many([FileDeleted(name=f"shared-{number}") for number in range(400)])
    with (
        process("python", "manage.py", "duebox", "once", "--batch-size", "20") as one,
        process("python", "manage.py", "publish_events", "--once", "--batch-size=20") as two,
    ):
        assert (one.process.wait(60), two.process.wait(60)) == (0, 0)
    counted = Counter(Result.objects.filter(text__startswith="shared-").values_list("text", flat=True))
    assert len(counted) == 400
    assert set(counted.values()) == {1}
    assert not Delivery.objects.exists()


EMIT = """
import duebox
from uploads.events import FileDeleted, FileScanRequested
duebox.emit(FileDeleted(name="fast {0}"))
duebox.emit(FileScanRequested(name="task {0}"))
"""


@case("D9", "with the database as Celery's broker: deliveries after a commit, and an event as a task")
def broker_in_database() -> None:
    through_celery("postgresql")


@case("D9", "with Redis as Celery's broker")
def broker_redis() -> None:
    through_celery("redis")


@case("D9", "with RabbitMQ as Celery's broker")
def broker_rabbitmq() -> None:
    through_celery("rabbitmq")


def through_celery(name: str) -> None:
    assert name in BROKERS
    variables = {"SOURCE_BROKER": name, "SOURCE_MODE": "celery"}
    options = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO", "-P", "solo")
    with process("celery", "-A", "uploads", "worker", *options, ready=" ready.", **variables) as celery:
        said = manage("shell", "-v", "0", "-c", EMIT.format(name), **variables)
        assert "Error" not in said, said
        eventually(lambda: times(f"fast {name}") == 1 and times(f"task {name}") == 1)
        assert celery.stop() == 0


@case("D9", "beat with django-celery-beat's DatabaseScheduler catches what no message was sent for")
def beat() -> None:
    duebox.emit(FileDeleted(name="no message"))
    variables = {"SOURCE_BROKER": "postgresql", "SOURCE_MODE": "celery"}
    options = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO", "-P", "solo")
    with (
        process("celery", "-A", "uploads", "beat", "-l", "INFO", "--max-interval", "1", **variables),
        process("celery", "-A", "uploads", "worker", *options, ready=" ready.", **variables),
    ):
        eventually(lambda: times("no message") == 1, 30)


@case("D9", "eager tasks, as in development: delivered right after the commit")
def eager() -> None:
    code = "from uploads.cases import store; store('eager.pdf')"
    manage("shell", "-v", "0", "-c", code, SOURCE_MODE="celery", SOURCE_EAGER="1")
    assert times("eager.pdf") == 1


@case("D9", "check finds nothing wrong with the database as Celery's broker")
def checked() -> None:
    out = manage("check", "--database", "default", SOURCE_BROKER="postgresql", SOURCE_MODE="celery")
    assert "no issues" in out, out
