"""What the engine does for itself: plans are compared with their rows now and then, what is old is forgotten, and
nobody has to think of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

import duebox
from duebox.models import Event, Schedule
from duebox.testing import drain, travel
from duebox.worker.maintenance import RECONCILE_KEY, start_maintenance
from tests.app.people import Appointment, Person
from tests.app.planned import SUNDAY, Birthdays, Reminders, declare, live, revisions, schedule_log, utc
from tests.support import eventually

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forget_plans")]


@pytest.fixture
def trip():
    with travel(utc("2026-03-01 05:00")) as traveller:
        yield traveller


@pytest.fixture
def every(settings):
    """Changes how often plans are reconciled."""

    def change(hours):
        settings.DUEBOX = {**settings.DUEBOX, "RECONCILE_HOURS": hours}

    return change


def reconciling():
    return Schedule.objects.get(key=RECONCILE_KEY)


def test_a_worker_that_starts_sees_to_it_that_plans_are_reconciled(birthdays):
    start_maintenance("default")
    row = reconciling()
    assert (row.status, row.due_at) == ("scheduled", utc("2026-03-02 00:00"))


def test_workers_that_start_later_change_nothing(birthdays, trip):
    start_maintenance("default")
    before = revisions()
    trip.by(timedelta(hours=3))
    start_maintenance("default")
    assert (revisions(), schedule_log()) == (before, [])


def test_where_there_is_no_plan_there_is_nothing_to_reconcile(trip):
    start_maintenance("default")
    assert Schedule.objects.count() == 0


def test_another_interval_is_followed(birthdays, every):
    start_maintenance("default")
    every(6)
    start_maintenance("default")
    assert reconciling().due_at == utc("2026-03-01 06:00")


def test_zero_hours_are_never_and_a_number_is_from_then_on(birthdays, every, trip):
    start_maintenance("default")
    every(0)
    start_maintenance("default")
    assert reconciling().status == "cancelled"
    before = revisions()
    start_maintenance("default")
    assert revisions() == before
    trip.run(timedelta(days=3))
    assert Event.objects.count() == 0
    every(24)
    start_maintenance("default")
    assert reconciling().due_at == utc("2026-03-05 00:00")


def test_what_somebody_paused_stays_paused(birthdays):
    start_maintenance("default")
    duebox.pause(RECONCILE_KEY)
    start_maintenance("default")
    assert reconciling().status == "paused"


def test_when_the_hour_comes_all_plans_are_reconciled(birthdays, trip):
    declare(Reminders)
    [ann] = Person.objects.bulk_create([Person()])
    [booked] = Appointment.objects.bulk_create([Appointment(person=ann, starts_at=SUNDAY)])
    start_maintenance("default")
    trip.run(utc("2026-03-01 23:59"))
    assert (live(ann), live(booked)) == ({}, {})
    assert trip.run(timedelta(minutes=1)).delivered == 1
    assert live(ann) == {"": utc("2026-06-15 08:00")}
    assert len(live(booked)) == 4


def test_it_is_done_again_and_again(birthdays, trip):
    start_maintenance("default")
    assert trip.run(timedelta(days=7)).delivered == 7
    [ann] = Person.objects.bulk_create([Person()])
    trip.run(timedelta(days=1))
    assert len(live(ann)) == 1


def test_days_without_a_worker_are_not_made_up_for(birthdays, trip):
    start_maintenance("default")
    trip.by(timedelta(days=30))
    assert drain().delivered == 1


@pytest.mark.django_db(transaction=True)
def test_a_plan_that_fails_does_not_keep_others_from_being_reconciled(trip, birthdays):
    def broken(self):
        raise RuntimeError("no such table")

    declare(Reminders, name="a broken one", queryset=broken)
    declare(Reminders, name="the last one")
    [booked] = Appointment.objects.bulk_create([Appointment(starts_at=SUNDAY)])
    start_maintenance("default")
    trip.to(utc("2026-03-02 00:00"))
    drained = drain(raises=False)
    assert drained.retried == 1
    assert "no such table" in str(drained.errors[0])
    assert len(live(booked)) == 4


def test_what_it_healed_begins_stories_of_its_own(birthdays, trip):
    trip.to(utc("2026-06-13 05:00"))
    Person.objects.bulk_create([Person()])
    start_maintenance("default")
    trip.run(timedelta(days=7))
    greeting = Event.objects.get(type="person.birthday")
    assert greeting.correlation_id == str(greeting.id)
    assert greeting.causation_id is None


@pytest.mark.django_db(databases=["default", "other"])
def test_a_worker_of_another_database_reconciles_that_one(birthdays, trip):
    for alias in ("default", "other"):
        Person.objects.using(alias).bulk_create([Person()])
    start_maintenance("other")
    assert Schedule.objects.count() == 0
    trip.run(timedelta(days=1), using="other")
    assert Schedule.objects.using("other").filter(plan="app.Birthdays").count() == 1
    assert Schedule.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_a_real_worker_prepares_it(hire):
    declare(Birthdays)
    hire()
    eventually(lambda: Schedule.objects.filter(key=RECONCILE_KEY, status="scheduled").exists())
