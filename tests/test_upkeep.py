"""What the engine does for itself: plans are compared with their rows now and then, what is old is forgotten, and
nobody has to think of it."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import connection

import duebox
from duebox import clock
from duebox.models import Event, Schedule, WebhookReceipt
from duebox.store import webhooks
from duebox.testing import drain, travel
from duebox.upkeep import RECONCILE_KEY, forget_receipts, prepare_upkeep
from duebox.worker.loop import Worker
from tests.app.people import Appointment, Person
from tests.app.planned import SUNDAY, Birthdays, Reminders, declare, live, revisions, trail, utc
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
    prepare_upkeep("default")
    row = reconciling()
    assert (row.status, row.due_at) == ("scheduled", utc("2026-03-02 00:00"))


def test_workers_that_start_later_change_nothing(birthdays, trip):
    prepare_upkeep("default")
    before = revisions()
    trip.by(timedelta(hours=3))
    prepare_upkeep("default")
    assert (revisions(), trail()) == (before, [])


def test_where_there_is_no_plan_there_is_nothing_to_reconcile(trip):
    prepare_upkeep("default")
    assert Schedule.objects.count() == 0


def test_another_interval_is_followed(birthdays, every):
    prepare_upkeep("default")
    every(6)
    prepare_upkeep("default")
    assert reconciling().due_at == utc("2026-03-01 06:00")


def test_zero_hours_are_never_and_a_number_is_from_then_on(birthdays, every, trip):
    prepare_upkeep("default")
    every(0)
    prepare_upkeep("default")
    assert reconciling().status == "cancelled"
    before = revisions()
    prepare_upkeep("default")
    assert revisions() == before
    trip.run(timedelta(days=3))
    assert Event.objects.count() == 0
    every(24)
    prepare_upkeep("default")
    assert reconciling().due_at == utc("2026-03-05 00:00")


def test_what_somebody_paused_stays_paused(birthdays):
    prepare_upkeep("default")
    duebox.pause(RECONCILE_KEY)
    prepare_upkeep("default")
    assert reconciling().status == "paused"


def test_when_the_hour_comes_all_plans_are_reconciled(birthdays, trip):
    declare(Reminders)
    [ann] = Person.objects.bulk_create([Person()])
    [booked] = Appointment.objects.bulk_create([Appointment(person=ann, starts_at=SUNDAY)])
    prepare_upkeep("default")
    trip.run(utc("2026-03-01 23:59"))
    assert (live(ann), live(booked)) == ({}, {})
    assert trip.run(timedelta(minutes=1)).delivered == 1
    assert live(ann) == {"": utc("2026-06-15 08:00")}
    assert len(live(booked)) == 4


def test_it_is_done_again_and_again(birthdays, trip):
    prepare_upkeep("default")
    assert trip.run(timedelta(days=7)).delivered == 7
    [ann] = Person.objects.bulk_create([Person()])
    trip.run(timedelta(days=1))
    assert len(live(ann)) == 1


def test_days_without_a_worker_are_not_made_up_for(birthdays, trip):
    prepare_upkeep("default")
    trip.by(timedelta(days=30))
    assert drain().delivered == 1


@pytest.mark.django_db(transaction=True)
def test_a_plan_that_fails_does_not_keep_others_from_being_reconciled(trip, birthdays):
    def broken(self):
        raise RuntimeError("no such table")

    declare(Reminders, name="a broken one", queryset=broken)
    declare(Reminders, name="the last one")
    [booked] = Appointment.objects.bulk_create([Appointment(starts_at=SUNDAY)])
    prepare_upkeep("default")
    trip.to(utc("2026-03-02 00:00"))
    drained = drain(raises=False)
    assert drained.retried == 1
    assert "no such table" in str(drained.errors[0])
    assert len(live(booked)) == 4


def test_what_it_healed_begins_stories_of_its_own(birthdays, trip):
    trip.to(utc("2026-06-13 05:00"))
    Person.objects.bulk_create([Person()])
    prepare_upkeep("default")
    trip.run(timedelta(days=7))
    greeting = Event.objects.get(type="person.birthday")
    assert greeting.correlation_id == str(greeting.id)
    assert greeting.causation_id is None


@pytest.mark.django_db(databases=["default", "other"])
def test_a_worker_of_another_database_reconciles_that_one(birthdays, trip):
    for alias in ("default", "other"):
        Person.objects.using(alias).bulk_create([Person()])
    prepare_upkeep("other")
    assert Schedule.objects.count() == 0
    trip.run(timedelta(days=1), using="other")
    assert Schedule.objects.using("other").filter(plan="app.Birthdays").count() == 1
    assert Schedule.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_a_real_worker_prepares_it(hire):
    declare(Birthdays)
    hire()
    eventually(lambda: Schedule.objects.filter(key=RECONCILE_KEY, status="scheduled").exists())


def received(days, *ids):
    """Webhooks that came so many days ago."""
    at = clock.now() - timedelta(days=days)
    WebhookReceipt.objects.bulk_create(WebhookReceipt(source="acme", webhook_id=each, received_at=at) for each in ids)


def remembered():
    return set(WebhookReceipt.objects.values_list("webhook_id", flat=True))


def test_webhooks_received_long_ago_are_forgotten_some_at_a_time(monkeypatch):
    monkeypatch.setattr(webhooks, "SOME", 2)
    received(8, "a", "b", "c")
    received(6, "young")
    assert forget_receipts("default")
    assert len(remembered()) == 2
    assert not forget_receipts("default")
    assert remembered() == {"young"}


@pytest.mark.django_db(databases=["default", "other"])
def test_those_of_another_database_are_forgotten_there():
    received(8, "a")
    assert not forget_receipts("other")
    assert remembered() == {"a"}


@pytest.mark.django_db(transaction=True)
def test_what_another_holds_is_not_waited_for(elsewhere):
    received(8, "a", "b")
    elsewhere.execute("SELECT FROM duebox_webhook_receipt WHERE webhook_id = 'a' FOR UPDATE")
    assert not forget_receipts("default")
    assert remembered() == {"a"}
    elsewhere.execute("LOCK TABLE duebox_webhook_receipt IN SHARE MODE")  # as while an index is made
    started = time.monotonic()
    assert not forget_receipts("default")
    assert time.monotonic() - started < 5
    elsewhere.rollback()
    assert remembered() == {"a"}
    forget_receipts("default")
    assert remembered() == set()


@pytest.mark.django_db(transaction=True)
def test_who_may_not_delete_is_told_and_the_heart_beats_on(caplog):
    received(8, "a")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE duebox_webhook_receipt RENAME TO elsewhere")
    try:
        assert not forget_receipts("default")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO duebox_webhook_receipt")
    assert "receipts are kept" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_real_worker_forgets_all_that_is_old_beat_by_beat(hire, settings, monkeypatch):
    monkeypatch.setattr(webhooks, "SOME", 2)
    settings.DUEBOX = {**settings.DUEBOX, "LEASE_SECONDS": 2.0}
    received(8, "a", "b", "c", "d", "e")
    received(6, "young")
    hire()
    eventually(lambda: remembered() == {"young"})


@pytest.mark.django_db(transaction=True)
def test_one_that_only_does_what_is_due_forgets_as_well():
    received(8, "a")
    Worker(until_idle=True).run()
    assert remembered() == set()
