from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import psycopg
from django.db import connection, connections
from django.utils import timezone
from play import Process, case, command, eventually, manage, process, worker
from todos.events import NapDue
from todos.handlers import BROKEN
from todos.models import Result, Task
from todos.sweeps import FAILS, DueTasks

import duebox
from duebox import deliveries
from duebox.models import Delivery, Event, Schedule, ScheduleLog
from duebox.schedules.sweeps import ensure_schedules
from duebox.testing import assert_emitted, drain, travel

NOON = datetime(2027, 5, 4, 12, tzinfo=UTC)


def task(title: str, hours: float, *, now: datetime = NOON) -> Task:
    return Task.objects.create(title=title, due_at=now + timedelta(hours=hours))


def reminded() -> list[str]:
    return list(Result.objects.filter(what="reminded").order_by("id").values_list("text", flat=True))


@case("S7", "reminds of what is due within a day, once in 24 hours, and again after that", rolled_back=True)
def window() -> None:
    with travel(NOON) as clock:
        for title, hours in (("overdue", -1), ("soon", 3), ("tomorrow", 23.5), ("later", 30)):
            task(title, hours)
        assert DueTasks.run().emitted == 2
        assert DueTasks.run().found == 0
        drain()
        assert reminded() == ["soon", "tomorrow"]
        clock.by(timedelta(hours=7))
        assert DueTasks.run().emitted == 1, "what has come nearer"
        Task.objects.filter(title="soon").update(due_at=NOON + timedelta(hours=40))
        clock.to(NOON + timedelta(hours=24, seconds=1))
        assert DueTasks.run().emitted == 1, "moved, and its last reminder is a day old"


@case("S7", "runs at every full hour by itself, once for each", rolled_back=True)
def hourly() -> None:
    with travel(NOON + timedelta(minutes=20)) as clock:
        ensure_schedules("default")
        first = task("by itself", 30)
        clock.run(timedelta(hours=24))
        runs = ScheduleLog.objects.filter(source="todos.DueTasks", what="swept")
        assert [line.at.minute for line in runs] == [0]
        assert_emitted("task.due_soon", about=first, count=1)
        row = Schedule.objects.get(key="duebox:sweep:todos.DueTasks")
        assert row.due_at == NOON + timedelta(hours=25)


@case("S7", "of 1,500 due tasks a run with a limit of 1,000 takes those that are due first", rolled_back=True)
def limit() -> None:
    with travel(NOON):
        rows = [Task(title=f"{n}", due_at=NOON + timedelta(hours=24) - timedelta(seconds=50 * n)) for n in range(1500)]
        Task.objects.bulk_create(rows)
        assert DueTasks.run(limit=1000).emitted == 1000
        taken = Task.objects.filter(reminded_at__isnull=False).order_by("-due_at").first()
        left = Task.objects.filter(reminded_at__isnull=True).order_by("due_at").first()
        assert taken.due_at < left.due_at
        assert DueTasks.run().emitted == 500


@case("S7", "a row that fails is tried again in the run, and the others do not wait for it", rolled_back=True)
def transient() -> None:
    FAILS["flaky"] = 2
    task("flaky", 1, now=timezone.now())
    for number in range(5):
        task(f"fine {number}", 2, now=timezone.now())
    started = time.monotonic()
    swept = DueTasks.run()
    assert (swept.emitted, swept.failed) == (6, 0)
    assert time.monotonic() - started < 6


@case("S7", "a row that fails every time is in the log, has no stamp, and the next run tries it", rolled_back=True)
def failing() -> None:
    FAILS["broken"] = 100
    broken = task("broken", 1, now=timezone.now())
    task("beside", 1, now=timezone.now())
    swept = DueTasks.run()
    assert (swept.emitted, swept.failed) == (1, 1)
    line = ScheduleLog.objects.get(source="todos.DueTasks", what="failed")
    assert line.aggregate_id == str(broken.pk)
    assert "no title for broken" in line.note
    broken.refresh_from_db()
    assert broken.reminded_at is None
    FAILS.clear()
    assert DueTasks.run().emitted == 1


@case("S7", "a row whose handler gave up is found by the next run, and reminded of once", rolled_back=True)
def handler_died() -> None:
    BROKEN.add("bounced")
    task("bounced", 3, now=timezone.now())
    DueTasks.run()
    assert drain(raises=False).dead == 1
    BROKEN.clear()
    swept = DueTasks.run()
    assert (swept.emitted, swept.again) == (1, 1)
    drain()
    assert reminded() == ["bounced"]
    assert DueTasks.run().found == 0


@case("S7", "every event and every line of the log carry the id of the run", rolled_back=True)
def run_id() -> None:
    one = task("logged", 3, now=timezone.now())
    swept = DueTasks.run()
    event = Event.objects.get(metadata__run=swept.run)
    line = ScheduleLog.objects.get(run=swept.run)
    assert (line.what, line.aggregate_id, line.event_id) == ("swept", str(one.pk), event.id)


@case("S7", "four runs at the same time stamp each row once")
def concurrent() -> None:
    now = timezone.now()
    Task.objects.bulk_create(Task(title=f"once {n}", due_at=now + timedelta(hours=3)) for n in range(300))

    def run() -> None:
        try:
            DueTasks.run()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    DueTasks.run()
    manage("duebox", "once")
    counted = Counter(text for text in reminded() if text.startswith("once "))
    assert len(counted) == 300
    assert set(counted.values()) == {1}


@case("D10", "by hand: manage.py duebox sweep and python -m duebox, with a dry run")
def by_hand() -> None:
    task("by hand", 3, now=timezone.now())
    assert "1 would be swept" in manage("duebox", "sweep", "todos.DueTasks", "--dry-run")
    assert "1 swept" in command("python", "-m", "duebox", "sweep", "todos.DueTasks")
    command("python", "-m", "duebox", "once")
    assert "by hand" in reminded()


@case("D10", "in a program with APScheduler, which stops at SIGTERM")
def apscheduler() -> None:
    task("by the clock", 3, now=timezone.now())
    with process("python", "-m", "todos.clock", ready="the clock runs") as clock:
        eventually(lambda: "by the clock" in reminded())
        assert clock.stop() == 0


@case("D10", "inside a FastAPI application, which emits in the transaction of its SQLAlchemy session")
def fastapi() -> None:
    from fastapi.testclient import TestClient
    from todos.api import app, engine

    with TestClient(app) as client:
        assert client.post("/tasks", params={"title": "by api"}).status_code == 201
        eventually(lambda: "by api" in reminded())
        assert client.post("/tasks", params={"title": "refused", "fail": True}).status_code == 409
        with connection.cursor() as cursor:
            cursor.execute("SELECT duebox_emit(type => 'task.due_soon', data => '{\"title\": 7}')")
        eventually(lambda: Delivery.objects.dead().exists())
    engine.dispose()
    assert not Event.objects.filter(aggregate_id="refused").exists()
    [dead] = deliveries.find(state="dead")
    assert "data.title" in f"{dead.error} {dead.error_line}", dead
    deliveries.discard([dead.id], reason="seen")


@case("D10", "a worker lets a handler end at SIGTERM, and gives the rest back")
def sigterm() -> None:
    duebox.emit(NapDue(seconds=1.5))
    with worker("--threads", "1") as one:
        time.sleep(0.6)
        assert one.stop(signal.SIGTERM) == 0
    assert Result.objects.filter(what="nap", text="1.5").count() == 1
    assert not Delivery.objects.exists()


@case("O12", "a sweep without its database tries again after 1, 2 and 4 s, then fails; the next run works")
def away() -> None:
    started = time.monotonic()
    said = manage("duebox", "sweep", code=1, SOURCE_NO_DATABASE="1")
    took = time.monotonic() - started
    assert 6.5 < took < 25, took
    assert "Traceback" not in said, said
    task("next run", 3, now=timezone.now())
    assert "1 swept" in manage("duebox", "sweep")


def close_database(close: bool) -> None:
    """Nobody may connect any more, and those who are there are thrown out."""
    entry = connection.settings_dict
    place = {"host": entry["HOST"], "port": entry["PORT"], "user": entry["USER"], "password": entry.get("PASSWORD")}
    connections.close_all()
    with psycopg.connect(dbname="postgres", autocommit=True, **{k: v for k, v in place.items() if v}) as server:
        server.execute(f"ALTER DATABASE {entry['NAME']} ALLOW_CONNECTIONS {str(not close).lower()}")
        if close:
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [entry["NAME"]])


@case("O12", "a run of once that loses its database in the middle ends; a worker goes on when it is back")
def lost() -> None:
    duebox.emit_many([NapDue(seconds=0.11) for _ in range(60)])
    with worker("--threads", "1") as patient:
        once = Process("python", "manage.py", "duebox", "once", "--threads", "1")
        try:
            eventually(lambda: Result.objects.filter(text="0.11").count() > 2)
            close_database(True)
            started = time.monotonic()
            assert once.process.wait(40) == 1, once.said()
            assert time.monotonic() - started < 30
            assert patient.process.poll() is None
        finally:
            close_database(False)
            once.stop(signal.SIGKILL)
        eventually(lambda: not Delivery.objects.exists(), 40)
    assert Result.objects.filter(text="0.11").count() >= 60
