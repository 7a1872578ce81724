"""No rule may keep a worker busy: what cannot be decided soon is refused when it is declared."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from duebox.when import (
    InvalidRule,
    Timetable,
    WhenError,
    between,
    daily,
    every,
    next_after,
    register_calendar,
    rrule,
    upcoming,
    weekly,
)
from tests.support import examples

START = datetime(2026, 1, 1)
A_YEAR_LATER = datetime(2027, 1, 1, 12, tzinfo=UTC)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """CPU seconds of this process; generous, since the faults that these tests guard against took 8 to 98 seconds."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def test_a_minutely_rule_whose_filter_never_matches_is_refused_soon():
    with within(1), pytest.raises(InvalidRule, match="never match"):
        rrule("FREQ=MINUTELY;INTERVAL=2;BYMINUTE=1", start=START)


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=30",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=5",
        "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MINUTELY;INTERVAL=1440;BYHOUR=5;BYMINUTE=30",
    ],
)
def test_other_filters_that_never_match_are_refused_soon(text):
    with within(1), pytest.raises(InvalidRule, match="never match"):
        rrule(text, start=START)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU;BYHOUR=9;BYMINUTE=0", datetime(2032, 2, 29, 9, tzinfo=UTC)),
        ("FREQ=MINUTELY;INTERVAL=7;BYHOUR=9;BYMINUTE=0", datetime(2027, 1, 4, 9, tzinfo=UTC)),
        ("FREQ=HOURLY;INTERVAL=5;BYHOUR=0", datetime(2027, 1, 6, 0, tzinfo=UTC)),
    ],
)
def test_rules_with_long_waits_between_matches_are_still_found(text, expected):
    table = Timetable(rule=rrule(text, start=START), zone="UTC")
    with within(1):
        assert next_after(table, A_YEAR_LATER).instant == expected


def test_a_rule_for_every_second_of_every_day_of_the_year_is_answered_soon():
    numbers = {"BYMONTHDAY": range(1, 32), "BYHOUR": range(24), "BYMINUTE": range(60), "BYSECOND": range(60)}
    text = "FREQ=YEARLY;" + ";".join(f"{name}={','.join(map(str, these))}" for name, these in numbers.items())
    table = Timetable(rule=rrule(text, start=START), zone="Europe/Paris")
    after = datetime(2026, 12, 31, 22, 59, 59, tzinfo=UTC)
    with within(2):
        found = list(islice(upcoming(table, after), 3))
    assert [one.instant - after for one in found] == [timedelta(seconds=each) for each in (1, 2, 3)]


def test_positions_in_an_enormous_set_are_refused():
    hours = ",".join(map(str, range(24)))
    minutes = ",".join(map(str, range(60)))
    with within(1), pytest.raises(InvalidRule, match="BYSETPOS"):
        rrule(f"FREQ=YEARLY;BYDAY=MO;BYHOUR={hours};BYMINUTE={minutes};BYSETPOS=-1", start=START)


def test_positions_in_a_set_of_usual_size_work():
    table = Timetable(rule=rrule("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9,17;BYSETPOS=-1", start=START), zone="UTC")
    assert next_after(table, A_YEAR_LATER).instant == datetime(2027, 1, 29, 17, tzinfo=UTC)


def test_a_minutely_rule_with_a_count_does_not_get_slower_with_age():
    table = Timetable(rule=rrule("FREQ=MINUTELY;COUNT=2000000", start=START), zone="UTC")
    with within(0.5):
        assert next_after(table, A_YEAR_LATER).instant == A_YEAR_LATER + timedelta(minutes=1)
        assert next_after(table, datetime(2039, 1, 1, tzinfo=UTC)) is None


def test_the_last_occurrence_of_a_count_is_the_last():
    rule = rrule("FREQ=HOURLY;INTERVAL=3;COUNT=10", start=START)
    found = list(upcoming(Timetable(rule=rule, zone="America/New_York"), datetime(2025, 1, 1, tzinfo=UTC)))
    assert [one.instant for one in found] == [
        datetime(2026, 1, 1, 5, tzinfo=UTC) + number * timedelta(hours=3) for number in range(10)
    ]


def test_a_count_gives_the_same_occurrences_from_wherever_one_asks():
    rule = rrule("FREQ=DAILY;BYHOUR=1,2;BYMINUTE=30;COUNT=40", start=datetime(2026, 3, 1, 1, 30))
    table = Timetable(rule=rule, zone="America/New_York", gap="skip", fold="both")
    everything = [one.instant for one in upcoming(table, datetime(2026, 1, 1, tzinfo=UTC))]
    for asked in everything:
        assert [one.instant for one in upcoming(table, asked)] == [each for each in everything if each > asked]
    # 02:30 of 8 March does not exist and is not counted.
    assert len(everything) == 40


def test_a_count_that_would_take_long_to_walk_through_is_refused():
    with pytest.raises(InvalidRule, match=r"COUNT=200000 .* UNTIL"):
        rrule("FREQ=MINUTELY;BYHOUR=9;COUNT=200000", start=START)


class OpenOnNewYearOnly:
    def is_business_day(self, day: date) -> bool:
        return (day.month, day.day) == (1, 2)


def test_a_minutely_interval_skips_closed_days_without_looking_at_each_minute():
    register_calendar("new-year-only", OpenOnNewYearOnly)
    table = Timetable(rule=every(minutes=1), zone="Europe/Paris", calendar="new-year-only")
    with within(1):
        found = next_after(table, datetime(2026, 3, 1, tzinfo=UTC))
    assert found.instant == datetime(2027, 1, 1, 23, tzinfo=UTC)
    assert len(list(between(table, datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 2, 1, tzinfo=UTC)))) == 1440


class NeverOpen:
    def is_business_day(self, day: date) -> bool:
        return False


def test_a_calendar_that_is_never_open_is_an_error_soon():
    register_calendar("never-open", NeverOpen)
    table = Timetable(rule=every(minutes=1), zone="UTC", calendar="never-open")
    with within(1), pytest.raises(WhenError, match="closed"):
        next_after(table, A_YEAR_LATER)


def test_what_is_moved_forward_from_before_the_start_still_happens():
    # 2026-03-01 is a Sunday. Saturday's occurrence moves to Monday, which lies after the start.
    sunday = datetime(2026, 3, 1)
    table = Timetable(
        rule=weekly("saturday", at="09:00"), zone="UTC", start=sunday, calendar="weekdays", closed="forward"
    )
    assert next_after(table, datetime(2026, 2, 1, tzinfo=UTC)).instant == datetime(2026, 3, 2, 9, tzinfo=UTC)
    table = Timetable(rule=daily("09:00"), zone="UTC", start=sunday, calendar="weekdays", closed="forward")
    assert next_after(table, datetime(2026, 2, 1, tzinfo=UTC)).instant == datetime(2026, 3, 2, 9, tzinfo=UTC)


def test_weeks_without_a_weekday_mean_the_weekday_of_the_start():
    # RFC 5545: where BYWEEKNO comes without BYDAY, the day is that of DTSTART. 2026-01-01 is a Thursday.
    table = Timetable(rule=rrule("FREQ=YEARLY;BYWEEKNO=20", start=datetime(2026, 1, 1, 9)), zone="UTC")
    found = list(islice(upcoming(table, datetime(2026, 1, 1, tzinfo=UTC)), 2))
    assert [one.nominal for one in found] == [datetime(2026, 5, 14, 9), datetime(2027, 5, 20, 9)]


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;BYSETPOS=1",
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYYEARDAY=100",
        "FREQ=DAILY;BYSETPOS=2",
        "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=30;BYDAY=MO",
        "FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=3",
    ],
)
def test_daily_and_weekly_rules_that_never_match_are_refused_soon(text):
    with within(0.5), pytest.raises(InvalidRule):
        rrule(text, start=START)


def test_a_daily_rule_that_matches_every_28_years_is_answered_soon():
    table = Timetable(rule=rrule("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU", start=START), zone="UTC")
    with within(0.3):
        assert next_after(table, datetime(2032, 3, 1, tzinfo=UTC)).nominal == datetime(2060, 2, 29)


@settings(deadline=None, max_examples=examples(40))  # dateutil is slow where little matches
@given(
    freq=st.sampled_from(["DAILY", "WEEKLY"]),
    interval=st.integers(1, 15),
    by=st.dictionaries(
        st.sampled_from(["BYMONTH=1,3,12", "BYMONTHDAY=1,-1,15", "BYDAY=MO,SA", "BYYEARDAY=1,-1,200", "WKST=SU"]),
        st.none(),
        max_size=3,
    ),
    start=st.datetimes(datetime(2020, 1, 1), datetime(2026, 1, 1)),
    later=st.integers(0, 3000),
)
def test_the_dates_of_daily_and_weekly_rules_are_those_of_dateutil(freq, interval, by, start, later):
    start = start.replace(microsecond=0)
    text = ";".join([f"FREQ={freq}", f"INTERVAL={interval}", *by])
    after = start + timedelta(days=later)
    last = after + timedelta(days=3650)
    known = list(islice(rrulestr(f"{text};UNTIL={last:%Y%m%dT%H%M%S}", dtstart=start).xafter(after), 5))
    try:
        found = takewhile(lambda one: one.local <= last, rrule(text, start=start).nominals(after))
    except InvalidRule:
        assert not known
    else:
        assert [one.local for one in islice(found, 5)] == known
