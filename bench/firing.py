"""Firing: how late one-shots are, how fast a crowd that is due in one second gets through, what the future costs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from subprocess import Popen
from typing import Any

from django.db import connection, transaction

from bench import stage
from bench.latency import idle_worker
from duebox.conf import conf
from duebox.emit import New, fact_row
from duebox.firing import fire_due
from duebox.intent import Intent
from duebox.models import Delivery, Event, Schedule
from duebox.planner import Wanted, plan_all, write_all
from duebox.when import Timetable, once

STORED_AT_ONCE = 5_000


def lateness(count: int = 2_000, seconds: float = 10.0) -> dict[str, float]:
    """Milliseconds from the due instant to the start of the handler, one worker."""
    with idle_worker() as process:
        start = datetime.now(UTC) + timedelta(seconds=3)
        dues = [start + timedelta(seconds=seconds * number / count) for number in range(count)]
        store("bench.latency", dues)
        started = _started(process, count)
    return _shares([(started[number] - at.timestamp()) * 1000 for number, at in enumerate(dues)])


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
    return _shares([(started[number] - at.timestamp()) * 1000 for number, at in enumerate(dues)])


def _shares(late: list[float]) -> dict[str, float]:
    late.sort()
    return {f"p{share}": round(late[min(len(late) - 1, len(late) * share // 100)], 2) for share in (50, 95, 99)}


def crowd(count: int = 10_000) -> tuple[float, float]:
    """Seconds from the due instant until all events are committed, and until all are handled; one worker."""
    with idle_worker():
        due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=6)
        store("bench.plain", [due] * count)
        committed = _until(lambda: Event.objects.count() == count)
        handled = _until(lambda: Event.objects.count() == count and not Delivery.objects.exists())
    return committed - due.timestamp(), handled - due.timestamp()


def cost_in_turns(few: int, many: int, turns: int = 3) -> tuple[float, float]:
    """The cost at either number, measured in turns so that a noisy minute hits both; the medians."""
    found = [(fire_cost(few), fire_cost(many)) for _ in range(turns)]
    middle = turns // 2
    return sorted(one for one, _ in found)[middle], sorted(other for _, other in found)[middle]


def fire_cost(future: int, *, rounds: int = 20, due: int = 100) -> float:
    """Milliseconds to fire a hundred that are due while so many others are not; the median."""
    stage.empty()
    _fill(future)
    took = []
    for number in range(rounds):
        store("bench.nobody", [datetime.now(UTC) + timedelta(milliseconds=500)] * due, mark=f"r{number}")
        time.sleep(0.7)
        begun = time.perf_counter()
        assert fire_due("default").due == due
        took.append((time.perf_counter() - begun) * 1000)
    return sorted(took)[rounds // 2]


def store(type: str, dues: list[datetime], *, mark: str = "") -> None:
    now = datetime.now(UTC)
    wanted = [_wanted(type, number, due, mark) for number, due in enumerate(dues)]
    for begin in range(0, len(wanted), STORED_AT_ONCE):
        with transaction.atomic():
            write_all("default", plan_all(wanted[begin : begin + STORED_AT_ONCE], {}, now), why="")


def _wanted(type: str, number: int, due: datetime, mark: str) -> Wanted:
    event = fact_row(New(type=type, data={"number": number}), conf(), to_come=True)
    return Wanted(f"{type}:{mark}:{number}", event, Intent(table=Timetable(rule=once(due))))


def _fill(count: int) -> None:
    first = datetime.now(UTC) + timedelta(days=1)
    store("bench.nobody", [first + timedelta(seconds=number) for number in range(min(count, 10_000))], mark="far")
    with connection.cursor() as cursor:
        columns = [field.column for field in Schedule._meta.fields if field.column not in ("id", "key", "due_at")]
        names = ", ".join(columns)
        cursor.execute(
            f"INSERT INTO duebox_schedule (key, due_at, {names}) "
            f"SELECT key || '.' || n, due_at + n * interval '1 day', {names} "
            "FROM duebox_schedule, generate_series(1, %s) n",
            [max(0, count // 10_000 - 1)],
        )
        cursor.execute("VACUUM ANALYZE duebox_schedule")


def _started(process: Popen[str], count: int) -> dict[int, float]:
    assert process.stdout
    started: dict[int, float] = {}
    while len(started) < count:
        words = process.stdout.readline().split()
        if len(words) == 2 and words[0].isdigit():
            started[int(words[0])] = float(words[1])
    return started


def _until(condition: Any) -> float:
    while not condition():
        time.sleep(0.02)
    return time.time()
