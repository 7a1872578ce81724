from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection

import duebox
from duebox.models import Attempt, Delivery, RowChange
from duebox.schedules import capture
from duebox.store import operations
from duebox.store.schema import DROP, CreateObject
from duebox.testing import drain
from duebox.when import minutes
from tests.app.people import Appointment
from tests.app.planned import reminding

SQL = Path(duebox.__file__).parent / "store" / "sql"

SETTINGS = """
INSTALLED_APPS = ["duebox"]
SECRET_KEY = "tests only"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
SILENCED_SYSTEM_CHECKS = ["duebox.E003"]
"""


def test_another_kind_of_database_of_the_project_can_be_migrated_along(tmp_path):
    (tmp_path / "legacy_settings.py").write_text(SETTINGS)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--settings", "legacy_settings"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Applying duebox.0001_initial... OK" in done.stdout


def test_every_object_in_a_file_is_created_by_the_migration():
    files = {(path.parent.name, path.stem) for path in SQL.glob("*/*.sql") if path.parent.name != "templates"}
    migration = import_module("duebox.migrations.0001_initial").Migration
    created = [(each.folder, each.name) for each in migration.operations if isinstance(each, CreateObject)]
    assert sorted(created) == sorted(files)
    assert {folder for folder, _ in files} == set(DROP)


@pytest.mark.parametrize("folder", sorted(DROP))
def test_a_file_holds_one_object_and_has_its_name(folder):
    for path in (SQL / folder).iterdir():
        text = re.sub(r"--.*", "", path.read_text())
        made = re.findall(
            r"^(?:CREATE(?: OR REPLACE)? [A-Z]+|ALTER TABLE|REVOKE ALL ON) (duebox_\w+)", text, re.MULTILINE
        )
        assert set(made) == {path.stem}, path
        assert folder == "tables" or len(made) == 1, path


@pytest.mark.django_db(transaction=True)
def test_it_can_be_taken_back_with_rows_and_done_again(on):
    @on("order.paid", name="accounts")
    def refuse(event):
        raise duebox.Permanent("no such account")

    duebox.emit("order.paid")
    drain(raises=False)
    row = Delivery.objects.get()
    operations.park("default", [row.id], note="until Monday")
    duebox.audit("order.read", ("shop.order", 1))
    before = made_by_the_migration()
    assert {"duebox_claim", "duebox_event_is_immutable", "duebox_outbox", "duebox_audit_between"} <= set(before)
    try:
        call_command("migrate", "duebox", "zero", verbosity=0)
        assert objects() == []
    finally:
        call_command("migrate", "duebox", verbosity=0)
    assert made_by_the_migration() == before
    assert not Delivery.objects.exists()
    duebox.emit("order.paid")
    drain(raises=False)
    assert list(Attempt.objects.values_list("outcome", flat=True)) == ["dead"]


def made_by_the_migration():
    """Without the triggers on followed tables, which depend on the plans that earlier tests have declared."""
    return [name for name in objects() if not name.startswith(("duebox_capture_", "duebox_record_"))]


def objects():
    """The names of all that Duebox has in the schema."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT proname AS name FROM pg_proc WHERE starts_with(proname, 'duebox_') "
            "UNION ALL SELECT relname FROM pg_class WHERE starts_with(relname, 'duebox_') "
            "UNION ALL SELECT tgname FROM pg_trigger WHERE starts_with(tgname, 'duebox_') ORDER BY name"
        )
        return [name for (name,) in cursor.fetchall()]


@pytest.mark.usefixtures("capturing")
@pytest.mark.django_db(transaction=True)
def test_the_triggers_on_followed_tables_leave_with_the_table_that_they_write_to(forget_plans):
    reminding(minutes(-60))
    capture.install("default")
    try:
        call_command("migrate", "duebox", "zero", verbosity=0)
        assert Appointment.objects.update(status="cancelled") == 0  # a trigger would fail
    finally:
        call_command("migrate", "duebox", verbosity=0)
    assert [each.state for each in capture.tables("default")] == ["installed"]
    call_command("flush", verbosity=0, interactive=False)
    assert not RowChange.objects.exists()  # the triggers have noted the TRUNCATE
    for each in capture.row_changes.installed("default"):
        with connection.cursor() as cursor:
            cursor.execute(capture.row_changes.remove_sql(each.table, each.function))
