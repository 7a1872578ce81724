"""Planning: how long a million anniversaries take, and a zone database that moves a hundred thousand of them."""

from __future__ import annotations

import shutil
import tempfile
import time
from datetime import date, timedelta
from importlib import resources
from pathlib import Path
from random import Random

from django.db import connection

from bench import stage
from bench.models import Person
from bench.plans import Birthdays
from duebox.models import Schedule, ScheduleLog
from duebox.schedules.tzdata_update import rezone
from duebox.when import zones

MOVED = "America/Vancouver"
DAYS = 366 * 80
ZONES = 40


def fill(count: int, *, in_moved: float = 0.1) -> None:
    """People born on any day of eighty years, in forty zones; a share of them in one more, which will be moved."""
    stage.empty()
    dice = Random(7)
    names = dice.sample(sorted(name for name in zones.current().names if name != MOVED and "/" in name), ZONES)
    for begin in range(0, count, 20_000):
        Person.objects.bulk_create(
            Person(
                zone=MOVED if dice.random() < in_moved else dice.choice(names),
                born_on=date(1930, 1, 1) + timedelta(days=dice.randrange(DAYS)),
            )
            for _ in range(begin, min(begin + 20_000, count))
        )


def sync(count: int) -> float:
    """Seconds to plan for so many people, nobody planned before."""
    begun = time.perf_counter()
    done = Birthdays.sync(Person.objects.all())
    took = time.perf_counter() - begun
    assert done.planned == count == Schedule.objects.count(), done
    return took


def limit() -> float:
    """Seconds that the database alone takes to insert the same rows into a table with the same indexes."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE twin (LIKE duebox_schedule INCLUDING ALL)")
        begun = time.perf_counter()
        cursor.execute("INSERT INTO twin SELECT * FROM duebox_schedule")
        took = time.perf_counter() - begun
        cursor.execute("DROP TABLE twin")
    return took


def sync_again(count: int) -> float:
    """The same when nothing has changed."""
    begun = time.perf_counter()
    done = Birthdays.reconcile()
    assert done.unchanged == count, done
    return time.perf_counter() - begun


def move_a_zone() -> tuple[float, int]:
    """Seconds to follow a zone database in which one zone has other rules, and how many schedules moved."""
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "zoneinfo"
        with resources.as_file(resources.files("tzdata") / "zoneinfo") as packaged:
            shutil.copytree(packaged, changed)
        shutil.copyfile(changed / "Pacific/Honolulu", changed / MOVED)
        with zones.using(zones.from_folder(changed, release="9999z")):
            begun = time.perf_counter()
            done = rezone("default")
            took = time.perf_counter() - begun
    assert done.moved == ScheduleLog.objects.filter(what="moved").count(), done
    return took, done.moved
