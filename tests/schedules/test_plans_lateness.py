"""Too late, or not valid any more when the moment comes: nothing fires that is of no use, and it is written down."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from duebox.models import Event, ScheduleLog
from duebox.when import CatchUp, days, hours, minutes, months
from tests.app.people import Appointment, Person
from tests.app.planned import SUNDAY, Birthdays, Reminders, declare, fired, live, reminding, schedule_log, statuses, utc
from tests.support import queries

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forget_plans")]


# Too late


def test_reminders_before_that_are_past_at_booking_are_left_out(reminders, ann, trip):
    trip.to(utc("2026-03-29 07:30"))
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    assert set(live(booked)) == {"-PT15M", "PT24H"}
    trip.run(timedelta(days=3))
    assert fired() == [("-PT15M", utc("2026-03-29 08:45")), ("PT24H", utc("2026-03-30 09:00"))]
    assert schedule_log() == []


def test_an_appointment_entered_after_the_fact_asks_nothing(reminders, ann, trip):
    trip.to(utc("2026-03-31 00:00"))
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    assert live(booked) == {}
    trip.run(timedelta(days=3))
    assert (fired(), schedule_log()) == ([], [])


@pytest.mark.parametrize(
    ("moves_at", "fires", "told"),
    [
        ("2026-03-20 00:30", [("-PT2H", utc("2026-03-20 00:30"))], "moved"),  # ten in Tokyo is in half an hour
        ("2026-03-20 01:30", [], "missed"),  # ten in Tokyo was half an hour ago
    ],
)
def test_a_reminder_that_a_move_jumps_over_fires_at_once_while_its_anchor_is_ahead(ann, trip, moves_at, fires, told):
    reminding(hours(-2), follows={Person: "person"})
    booked = Appointment.objects.create(person=ann, local_start="2026-03-20T10:00")
    trip.run(utc(moves_at))
    ann.zone = "Asia/Tokyo"
    ann.save()
    assert schedule_log() == [(told, "-PT2H")]
    trip.run(timedelta(days=3))
    assert fired() == fires
    assert live(booked) == {}


def test_a_reminder_late_by_downtime_fires_while_its_anchor_is_ahead(booked, trip):
    trip.to(utc("2026-03-29 08:50"))
    trip.run(timedelta(0))
    assert fired() == [(by, utc("2026-03-29 08:50")) for by in ("-P1D", "-PT2H", "-PT15M")]


def test_a_reminder_late_by_downtime_does_not_fire_once_its_anchor_has_passed(booked, trip):
    trip.to(utc("2026-03-29 10:01"))
    trip.run(timedelta(days=3))
    assert fired() == [("PT24H", utc("2026-03-30 09:00"))]
    assert schedule_log() == [("missed", "-P1D"), ("missed", "-PT2H"), ("missed", "-PT15M")]
    assert set(statuses().values()) == {"completed"}
    booked.save()
    assert live(booked) == {}


@pytest.mark.parametrize(
    ("by", "anchor", "instant"),
    [
        (days(-1), "2026-03-29T10:00", "2026-03-29 09:00"),  # a day of 23 hours
        (months(-1), "2026-03-20T10:00", "2026-03-20 10:00"),  # a month of 28 days
    ],
)
@pytest.mark.parametrize("lateness", [timedelta(minutes=-5), timedelta(minutes=5)])
def test_however_short_the_day_or_month_a_reminder_is_of_no_use_after_its_anchor(
    ann, trip, by, anchor, instant, lateness
):
    trip.to(utc("2026-02-01 00:00"))
    reminding(by)
    booked = Appointment.objects.create(person=ann, local_start=anchor)
    assert len(live(booked)) == 1
    trip.to(utc(instant) + lateness)
    trip.run(timedelta(0))
    in_time = lateness < timedelta(0)
    assert (len(fired()), [what for what, _ in schedule_log()]) == ((1, []) if in_time else (0, ["missed"]))


def test_what_follows_its_anchor_fires_however_late(booked, trip):
    trip.to(utc("2026-04-15 00:00"))
    trip.run(timedelta(0))
    assert fired() == [("PT24H", utc("2026-04-15 00:00"))]


def test_a_plan_may_say_itself_how_late_is_too_late(ann, trip):
    reminding(days(-1), hours(-2), hours(24), catch_up=CatchUp(window=timedelta(minutes=10)))
    Appointment.objects.create(person=ann, starts_at=SUNDAY)
    for moment in ("2026-03-28 10:09", "2026-03-29 07:11", "2026-03-30 09:11"):
        trip.to(utc(moment))
        trip.run(timedelta(0))
    assert fired() == [("-P1D", utc("2026-03-28 10:09"))]
    assert schedule_log() == [("missed", "-PT2H"), ("missed", "PT24H")]


# Still valid


class Checked(Reminders):
    def when(self, row):
        return True

    def still_valid(self, rows):
        return rows.filter(status="booked")


def test_what_is_no_longer_valid_when_its_moment_comes_is_passed_over(ann, trip):
    declare(Checked, offsets=(hours(-2),))
    booked = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    kept = Appointment.objects.create(person=ann, starts_at=SUNDAY)
    Appointment.objects.filter(pk=booked.pk).update(status="cancelled")
    trip.run(timedelta(days=60))
    [event] = Event.objects.all()
    assert event.aggregate_id == str(kept.pk)
    line = ScheduleLog.objects.get()
    assert (line.what, line.aggregate_id, line.due_before) == ("skipped", str(booked.pk), utc("2026-03-29 07:00"))
    assert set(statuses().values()) == {"completed"}


def test_one_question_is_asked_for_all_that_are_due(ann, trip):
    declare(Checked, offsets=(hours(-2),))

    def asked(count):
        for _ in range(count):
            Appointment.objects.create(person=ann, starts_at=trip.now + timedelta(hours=3))
        with CaptureQueriesContext(connection) as captured:
            trip.run(timedelta(hours=2))
        return len([sql for sql in queries(captured) if "app_appointment" in sql]), len(captured)

    assert asked(1) == asked(50)
    assert Event.objects.count() == 51


def test_a_rule_goes_on_after_a_moment_that_was_not_valid(trip):
    def valid(self, rows):
        return rows.exclude(name="away")

    declare(Birthdays, still_valid=valid)
    ann = Person.objects.create()
    Person.objects.update(name="away")
    trip.run(utc("2026-12-01 00:00"))
    assert (fired(), schedule_log()) == ([], [("skipped", "")])
    Person.objects.update(name="Ann")
    trip.run(utc("2027-12-01 00:00"))
    assert [at for _, at in fired()] == [utc("2027-06-15 08:00")]
    assert live(ann) == {"": utc("2028-06-15 08:00")}


def test_a_question_that_fails_is_asked_again_and_holds_nobody_else_up(ann, trip, birthdays, caplog):
    broken = [True]

    def valid(self, rows):
        return rows.filter(nonsense=1) if broken else rows

    declare(Reminders, offsets=(hours(-2),), still_valid=valid)
    Appointment.objects.create(person=ann, starts_at=utc("2026-06-15 10:00"))
    ann.save()
    trip.run(utc("2026-06-15 08:03"))
    assert fired() == [("", utc("2026-06-15 08:00"))]
    assert "still_valid failed" in caplog.text
    broken.clear()
    trip.run(timedelta(hours=1))
    assert fired()[-1] == ("-PT2H", utc("2026-06-15 08:04"))


def test_a_question_that_fails_for_long_does_not_bring_a_reminder_after_its_anchor(ann, trip):
    broken = [True]

    def valid(self, rows):
        return rows.filter(nonsense=1) if broken else rows

    declare(Reminders, offsets=(minutes(-15),), still_valid=valid)
    Appointment.objects.create(person=ann, starts_at=SUNDAY)
    trip.run(SUNDAY + timedelta(minutes=5))
    broken.clear()
    trip.run(timedelta(hours=1))
    assert fired() == []
    assert schedule_log() == [("missed", "-PT15M")]
