"""A plan follows its rows whoever changes them: triggers note the change, a worker plans it, nothing stale fires."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection, connections, models, transaction
from django.db.models.signals import post_save
from django.test.utils import isolate_apps

import duebox
from duebox.models import Event, RowChange, Schedule
from duebox.schedules import capture
from duebox.schedules.fire import fire_due
from duebox.store.run_sql import statement
from duebox.when import UnknownZone, minutes
from tests.app.members import Chair, Club
from tests.app.people import Appointment, Device, Person, Surgery
from tests.app.planned import Birthdays, Reminders, declare, live, reminding
from tests.support import connection_params, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("forget_triggers")]

MONDAY = datetime(2027, 3, 1, 12, tzinfo=UTC)
LATER = MONDAY + timedelta(hours=5)


@pytest.fixture
def forget_triggers(transactional_db, forget_plans):
    yield
    with connection.cursor() as cursor:
        for table in capture.row_changes.installed("default"):
            cursor.execute(capture.row_changes.remove_sql(table.table, table.function))
    RowChange.objects.all().delete()


@pytest.fixture
def plan():
    """Reminders an hour before, in the zone of the person."""
    found = reminding(minutes(-60), follows={Person: "person"})
    capture.install("default")
    return found


@pytest.fixture
def appointment(plan):
    return Appointment.objects.create(person=Person.objects.create(), starts_at=MONDAY)


def due(row):
    """When the reminder of a row is due; None if there is none."""
    return live(row).get("-PT60M") or live(row).get("-PT1H")


def tables():
    """Those that plans follow or followed."""
    return [each for each in capture.tables("default") if each.purpose == capture.PLANS]


def psql(*statements):
    """As another program does it."""
    with psycopg.connect(**connection_params(), autocommit=True) as elsewhere:
        for each in statements:
            elsewhere.execute(each)


def is_planned():
    capture.plan_changes("default")
    assert not RowChange.objects.exists()


HOUR = timedelta(hours=1)


def test_a_save_is_planned_at_once_and_leaves_no_note(appointment):
    assert due(appointment) == MONDAY - HOUR
    appointment.starts_at = LATER
    appointment.save()
    assert due(appointment) == LATER - HOUR
    appointment.person.save()
    appointment.delete()
    assert not RowChange.objects.exists()


def test_a_queryset_update_is_noted_and_planned(appointment):
    Appointment.objects.update(starts_at=LATER)
    assert [str(each) for each in RowChange.objects.all()] == [f"app.appointment:{appointment.pk}"]
    is_planned()
    assert due(appointment) == LATER - HOUR


def test_bulk_create_is_planned(plan):
    [made] = Appointment.objects.bulk_create([Appointment(starts_at=MONDAY)])
    is_planned()
    assert due(made) == MONDAY - HOUR


def test_bulk_create_with_update_conflicts_is_planned(appointment):
    again = Appointment(pk=appointment.pk, starts_at=LATER, person=appointment.person)
    Appointment.objects.bulk_create([again], update_conflicts=True, unique_fields=["id"], update_fields=["starts_at"])
    is_planned()
    assert due(appointment) == LATER - HOUR


def test_bulk_update_is_planned(appointment):
    appointment.starts_at = LATER
    Appointment.objects.bulk_update([appointment], ["starts_at"])
    is_planned()
    assert due(appointment) == LATER - HOUR


def test_a_queryset_delete_takes_the_reminders_back(appointment):
    Appointment.objects.all()._raw_delete("default")  # what delete() does where nobody listens to signals
    is_planned()
    assert due(appointment) is None


def test_a_cascade_in_the_database_takes_the_reminders_back(appointment):
    psql(
        "ALTER TABLE app_appointment DROP CONSTRAINT IF EXISTS test_cascade",
        "ALTER TABLE app_appointment ADD CONSTRAINT test_cascade FOREIGN KEY (person_id) REFERENCES app_person "
        "ON DELETE CASCADE",
    )
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = DEFAULT")
            cursor.execute(
                "SELECT conname FROM pg_constraint WHERE conrelid = 'app_appointment'::regclass "
                "AND confrelid = 'app_person'::regclass AND conname <> 'test_cascade'"
            )
            [(name,)] = cursor.fetchall()
            cursor.execute(f"ALTER TABLE app_appointment DROP CONSTRAINT {name}")
        psql("DELETE FROM app_person")
        is_planned()
        assert due(appointment) is None
    finally:
        psql(
            "ALTER TABLE app_appointment DROP CONSTRAINT test_cascade",
            f"ALTER TABLE app_appointment ADD CONSTRAINT {name} FOREIGN KEY (person_id) REFERENCES app_person "
            "DEFERRABLE INITIALLY DEFERRED",
        )


def test_a_truncate_takes_all_reminders_back(appointment):
    psql("TRUNCATE app_appointment CASCADE")
    is_planned()
    assert due(appointment) is None


def test_a_copy_is_planned(plan):
    with (
        psycopg.connect(**connection_params(), autocommit=True) as elsewhere,
        elsewhere.cursor() as cursor,
        cursor.copy("COPY app_appointment (starts_at, local_start, status) FROM STDIN") as copy,
    ):
        copy.write_row((MONDAY, "", "booked"))
    is_planned()
    assert due(Appointment.objects.get()) == MONDAY - HOUR


def test_raw_sql_from_elsewhere_is_planned(appointment):
    psql(f"UPDATE app_appointment SET starts_at = '{LATER.isoformat()}'")
    is_planned()
    assert due(appointment) == LATER - HOUR


def test_a_change_by_another_database_user_is_planned(appointment):
    psql("DROP ROLE IF EXISTS duebox_test_other", "CREATE ROLE duebox_test_other",
         "GRANT SELECT, UPDATE ON app_appointment TO duebox_test_other")  # fmt: skip
    try:
        psql("SET ROLE duebox_test_other", f"UPDATE app_appointment SET starts_at = '{LATER.isoformat()}'")
        is_planned()
        assert due(appointment) == LATER - HOUR
    finally:
        psql("DROP OWNED BY duebox_test_other", "DROP ROLE duebox_test_other")


def test_raw_sql_on_a_followed_row_moves_the_reminders_of_the_rows_that_follow_it(forget_plans):
    reminding(minutes(-60), follows={Person: "person"})
    capture.install("default")
    person = Person.objects.create(zone="Europe/London")
    row = Appointment.objects.create(person=person, local_start="2027-03-01T12:00")
    before = due(row)
    psql("UPDATE app_person SET zone = 'Asia/Tokyo'")
    is_planned()
    assert due(row) == before - timedelta(hours=9)


def test_a_changed_primary_key_moves_the_reminders_to_the_new_one(plan):
    row = Appointment.objects.create(starts_at=MONDAY)
    psql(f"UPDATE app_appointment SET id = {row.pk + 1000}")
    is_planned()
    assert due(row) is None
    assert due(Appointment.objects.get()) == MONDAY - HOUR


def test_uuids_as_keys():
    class Services(Reminders):
        model = Device
        offsets = (minutes(-60),)

        def queryset(self):
            return Device.objects.all()

        def anchor(self, row):
            return row.serviced_at

        def zone(self, row):
            return "UTC"

        def when(self, row):
            return True

    capture.install("default")
    device = Device.objects.create(serviced_at=MONDAY)
    Device.objects.update(serviced_at=LATER)
    is_planned()
    assert due(device) == LATER - HOUR


def test_a_change_in_the_table_of_a_parent_is_a_change_of_the_row(forget_plans):
    declare(Reminders, Surgery, offsets=(minutes(-60),), queryset=lambda self: Surgery.objects.all())
    capture.install("default")
    surgery = Surgery.objects.create(starts_at=MONDAY)
    psql(f"UPDATE app_appointment SET starts_at = '{LATER.isoformat()}'")
    is_planned()
    assert due(surgery) == LATER - HOUR


def test_only_fields_that_are_watched_count(forget_plans):
    reminding(minutes(-60), watch=("starts_at", "status"))
    capture.install("default")
    row = Appointment.objects.create(starts_at=MONDAY)
    Appointment.objects.update(local_start="")
    assert not RowChange.objects.exists()
    Appointment.objects.update(status="cancelled")
    assert RowChange.objects.count() == 1
    is_planned()
    assert due(row) is None


def test_a_statement_for_many_rows_is_planned_in_batches(plan, monkeypatch):
    monkeypatch.setattr(capture, "BATCH", 7)
    for _ in range(10):
        Appointment.objects.bulk_create([Appointment(starts_at=MONDAY) for _ in range(3)])
    assert capture.plan_changes("default") == 30
    Appointment.objects.update(starts_at=LATER)
    assert capture.plan_changes("default") == 30
    assert set(Schedule.objects.values_list("due_at", flat=True)) == {LATER - HOUR}


def test_a_row_that_a_transaction_holds_is_left_for_later_and_holds_up_no_other(plan):
    rows = Appointment.objects.bulk_create([Appointment(starts_at=MONDAY) for _ in range(3)])
    is_planned()
    Appointment.objects.update(starts_at=LATER)
    with psycopg.connect(**connection_params()) as elsewhere:
        elsewhere.execute("SELECT FROM app_appointment WHERE id = %s FOR UPDATE", [rows[1].pk])
        assert capture.plan_changes("default") == 2
        assert [due(row) for row in rows] == [LATER - HOUR, MONDAY - HOUR, LATER - HOUR]
    is_planned()
    assert due(rows[1]) == LATER - HOUR


def test_a_change_that_is_rolled_back_leaves_no_note(appointment):
    with transaction.atomic():
        Appointment.objects.update(starts_at=LATER)
        assert RowChange.objects.exists()
        transaction.set_rollback(True)
    assert not RowChange.objects.exists()


def test_what_was_changed_and_not_planned_yet_does_not_fire_by_the_old_plan(plan):
    row = Appointment.objects.create(starts_at=datetime.now(UTC) + HOUR + timedelta(seconds=1.5))
    eventually(lambda: due(row) <= datetime.now(UTC))
    psql("UPDATE app_appointment SET starts_at = starts_at + interval '1 day'")
    assert fire_due("default").events == 0
    assert not Event.objects.exists()
    assert due(row) > datetime.now(UTC) + timedelta(hours=23)


def test_what_was_changed_and_is_due_all_the_same_fires_once(plan):
    row = Appointment.objects.create(starts_at=datetime.now(UTC) + HOUR + timedelta(seconds=1.5))
    eventually(lambda: due(row) <= datetime.now(UTC))
    psql("UPDATE app_appointment SET local_start = ''")
    assert fire_due("default").events == 1
    is_planned()
    assert fire_due("default").events == 0
    assert Event.objects.filter(type="appointment.reminder").count() == 1


def test_a_due_row_that_a_transaction_holds_waits_for_it_and_no_other_does(plan):
    soon = datetime.now(UTC) + HOUR + timedelta(seconds=1.5)
    rows = Appointment.objects.bulk_create([Appointment(starts_at=soon) for _ in range(2)])
    is_planned()
    eventually(lambda: due(rows[0]) <= datetime.now(UTC))
    with psycopg.connect(**connection_params()) as elsewhere:
        elsewhere.execute("UPDATE app_appointment SET status = 'cancelled' WHERE id = %s", [rows[0].pk])
        assert fire_due("default").events == 1
    fire_due("default")
    assert [event.aggregate_id for event in Event.objects.all()] == [str(rows[1].pk)]
    assert due(rows[0]) is None


def test_a_worker_plans_what_raw_sql_has_changed_within_a_moment(appointment, hire):
    hire()
    psql(f"UPDATE app_appointment SET starts_at = '{LATER.isoformat()}'")
    eventually(lambda: due(appointment) == LATER - HOUR, 5)


def test_a_reminder_that_raw_sql_brings_forward_fires(appointment, hire):
    hire()
    psql("UPDATE app_appointment SET starts_at = now() + interval '1 hour 4 seconds'")
    eventually(lambda: Event.objects.filter(type="appointment.reminder").exists())


def test_migrate_installs_the_triggers_and_takes_away_those_that_nothing_needs(forget_plans):
    reminding(minutes(-5))
    call_command("migrate", verbosity=0)
    assert [(each.table, each.state) for each in tables()] == [("app_appointment", "installed")]


def test_triggers_are_missing_outdated_and_unused_by_turns(forget_plans):
    from duebox.schedules import plans

    first = reminding(minutes(-60))
    assert [each.state for each in tables()] == ["missing"]
    capture.install("default")
    assert [each.state for each in tables()] == ["installed"]
    plans.remove(first.name)
    second = reminding(minutes(-60), watch=("status",))
    assert [each.state for each in tables()] == ["outdated"]
    capture.install("default")
    assert capture.install("default") == []
    plans.remove(second.name)
    assert [each.state for each in tables()] == ["unused"]
    capture.install("default")
    assert tables() == []


@pytest.mark.parametrize("watch", [(), ("name",)])
def test_a_column_that_is_renamed_breaks_no_statement(forget_plans, watch):
    """Between the rename and the end of migrate, which renews the triggers, a data migration may run."""
    declare(Birthdays, watch=watch)
    capture.install("default")
    person = Person.objects.create()
    psql("ALTER TABLE app_person RENAME COLUMN name TO called")
    try:
        psql("UPDATE app_person SET called = 'Bo'")
        assert RowChange.objects.exists()
    finally:
        psql("ALTER TABLE app_person RENAME COLUMN called TO name")
    is_planned()
    assert Schedule.objects.about(person).exists()


def test_columns_may_have_the_names_that_the_trigger_uses(forget_plans):
    psql("ALTER TABLE app_person RENAME COLUMN name TO changed", "ALTER TABLE app_person RENAME COLUMN zone TO key")
    try:
        made = capture.row_changes.Capture("app_person", ("id",), ("app.person",), ("changed", "key"))
        psql(capture.row_changes.install_sql("default", "app_person", made))
        psql("INSERT INTO app_person (changed, key, born_on) VALUES ('Ann', 'UTC', '1990-01-01')")
        RowChange.objects.all().delete()
        psql("UPDATE app_person SET born_on = '1991-01-01'")
        assert not RowChange.objects.exists()
        psql("UPDATE app_person SET key = 'Asia/Tokyo'")
        assert [each.key for each in RowChange.objects.all()] != [""]
    finally:
        psql("ALTER TABLE app_person RENAME COLUMN changed TO name", "ALTER TABLE app_person RENAME COLUMN key TO zone")


def test_a_plan_that_fails_when_its_changed_row_comes_due_holds_up_no_other(forget_plans, monkeypatch, caplog):
    broken = reminding(minutes(-60))
    capture.install("default")
    row = Appointment.objects.create(starts_at=datetime.now(UTC) + HOUR + timedelta(seconds=1.5))
    duebox.schedule("a.b", at=datetime.now(UTC) + timedelta(seconds=1.0), key="other")
    eventually(lambda: due(row) <= datetime.now(UTC))
    psql("UPDATE app_appointment SET local_start = ''")

    def queryset(self):
        raise RuntimeError("no connection to the other service")

    monkeypatch.setattr(broken, "queryset", queryset)
    assert fire_due("default").events == 1
    assert "changed rows not planned" in caplog.text
    assert due(row) > datetime.now(UTC) + timedelta(seconds=50)


def test_once_plans_what_was_changed_before_it_ends(appointment):
    psql(f"UPDATE app_appointment SET starts_at = '{LATER.isoformat()}'")
    call_command("duebox", "once")
    assert due(appointment) == LATER - HOUR
    assert not RowChange.objects.exists()


def test_planning_changes_within_a_transaction_leaves_its_lock_timeout_as_it_was(appointment):
    Appointment.objects.update(starts_at=LATER)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '7s'")
        capture.plan_changes("default")
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone()[0] == "7s"


def test_a_row_that_cannot_be_planned_holds_up_no_other(plan, monkeypatch, caplog):
    rows = [Appointment.objects.create(starts_at=MONDAY) for _ in range(3)]
    for row in rows:
        psql(f"UPDATE app_appointment SET starts_at = '{LATER.isoformat()}' WHERE id = {row.pk}")
    broken = str(rows[1].pk)
    original = capture._primary_keys

    def primary_keys(model, keys):
        if broken in keys:
            raise ValueError("no such key")
        return original(model, keys)

    monkeypatch.setattr(capture, "_primary_keys", primary_keys)
    assert capture.plan_changes("default") == 2
    assert caplog.text.count("changed rows not planned") == 1
    assert [due(row) for row in rows] == [LATER - HOUR, MONDAY - HOUR, LATER - HOUR]
    monkeypatch.undo()


def test_notes_of_a_type_that_this_code_does_not_know_are_left_to_code_that_does(plan):
    RowChange.objects.create(source="billing.invoice", key="7")
    capture.plan_changes("default")
    assert RowChange.objects.count() == 1


def test_many_rows_that_follow_one_row_are_planned_in_transactions_of_their_own(plan, monkeypatch):
    person = Person.objects.create()
    rows = [Appointment(person=person, local_start="2027-03-01T12:00") for _ in range(25)]
    Appointment.objects.bulk_create(rows)
    capture.plan_changes("default")
    before = due(rows[0])
    monkeypatch.setattr(capture.row_changes, "MOST_KEYS", 10)
    sizes = []
    sync_rows = capture.sync_rows
    monkeypatch.setattr(
        capture, "sync_rows", lambda plan, pks, **options: sizes.append(len(pks)) or sync_rows(plan, pks, **options)
    )
    psql("UPDATE app_person SET zone = 'Asia/Tokyo'")
    is_planned()
    assert sizes == [10, 10, 5]
    assert {due(row) for row in rows} == {before - timedelta(hours=9)}


def test_a_table_whose_name_was_taken_by_another_keeps_its_triggers(plan):
    """As when a table is exchanged: both have the function that is made of the name."""
    [table] = [each for each in capture.row_changes.installed("default") if each.table == "app_person"]
    psql("CREATE TABLE app_person_old (LIKE app_person)",
         "CREATE TRIGGER duebox_capture_truncate AFTER TRUNCATE ON app_person_old FOR EACH STATEMENT "
         f"EXECUTE FUNCTION {table.function}()")  # fmt: skip
    try:
        assert {each.table: each.state for each in tables()}["app_person_old"] == "unused"
        capture.install("default")
        assert {each.table: each.state for each in tables()} == {
            "app_appointment": "installed",
            "app_person": "installed",
        }
    finally:
        psql("DROP TABLE app_person_old")


def test_a_statement_of_many_thousand_rows_is_noted_in_parts_of_a_thousand(plan):
    Appointment.objects.bulk_create(Appointment(starts_at=MONDAY) for _ in range(3))
    psql("INSERT INTO app_appointment (starts_at, local_start, status) "
         "SELECT now(), '', 'cancelled' FROM generate_series(1, 2500)")  # fmt: skip
    assert sorted(len(each.keys) for each in RowChange.objects.all()) == [3, 500, 1000, 1000]


def test_under_repeatable_read_a_reminder_that_has_fired_meanwhile_does_not_fail_the_statement(plan):
    row = Appointment.objects.create(starts_at=datetime.now(UTC) + HOUR + timedelta(seconds=1.5))
    with psycopg.connect(**connection_params()) as elsewhere:
        elsewhere.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        elsewhere.execute("SELECT count(*) FROM duebox_schedule")
        eventually(lambda: due(row) <= datetime.now(UTC))
        assert fire_due("default").events == 1
        elsewhere.execute("UPDATE app_appointment SET status = 'cancelled'")
    is_planned()
    assert due(row) is None


# Saves outside of a transaction


def test_a_save_stands_if_its_plan_fails_and_is_planned_when_that_is_repaired(appointment, caplog):
    psql("UPDATE app_person SET zone = 'Mars/Olympus'")
    RowChange.objects.all().delete()
    appointment.starts_at = LATER
    with pytest.raises(UnknownZone):
        appointment.save()
    assert Appointment.objects.get().starts_at == LATER
    assert due(appointment) == MONDAY - HOUR
    assert [str(each) for each in RowChange.objects.all()] == [f"app.appointment:{appointment.pk}"]
    psql("UPDATE app_person SET zone = 'UTC'")
    is_planned()
    assert due(appointment) == LATER - HOUR


def test_a_save_whose_process_ends_before_it_is_planned_is_planned_by_a_worker(appointment):
    class Dying(Reminders):
        model = Appointment
        offsets = (minutes(-30),)

        def zone(self, row):
            os._exit(9) if os.getpid() != parent else None
            return "UTC"

    parent = os.getpid()
    appointment.starts_at = LATER
    if not (child := os.fork()):
        try:
            for each in connections.all(initialized_only=True):
                each.connection = None  # that of the parent
            appointment.save()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert Appointment.objects.get().starts_at == LATER
    assert due(appointment) == MONDAY - HOUR  # planned in one transaction with the plan during which the process ended
    is_planned()
    assert live(appointment) == {"-PT1H": LATER - HOUR, "-PT30M": LATER - HOUR / 2}


def test_a_receiver_of_the_project_that_fails_leaves_the_note_of_the_save(appointment):
    def refuse(**kwargs):
        raise RuntimeError("no connection to the other service")

    receivers, post_save.receivers = post_save.receivers, []
    post_save.connect(refuse, sender=Appointment)
    post_save.receivers += receivers  # it comes before Duebox
    try:
        appointment.starts_at = LATER
        with pytest.raises(RuntimeError):
            appointment.save()
    finally:
        post_save.disconnect(refuse, sender=Appointment)
    is_planned()
    assert due(appointment) == LATER - HOUR


def test_a_save_within_a_transaction_leaves_it_durable(appointment):
    with transaction.atomic(), connection.cursor() as cursor:
        appointment.save()
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("on",)


def test_all_plans_that_follow_a_row_are_planned_in_one_transaction(appointment):
    class Broken(Reminders):
        model = Appointment
        offsets = (minutes(-30),)

        def zone(self, row):
            raise RuntimeError("no connection to the other service")

    appointment.starts_at = LATER
    with pytest.raises(RuntimeError):
        appointment.save()
    assert due(appointment) == MONDAY - HOUR
    assert RowChange.objects.count() == 1


# Who is woken


@pytest.fixture
def heard(elsewhere):
    """What sessions that listen hear of changed rows since the last call."""
    elsewhere.autocommit = True
    elsewhere.execute("LISTEN duebox")
    elsewhere.execute(
        "INSERT INTO duebox_worker (name, listening, expires_at) VALUES ('it', true, now() + interval '1 hour')"
    )
    return lambda: [each.payload for each in elsewhere.notifies(timeout=0.1) if each.payload == "changes"]


def test_saves_and_deletions_that_are_planned_at_once_wake_no_worker(plan, heard):
    row = Appointment.objects.create(person=Person.objects.create(), starts_at=MONDAY)
    row.save()
    with transaction.atomic():
        row.save()
        row.person.save()
    row.delete()
    assert heard() == []


def test_changes_that_are_not_planned_at_once_wake_a_worker(appointment, heard):
    Appointment.objects.update(starts_at=LATER)
    assert heard() == ["changes"]
    appointment.save()
    Appointment.objects.filter(pk=appointment.pk).update(starts_at=LATER)
    assert heard() == ["changes"]
    psql("UPDATE app_person SET zone = 'UTC'")
    assert heard() == ["changes"]


def test_a_save_that_failed_silences_no_statement_on_another_table(appointment, heard):
    appointment.starts_at = "Mars"
    with pytest.raises(ValidationError):
        appointment.save()
    Person.objects.update(zone="UTC")
    assert heard() == ["changes"]


# Between tests


def test_a_flush_leaves_no_notes(appointment):
    call_command("flush", verbosity=0, interactive=False, inhibit_post_migrate=True)
    assert not RowChange.objects.exists()


def test_a_rollback_that_restores_serialized_rows_notes_these_alone(appointment):
    restored = connection.creation.serialize_db_to_string()
    call_command("flush", verbosity=0, interactive=False, inhibit_post_migrate=True)
    connection.creation.deserialize_db_from_string(restored)
    assert "" not in RowChange.objects.values_list("key", flat=True)
    is_planned()
    assert due(appointment) == MONDAY - HOUR


def test_a_truncate_of_the_table_alone_is_noted_for_all_rows(appointment):
    psql("TRUNCATE app_appointment CASCADE")
    assert [str(each) for each in RowChange.objects.all()] == ["app.appointment:*"]


def test_migrate_keeps_what_is_not_planned_yet(appointment):
    Appointment.objects.update(starts_at=LATER)
    call_command("migrate", verbosity=0)
    call_command("migrate", "duebox", verbosity=0)
    is_planned()
    assert due(appointment) == LATER - HOUR


# Notes while an old snapshot is open


def test_a_session_passes_over_notes_that_no_vacuum_can_remove_only_once(appointment, elsewhere):
    elsewhere.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    elsewhere.execute("SELECT count(*) FROM app_appointment")
    psql("INSERT INTO duebox_row_change (source, key) SELECT 'app.person', n FROM generate_series(1, 20000) AS n",
         "DELETE FROM duebox_row_change", "VACUUM duebox_row_change")  # fmt: skip

    def pages(name, **params):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement(name)}", params)
            [found] = cursor.fetchone()[0]
        return found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"]

    looks = [("row_changes_any", {}), ("row_changes_sources", {"sources": ["app.person"]})]
    assert pages("row_changes_any") > 100
    # Transactions of tests that run beside this one on the same server hold it up until they end.
    assert eventually(lambda: all(pages(name, **params) < 20 for name, params in looks))
    psql("UPDATE app_person SET zone = 'Asia/Tokyo'")
    assert capture.row_changes.sources_with_changes("default", ["app.person", "app.appointment"]) == {"app.person"}


def test_a_session_that_goes_from_one_tenant_to_another_sees_the_changes_of_each(plan):
    psql("CREATE SCHEMA tenant", "CREATE TABLE tenant.duebox_row_change (LIKE duebox_row_change INCLUDING ALL)",
         "INSERT INTO tenant.duebox_row_change (source, key) VALUES ('app.person', '1')")  # fmt: skip
    try:
        assert not capture.row_changes.any_changes("default")
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL search_path = tenant, public")
            assert capture.row_changes.any_changes("default")
    finally:
        psql("DROP SCHEMA tenant CASCADE")


def test_a_change_of_a_transaction_that_was_open_at_the_last_look_is_seen(appointment, elsewhere):
    elsewhere.execute("UPDATE app_person SET zone = 'Asia/Tokyo'")
    psql("INSERT INTO app_person (name, zone, born_on) VALUES ('Bo', 'UTC', '1990-01-01')")  # later, committed earlier
    is_planned()
    assert not capture.row_changes.any_changes("default")
    elsewhere.commit()
    assert capture.row_changes.any_changes("default")


# Tables of all kinds


def declare_for(model, moment, **parts):
    """Reminders of rows of this model, an hour before a moment of the row."""
    own = {"queryset": lambda self: model.objects.all(), "anchor": moment, "zone": lambda self, row: "UTC",
           "when": lambda self, row: True}  # fmt: skip
    found = declare(Reminders, model, offsets=(minutes(-60),), **own, **parts)
    capture.install("default")
    return found


def test_a_composite_primary_key(forget_plans):
    declare_for(Chair, lambda self, row: MONDAY if row.holder == "Ann" else LATER)
    club = Club.objects.create()
    first, second = (Chair.objects.create(club=club, place=place, holder="Ann") for place in ("A-1", 'B "2"'))
    assert (due(first), due(second)) == (MONDAY - HOUR, MONDAY - HOUR)
    assert not RowChange.objects.exists()
    psql("UPDATE app_chair SET holder = 'Bo'")
    is_planned()
    assert (due(first), due(second)) == (LATER - HOUR, LATER - HOUR)
    psql("UPDATE app_chair SET holder = 'Ann' WHERE place = 'A-1'", "DELETE FROM app_chair WHERE place <> 'A-1'")
    is_planned()
    assert (due(first), due(second)) == (MONDAY - HOUR, None)
    psql("UPDATE app_chair SET place = 'C-3'")
    is_planned()
    assert due(first) is None
    assert due(Chair.objects.get()) == MONDAY - HOUR


@isolate_apps("tests.app")
def model_of(table, key="id"):
    """A model of a table that a test has made."""

    class Visit(models.Model):  # noqa: DJ008
        number = models.BigIntegerField(primary_key=True, db_column=key)
        at = models.DateTimeField()

        class Meta:
            app_label = "app"
            db_table = table

    return Visit


def test_partitions_also_where_a_row_moves_to_another_one(forget_plans):
    psql("CREATE TABLE parted (id bigint PRIMARY KEY, at timestamptz) PARTITION BY RANGE (id)",
         "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
         "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20)")  # fmt: skip
    try:
        model = model_of("parted")
        declare_for(model, lambda self, row: row.at)
        row = model.objects.create(pk=1, at=MONDAY)
        psql(f"UPDATE parted_1 SET at = '{LATER.isoformat()}'")
        is_planned()
        assert due(row) == LATER - HOUR
        psql("UPDATE parted SET id = 11")
        is_planned()
        assert (due(row), due(model.objects.get())) == (None, LATER - HOUR)
        psql("UPDATE parted SET id = 12")
        is_planned()
        assert Schedule.objects.scheduled().get().aggregate_id == "12"
        psql("DELETE FROM parted_2")
        is_planned()
        assert not Schedule.objects.scheduled().exists()
    finally:
        psql("DROP TABLE parted")


def test_a_table_in_another_schema_whose_key_has_another_name(forget_plans):
    psql("CREATE SCHEMA ward", 'CREATE TABLE ward."Visits" ("Visit No" bigint PRIMARY KEY, at timestamptz)')
    try:
        model = model_of('ward"."Visits', key="Visit No")
        declare_for(model, lambda self, row: row.at)
        row = model.objects.create(pk=1, at=MONDAY)
        assert (due(row), RowChange.objects.count()) == (MONDAY - HOUR, 0)
        psql(f"""UPDATE ward."Visits" SET at = '{LATER.isoformat()}'""")
        is_planned()
        assert due(row) == LATER - HOUR
        psql('UPDATE ward."Visits" SET "Visit No" = 2')
        is_planned()
        assert Schedule.objects.scheduled().get().aggregate_id == "2"
    finally:
        psql("DROP SCHEMA ward CASCADE")


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_another_database(forget_plans):
    declare_for(Person, lambda self, row: MONDAY if row.zone == "UTC" else LATER)
    capture.install("other")
    try:
        person = Person.objects.using("other").create(zone="UTC")
        Person.objects.using("other").update(zone="Asia/Tokyo")
        assert not RowChange.objects.exists()
        capture.plan_changes("other")
        assert live(person, "other") == {"-PT1H": LATER - HOUR}
        assert not RowChange.objects.using("other").exists()
    finally:
        for table in capture.row_changes.installed("other"):
            capture.row_changes.execute_sql("other", capture.row_changes.remove_sql(table.table, table.function))
