from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management.base import CommandError
from django.db import connection, connections
from django.utils import timezone

from duebox.events.outcomes import Retry
from duebox.models import Event, ScheduleLog
from duebox.schedules import sweeps
from duebox.schedules.sweeps import Sweep
from tests.app.models import Parcel, Task

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def declared():
    """Two sweeps by the clock, one by hand; afterwards those of the project are there again."""
    known = sweeps.by_name()
    before = dict(known)
    known.clear()

    class DueTasks(Sweep):
        model = Task
        event = "task.due_soon"
        stamp = "reminded_at"

        def due(self, rows, now):
            return rows.filter(done=False, due_at__gt=now)

        def data(self, row):
            return {"title": row.title.upper() if row.title != "broken" else 1 / 0}

    class LostParcels(Sweep):
        model = Parcel
        event = "parcel.lost"
        stamp = "told_at"

        def due(self, rows, now):
            return rows.all()

    type("ByHand", (DueTasks,), {"every": None})
    yield known
    known.clear()
    known.update(before)


@pytest.fixture
def tasks():
    tomorrow = timezone.now() + timedelta(days=1)
    return Task.objects.bulk_create(Task(title=f"task {number}", due_at=tomorrow) for number in range(3))


def test_all_sweeps_that_run_by_the_clock_are_run(manage, tasks):
    Parcel.objects.create()
    assert manage("duebox", "sweep") == "app.DueTasks: 3 swept\napp.LostParcels: 1 swept\n"
    assert manage("duebox", "sweep") == "app.DueTasks: 0 swept\napp.LostParcels: 0 swept\n"
    assert Event.objects.count() == ScheduleLog.objects.count() == 4


def test_one_is_run_by_its_name_also_if_it_is_left_to_be_run_by_hand(manage, tasks):
    assert manage("duebox", "sweep", "app.ByHand") == "app.ByHand: 3 swept\n"


def test_rows_that_failed_are_counted(manage, declared, tasks):
    declared["app.DueTasks"].retry = Retry(limit=0)
    Task.objects.filter(title="task 1").update(title="broken")
    assert manage("duebox", "sweep", "app.DueTasks") == "app.DueTasks: 2 swept, 1 failed\n"


def test_a_dry_run_only_says_how_many(manage, tasks):
    assert manage("duebox", "sweep", "app.DueTasks", "--dry-run") == "app.DueTasks: 3 would be swept\n"
    assert not Event.objects.exists()


def test_no_more_rows_are_taken_than_the_limit(manage, tasks):
    assert manage("duebox", "sweep", "app.DueTasks", "--limit", "2") == "app.DueTasks: 2 swept\n"


def test_the_counts_are_there_as_json_one_sweep_a_line(manage, tasks):
    first, second = map(json.loads, manage("duebox", "sweep", "--json").splitlines())
    run = first.pop("run")
    assert ScheduleLog.objects.filter(run=run).count() == 3
    assert first == {
        "sweep": "app.DueTasks", "found": 3, "stamped": 3, "emitted": 3, "again": 0, "failed": 0, "dry_run": False,
    }  # fmt: skip
    assert second["sweep"] == "app.LostParcels"


def test_a_name_that_does_not_exist_is_refused_with_those_that_do(manage):
    with pytest.raises(CommandError, match=r"No sweep is named 'app.DueTask'; there are: app.ByHand, app.DueTasks"):
        manage("duebox", "sweep", "app.DueTask")


def test_a_project_without_sweeps_is_told_so(manage, declared):
    declared.clear()
    assert manage("duebox", "sweep").startswith("No periodic sweep is declared")
    assert manage("duebox", "sweep", "--json") == ""


def test_one_sweep_that_cannot_be_run_does_not_keep_the_others_from_running(manage, declared):
    Parcel.objects.create()
    declared["app.DueTasks"].due = lambda self, rows, now: rows.filter(deadline=now)
    with pytest.raises(Exception, match="Cannot resolve keyword 'deadline'"):
        manage("duebox", "sweep")
    assert Event.objects.get().type == "parcel.lost"


def test_a_limit_that_makes_no_sense_is_refused(manage):
    with pytest.raises(CommandError, match="is not a whole number above 0"):
        manage("duebox", "sweep", "--limit", "0")


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_can_be_swept(manage, tasks):
    Parcel.objects.using("other").create()
    assert manage("duebox", "sweep", "--database", "other") == "app.DueTasks: 0 swept\napp.LostParcels: 1 swept\n"
    with pytest.raises(CommandError, match=r"'nope'.*default, other"):
        manage("duebox", "sweep", "--database", "nope")


def test_a_database_that_does_not_answer_is_tried_again_for_seven_seconds_and_the_run_is_skipped(start, nowhere):
    started = time.monotonic()
    process = start("duebox", "sweep", "app.DueChores", **nowhere)
    out, err = process.communicate(timeout=120)
    took = time.monotonic() - started
    assert (process.returncode, out) == (1, "")
    waits = [line.split(" s:")[0].rpartition(" ")[2] for line in err.splitlines() if "WARNING database error" in line]
    assert waits == ["1", "2", "4"]
    assert took > 7
    assert err.count("ERROR sweep skipped: sweep=app.DueChores run=") == 1
    assert err.endswith("The database does not answer; skipped until the next run: app.DueChores.\n")
    assert "Traceback" not in err


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_when_the_database_does_not_answer_the_other_sweeps_are_skipped_without_waiting(manage, monkeypatch):
    away = connections["other"]
    away.close()
    for name, value in {"HOST": "127.0.0.1", "PORT": "1"}.items():
        monkeypatch.setitem(away.settings_dict, name, value)
    waits = []
    monkeypatch.setattr("duebox.schedules.sweep_run._wait", waits.append)
    with pytest.raises(CommandError, match=r"skipped until the next run: app\.DueTasks, app\.LostParcels"):
        manage("duebox", "sweep", "--database", "other")
    assert waits == [1, 2, 4]
    away.close()


# The same verbs without a manage.py


def python_m_duebox(*words, **changes):
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "DUEBOX_TEST_NAME": connection.settings_dict["NAME"],
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        **changes,
    }
    return subprocess.run(
        [sys.executable, "-m", "duebox", *words], env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.django_db(transaction=True)
def test_python_m_duebox_runs_the_same_verbs(tasks):
    done = python_m_duebox("sweep", "app.SlowReminders")
    assert (done.returncode, done.stdout) == (0, "app.SlowReminders: 3 swept\n")
    assert Event.objects.count() == 3
    assert python_m_duebox("once").stdout == "nothing to do\n"


def test_python_m_duebox_explains_itself():
    done = python_m_duebox("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: python -m duebox COMMAND")
    assert python_m_duebox().returncode == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "DJANGO_SETTINGS_MODULE is not set, so there is no project to run; set it, as in DJANGO_SETTINGS_MODULE="),
        ("shop.settings", "DJANGO_SETTINGS_MODULE is 'shop.settings', which cannot be imported from "),
        ("tests.sittings", "(No module named 'tests.sittings'); run this in the folder that holds the project"),
    ],
)
def test_python_m_duebox_without_a_project_says_what_is_missing(name, message):
    done = python_m_duebox("worker", DJANGO_SETTINGS_MODULE=name)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_python_m_duebox_in_a_project_without_duebox_says_so(tmp_path):
    (tmp_path / "bare.py").write_text("SECRET_KEY = 'x'\n")
    done = python_m_duebox("worker", DJANGO_SETTINGS_MODULE="bare", PYTHONPATH=f"{ROOT / 'src'}{os.pathsep}{tmp_path}")
    assert done.returncode == 1
    assert "add 'duebox' to INSTALLED_APPS and migrate" in done.stderr
