"""`duebox capture`: which tables have their triggers, the SQL for those that have not, and the exit code."""

from __future__ import annotations

import json

import pytest
from django.core.management.base import CommandError
from django.db import DatabaseError, connection

from duebox import audit_log
from duebox.schedules import capture, plans
from duebox.when import minutes
from tests.app.people import Appointment, Device, Person
from tests.app.planned import Reminders as AnyReminders
from tests.app.planned import declare, reminding

pytestmark = [
    pytest.mark.django_db(databases=["default", "other"]),
    pytest.mark.usefixtures("only_own_plans"),
]


@pytest.fixture
def only_own_plans(db, capturing, monkeypatch):
    """Only the plans of the test; they are taken back after it. Until then no table has triggers."""
    monkeypatch.setattr(plans, "_plans", {})
    for alias in ("default", "other"):
        capture.install(alias)
    yield
    for plan in plans.plans():
        plans.remove(plan.name)


@pytest.fixture
def run(manage):
    return lambda *words: manage("duebox", "capture", *words)


@pytest.fixture
def plan():
    return reminding(minutes(-60), follows={Person: "person"})


def states():
    return {each.table: each.state for each in capture.tables("default")}


def listed(text):
    return [line.split() for line in text.splitlines()]


def test_without_plans_it_says_that_no_table_is_followed(run):
    assert run() == "Neither a plan nor the audit log follows any table of database 'default'.\n"
    assert run("--sql") == run("--json") == ""


def test_what_is_installed_is_listed_with_its_entity_types(run, plan):
    capture.install("default")
    assert listed(run()) == [
        ["table", "for", "triggers", "entity", "types"],
        ["app_appointment", "plans", "installed", "app.appointment"],
        ["app_person", "plans", "installed", "app.person"],
    ]


def test_what_is_missing_is_an_error_with_its_repair(run, plan):
    with pytest.raises(CommandError, match=r"of 2 tables are not up to date; run: manage\.py duebox capture"):
        run()


def test_missing_outdated_and_unused_are_told_apart(plan, manage):
    capture.install("default")
    plans.remove(plan.name)
    reminding(minutes(-60), watch=("status",))
    declare(AnyReminders, Device, name="services")
    assert states() == {"app_appointment": "outdated", "app_device": "missing", "app_person": "unused"}
    with pytest.raises(CommandError, match="3 tables"):
        manage("duebox", "capture")


def test_it_can_be_installed(run, plan):
    assert listed(run("--install"))[1:] == [
        ["app_appointment", "plans", "installed", "app.appointment"],
        ["app_person", "plans", "installed", "app.person"],
    ]
    assert set(states().values()) == {"installed"}


def test_what_nothing_needs_any_more_is_taken_away(run, plan):
    capture.install("default")
    plans.remove(plan.name)
    assert run("--install") == "Neither a plan nor the audit log follows any table of database 'default'.\n"
    assert states() == {}


def test_the_sql_does_the_same_and_is_all_that_is_printed(run, plan):
    with connection.cursor() as cursor:
        cursor.execute(run("--sql"))
    assert states() == {"app_appointment": "installed", "app_person": "installed"}
    assert run("--sql") == ""
    plans.remove(plan.name)
    with connection.cursor() as cursor:
        cursor.execute(run("--sql"))
    assert states() == {}


def test_json_is_one_table_a_line(run, plan):
    capture.install("default")
    assert [json.loads(line) for line in run("--json").splitlines()] == [
        {"table": "app_appointment", "for": "plans", "state": "installed", "entity_types": ["app.appointment"]},
        {"table": "app_person", "for": "plans", "state": "installed", "entity_types": ["app.person"]},
    ]


def test_what_cannot_be_installed_is_an_error_with_the_reason(run, plan, monkeypatch):
    def refuse(using, text):
        if "app_person" in text:
            raise DatabaseError("permission denied for table app_person")
        execute(using, text)

    execute = capture.row_changes.execute_sql
    monkeypatch.setattr(capture.row_changes, "execute_sql", refuse)
    with pytest.raises(
        CommandError, match=r"(?s)could not be changed.*app_person \(for plans\): permission denied for table"
    ):
        run("--install")
    assert states() == {"app_appointment": "installed", "app_person": "missing"}


def test_a_model_that_cannot_have_triggers_is_named_with_the_reason(run, monkeypatch):
    declare(AnyReminders, Device)
    monkeypatch.setattr(Device._meta, "managed", False)
    assert run() == "app.Device cannot have triggers: Django does not manage its table.\n"


def test_another_database_has_triggers_of_its_own(run, plan):
    run("--install", "--database", "other")
    assert "installed" in run("--database", "other")
    assert set(states().values()) == {"missing"}


def test_without_the_tables_of_duebox_it_says_what_to_run(run, plan):
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE duebox_row_change")
    with pytest.raises(CommandError, match=r"The Duebox tables are missing; run: manage\.py migrate duebox"):
        run()


def test_a_partition_has_triggers_of_its_own(run, monkeypatch):
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE parted (LIKE app_appointment) PARTITION BY RANGE (id)")
        cursor.execute("CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)")
    monkeypatch.setattr(Appointment._meta, "db_table", "parted")
    reminding(minutes(-60))
    assert [[line[0], line[2]] for line in listed(run("--install"))[1:]] == [
        ["parted", "installed"],
        ["parted_1", "installed"],
    ]


def test_tables_that_the_audit_log_follows_are_listed_too(run, plan):
    audit_log.follow()(Person)
    capture.install("default")
    assert listed(run())[1:] == [
        ["app_appointment", "plans", "installed", "app.appointment"],
        ["app_person", "plans", "installed", "app.person"],
        ["app_person", "audit", "installed", "app.person"],
    ]


def test_the_sql_of_the_audit_log_does_the_same_as_installing_it(run):
    audit_log.follow(hash=["name"])(Person)
    sql = run("--sql")
    assert "duebox_record_insert" in sql
    with connection.cursor() as cursor:
        cursor.execute(sql)
    assert states() == {"app_person": "installed"}
