"""Firing: how late one-shots are, how fast a crowd that is due in one second gets through, what the future costs."""

from __future__ import annotations

import json
import statistics
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from django.db import connection, transaction

from bench import stage
from bench.emit import DELIVERY, EVENT
from bench.latency import idle_worker, shares, starts
from duebox.conf import conf
from duebox.events.emit import NewEvent, fact_row
from duebox.events.identities import uuid7
from duebox.models import Delivery, Event, Schedule
from duebox.schedules.fire import fire_due
from duebox.schedules.intent import Intent
from duebox.schedules.planner import Ready, Wanted, plan_all, write_all
from duebox.when import Timetable, once

STORED_AT_ONCE = 5_000
STORED_BY_PLANNER = 10_000


def lateness(count: int = 2_000, seconds: float = 10.0) -> dict[str, float]:
    """Milliseconds from the due instant to the start of the handler, one worker."""
    with idle_worker() as process:
        start = datetime.now(UTC) + timedelta(seconds=3)
        dues = [start + timedelta(seconds=seconds * number / count) for number in range(count)]
        store("bench.latency", dues)
        started = starts(process, count)
    return shares((started[number] - at.timestamp()) * 1000 for number, at in enumerate(dues))


def in_memory(count: int = 2_000, seconds: float = 10.0) -> dict[str, float]:
    """The same with APScheduler and its jobs in memory only: what is left when nothing has to survive a restart."""
    from apscheduler.schedulers.background import BackgroundScheduler

    started: dict[int, float] = {}
    scheduler = BackgroundScheduler(timezone=UTC, executors={"default": {"type": "threadpool", "max_workers": 4}})
    scheduler.start()
    start = datetime.now(UTC) + timedelta(seconds=3)
    dues = [start + timedelta(seconds=seconds * number / count) for number in range(count)]
    for number, due in enumerate(dues):
        scheduler.add_job(lambda n: started.__setitem__(n, time.time()), "date", run_date=due, args=[number],
                          misfire_grace_time=60)  # fmt: skip
    _until(lambda: len(started) == count)
    scheduler.shutdown()
    return shares((started[number] - at.timestamp()) * 1000 for number, at in enumerate(dues))


def bare_client(count: int = 2_000, seconds: float = 10.0) -> dict[str, float]:
    """The same with a bare client that holds the due instants in memory: at each it stores the event and the delivery
    and commits. No scheduler that stores what it fires can be earlier."""
    stage.empty()
    entry = connection.settings_dict
    late = []
    with psycopg.connect(host=entry["HOST"], port=entry["PORT"], user=entry["USER"], dbname=entry["NAME"]) as bare:
        start = time.time() + 0.5
        for number in range(count):
            due = start + seconds * number / count
            time.sleep(max(0.0, due - time.time()))
            event = uuid7()
            bare.execute(EVENT, [event, "bench.latency", 1, "", "", str(event), json.dumps({"number": number})])
            bare.execute(DELIVERY, [event, "latency"])
            bare.commit()
            late.append((time.time() - due) * 1000)
    return shares(late)


def crowd(count: int = 10_000) -> tuple[float, float]:
    """Seconds from the due instant until all events are committed, and until all are handled; one worker."""
    with idle_worker():
        due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=6)
        store("bench.plain", [due] * count)
        committed = _until(lambda: Event.objects.count() == count)
        handled = _until(lambda: Event.objects.count() == count and not Delivery.objects.exists())
    return committed - due.timestamp(), handled - due.timestamp()


def cost_at(few: int, many: int, *, rounds: int = 60, due: int = 100) -> tuple[float, float]:
    """Milliseconds to fire a hundred that are due while so many others are not; the medians, before and after the
    others were added to the same table."""
    stage.empty()
    _fill(few)
    at_few = _fire(rounds, due, "few")
    _fill(many, beside=few)
    return at_few, _fire(rounds, due, "many")


def _fire(rounds: int, due: int, mark: str) -> float:
    took = []
    for number in range(rounds + 3):
        past = datetime.now(UTC) - timedelta(seconds=1)
        store("bench.nobody", [past] * due, mark=f"{mark}{number}", now=past - timedelta(seconds=1))
        begun = time.perf_counter()
        assert fire_due("default").due == due
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took[3:])


def store(type: str, dues: list[datetime], *, mark: str = "", now: datetime | None = None) -> None:
    now = now or datetime.now(UTC)
    wanted = [_wanted(type, number, due, mark) for number, due in enumerate(dues)]
    for begin in range(0, len(wanted), STORED_AT_ONCE):
        with transaction.atomic():
            write_all("default", Ready.of(plan_all(wanted[begin : begin + STORED_AT_ONCE], {}, now), why=""))


def _wanted(type: str, number: int, due: datetime, mark: str) -> Wanted:
    event = fact_row(NewEvent(type=type, data={"number": number}), conf(), to_come=True)
    return Wanted(f"{type}:{mark}:{number}", event, Intent(table=Timetable(rule=once(due), zone="UTC")))


def _fill(count: int, *, beside: int = 0) -> None:
    """Schedules for other days, up to this number of them; so many are there already."""
    if not beside:
        first = datetime.now(UTC) + timedelta(days=1)
        beside = min(count, STORED_BY_PLANNER)
        store("bench.nobody", [first + timedelta(seconds=number) for number in range(beside)], mark="far")
    with connection.cursor() as cursor:
        columns = [field.column for field in Schedule._meta.fields if field.column not in ("id", "key", "due_at")]
        names = ", ".join(columns)
        cursor.execute(
            f"INSERT INTO duebox_schedule (key, due_at, {names}) "
            f"SELECT key || '.' || n, due_at + n * interval '1 day', {names} "
            "FROM duebox_schedule, generate_series(1, %s) n WHERE status = 'scheduled'",
            [max(0, count // beside - 1)],
        )
    stage.settle_down()


def _until(condition: Any) -> float:
    while not condition():
        time.sleep(0.02)
    return time.time()
