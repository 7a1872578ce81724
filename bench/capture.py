"""Capture: what the triggers of plans and of the audit log cost whoever changes rows, beside a table without them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import date, timedelta

from django.db import connection
from django.db.models import F

from bench import stage
from bench.models import Followed, Person, Unfollowed
from bench.plans import Birthdays
from duebox.context import bound
from duebox.models import RowChange
from duebox.schedules import capture
from duebox.store.row_changes import execute_sql, installed, remove_sql

ROWS = 50_000
SAVES = 400
TURNS = 5


def measure() -> dict[str, object]:
    return {**_measure_plan(), **_measure_audit()}


def _measure_audit() -> dict[str, object]:
    """Milliseconds, medians of turns: a table that the audit log follows, beside one that it does not."""
    capture.install("default")
    for model in (Followed, Unfollowed):
        model.objects.bulk_create(model(name=f"n{n}", email=f"{n}@example.org", city="Rome") for n in range(ROWS))
    saves: dict[type, list[float]] = {Followed: [], Unfollowed: []}
    updates: dict[type, list[float]] = {Followed: [], Unfollowed: []}
    for _ in range(TURNS):
        for model in (Unfollowed, Followed):
            _vacuum()
            rows = list(model.objects.order_by("pk")[:SAVES])
            with bound(actor="ann"):
                saves[model].append(_timed(lambda rows=rows: _save_points(rows)) / SAVES)
                updates[model].append(_timed(lambda model=model: model.objects.update(points=F("points") + 1)))
    _set(triggers=False)
    _empty_log()
    found = {
        "audited_save_ms": _median(saves[Followed]),
        "audited_save_without_ms": _median(saves[Unfollowed]),
        "audited_update_50k_ms": _median(updates[Followed]),
        "audited_update_50k_without_ms": _median(updates[Unfollowed]),
    }
    return {
        **found,
        "audited_save_times": round(found["audited_save_ms"] / found["audited_save_without_ms"], 2),
        "audited_update_50k_times": round(found["audited_update_50k_ms"] / found["audited_update_50k_without_ms"], 2),
    }


def _empty_log() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET duebox.audit_allows = 'truncate'")
        cursor.execute(
            "TRUNCATE duebox_audit, duebox_audit_batch, duebox_audit_writer, bench_followed, bench_unfollowed"
        )


def _vacuum() -> None:
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE bench_followed")
        cursor.execute("VACUUM ANALYZE bench_unfollowed")
        cursor.execute("CHECKPOINT")


def _save_points(rows: list[Followed] | list[Unfollowed]) -> None:
    for row in rows:
        row.points += 1
        row.save()


def _measure_plan() -> dict[str, object]:
    """Milliseconds, medians of turns with and without triggers; and what a worker takes to plan 50,000 changes."""
    stage.empty()
    Person.objects.bulk_create(Person(zone="Europe/Paris", born_on=date(1990, 1, 1)) for _ in range(ROWS))
    Birthdays.sync(Person.objects.all())
    stage.settle_down()
    saves: dict[bool, list[float]] = {True: [], False: []}
    updates: dict[bool, list[float]] = {True: [], False: []}
    planning = []
    for turn in range(TURNS):
        for triggers in (False, True):
            _set(triggers)
            saves[triggers].append(_timed(_save) / SAVES)
            updates[triggers].append(_timed(lambda turn=turn, triggers=triggers: _update(2 * turn + triggers)))
            if triggers:
                planning.append(_timed(lambda: capture.plan_changes("default")))
            RowChange.objects.all().delete()
            stage.settle_down()
    _set(triggers=False)
    found = {
        "save_ms": _median(saves[True]),
        "save_without_triggers_ms": _median(saves[False]),
        "update_50k_ms": _median(updates[True]),
        "update_50k_without_triggers_ms": _median(updates[False]),
        "plan_50k_changes_ms": _median(planning),
    }
    return {
        **found,
        "save_times": round(found["save_ms"] / found["save_without_triggers_ms"], 2),
        "update_50k_times": round(found["update_50k_ms"] / found["update_50k_without_triggers_ms"], 2),
    }


def _set(triggers: bool) -> None:
    if triggers:
        capture.install("default")
    else:
        for prefix in capture.PREFIXES.values():
            for each in installed("default", prefix):
                execute_sql("default", remove_sql(each.table, each.function, prefix))


def _save() -> None:
    for row in Person.objects.all()[:SAVES]:
        row.save()


def _update(days: int) -> None:
    Person.objects.update(born_on=date(1990, 1, 1) + timedelta(days=days + 1))


def _timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 3)
