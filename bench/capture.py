"""Capture: what the triggers of a plan cost whoever changes the rows, beside the same table without triggers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import date, timedelta

from django.conf import settings
from django.test import override_settings

from bench import stage
from bench.models import Person
from bench.plans import Birthdays
from duebox import capture, row_changes
from duebox.models import RowChange
from duebox.store.row_changes import execute_sql, installed, remove_sql

ROWS = 50_000
SAVES = 400
TURNS = 5


@override_settings(DUEBOX={**settings.DUEBOX, "CAPTURE": True})
def measure() -> dict[str, object]:
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
                planning.append(_timed(lambda: row_changes.plan_changes("default")))
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
        for each in installed("default"):
            execute_sql("default", remove_sql(each.table, each.function))


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
