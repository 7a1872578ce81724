"""Many rows at once: after an update that no signal saw, and for all rows now and then."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import duebox
from duebox.models import Schedule, ScheduleLog
from duebox.schedules import plan_sync
from duebox.when import days
from tests.app.people import Appointment, Device, Person
from tests.app.planned import SUNDAY, Birthdays, Reminders, declare, live, revisions, schedule_log, utc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forget_plans")]
BIRTHDAY = utc("2026-06-15 08:00")


@pytest.fixture(autouse=True, params=[1, 1000], ids=["compared by the database", "compared row by row"])
def compared(request, monkeypatch):
    """Whether the database compares what is stored with what is wanted makes no difference."""
    monkeypatch.setattr(plan_sync, "COMPARED_FROM", request.param)


@pytest.fixture
def crowd(birthdays):
    """Ten people whom no plan has seen."""
    return Person.objects.bulk_create(Person(name=f"person {n}") for n in range(10))


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(plan_sync, "BATCH", 3)


def due_by_id():
    return {int(row.aggregate_id): row.due_at for row in Schedule.objects.scheduled()}


def counts(synced):
    return {name: count for name, count in vars(synced).items() if count}


# After what no signal saw


def test_rows_created_in_bulk_are_planned_by_a_sync(birthdays, crowd):
    assert live() == {}
    assert counts(birthdays.sync(Person.objects.all())) == {"planned": 10}
    assert due_by_id() == {person.pk: BIRTHDAY for person in crowd}


def test_rows_updated_behind_the_back_of_signals_are_planned_anew_by_a_sync(birthdays, crowd):
    birthdays.sync(Person.objects.all())
    some = Person.objects.filter(pk__in=[person.pk for person in crowd[:4]])
    some.update(zone="Asia/Tokyo")
    assert set(due_by_id().values()) == {BIRTHDAY}
    assert counts(birthdays.sync(some)) == {"moved": 4}
    assert [due for pk, due in sorted(due_by_id().items())] == [utc("2026-06-15 00:00")] * 4 + [BIRTHDAY] * 6


def test_a_sync_says_what_it_changed(reminders):
    far, near, off = Appointment.objects.bulk_create(Appointment(starts_at=SUNDAY) for _ in range(3))
    reminders.sync(Appointment.objects.all())
    Appointment.objects.filter(pk=far.pk).update(starts_at=SUNDAY + timedelta(days=9))
    Appointment.objects.filter(pk=off.pk).update(status="cancelled")
    new = Appointment.objects.bulk_create([Appointment(starts_at=SUNDAY)])[0]
    synced = reminders.sync(Appointment.objects.all())
    assert counts(synced) == {"planned": 4, "moved": 4, "unchanged": 4, "cancelled": 4}
    assert str(synced) == "planned=4 moved=4 changed=0 unchanged=4 cancelled=4 failed=0"
    assert (len(live(far)), len(live(near)), len(live(off)), len(live(new))) == (4, 4, 0, 4)


def test_new_data_counts_as_changed_and_moves_nothing(birthdays, crowd):
    birthdays.sync(Person.objects.all())
    Person.objects.filter(pk=crowd[0].pk).update(name="Anna")
    assert counts(birthdays.sync(Person.objects.all())) == {"changed": 1, "unchanged": 9}
    assert Schedule.objects.get(aggregate_id=crowd[0].pk).data == {"name": "Anna"}
    assert set(due_by_id().values()) == {BIRTHDAY}


def test_another_actor_counts_as_changed(trip):
    plan = declare(Birthdays, actor=lambda self, row: row.name)
    Person.objects.bulk_create(Person(name=name) for name in ("ann", "bob"))
    plan.sync(Person.objects.all())
    Person.objects.filter(name="bob").update(name="bert")
    Schedule.objects.update(data={"name": "bert"})
    Schedule.objects.filter(actor__id="ann").update(data={"name": "ann"})
    assert counts(plan.sync(Person.objects.all())) == {"changed": 1, "unchanged": 1}
    assert set(Schedule.objects.values_list("actor__id", flat=True)) == {"ann", "bert"}


def test_a_second_sync_finds_nothing_to_do(birthdays, crowd):
    birthdays.sync(Person.objects.all())
    before = revisions()
    with CaptureQueriesContext(connection) as captured:
        assert counts(birthdays.sync(Person.objects.all())) == {"unchanged": 10}
    assert revisions() == before
    assert [q for q in captured.captured_queries if q["sql"].startswith(("WITH", "INSERT", "UPDATE"))] == []
    assert schedule_log() == []


def test_a_sync_takes_primary_keys(birthdays, crowd):
    keys = [person.pk for person in crowd[3:5]]
    assert counts(birthdays.sync(iter(keys))) == {"planned": 2}
    assert sorted(due_by_id()) == keys
    assert counts(birthdays.sync([])) == {}


def test_a_sync_of_keys_without_rows_cancels_what_was_theirs(birthdays, crowd):
    birthdays.sync(Person.objects.all())
    Person.objects.filter(pk=crowd[0].pk)._raw_delete("default")
    assert counts(birthdays.sync([crowd[0].pk, crowd[1].pk])) == {"cancelled": 1, "unchanged": 1}
    assert crowd[0].pk not in due_by_id()


@pytest.mark.usefixtures("small_batches")
def test_a_sync_takes_slices_with_their_order(birthdays, crowd):
    assert counts(birthdays.sync(Person.objects.order_by("-pk")[:4])) == {"planned": 4}
    assert sorted(due_by_id()) == [person.pk for person in crowd[-4:]]


@pytest.mark.usefixtures("small_batches")
def test_a_sync_takes_querysets_of_any_order_joined_or_not(reminders, trip):
    anns = Person.objects.bulk_create(Person() for _ in range(4))
    Appointment.objects.bulk_create(Appointment(person=ann, starts_at=SUNDAY) for ann in anns for _ in range(2))
    birthdays = declare(Birthdays)
    joined = Person.objects.filter(appointment__status="booked").order_by("-name")
    assert joined.count() == 8
    assert counts(birthdays.sync(joined)) == {"planned": 4}
    assert counts(reminders.sync(Appointment.objects.filter(person__name="Ann").order_by("?"))) == {"planned": 32}


@pytest.mark.usefixtures("small_batches")
def test_rows_of_all_batches_are_planned_whatever_their_key(trip):
    plan = declare(
        Reminders,
        Device,
        offsets=(days(-1),),
        anchor=lambda self, row: row.serviced_at,
        zone=lambda self, row: "UTC",
        when=lambda self, row: True,
        queryset=lambda self: Device.objects.all(),
    )
    Device.objects.bulk_create(Device(serviced_at=SUNDAY) for _ in range(10))
    assert counts(plan.sync(Device.objects.all())) == {"planned": 10}
    Device.objects.all()._raw_delete("default")
    assert counts(plan.reconcile()) == {"cancelled": 10}


def test_rows_that_the_plan_leaves_out_have_no_moments(trip):
    plan = declare(Birthdays, queryset=lambda self: Person.objects.exclude(name="left"))
    ann = Person.objects.create()
    assert len(live(ann)) == 1
    ann.name = "left"
    ann.save()
    assert live(ann) == {}
    assert counts(plan.sync(Person.objects.all())) == {}


def test_the_number_of_queries_does_not_grow_with_the_rows(birthdays):
    def cost(count, zone):
        Person.objects.bulk_create(Person() for _ in range(count))
        with CaptureQueriesContext(connection) as first:
            assert birthdays.sync(Person.objects.all()).planned == count
        Person.objects.update(zone=zone)
        with CaptureQueriesContext(connection) as second:
            birthdays.sync(Person.objects.all())
        with CaptureQueriesContext(connection) as third:
            birthdays.sync(Person.objects.all())
        Person.objects.all()._raw_delete("default")
        with CaptureQueriesContext(connection) as fourth:
            assert birthdays.reconcile().cancelled == count
        return len(first), len(second), len(third), len(fourth)

    assert cost(2, "Asia/Tokyo") == cost(20, "Asia/Tokyo")
    assert cost(60, "Asia/Tokyo") == cost(200, "Asia/Tokyo")  # many rows are compared by the database


def test_rows_are_read_without_a_query_for_each_when_the_plan_says_what_it_needs(reminders):
    anns = Person.objects.bulk_create(Person() for _ in range(30))
    Appointment.objects.bulk_create(Appointment(person=ann, starts_at=SUNDAY) for ann in anns)
    with CaptureQueriesContext(connection) as captured:
        assert reminders.sync(Appointment.objects.all()).planned == 120
    assert len(captured) <= 8


# What cannot be planned


def test_a_row_that_cannot_be_planned_is_named_and_the_others_are_planned(birthdays, crowd, caplog):
    birthdays.sync(Person.objects.all())
    Person.objects.update(zone="Asia/Tokyo")
    Person.objects.filter(pk=crowd[4].pk).update(zone="Asia/Tokio")
    synced = birthdays.sync(Person.objects.all())
    assert (synced.moved, list(synced.failed)) == (9, [str(crowd[4].pk)])
    assert "did you mean Asia/Tokyo" in synced.failed[str(crowd[4].pk)]
    assert "failed=1" in str(synced)
    assert f"not planned: plan=app.Birthdays row={crowd[4].pk}" in caplog.text


def test_a_row_that_cannot_be_planned_keeps_what_it_had(birthdays, crowd):
    birthdays.sync(Person.objects.all())
    Person.objects.filter(pk=crowd[4].pk).update(zone="Asia/Tokio")
    birthdays.sync(Person.objects.all())
    assert due_by_id()[crowd[4].pk] == BIRTHDAY
    assert schedule_log() == []


def test_a_time_that_the_policy_rejects_fails_its_row_alone(trip):
    plan = declare(Reminders, offsets=(days(0),), gap="reject", zone=lambda self, row: "Europe/London")
    bad, good = Appointment.objects.bulk_create(
        [Appointment(local_start="2026-03-29T01:30"), Appointment(local_start="2026-03-29T02:30")]
    )
    synced = plan.sync(Appointment.objects.all())
    assert (synced.planned, list(synced.failed)) == (1, [str(bad.pk)])
    assert live(good) == {"PT0S": utc("2026-03-29 01:30")}


# Dry runs


def test_a_dry_run_counts_and_writes_nothing(reminders):
    _, moved, gone = Appointment.objects.bulk_create(Appointment(starts_at=SUNDAY) for _ in range(3))
    reminders.sync(Appointment.objects.all())
    Appointment.objects.filter(pk=moved.pk).update(starts_at=SUNDAY + timedelta(days=9))
    Appointment.objects.filter(pk=gone.pk).update(status="cancelled")
    Appointment.objects.bulk_create([Appointment(starts_at=SUNDAY)])
    before = list(Schedule.objects.order_by("id").values())
    dry = reminders.sync(Appointment.objects.all(), dry_run=True)
    assert list(Schedule.objects.order_by("id").values()) == before
    assert schedule_log() == []
    assert counts(dry) == {"planned": 4, "moved": 4, "unchanged": 4, "cancelled": 4}
    assert dry == reminders.sync(Appointment.objects.all())


@pytest.mark.usefixtures("small_batches")
def test_a_dry_run_of_a_reconcile_counts_what_the_real_one_does(reminders):
    Appointment.objects.bulk_create(Appointment(starts_at=SUNDAY) for _ in range(3))
    reminders.sync(Appointment.objects.all())
    Appointment.objects.all()._raw_delete("default")
    dry = reminders.reconcile(dry_run=True)
    assert len(live()) == 4  # by offset
    assert dry == reminders.reconcile()


# All rows


def test_a_reconcile_heals_what_passed_by_the_signals(birthdays, crowd, trip):
    birthdays.sync(Person.objects.all())
    Person.objects.filter(pk=crowd[0].pk).update(born_on=date(1990, 7, 1))
    Person.objects.filter(pk=crowd[1].pk)._raw_delete("default")
    new = Person.objects.bulk_create([Person()])[0]
    assert counts(birthdays.reconcile()) == {"planned": 1, "moved": 1, "unchanged": 8, "cancelled": 1}
    assert due_by_id() == {
        **{person.pk: BIRTHDAY for person in crowd[2:]},
        crowd[0].pk: utc("2026-07-01 08:00"),
        new.pk: BIRTHDAY,
    }
    assert counts(birthdays.reconcile()) == {"unchanged": 10}


@pytest.mark.usefixtures("small_batches")
def test_a_reconcile_takes_back_what_belongs_to_rows_deleted_by_sql(birthdays, crowd):
    birthdays.sync(Person.objects.all())
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM app_person WHERE id %% 2 = 0", [])
    left = set(Person.objects.values_list("pk", flat=True))
    assert birthdays.reconcile().cancelled == 10 - len(left)
    assert set(due_by_id()) == left
    assert {line.what for line in ScheduleLog.objects.all()} == {"cancelled"}


def test_a_reconcile_takes_back_what_is_paused_too(birthdays, crowd):
    birthdays.sync(Person.objects.all())
    duebox.pause(about=crowd[0])
    Person.objects.all()._raw_delete("default")
    assert birthdays.reconcile().cancelled == 10
    assert set(Schedule.objects.values_list("status", flat=True)) == {"cancelled"}


def test_a_reconcile_leaves_the_schedules_of_others_alone(birthdays, reminders, crowd):
    duebox.schedule("person.called", at=SUNDAY, about=crowd[0], key="a call")
    duebox.schedule("person.called", at=SUNDAY, about=("person", "999999"), key="another call")
    Appointment.objects.create(starts_at=SUNDAY)
    birthdays.reconcile()
    Person.objects.all()._raw_delete("default")
    assert birthdays.reconcile().cancelled == 10
    assert Schedule.objects.scheduled().count() == 6


@pytest.mark.usefixtures("small_batches")
def test_progress_is_told_batch_by_batch(birthdays, crowd):
    told = []
    birthdays.reconcile(progress=told.append)
    assert told == [3, 3, 3, 1]


def test_a_reconcile_never_fires_what_is_past(birthdays, crowd, trip):
    birthdays.sync(Person.objects.all())
    trip.to(utc("2026-06-14 12:00"))
    Person.objects.update(born_on=date(1990, 6, 14))
    birthdays.reconcile()
    assert set(due_by_id().values()) == {utc("2027-06-14 08:00")}


# Where


@pytest.mark.django_db(databases=["default", "other"])
def test_a_sync_stays_in_the_database_of_its_rows(birthdays):
    ann = Person.objects.using("other").create()
    assert (len(live(ann, "other")), live()) == (1, {})
    Person.objects.using("other").update(zone="Asia/Tokyo")
    assert birthdays.sync(Person.objects.using("other")).moved == 1
    assert live(ann, "other") == {"": utc("2026-06-15 00:00")}
    assert counts(birthdays.reconcile(using="other")) == {"unchanged": 1}
    assert counts(birthdays.sync([ann.pk], using="other")) == {"unchanged": 1}
    ann.delete()
    assert live(using="other") == {}


def test_a_reconcile_tells_apart_what_was_moved_changed_paused_cancelled_and_left(reminders, ann):
    Appointment.objects.bulk_create(Appointment(person=ann, starts_at=SUNDAY) for _ in range(6))
    first, moved, paused, cancelled, gone, _ = Appointment.objects.order_by("pk")
    planned = reminders.sync(Appointment.objects.all()).planned
    of_each = planned // 6
    duebox.pause(about=paused)
    duebox.cancel(about=cancelled)
    Appointment.objects.filter(pk=moved.pk).update(starts_at=SUNDAY + timedelta(days=3))
    Appointment.objects.filter(pk=gone.pk).delete()
    Schedule.objects.filter(aggregate_id=str(first.pk)).update(organization="another")
    synced = reminders.reconcile()
    assert synced.failed == {}
    assert (synced.moved, synced.changed, synced.planned) == (of_each, of_each, 0)
    assert synced.unchanged == 3 * of_each
    assert set(Schedule.objects.filter(aggregate_id=str(paused.pk)).values_list("status", flat=True)) == {"paused"}
    assert set(Schedule.objects.filter(aggregate_id=str(cancelled.pk)).values_list("opt_out", flat=True)) == {"entity"}
    assert reminders.reconcile().unchanged == 5 * of_each
