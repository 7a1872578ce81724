"""The fast clock that processes share by a file."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from examples.clinic.timelapse import SharedClock, TimeLapse, patience, read, set_clock

START = datetime(2026, 3, 28, tzinfo=UTC)
WAITING = TimeLapse(start=START, end=START + timedelta(days=8), speed=86400.0)


def test_it_waits_runs_and_stands_still(tmp_path):
    path = tmp_path / "clock.json"
    WAITING.write(path)
    shared = SharedClock(path)
    assert shared.now() == START
    replace(WAITING, since=time.time() - 2).write(path)
    assert timedelta(days=2) <= shared.now() - START < timedelta(days=3)
    replace(WAITING, since=time.time() - 60).write(path)
    assert shared.now() == WAITING.end


def test_it_survives_the_file(tmp_path):
    path = tmp_path / "clock.json"
    running = replace(WAITING, since=12.5)
    running.write(path)
    assert read(path) == running


def test_a_clock_that_was_set_goes_on_at_its_usual_pace(tmp_path, monkeypatch):
    path = tmp_path / "clock.json"
    set_clock(path, START)
    shared = SharedClock(path)
    assert timedelta(0) <= shared.now() - START < timedelta(seconds=5)
    set_clock(path, START + timedelta(days=1))
    assert timedelta(days=1) <= shared.now() - START < timedelta(days=1, seconds=5)
    monkeypatch.setenv("CLINIC_TIME_LAPSE", str(path))
    assert patience() is None


def test_reminders_may_be_late_only_in_a_time_lapse(tmp_path, monkeypatch):
    monkeypatch.delenv("CLINIC_TIME_LAPSE", raising=False)
    assert patience() is None
    WAITING.write(tmp_path / "clock.json")
    monkeypatch.setenv("CLINIC_TIME_LAPSE", str(tmp_path / "clock.json"))
    assert patience().window == timedelta(days=5)
