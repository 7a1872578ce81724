"""Changes, syncs and firings at the same time, on real connections: no plan is older than its row, nothing twice."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pytest
from django.db import DataError, connection, transaction

import duebox
from duebox.models import Event, Schedule
from duebox.schedules import plan_sync, plans
from duebox.schedules.fire import fire_due
from duebox.testing import travel
from duebox.worker.connections import close_connections
from tests.app.people import Appointment, Person
from tests.app.planned import Birthdays, Reminders, declare, live, utc
from tests.support import Undo, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("forget_plans")]
LONDON, TOKYO = utc("2026-06-15 08:00"), utc("2026-06-15 00:00")


@pytest.fixture
def trip(transactional_db):
    with travel(utc("2026-03-01 00:00")) as traveller:
        yield traveller


@pytest.fixture
def beside(transactional_db):
    """Runs a function in a thread of its own."""
    with ThreadPoolExecutor(4) as pool:

        def closing(function, *args):
            try:
                return function(*args)
            finally:
                close_connections()

        yield lambda function, *args: pool.submit(closing, function, *args)


class Gate:
    """Holds up whoever passes it first, until it is opened."""

    def __init__(self):
        self._reached, self._opened, self._passed = threading.Event(), threading.Event(), False

    def __call__(self):
        if not self._passed:
            self._passed = True
            self._reached.set()
            assert self._opened.wait(10)

    def wait_until_reached(self):
        assert self._reached.wait(10)

    def open(self):
        self._opened.set()


def somebody_waits_for_a_lock():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                       "AND wait_event_type = 'Lock'")  # fmt: skip
        return cursor.fetchone()[0]


def gated(gate):
    """Birthdays whose planning is held up with the rows in hand."""

    def zone(self, row):
        gate()
        return row.zone

    return declare(Birthdays, zone=zone)


def change_slowly(gate, change, *, commit=True):
    try:
        with transaction.atomic():
            change()
            gate()
            if not commit:
                raise Undo
    except Undo:
        pass


def move(pk, zone="Asia/Tokyo"):
    person = Person.objects.get(pk=pk)
    person.zone = zone
    person.save()


def move_unseen(pk):
    Person.objects.filter(pk=pk).update(zone="Asia/Tokyo")


@pytest.mark.parametrize("change", [move, move_unseen])
@pytest.mark.parametrize(("commit", "due"), [(True, TOKYO), (False, LONDON)])
def test_a_sync_waits_for_a_change_that_is_under_way(trip, beside, change, commit, due):
    plan, gate = declare(Birthdays), Gate()
    ann = Person.objects.create()
    changing = beside(lambda: change_slowly(gate, lambda: change(ann.pk), commit=commit))
    gate.wait_until_reached()
    syncing = beside(plan.sync, [ann.pk])
    eventually(somebody_waits_for_a_lock)
    gate.open()
    changing.result(10), syncing.result(10)
    assert live(ann) == {"": due}


def test_a_change_waits_for_a_sync_that_is_under_way(trip, beside):
    ann, gate = Person.objects.create(), Gate()
    plan = gated(gate)
    syncing = beside(plan.sync, [ann.pk])
    gate.wait_until_reached()
    changing = beside(move, ann.pk)
    eventually(somebody_waits_for_a_lock)
    assert not changing.done()
    gate.open()
    assert syncing.result(10).planned == 1
    changing.result(10)
    assert live(ann) == {"": TOKYO}


def test_two_saves_of_one_row_leave_the_plan_of_the_last(trip, beside):
    declare(Birthdays)
    ann, gate = Person.objects.create(), Gate()
    first = beside(lambda: change_slowly(gate, lambda: move(ann.pk)))
    gate.wait_until_reached()
    second = beside(move, ann.pk, "America/Los_Angeles")
    eventually(somebody_waits_for_a_lock)
    gate.open()
    first.result(10), second.result(10)
    assert live(ann) == {"": utc("2026-06-15 16:00")}


def test_a_sync_that_meets_a_deletion_plans_nothing_for_the_dead(trip, beside):
    plan, gate = declare(Birthdays), Gate()
    ann = Person.objects.create()
    deleting = beside(lambda: change_slowly(gate, lambda: Person.objects.filter(pk=ann.pk).delete()))
    gate.wait_until_reached()
    syncing = beside(plan.sync, [ann.pk])
    eventually(somebody_waits_for_a_lock)
    gate.open()
    deleting.result(10), syncing.result(10)
    assert live() == {}


def test_a_deletion_that_meets_a_sync_comes_after_it(trip, beside):
    ann, gate = Person.objects.create(), Gate()
    plan = gated(gate)
    syncing = beside(plan.sync, [ann.pk])
    gate.wait_until_reached()
    deleting = beside(lambda: Person.objects.filter(pk=ann.pk).delete())
    eventually(somebody_waits_for_a_lock)
    gate.open()
    assert syncing.result(10).planned == 1
    deleting.result(10)
    assert live() == {}


def test_an_appointment_booked_while_its_person_moves_follows_the_person_after_a_reconcile(trip, beside):
    plan = declare(Reminders, follows={Person: "person"})
    ann, gate = Person.objects.create(), Gate()
    booking = {"person": ann, "local_start": "2026-06-15T10:00"}
    changing = beside(lambda: change_slowly(gate, lambda: Appointment.objects.create(**booking)))
    gate.wait_until_reached()
    moving = beside(move, ann.pk)
    threading.Timer(0.5, gate.open).start()
    changing.result(10), moving.result(10)
    plan.reconcile()  # neither transaction could see the row of the other
    assert live(Appointment.objects.get())["-P1D"] == utc("2026-06-14 01:00")


def test_a_move_that_meets_the_firing_comes_after_it(trip, beside):
    gate = Gate()
    declare(Birthdays, still_valid=lambda self, rows: gate() or rows)
    ann = Person.objects.create()
    trip.to(LONDON)
    firing = beside(fire_due, "default")
    gate.wait_until_reached()
    moving = beside(move, ann.pk, "America/Los_Angeles")
    eventually(somebody_waits_for_a_lock)
    gate.open()
    assert firing.result(10).events == 1
    moving.result(10)
    assert live(ann) == {"": utc("2027-06-15 16:00")}
    trip.run(timedelta(days=1))
    assert Event.objects.count() == 1


def test_a_firing_that_meets_a_move_leaves_it_alone(trip, beside):
    gate = Gate()
    declare(Birthdays)
    ann = Person.objects.create()
    trip.to(LONDON)
    moving = beside(lambda: change_slowly(gate, lambda: move(ann.pk, "America/Los_Angeles")))
    gate.wait_until_reached()
    assert fire_due("default").due == 0
    gate.open()
    moving.result(10)
    trip.run(timedelta(days=1))
    assert [event.occurred_at for event in Event.objects.all()] == [utc("2026-06-15 16:00")]


def test_a_cancellation_that_meets_the_firing_has_one_outcome(trip, beside):
    gate = Gate()
    declare(Reminders, still_valid=lambda self, rows: gate() or rows)
    booked = Appointment.objects.create(starts_at=LONDON)
    trip.to(LONDON - timedelta(hours=2))
    firing = beside(fire_due, "default")
    gate.wait_until_reached()
    deleting = beside(lambda: Appointment.objects.filter(pk=booked.pk).delete())
    eventually(somebody_waits_for_a_lock)
    gate.open()
    assert firing.result(10).events == 2
    deleting.result(10)
    assert live() == {}
    assert Schedule.objects.filter(status="cancelled").count() == 2


# Cancelled by somebody


def move_by_a_week(pk):
    booked = Appointment.objects.get(pk=pk)
    booked.starts_at += timedelta(days=7)
    booked.save()


@pytest.mark.parametrize(("commit", "count"), [(True, 4), (False, 2)])
def test_a_cancellation_that_meets_a_save_takes_back_also_what_that_save_planned(trip, beside, commit, count):
    declare(Reminders)
    trip.to(LONDON - timedelta(hours=1))
    booked, gate = Appointment.objects.create(starts_at=LONDON), Gate()
    assert len(live(booked)) == 2  # a day and two hours before are past
    saving = beside(lambda: change_slowly(gate, lambda: move_by_a_week(booked.pk), commit=commit))
    gate.wait_until_reached()
    cancelling = beside(lambda: duebox.cancel(about=booked))
    eventually(somebody_waits_for_a_lock)
    gate.open()
    saving.result(10)
    assert cancelling.result(10) == count
    move_by_a_week(booked.pk)
    assert live(booked) == {}


@pytest.mark.parametrize(("commit", "left"), [(True, 0), (False, 4)])
@pytest.mark.parametrize(
    "change", [move_by_a_week, lambda pk: plans.plans()[-1].reconcile()], ids=["save", "reconcile"]
)
def test_a_save_or_reconcile_that_meets_a_cancellation_leaves_it_cancelled(trip, beside, change, commit, left):
    declare(Reminders)
    booked, gate = Appointment.objects.create(starts_at=LONDON), Gate()
    cancelling = beside(lambda: change_slowly(gate, lambda: duebox.cancel(about=booked), commit=commit))
    gate.wait_until_reached()
    changing = beside(change, booked.pk)
    eventually(somebody_waits_for_a_lock)
    gate.open()
    cancelling.result(10), changing.result(10)
    assert len(live(booked)) == left


def test_a_cancellation_that_meets_the_firing_comes_after_it_and_is_kept(trip, beside):
    gate = Gate()
    declare(Reminders, still_valid=lambda self, rows: gate() or rows)
    booked = Appointment.objects.create(starts_at=LONDON)
    trip.to(LONDON - timedelta(hours=2))
    firing = beside(fire_due, "default")
    gate.wait_until_reached()
    cancelling = beside(lambda: duebox.cancel(about=booked))
    eventually(somebody_waits_for_a_lock)
    gate.open()
    assert firing.result(10).events == 2
    assert cancelling.result(10) == 2
    move_by_a_week(booked.pk)
    trip.run(timedelta(days=30))
    assert Event.objects.count() == 2


def test_a_firing_that_meets_a_cancellation_fires_nothing(trip, beside):
    declare(Reminders)
    booked, gate = Appointment.objects.create(starts_at=LONDON), Gate()
    trip.to(LONDON - timedelta(hours=2))
    cancelling = beside(lambda: change_slowly(gate, lambda: duebox.cancel(about=booked)))
    gate.wait_until_reached()
    assert fire_due("default").due == 0
    gate.open()
    cancelling.result(10)
    trip.run(timedelta(days=30))
    assert Event.objects.count() == 0


def test_a_save_and_a_restoration_wait_for_each_other_and_both_count(trip, beside):
    declare(Reminders)
    booked, gate = Appointment.objects.create(starts_at=LONDON), Gate()
    duebox.cancel(about=booked)
    saving = beside(lambda: change_slowly(gate, lambda: move_by_a_week(booked.pk)))
    gate.wait_until_reached()
    restoring = beside(lambda: duebox.restore(about=booked))
    eventually(somebody_waits_for_a_lock)
    gate.open()
    saving.result(10)
    assert restoring.result(10) == 4
    assert live(booked)["-PT2H"] == LONDON + timedelta(days=7, hours=-2)


def test_whoever_saves_syncs_and_fires_meanwhile_what_was_cancelled_never_lives_again(trip, beside):
    plan = declare(Reminders)
    booked = [Appointment.objects.create(starts_at=LONDON + timedelta(hours=n)) for n in range(8)]
    opted_out, seen = set(), []

    def live_a_little(seed):
        dice = random.Random(seed)
        for _ in range(15):
            row = dice.choice(booked)
            match dice.randrange(4):
                case 0:
                    duebox.cancel(about=row)
                    opted_out.add(row.pk)
                case 1:
                    row = Appointment.objects.get(pk=row.pk)
                    row.starts_at = LONDON + timedelta(hours=dice.randrange(200))
                    row.save()
                case 2:
                    plan.reconcile()
                case 3:
                    plan.sync(Appointment.objects.all())
            known = set(opted_out)
            seen.extend(Schedule.objects.live().filter(aggregate_id__in=[str(pk) for pk in known]))

    for each in [beside(live_a_little, seed) for seed in range(4)]:
        each.result(60)
    assert opted_out
    assert seen == []


def test_whoever_changes_whatever_at_once_nobody_fails_and_plans_are_right_in_the_end(trip, beside):
    declare(Birthdays)
    plan = declare(Reminders, follows={Person: "person"})
    people = [Person.objects.create() for _ in range(5)]
    Appointment.objects.bulk_create(
        Appointment(person=person, local_start="2026-06-15T10:00") for person in people for _ in range(2)
    )

    def live_a_little(seed):
        dice = random.Random(seed)
        for _ in range(15):
            match dice.randrange(4):
                case 0:
                    move(dice.choice(people).pk, dice.choice(["Asia/Tokyo", "Europe/London", "America/Lima"]))
                case 1:
                    plan.sync(Appointment.objects.all())
                case 2:
                    plan.reconcile()
                case 3:
                    booked = dice.choice(Appointment.objects.order_by("pk"))
                    booked.local_start = f"2026-06-{dice.randrange(10, 20)}T10:00"
                    booked.save()

    for each in [beside(live_a_little, seed) for seed in range(4)]:
        each.result(30)
    found = {row.key: row.due_at for row in Schedule.objects.scheduled()}
    assert len(found) == 4 * 10 + 5
    assert plan.reconcile().unchanged == 40
    assert {row.key: row.due_at for row in Schedule.objects.scheduled()} == found


def test_the_same_birthday_is_planned_once_by_all_who_plan_it_first(trip, beside):
    people = Person.objects.bulk_create(Person(born_on=date(1990, 6, 15)) for _ in range(50))
    plan = declare(Birthdays)
    for each in [beside(plan.sync, Person.objects.all()) for _ in range(4)]:
        each.result(10)
    assert Schedule.objects.scheduled().count() == len(people)
    assert set(Schedule.objects.values_list("revision", flat=True)) == {1}


def connections_open():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return cursor.fetchone()[0]


@pytest.fixture
def crowd(trip, monkeypatch):
    """Two hundred people in batches of ten, outside of any transaction."""
    monkeypatch.setattr(plan_sync, "BATCH", 10)
    return Person.objects.bulk_create(Person(name=f"person {n}") for n in range(200))


def test_many_batches_outside_of_a_transaction_are_counted_right(crowd):
    def when(self, row):
        return row.name != "away"

    plan, told = declare(Birthdays, when=when), []
    assert plan.sync(Person.objects.all()).planned == 200
    Person.objects.filter(pk__in=[person.pk for person in crowd[::2]]).update(name="away")
    Person.objects.exclude(name="away").update(zone="Asia/Tokyo")
    synced = plan.reconcile(progress=told.append)
    assert (synced.moved, synced.cancelled, sum(told)) == (100, 100, 200)
    assert Schedule.objects.scheduled().filter(due_at=TOKYO).count() == 100
    assert plan.sync(Person.objects.all()).unchanged == 100


def test_many_batches_leave_no_connection_open(crowd):
    plan, before = declare(Birthdays), connections_open()
    plan.sync(Person.objects.all())
    eventually(lambda: connections_open() == before)


def test_batches_that_fail_leave_no_connection_open(crowd):
    def queryset(self):
        return Person.objects.extra(where=["1 / (id - %s) IS NOT NULL"], params=[crowd[55].pk])

    plan, before = declare(Birthdays, queryset=queryset), connections_open()
    with pytest.raises(DataError):
        plan.sync(Person.objects.all())
    eventually(lambda: connections_open() == before)
