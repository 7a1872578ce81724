"""Workers count the minutes that have ended."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from duebox.models import Rollup
from duebox.observe.rollup import counted_until
from duebox.worker import background_threads
from duebox.worker.background_threads import Rollups
from duebox.worker.watchdog import Watchdog
from duebox.worker.worker import Worker
from tests.observe.rollup_rows import event
from tests.support import eventually


def test_a_worker_counts_each_minute_after_its_end(hire, monkeypatch):
    monkeypatch.setattr(background_threads, "_seconds_to_rollup", lambda: 0.05)
    event(timezone.now() - timedelta(minutes=3))
    hire()
    assert eventually(lambda: Rollup.objects.filter(kind="event", name="order.paid").exists())


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_ends_when_nothing_is_due_counts_too():
    event(timezone.now() - timedelta(minutes=3))
    Worker(until_idle=True).run()
    assert counted_until() is not None


def test_a_worker_goes_on_where_a_minute_cannot_be_counted(hire, monkeypatch, caplog):
    tries = []

    def roll_up(using, minutes):
        tries.append(minutes)
        raise RuntimeError("no room")

    monkeypatch.setattr(background_threads, "_seconds_to_rollup", lambda: 0.01)
    monkeypatch.setattr(background_threads, "roll_up", roll_up)
    worker = hire()
    assert eventually(lambda: len(tries) > 1)
    assert worker.lease.id
    assert "per-minute statistics not updated" in caplog.text


def test_the_next_count_is_a_few_seconds_after_a_minute():
    assert 5 < background_threads._seconds_to_rollup() < 71


def test_after_a_count_that_failed_in_the_database_the_batches_begin_with_one_minute(hire, monkeypatch):
    tries = []

    def roll_up(using, minutes):
        tries.append(minutes)
        if len(tries) == 1:
            raise OperationalError("canceling statement due to statement timeout")
        return minutes

    monkeypatch.setattr(background_threads, "_seconds_to_rollup", lambda: 0.01)
    monkeypatch.setattr(background_threads, "roll_up", roll_up)
    hire()
    assert eventually(lambda: tries[:6] if len(tries) > 5 else None) == [10, 1, 2, 4, 8, 10]


def test_there_is_a_pause_after_each_batch(hire, monkeypatch):
    tries = []
    monkeypatch.setattr(background_threads, "_seconds_to_rollup", lambda: 0.01)
    monkeypatch.setattr(background_threads, "roll_up", lambda using, minutes: tries.append(time.monotonic()) or 1)
    hire()
    eventually(lambda: len(tries) > 3)
    assert tries[3] - tries[0] >= 0.15


@pytest.mark.django_db(transaction=True)
def test_a_run_that_ends_when_nothing_is_due_catches_up_with_hours_without_workers(tune):
    tune(stop_rollup_seconds=20.0, stop_background_seconds=20.0)  # on a slow machine, too
    event(timezone.now() - timedelta(hours=10))
    Worker(until_idle=True).run()
    assert timezone.now() - counted_until() < timedelta(minutes=3)


@pytest.mark.django_db(transaction=True)
def test_told_to_stop_it_does_not_stay_to_catch_up(monkeypatch):
    tries = []
    monkeypatch.setattr(background_threads, "roll_up", lambda using, minutes: tries.append(time.sleep(0.01)) or 1)
    rollups = Rollups("default", Watchdog(), at_once=True)
    rollups.start()
    eventually(lambda: tries)
    rollups.stop()
    rollups.thread.join(10)
    assert not rollups.thread.is_alive()
