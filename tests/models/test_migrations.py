from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.core.management import call_command
from django.db import connection

import duebox
from duebox import capture
from duebox.models import Attempt, Delivery, RowChange
from duebox.store import operations
from duebox.testing import drain
from duebox.when import minutes
from tests.app.people import Appointment
from tests.app.planned import reminding

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
    assert "Applying duebox.0002_emit... OK" in done.stdout


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("back_to", ["0008", "0004", "zero"])
def test_it_can_be_taken_back_and_done_again_with_rows_that_are_newer(on, back_to):
    @on("order.paid", name="accounts")
    def refuse(event):
        raise duebox.Permanent("no such account")

    duebox.emit("order.paid")
    drain(raises=False)
    row = Delivery.objects.get()
    operations.park("default", [row.id], note="until Monday")
    try:
        call_command("migrate", "duebox", back_to, verbosity=0)
    finally:
        call_command("migrate", "duebox", verbosity=0)
    if back_to != "zero":
        row.refresh_from_db()
        assert row.status == "dead"
        assert list(Attempt.objects.values_list("outcome", flat=True)) == ["dead"]


@pytest.mark.usefixtures("capturing")
@pytest.mark.django_db(transaction=True)
def test_the_triggers_on_followed_tables_leave_with_the_table_that_they_write_to(forget_plans):
    reminding(minutes(-60))
    capture.install("default")
    try:
        call_command("migrate", "duebox", "0010", verbosity=0)
        assert Appointment.objects.update(status="cancelled") == 0  # a trigger would fail
    finally:
        call_command("migrate", "duebox", verbosity=0)
    assert [each.state for each in capture.tables("default")] == ["installed"]
    call_command("flush", verbosity=0, interactive=False)
    assert not RowChange.objects.exists()  # the triggers have noted the TRUNCATE
    for each in capture.row_changes.installed("default"):
        with connection.cursor() as cursor:
            cursor.execute(capture.row_changes.remove_sql(each.table, each.function))
