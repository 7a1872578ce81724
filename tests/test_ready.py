"""Where Duebox cannot work yet, each answer names the repair."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import ProgrammingError, connections, transaction
from django.test import modify_settings
from django.utils import timezone

import duebox
from duebox import deliveries
from duebox.exceptions import NotReady
from duebox.schedules import plans
from duebox.testing import drain
from tests.app.people import Person
from tests.app.planned import Birthdays, declare

ROOT = Path(__file__).parent.parent


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "src:.", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_importing_and_subscribing_need_no_settings():
    done = python("import duebox\n@duebox.on('a.b')\ndef f(event): pass")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_emit_without_any_project_says_that_django_is_not_set_up():
    done = python("import duebox; duebox.emit('a.b')", DJANGO_SETTINGS_MODULE="")
    assert "duebox.exceptions.NotReady: Django is not set up yet (" in done.stderr
    assert "call django.setup() first" in done.stderr


def test_an_emit_before_setup_says_that_django_is_not_set_up():
    code = "from django.conf import settings; settings.configure(); import duebox; duebox.emit('a.b')"
    assert "Django is not set up yet (Apps aren't loaded yet.)" in python(code).stderr


@modify_settings(INSTALLED_APPS={"remove": "duebox"})
def test_an_emit_in_a_project_without_the_app_says_to_install_it():
    with pytest.raises(NotReady, match="add 'duebox' to INSTALLED_APPS and migrate"):
        duebox.emit("a.b")


WITHOUT_DUEBOX = """
from django.conf import settings
settings.configure(INSTALLED_APPS=["django.contrib.contenttypes"], USE_TZ=True)
import django
django.setup()
"""


@pytest.mark.parametrize("module", ["testing", "models", "worker.worker"])
def test_an_import_in_a_project_without_the_app_says_to_install_it(module):
    done = python(f"{WITHOUT_DUEBOX}import duebox.{module}", DJANGO_SETTINGS_MODULE="")
    assert done.stderr.splitlines()[-1] == (
        "duebox.exceptions.NotReady: Duebox is not installed in this project; "
        "add 'duebox' to INSTALLED_APPS and migrate."
    )


@pytest.mark.parametrize("call", ["upcoming()", "cancel('it')", "schedule('a.b', repeat=duebox.when.daily('09:00'))"])
def test_a_schedule_in_a_project_without_the_app_says_to_install_it(call):
    done = python(f"{WITHOUT_DUEBOX}import duebox, duebox.when; duebox.{call}", DJANGO_SETTINGS_MODULE="")
    assert "NotReady: Duebox is not installed in this project; add 'duebox' to INSTALLED_APPS" in done.stderr


REPAIR = r"^Database 'default' lacks the Duebox tables \(.*\); run: manage.py migrate duebox --database default$"


@pytest.mark.django_db
@pytest.mark.parametrize("act", [lambda: duebox.emit("a.b"), drain], ids=["emit", "drain"])
def test_missing_tables_are_answered_with_the_migrate_command(act):
    with connections["default"].cursor() as cursor:
        cursor.execute("DROP TABLE duebox_event, duebox_delivery, duebox_worker CASCADE")
    with pytest.raises(NotReady, match=REPAIR), transaction.atomic():
        act()


TOMORROW = timedelta(days=1)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "act",
    [
        lambda: duebox.schedule("a.b", at=timezone.now() + TOMORROW),
        lambda: duebox.reschedule("it", at=timezone.now() + TOMORROW),
        lambda: duebox.cancel("it"),
        lambda: duebox.pause(about=("bell", 1)),
        lambda: duebox.resume("it"),
        lambda: duebox.upcoming(),
        lambda: duebox.upcoming(key="it"),
        lambda: duebox.upcoming(Person(pk=1)),
        lambda: duebox.upcoming_of([Person(pk=1)]),
        lambda: duebox.upcoming_schedules(),
        lambda: duebox.restore("it"),
        Person(name="Ann").save,
        lambda: next(plan for plan in plans.plans() if plan.name == "app.Birthdays").reconcile(),
    ],
    ids=[
        "schedule",
        "reschedule",
        "cancel",
        "pause",
        "resume",
        "upcoming",
        "upcoming of a key",
        "upcoming of a row",
        "upcoming of rows",
        "upcoming schedules",
        "restore",
        "save",
        "reconcile",
    ],
)
@pytest.mark.usefixtures("forget_plans")
def test_a_missing_table_of_schedules_is_answered_with_the_migrate_command(act):
    declare(Birthdays)
    with connections["default"].cursor() as cursor:
        cursor.execute("DROP TABLE duebox_schedule CASCADE")
    with pytest.raises(NotReady, match=REPAIR) as raised, transaction.atomic():
        act()
    assert 'relation "duebox_schedule" does not exist' in str(raised.value)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "act",
    [
        lambda: duebox.emit("a.b"),
        lambda: duebox.schedule("a.b", at=timezone.now() + TOMORROW),
        lambda: duebox.upcoming(),
        Person(name="Ann").save,
    ],
    ids=["emit", "schedule", "upcoming", "save"],
)
@pytest.mark.usefixtures("forget_plans")
def test_before_the_first_migrate_each_door_is_answered_with_its_command(act):
    declare(Birthdays)
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT c.oid::regclass::text FROM pg_class c WHERE relname LIKE 'duebox%' AND relkind = 'r'")
        cursor.execute(f"DROP TABLE {', '.join(name for (name,) in cursor.fetchall())} CASCADE")
        cursor.execute("SELECT oid::regprocedure::text FROM pg_proc WHERE proname LIKE 'duebox%'")
        cursor.execute(f"DROP FUNCTION {', '.join(name for (name,) in cursor.fetchall())} CASCADE")
    with pytest.raises(NotReady, match=REPAIR), transaction.atomic():
        act()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "act",
    [
        lambda: deliveries.find(),
        lambda: deliveries.find(type="a.b", handler="nobody"),
        lambda: deliveries.get(1),
        lambda: deliveries.groups(),
        lambda: deliveries.retry([1]),
        lambda: deliveries.retry(state="dead"),
        lambda: deliveries.park([1], note="later"),
        lambda: deliveries.discard(type="a.b", reason="not needed"),
        lambda: deliveries.blocked(),
        lambda: deliveries.orphaned(),
    ],
    ids=["find", "find by filters", "get", "groups", "retry", "retry by state", "park", "discard", "blocked",
         "orphaned"],
)  # fmt: skip
def test_a_missing_table_of_deliveries_is_answered_with_the_migrate_command(act):
    with connections["default"].cursor() as cursor:
        cursor.execute("DROP TABLE duebox_event, duebox_delivery, duebox_worker CASCADE")
    with pytest.raises(NotReady, match=REPAIR), transaction.atomic():
        act()


@pytest.mark.django_db
def test_a_missing_function_is_named_without_its_arguments():
    with connections["default"].cursor() as cursor:
        cursor.execute("ALTER FUNCTION duebox_insert_event RENAME TO duebox_insert_event_before")
    with pytest.raises(NotReady, match=REPAIR) as raised, transaction.atomic():
        duebox.emit("a.b")
    assert "(function duebox_insert_event does not exist)" in str(raised.value)


@pytest.mark.django_db
@pytest.mark.usefixtures("forget_plans")
def test_a_missing_table_of_the_project_is_not_taken_for_one_of_duebox():
    plan = declare(Birthdays)
    with connections["default"].cursor() as cursor:
        cursor.execute("ALTER TABLE app_person RENAME TO app_hidden")
    with pytest.raises(ProgrammingError, match="app_person"), transaction.atomic():
        plan.reconcile()


@pytest.mark.django_db(databases=["default", "other"])
def test_the_migrate_command_names_the_alias_that_lacks_the_tables():
    with connections["other"].cursor() as cursor:
        cursor.execute("ALTER TABLE duebox_event DROP COLUMN metadata CASCADE")
    with pytest.raises(NotReady, match="migrate duebox --database other"), transaction.atomic(using="other"):
        duebox.emit("a.b", using="other")
