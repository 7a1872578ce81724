"""A time at a distance from an anchor, as a rule: one occurrence, named by both."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebox.when import (
    Offset,
    Reminder,
    Timetable,
    WhenError,
    WrongKindOfTime,
    at_offset,
    days,
    describe,
    hours,
    minutes,
    months,
    next_after,
    offset,
    reminder,
    replan,
    upcoming,
)
from tests.support import examples
from tests.when.strategies import folds, gaps, zone_and_local

LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
# Clocks in New York went forward on March 8: the day before this 10:00 was 23 hours long.
APPOINTMENT = datetime(2026, 3, 8, 10)


def utc(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def in_new_york(anchor, by, **options):
    return Timetable(rule=reminder(anchor, by), zone="America/New_York", **options)


@pytest.mark.parametrize(
    ("by", "instant"),
    [
        (-days(1), "2026-03-07T15:00Z"),
        (-hours(24), "2026-03-07T14:00Z"),
        (-hours(2), "2026-03-08T12:00Z"),
        (-minutes(15), "2026-03-08T13:45Z"),
        (days(1), "2026-03-09T14:00Z"),
        (-months(1), "2026-02-08T15:00Z"),
        ("-P1DT2H", "2026-03-07T13:00Z"),
    ],
)
def test_calendar_units_move_the_date_and_exact_units_the_instant(by, instant):
    assert next_after(in_new_york(APPOINTMENT, by), LONG_AGO).instant == utc(instant)


def test_it_comes_once():
    found = list(upcoming(in_new_york(APPOINTMENT, -days(1)), LONG_AGO))
    assert len(found) == 1
    assert next_after(in_new_york(APPOINTMENT, -days(1)), found[0].instant) is None


def test_it_is_known_by_its_anchor_and_its_offset():
    assert reminder(APPOINTMENT, -days(1)).key == "2026-03-08T10:00/-P1D"
    assert reminder(APPOINTMENT, -hours(24)).key == "2026-03-08T10:00/-PT24H"
    assert next_after(in_new_york(APPOINTMENT, "-PT2H"), LONG_AGO).key == "2026-03-08T10:00/-PT2H"


def test_its_name_is_the_same_in_every_zone():
    keys = {
        next_after(Timetable(rule=reminder(APPOINTMENT, -days(1)), zone=zone), LONG_AGO).key
        for zone in ("Asia/Tokyo", "America/New_York", "UTC")
    }
    assert keys == {"2026-03-08T10:00/-P1D"}


def test_an_instant_is_the_same_anchor_however_it_is_written():
    aware = datetime.fromisoformat("2026-03-08T10:00-04:00")
    assert reminder(aware, -days(1)) == reminder(aware.astimezone(UTC), -days(1))
    assert reminder(aware, -days(1)).key == "2026-03-08T14:00Z/-P1D"


def test_a_day_before_an_instant_is_a_day_of_the_zone():
    aware = datetime.fromisoformat("2026-03-08T10:00-04:00")
    assert next_after(in_new_york(aware, -days(1)), LONG_AGO).instant == utc("2026-03-07T15:00Z")
    tokyo = Timetable(rule=reminder(aware, -days(1)), zone="Asia/Tokyo")
    assert next_after(tokyo, LONG_AGO).instant == utc("2026-03-07T14:00Z")


def test_the_local_time_told_is_that_of_the_reminder_not_of_the_anchor():
    assert next_after(in_new_york(APPOINTMENT, -hours(2)), LONG_AGO).nominal == datetime(2026, 3, 8, 8)
    assert next_after(in_new_york(APPOINTMENT, -days(1)), LONG_AGO).nominal == datetime(2026, 3, 7, 10)


def test_policies_decide_where_the_clock_skips_or_repeats_it():
    anchor = datetime(2026, 3, 9, 2, 30)  # the day before, 02:30 does not exist
    found = next_after(in_new_york(anchor, -days(1)), LONG_AGO)
    assert (found.instant, found.marks) == (utc("2026-03-08T07:30Z"), ("gap_shifted_forward",))
    assert next_after(in_new_york(anchor, -days(1), gap="skip"), LONG_AGO) is None
    autumn = datetime(2026, 11, 2, 1, 30)
    assert next_after(in_new_york(autumn, -days(1), fold="second"), LONG_AGO).instant == utc("2026-11-01T06:30Z")


def test_an_anchor_that_moves_has_reminders_of_its_own():
    moved = in_new_york(datetime(2026, 3, 12, 10), -days(1))
    first = "2026-03-08T10:00/-P1D"
    found = replan(moved, now=utc("2026-03-07T16:00Z"), fired=first)
    assert (found.next.key, found.lost) == ("2026-03-12T10:00/-P1D", None)


def test_an_anchor_that_moves_there_and_back_before_the_reminder_has_the_first_one_again():
    table = in_new_york(APPOINTMENT, -days(1))
    found = replan(table, now=utc("2026-03-01T00:00Z"), pending="2026-03-12T10:00/-P1D")
    assert (found.next.key, found.lost) == ("2026-03-08T10:00/-P1D", "2026-03-12T10:00/-P1D")


def test_an_anchor_that_moves_back_after_the_reminder_brings_no_second_one():
    table = in_new_york(APPOINTMENT, -days(1))
    found = replan(table, now=utc("2026-03-01T00:00Z"), fired="2026-03-08T10:00/-P1D")
    assert found.next is None


def test_an_earlier_anchor_is_reminded_of_though_a_later_one_was():
    table = in_new_york(APPOINTMENT, -days(1))
    found = replan(table, now=utc("2026-03-01T00:00Z"), fired="2026-03-12T10:00/-P1D")
    assert found.next.key == "2026-03-08T10:00/-P1D"


def test_one_that_is_past_when_it_is_planned_does_not_come():
    found = replan(in_new_york(APPOINTMENT, -hours(2)), now=utc("2026-03-08T12:30Z"), late="fire_now")
    assert found.next is None


def test_one_that_a_move_of_zone_makes_late_comes_at_once_within_grace():
    table = Timetable(rule=reminder(APPOINTMENT, -days(1)), zone="Asia/Tokyo")  # was 15:00Z, is 01:00Z
    now = utc("2026-03-07T05:00Z")
    found = replan(table, now=now, pending="2026-03-08T10:00/-P1D", late="fire_now", grace=timedelta(hours=12))
    assert found.next.instant == now
    found = replan(table, now=now, pending="2026-03-08T10:00/-P1D", late="fire_now", grace=timedelta(hours=2))
    assert (found.next, found.lost) == (None, "2026-03-08T10:00/-P1D")


@pytest.mark.parametrize("anchor", ["2026-03-08", date(2026, 3, 8), None])
def test_an_anchor_that_is_no_time_is_refused(anchor):
    with pytest.raises(WrongKindOfTime, match="The anchor is"):
        reminder(anchor, -days(1))


@pytest.mark.parametrize("by", [timedelta(days=-1), -1, None])
def test_an_offset_that_is_no_offset_is_refused_with_the_repair(by):
    with pytest.raises(WhenError, match=r"use one such as days\(-1\)"):
        reminder(APPOINTMENT, by)


def test_an_offset_that_cannot_be_read_is_refused():
    with pytest.raises(WhenError, match="write it as -P1D"):
        reminder(APPOINTMENT, "a day before")


@pytest.mark.parametrize("anchor", [APPOINTMENT, APPOINTMENT.replace(tzinfo=UTC), datetime(2026, 3, 8, 10, 0, 0, 250)])
def test_it_survives_being_stored(anchor):
    table = in_new_york(anchor, "-P1M2DT3H4M5S", gap="skip")
    data = json.loads(json.dumps(table.to_dict()))
    assert data["rule"]["kind"] == "reminder"
    assert Timetable.from_dict(data) == table


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (-days(1), "1 day before 2026-03-10 at 10:00"),
        (-hours(2), "2 hours before 2026-03-10 at 10:00"),
        (minutes(1), "1 minute after 2026-03-10 at 10:00"),
        (-months(2), "2 months before 2026-03-10 at 10:00"),
        (offset("P1DT2H30M10S"), "1 day, 2 hours, 30 minutes and 10 seconds after 2026-03-10 at 10:00"),
        (Offset(), "Once, on 2026-03-10 at 10:00"),
    ],
)
def test_it_reads_as_a_sentence(by, words):
    table = Timetable(rule=reminder(datetime(2026, 3, 10, 10), by), zone="Europe/London")
    assert describe(table) == f"{words}, Europe/London time."


def test_the_sentence_names_utc_and_policies_where_they_count():
    table = Timetable(rule=reminder(datetime(2026, 3, 10, 10, tzinfo=UTC), -days(1)), zone="Europe/London", gap="skip")
    assert describe(table) == (
        "1 day before 2026-03-10 at 10:00 UTC, Europe/London time; times that clocks jump over are skipped."
    )


offsets = st.builds(
    lambda sign, months, days, seconds: sign(Offset(months=months, days=days, exact=timedelta(seconds=seconds))),
    st.sampled_from([lambda by: by, lambda by: -by]),
    st.integers(0, 14),
    st.integers(0, 40),
    st.integers(0, 200_000),
)


@given(zone_and_local(), offsets, gaps, folds)
@settings(max_examples=examples(300), deadline=None)
def test_as_a_rule_it_says_what_the_offset_says(drawn, by, gap, fold):
    zone, anchor = drawn
    table = Timetable(rule=Reminder(anchor, by), zone=zone, gap=gap, fold=fold)
    alone = at_offset(anchor, by, zone, gap=gap, fold=fold)
    assert [one.instant for one in islice(upcoming(table, LONG_AGO), 2)] == ([alone.instant] if alone else [])
    assert Timetable.from_dict(json.loads(json.dumps(table.to_dict()))) == table
