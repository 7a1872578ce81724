"""Which time it is: the database's, or that of a clock in its place."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

import duebox
from duebox import clock
from duebox.models import Event, Schedule, ScheduleLog
from duebox.schedules.fire import Fired, fire_due
from duebox.when import CatchUp, every

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _put_back():
    yield
    clock.replace(None)


def test_without_another_clock_it_is_now_and_the_database_is_asked():
    assert clock.override() is None
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert clock.real_seconds(90) == 90


def test_another_clock_stands_in_for_both():
    clock.replace(lambda: NOON)
    assert (clock.override(), clock.now()) == (NOON, NOON)


def test_a_clock_that_is_taken_away_leaves_nothing_behind():
    clock.replace(lambda: NOON, speed=60.0)
    clock.replace(None)
    assert clock.override() is None
    assert clock.real_seconds(90) == 90


def test_time_that_runs_faster_is_waited_for_less():
    clock.replace(lambda: NOON, speed=60.0)
    assert clock.real_seconds(90) == 1.5


def test_on_a_frozen_clock_the_wait_never_ends():
    clock.replace(lambda: NOON, speed=0.0)
    assert clock.real_seconds(1) == float("inf")


def test_a_lapse_starts_where_it_is_told_and_runs_as_fast_as_it_is_told():
    ticks = iter([100.0, 101.0, 102.5])
    lapse = clock.lapse(NOON, 3600.0, since=100.0, read=lambda: next(ticks))
    assert [lapse(), lapse(), lapse()] == [NOON, NOON + timedelta(hours=1), NOON + timedelta(hours=2, minutes=30)]


@pytest.mark.django_db
def test_statements_read_the_clock_that_stands_in():
    clock.replace(lambda: NOON)
    duebox.schedule("bell.rung", at=NOON + timedelta(hours=1), key="bell")
    stored = Schedule.objects.get()
    assert (stored.created_at, stored.updated_at) == (NOON, NOON)
    assert duebox.emit("bell.heard").occurred_at == NOON
    assert Event.objects.get().occurred_at == NOON


@pytest.mark.django_db
@pytest.mark.parametrize("ahead", [400, -400])
def test_the_clock_of_the_host_decides_nothing(monkeypatch, ahead):
    """Occurrences fire by the database's clock, however wrong that of the worker's or the web server's host is."""
    monkeypatch.setattr(clock, "host_time", lambda: time.time() + ahead)
    monkeypatch.setattr(clock, "database", clock.DatabaseClock())
    duebox.schedule("bell.rung", repeat=every(minutes=1), key="often", catch_up=CatchUp(mode="none"))
    row = Schedule.objects.get()
    [moment] = connection_time()
    assert timedelta(0) < row.due_at - moment <= timedelta(minutes=1)
    Schedule.objects.update(due_at=moment - timedelta(seconds=1), occurrence="")
    monkeypatch.setattr(clock, "database", clock.DatabaseClock())
    assert fire_due("default") == Fired(1, 1)
    assert ScheduleLog.objects.count() == 0
    assert abs(Event.objects.get().occurred_at - moment) < timedelta(seconds=20)
    assert timedelta(0) < Schedule.objects.get().due_at - connection_time()[0] <= timedelta(minutes=1)


def connection_time():
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()
