"""Recurrence rules: what the RFCs say, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from duebox.when import HourlyRRule, InvalidRule, RRule, Timetable, UnknownZone, rrule, upcoming
from tests.support import examples
from tests.when.strategies import rrule_texts, starts

LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
START = datetime(2026, 3, 6, 2, 30)


def fires(text, zone="America/New_York", count=10, start=START, **options):
    policy = {name: options.pop(name) for name in ("gap", "fold") if name in options}
    table = Timetable(rule=rrule(text, start=start, **options), zone=zone, **policy)
    return [one.instant.strftime("%m-%dT%H:%M") for one in islice(upcoming(table, LONG_AGO), count)]


def test_a_time_skipped_in_a_gap_is_not_counted():
    assert fires("FREQ=DAILY;COUNT=3", gap="skip") == ["03-06T07:30", "03-07T07:30", "03-09T06:30"]


def test_a_time_left_out_is_counted():
    found = fires("FREQ=DAILY;COUNT=3", exdates=[datetime(2026, 3, 7, 2, 30)])
    assert found == ["03-06T07:30", "03-08T07:30"]


def test_a_whole_date_and_an_instant_can_be_left_out():
    found = fires("FREQ=DAILY;COUNT=4", exdates=[date(2026, 3, 7), datetime(2026, 3, 9, 6, 30, tzinfo=UTC)])
    assert found == ["03-06T07:30", "03-08T07:30"]


def test_a_time_in_a_gap_is_left_out_by_the_name_it_has():
    assert "03-08T07:30" not in fires("FREQ=DAILY;COUNT=4", exdates=["2026-03-08T02:30:00"])


def test_both_readings_of_a_repeated_time_count_once():
    start = datetime(2026, 10, 31, 1, 30)
    found = fires("FREQ=DAILY;COUNT=2", start=start, fold="both")
    assert found == ["10-31T05:30", "11-01T05:30", "11-01T06:30"]


def test_both_readings_keep_to_the_count_when_they_interleave():
    start = datetime(2026, 11, 1, 1, 0)
    text = "FREQ=DAILY;BYHOUR=1;BYMINUTE=0,30;COUNT=1"
    assert fires(text, start=start, fold="both") == ["11-01T05:00", "11-01T06:00"]


def test_two_days_that_become_one_fire_once():
    start = datetime(2011, 12, 28, 9)
    found = fires("FREQ=DAILY;COUNT=4", zone="Pacific/Apia", start=start)
    assert found == ["12-28T19:00", "12-29T19:00", "12-30T19:00", "12-31T19:00"]


def test_the_day_that_was_takes_in_the_day_that_was_not():
    table = Timetable(rule=rrule("FREQ=DAILY", start=datetime(2011, 12, 29, 9)), zone="Pacific/Apia")
    assert [one.key for one in islice(upcoming(table, LONG_AGO), 3)] == [
        "2011-12-29T09:00",
        "2011-12-31T09:00",
        "2012-01-01T09:00",
    ]


@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20260310T063000Z", "03-10T06:30"),
        ("20260310T062959Z", "03-09T06:30"),
        ("20260310T023000", "03-10T06:30"),
        ("20260310", "03-10T06:30"),
    ],
)
def test_until_is_inclusive_in_utc_in_local_time_and_by_date(until, last):
    assert fires(f"FREQ=DAILY;UNTIL={until}")[-1] == last


def test_months_without_the_date_are_left_out_unless_told_otherwise():
    start = datetime(2026, 1, 31, 9)
    assert fires("FREQ=MONTHLY;COUNT=3", "UTC", start=start) == ["01-31T09:00", "03-31T09:00", "05-31T09:00"]


def test_skip_in_the_text_means_what_the_option_means():
    start = datetime(2026, 1, 31, 9)
    by_text = fires("FREQ=MONTHLY;COUNT=4;RSCALE=GREGORIAN;SKIP=BACKWARD", "UTC", start=start)
    assert by_text == fires("FREQ=MONTHLY;COUNT=4", "UTC", start=start, leap="backward")
    assert by_text == ["01-31T09:00", "02-28T09:00", "03-31T09:00", "04-30T09:00"]


def test_two_dates_moved_onto_one_day_are_one_instance():
    start = datetime(2026, 2, 1, 9)
    found = fires("FREQ=MONTHLY;BYMONTHDAY=1,29,30,31;COUNT=4", "UTC", start=start, leap="forward")
    assert found == ["02-01T09:00", "03-01T09:00", "03-29T09:00", "03-30T09:00"]


def test_a_leap_day_moved_forward_returns_in_leap_years():
    start = datetime(2012, 2, 29, 9)
    found = fires("FREQ=YEARLY;COUNT=5", "UTC", start=start, leap="forward")
    assert found == ["02-29T09:00", "03-01T09:00", "03-01T09:00", "03-01T09:00", "02-29T09:00"]


@pytest.mark.parametrize(
    ("moved", "plain"),
    [
        ("FREQ=YEARLY;SKIP=BACKWARD", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=-1"),
        ("FREQ=YEARLY;SKIP=FORWARD", "FREQ=YEARLY;BYYEARDAY=60"),
        ("FREQ=MONTHLY;BYMONTHDAY=31;SKIP=BACKWARD", "FREQ=MONTHLY;BYMONTHDAY=-1"),
        ("FREQ=MONTHLY;BYMONTHDAY=30;SKIP=BACKWARD", "FREQ=MONTHLY;BYMONTHDAY=28,29,30;BYSETPOS=-1"),
        ("FREQ=MONTHLY;BYMONTHDAY=15;SKIP=FORWARD", "FREQ=MONTHLY;BYMONTHDAY=15"),
        ("FREQ=MONTHLY;BYDAY=-1FR;SKIP=FORWARD", "FREQ=MONTHLY;BYDAY=-1FR"),
        (
            "FREQ=YEARLY;INTERVAL=2;BYMONTH=1,7;BYMONTHDAY=1,-1;SKIP=BACKWARD",
            "FREQ=YEARLY;INTERVAL=2;BYMONTH=1,7;BYMONTHDAY=1,-1",
        ),
        ("FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR;SKIP=BACKWARD", "FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,2,3,4;BYSETPOS=2,-1;SKIP=FORWARD", "FREQ=MONTHLY;BYMONTHDAY=2,4"),
    ],
)
def test_moved_dates_equal_the_plain_rule_that_names_them(moved, plain):
    start = datetime(2024, 2, 29, 9)
    for after in (datetime(1999, 1, 1), datetime(2031, 7, 9)):
        found = [one.local for one in islice(rrule(moved, start=start).nominals(after), 60)]
        assert found == [one.local for one in islice(rrule(plain, start=start).nominals(after), 60)]


def test_a_date_moved_into_the_next_month_is_found_on_that_very_day():
    rule = rrule("FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=9,17", start=datetime(2026, 1, 31, 9), leap="forward")
    assert next(rule.nominals(datetime(2026, 3, 1, 12))).local == datetime(2026, 3, 1, 17)


def test_hourly_starts_no_earlier_than_its_start():
    assert fires("FREQ=HOURLY;BYMINUTE=0,30", "UTC", 2, datetime(2026, 1, 1, 9, 15)) == ["01-01T09:30", "01-01T10:00"]


def test_hourly_runs_on_elapsed_time_through_a_fold():
    found = fires("FREQ=HOURLY;COUNT=4", start=datetime(2026, 11, 1, 0, 30))
    assert found == ["11-01T04:30", "11-01T05:30", "11-01T06:30", "11-01T07:30"]


def test_hourly_runs_on_elapsed_time_through_a_gap():
    found = fires("FREQ=HOURLY;INTERVAL=2;COUNT=3", start=datetime(2026, 3, 8, 0, 30))
    assert found == ["03-08T05:30", "03-08T07:30", "03-08T09:30"]


def test_hourly_filters_read_the_local_clock():
    found = fires("FREQ=HOURLY;BYHOUR=9,10;BYDAY=MO,FR;BYMINUTE=0,30", count=5)
    assert found == ["03-06T14:00", "03-06T14:30", "03-06T15:00", "03-06T15:30", "03-09T13:00"]


def test_minutely_filters_jump_over_days_and_find_the_far_future():
    found = fires("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=29;BYHOUR=3;BYMINUTE=7", count=1)
    assert found == ["02-29T08:07"]


def test_several_lines_of_text_carry_start_and_exceptions():
    text = "DTSTART:20260306T023000\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260307T023000"
    table = Timetable(rule=rrule(text), zone="America/New_York")
    assert [one.key for one in upcoming(table, LONG_AGO)] == ["2026-03-06T02:30", "2026-03-08T02:30"]


def test_text_is_read_in_any_case_and_with_its_prefix():
    assert rrule("rrule:freq=daily", start=START) == rrule("FREQ=DAILY", start=START)


def test_coarse_rules_keep_the_wall_clock_and_fine_ones_do_not():
    assert isinstance(rrule("FREQ=DAILY", start=START), RRule)
    assert isinstance(rrule("FREQ=MINUTELY", start=START), HourlyRRule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FREQ=SECONDLY", "use FREQ=MINUTELY"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never matches"),
        ("FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29", "never matches"),
        ("FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30", "never match"),
        ("FREQ=HOURLY;INTERVAL=24;BYHOUR=5", "never match"),
        ("FREQ=DAILY;UNTIL=20200101T000000Z", "move UNTIL"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20270101T000000Z", "keep one of them"),
        ("FREQ=DAILY;COUNT=0", "COUNT=0"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL=0"),
        ("FREQ=DAILY;BYMONTH=13", "BYMONTH=13 is out of range"),
        ("FREQ=WEEKLY;BYDAY=XX", "BYDAY=XX is out of range"),
        ("FREQ=DAILY;BYFUN=1", "BYFUN .*unknown"),
        ("FREQ=DAILY;FREQ=WEEKLY", "is repeated"),
        ("FREQ=DAILY;INTERVAL", "is not NAME=VALUE"),
        ("INTERVAL=2", "FREQ=\\(none\\)"),
        ("FREQ=FORTNIGHTLY", "FREQ=FORTNIGHTLY"),
        ("FREQ=HOURLY;BYSETPOS=1", "BYSETPOS is not supported"),
        ("FREQ=HOURLY;BYDAY=1MO", "needs a month"),
        ("FREQ=YEARLY;RSCALE=HEBREW;SKIP=FORWARD", "use RSCALE=GREGORIAN"),
        ("DTSTART;TZID=Europe/London:20260101T090000\nRRULE:FREQ=DAILY", "leave TZID out"),
        ("RRULE:FREQ=DAILY\nRDATE:20260101T090000", "not supported"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_and_says_what_to_do(text, message):
    with pytest.raises(InvalidRule, match=message):
        rrule(text, start=datetime(2026, 1, 5, 9))


def test_a_rule_without_a_start_is_refused():
    with pytest.raises(InvalidRule, match="pass start="):
        rrule("FREQ=DAILY")


def test_a_rule_in_an_unknown_zone_is_refused():
    with pytest.raises(UnknownZone, match="Europe/London"):
        Timetable(rule=rrule("FREQ=DAILY", start=START), zone="Europe/Lonndon")


wall_texts = rrule_texts.filter(lambda text: "HOURLY" not in text and "MINUTELY" not in text)


@given(wall_texts, starts, st.integers(0, 40_000))
@settings(max_examples=examples(300), deadline=None)
def test_entering_a_rule_late_finds_what_walking_from_its_start_finds(text, start, days):
    after = start + timedelta(days=days)
    near = [one.local for one in islice(rrule(text, start=start).nominals(after), 6)]
    walked = rrulestr(text, dtstart=start).xafter(after, count=6)
    assert near == list(walked)
