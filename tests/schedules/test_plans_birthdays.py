"""Birthdays and other rules: nine in the morning of wherever a person lives, once a year."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest

from duebox.models import ScheduleLog
from duebox.when import anniversary, cron, rrule
from tests.app.people import Person
from tests.app.planned import Birthdays, declare, fired, live, statuses, utc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forget_plans")]


# Birthdays


def test_a_birthday_is_greeted_at_nine_on_the_wall_once_a_year(birthdays, trip):
    ann = Person.objects.create(born_on=date(1990, 3, 29))
    trip.run(timedelta(days=3 * 365))
    assert [at for _, at in fired()] == [
        utc("2026-03-29 08:00"),  # summer time since this night
        utc("2027-03-29 08:00"),
        utc("2028-03-29 08:00"),
    ]
    assert live(ann) == {"": utc("2029-03-29 08:00")}


@pytest.mark.parametrize(
    ("leap", "greeted"),
    [
        ("backward", ["2027-02-28", "2028-02-29", "2029-02-28"]),
        ("forward", ["2026-03-01", "2027-03-01", "2028-02-29", "2029-03-01"]),
        ("omit", ["2028-02-29"]),
    ],
)
def test_a_birthday_on_the_leap_day_follows_the_policy_of_the_plan(trip, leap, greeted):
    declare(Birthdays, rule=lambda self, row: anniversary(row.born_on, at="09:00", leap=leap))
    Person.objects.create(born_on=date(2004, 2, 29), zone="UTC")
    trip.run(utc("2029-06-01 00:00"))
    assert [at.date().isoformat() for _, at in fired()] == greeted


def moved(person, zone):
    person.zone = zone
    person.save()


@pytest.mark.parametrize(
    ("moves_at", "greeted_at"),
    [
        ("2026-06-14 23:00", "2026-06-15 00:00"),  # before nine in Tokyo: there
        ("2026-06-15 04:00", "2026-06-15 04:00"),  # nine in Tokyo is over, nine in London to come: at once
        ("2026-06-15 08:30", "2026-06-15 08:00"),  # greeted in London already
    ],
)
def test_who_moves_east_is_greeted_once_that_year(birthdays, trip, moves_at, greeted_at):
    ann = Person.objects.create(zone="Europe/London")
    trip.run(utc(moves_at))
    moved(ann, "Asia/Tokyo")
    trip.run(utc("2027-06-01 00:00"))
    assert [at for _, at in fired()] == [utc(greeted_at)]
    assert live(ann) == {"": utc("2027-06-15 00:00")}


@pytest.mark.parametrize(
    ("moves_at", "greeted_at"),
    [
        ("2026-06-14 23:00", "2026-06-15 16:00"),  # greeted nowhere yet: in Los Angeles
        ("2026-06-15 12:00", "2026-06-15 08:00"),  # greeted in London, though it is not nine in Los Angeles yet
    ],
)
def test_who_moves_west_is_greeted_once_that_year(birthdays, trip, moves_at, greeted_at):
    ann = Person.objects.create(zone="Europe/London")
    trip.run(utc(moves_at))
    moved(ann, "America/Los_Angeles")
    trip.run(utc("2027-06-01 00:00"))
    assert [at for _, at in fired()] == [utc(greeted_at)]
    assert live(ann) == {"": utc("2027-06-15 16:00")}


@pytest.mark.parametrize(
    ("home", "there", "moves_at", "greeted_at"),
    [
        # One second before nine; in Tokyo nine o'clock was thirteen hours ago.
        ("America/New_York", "Asia/Tokyo", "2026-06-15 12:59:59", "2026-06-15 12:59:59"),
        # The same in winter, when they are fourteen hours apart.
        ("America/New_York", "Asia/Tokyo", "2026-01-15 13:59:59", "2026-01-15 13:59:59"),
        # The other way round: nine o'clock in New York is still to come.
        ("Asia/Tokyo", "America/New_York", "2026-06-14 23:59:59", "2026-06-15 13:00:00"),
        # As far apart as two zones can be, in both directions.
        ("Etc/GMT+12", "Pacific/Kiritimati", "2026-06-15 20:59:59", "2026-06-15 20:59:59"),
        ("Pacific/Kiritimati", "Etc/GMT+12", "2026-06-14 18:59:59", "2026-06-15 21:00:00"),
        # One second after nine: greeted already.
        ("America/New_York", "Asia/Tokyo", "2026-06-15 13:00:01", "2026-06-15 13:00:00"),
        ("Asia/Tokyo", "America/New_York", "2026-06-15 00:00:01", "2026-06-15 00:00:00"),
    ],
)
def test_who_moves_a_second_before_or_after_nine_is_greeted_once_however_far(
    birthdays, trip, home, there, moves_at, greeted_at
):
    trip.to(utc("2026-01-02 00:00"))
    born_on = date(1990, utc(greeted_at).month, 15)
    ann = Person.objects.create(zone=home, born_on=born_on)
    trip.run(utc(moves_at))
    moved(ann, there)
    trip.run(utc("2026-12-31 00:00"))
    assert [at for _, at in fired()] == [utc(greeted_at)]
    assert not ScheduleLog.objects.filter(what="missed").exists()


def test_a_move_that_jumps_over_nine_by_more_than_the_grace_is_recorded_as_missed(trip):
    declare(Birthdays, grace=timedelta(hours=3))
    ann = Person.objects.create(zone="Europe/London")
    trip.run(utc("2026-06-15 03:01"))
    moved(ann, "Asia/Tokyo")
    trip.run(utc("2027-06-01 00:00"))
    assert fired() == []
    assert ScheduleLog.objects.get(what="missed").occurrence == "2026"


def test_a_plan_may_skip_what_a_move_jumps_over(trip):
    declare(Birthdays, late="skip")
    ann = Person.objects.create(zone="Europe/London")
    trip.run(utc("2026-06-15 04:00"))
    moved(ann, "Asia/Tokyo")
    assert live(ann) == {"": utc("2027-06-15 00:00")}


def test_a_move_there_and_back_between_two_nines_greets_once(birthdays, trip):
    ann = Person.objects.create(zone="Europe/London")
    trip.run(utc("2026-06-15 04:00"))
    moved(ann, "Asia/Tokyo")
    trip.run(timedelta(minutes=5))
    moved(ann, "Europe/London")
    trip.run(utc("2027-06-01 00:00"))
    assert [at for _, at in fired()] == [utc("2026-06-15 04:00")]


def test_who_was_greeted_leaves_and_comes_back_further_west_is_not_greeted_again(trip):
    declare(Birthdays, when=lambda self, row: row.name != "gone")
    ann = Person.objects.create()
    trip.run(utc("2026-06-15 12:00"))
    ann.name = "gone"
    ann.save()
    assert live(ann) == {}
    ann.name, ann.zone = "Ann", "America/Los_Angeles"
    ann.save()
    assert live(ann) == {"": utc("2027-06-15 16:00")}


def test_a_birthday_corrected_after_the_greeting_brings_no_second_one(birthdays, trip):
    ann = Person.objects.create()
    trip.run(utc("2026-06-15 12:00"))
    ann.born_on = date(1990, 6, 17)
    ann.save()
    trip.run(utc("2027-06-30 00:00"))
    assert [at for _, at in fired()] == [utc("2026-06-15 08:00"), utc("2027-06-17 08:00")]


def test_a_birthday_corrected_to_a_day_that_is_past_is_not_greeted_this_year(birthdays, trip):
    ann = Person.objects.create()
    trip.run(utc("2026-06-14 12:00"))
    ann.born_on = date(1990, 6, 13)
    ann.save()
    trip.run(utc("2027-06-30 00:00"))
    assert [at for _, at in fired()] == [utc("2027-06-13 08:00")]


# Rules


def test_a_weekly_rule_keeps_the_wall_clock(trip):
    weekly = rrule("FREQ=WEEKLY;BYDAY=SU;COUNT=3", start=datetime(2026, 3, 22, 9))
    declare(Birthdays, rule=lambda self, row: weekly)
    Person.objects.create()
    trip.run(timedelta(days=60))
    assert [at for _, at in fired()] == [utc("2026-03-22 09:00"), utc("2026-03-29 08:00"), utc("2026-04-05 08:00")]
    assert statuses() == {"": "completed"}


def test_a_cron_rule_keeps_the_wall_clock(trip):
    declare(Birthdays, rule=lambda self, row: cron("0 9 * * 0"))
    Person.objects.create()
    trip.run(utc("2026-04-06 00:00"))
    assert [at for _, at in fired()][-3:] == [
        utc("2026-03-22 09:00"),
        utc("2026-03-29 08:00"),
        utc("2026-04-05 08:00"),
    ]


def test_an_edited_rule_fires_nothing_that_is_past(trip):
    declare(Birthdays, rule=lambda self, row: cron("0 12 * * *" if row.name == "Ann" else "0 8 * * *"))
    ann = Person.objects.create(zone="UTC")
    trip.to(utc("2026-03-01 10:00"))
    ann.name = "Anna"
    ann.save()
    trip.run(utc("2026-03-02 13:00"))
    assert [at for _, at in fired()] == [utc("2026-03-02 08:00")]
