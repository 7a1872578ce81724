"""Rules found by arithmetic: once, daily, weekly, monthly, anniversaries, intervals."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebox.when import (
    How,
    InvalidRule,
    Moved,
    Timetable,
    WrongKindOfTime,
    anniversary,
    daily,
    every,
    is_spent,
    monthly,
    next_after,
    once,
    resolve,
    rrule,
    upcoming,
    weekly,
)
from tests.support import examples
from tests.when.strategies import dates, several_times, weekdays

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def locals_of(rule, count, after=datetime(2026, 1, 1)):
    return [one.local for one in islice(rule.nominals(after), count)]


def test_a_local_one_shot_follows_its_zone():
    table = Timetable(rule=once(datetime(2026, 3, 8, 9)), zone="Asia/Tokyo")
    assert next_after(table, NOW).instant == datetime(2026, 3, 8, 0, tzinfo=UTC)
    assert next_after(table, datetime(2026, 3, 8, 0, tzinfo=UTC)) is None


def test_an_instant_stays_what_it_is():
    moment = datetime(2026, 3, 8, 9, tzinfo=UTC)
    found = next_after(Timetable(rule=once(moment), zone="Asia/Tokyo"), NOW)
    assert (found.instant, found.nominal, found.how) == (moment, datetime(2026, 3, 8, 18), How.ELAPSED)


def test_daily_keeps_the_wall_clock_when_clocks_change():
    table = Timetable(rule=daily("09:00"), zone="Europe/London")
    found = [one.instant.hour for one in islice(upcoming(table, datetime(2026, 3, 27, 12, tzinfo=UTC)), 3)]
    assert found == [9, 8, 8]


def test_every_other_day_is_counted_from_its_first_day_however_long_ago():
    assert locals_of(daily("09:00", every=2, since="1990-01-01"), 2) == [
        datetime(2026, 1, 2, 9),
        datetime(2026, 1, 4, 9),
    ]


def test_a_step_without_a_first_day_is_refused():
    with pytest.raises(InvalidRule, match="add since="):
        daily("09:00", every=2)


def test_several_times_a_day_come_in_order_and_once():
    rule = daily(("17:00", "09:00", "17:00"))
    assert locals_of(rule, 3) == [datetime(2026, 1, 1, 9), datetime(2026, 1, 1, 17), datetime(2026, 1, 2, 9)]


def test_weekly_names_its_days():
    assert locals_of(weekly("thu", "Monday", at="09:00"), 3) == [
        datetime(2026, 1, 1, 9),
        datetime(2026, 1, 5, 9),
        datetime(2026, 1, 8, 9),
    ]


@pytest.mark.parametrize(
    ("leap", "expected"),
    [
        ("backward", [(1, 31), (2, 28), (3, 31), (4, 30)]),
        ("forward", [(1, 31), (3, 1), (3, 31), (5, 1)]),
        ("omit", [(1, 31), (3, 31), (5, 31), (7, 31)]),
    ],
)
def test_the_31st_of_a_short_month_follows_the_leap_policy(leap, expected):
    found = locals_of(monthly(31, at="09:00", leap=leap), 4)
    assert [(one.month, one.day) for one in found] == expected


def test_a_date_moved_into_the_next_month_is_found_on_that_very_day():
    rule = monthly(31, at=("09:00", "17:00"), leap="forward")
    assert locals_of(rule, 1, datetime(2026, 3, 1, 12)) == [datetime(2026, 3, 1, 17)]


def test_a_moved_date_is_marked():
    table = Timetable(rule=monthly(31, at="09:00"), zone="UTC")
    assert [one.moved for one in islice(upcoming(table, NOW), 2)] == [None, Moved.LEAP]


def test_a_birthday_is_known_by_its_year_and_comes_back_to_feb_29():
    table = Timetable(rule=anniversary("2004-02-29", at="09:00"), zone="Europe/London")
    found = list(islice(upcoming(table, NOW), 3))
    assert [(one.key, one.nominal.date(), one.marks) for one in found] == [
        ("2026", date(2026, 2, 28), ("leap_moved",)),
        ("2027", date(2027, 2, 28), ("leap_moved",)),
        ("2028", date(2028, 2, 29), ()),
    ]


def test_the_day_of_birth_is_no_birthday():
    table = Timetable(rule=anniversary("2026-05-01", at="09:00"), zone="UTC")
    assert next_after(table, NOW).key == "2027"


def test_an_interval_is_counted_from_its_anchor_in_real_time():
    anchor = datetime(2026, 3, 8, 0, 30, tzinfo=UTC)
    table = Timetable(rule=every(hours=6, anchor=anchor), zone="America/New_York")
    found = next_after(table, anchor + timedelta(days=400, minutes=1))
    assert (found.instant - anchor) % timedelta(hours=6) == timedelta(0)
    assert found.key == found.instant.strftime("%Y-%m-%dT%H:%MZ")


def test_an_interval_may_be_as_short_as_a_second_and_does_not_care_for_changes_of_clocks():
    just_before = datetime(2026, 3, 8, 6, 59, 59, tzinfo=UTC)  # in New York clocks go from 02:00 to 03:00
    for rule, step in ((every(seconds=30), 30), (every(timedelta(seconds=1)), 1), (every(minutes=1, seconds=15), 75)):
        found = [
            one.instant for one in islice(upcoming(Timetable(rule=rule, zone="America/New_York"), just_before), 90)
        ]
        assert {after - before for before, after in pairwise(found)} == {timedelta(seconds=step)}
        assert (found[0] - datetime(1970, 1, 1, tzinfo=UTC)) % timedelta(seconds=step) == timedelta(0)


def test_of_a_short_interval_what_comes_before_the_last_one_fired_is_spent_and_what_follows_is_not():
    keys = [one.key for one in islice(upcoming(Timetable(rule=every(seconds=20), zone="UTC"), NOW), 40)]
    for at, fired in enumerate(keys):
        assert [is_spent(key, fired) for key in keys] == [True] * (at + 1) + [False] * (len(keys) - at - 1)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: every(timedelta(milliseconds=500)), "more often than once a second"),
        (lambda: every(), "is not an interval; .* every\\(seconds=30\\)"),
        (lambda: every(seconds=0), "is not an interval"),
        (lambda: every(seconds=-1), "is not an interval"),
        (lambda: every(timedelta(seconds=1.5)), "is not a whole number of seconds"),
        (lambda: every(30), r"every\(30\) .* pass a timedelta, or every\(seconds=30\)"),
        (lambda: every(timedelta(seconds=30), seconds=1), "both a timedelta and units"),
    ],
)
def test_an_interval_that_cannot_be_kept_is_refused_with_the_repair(wrong, told):
    with pytest.raises(InvalidRule, match=told):
        wrong()


def test_nothing_happens_before_the_anchor():
    anchor = datetime(2026, 6, 1, tzinfo=UTC)
    assert next_after(Timetable(rule=every(days=1, anchor=anchor), zone="UTC"), NOW).instant == anchor


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: every(minutes=0),
        lambda: every(minutes=-5),
        lambda: monthly(0, at="09:00"),
        lambda: monthly(32, at="09:00"),
        lambda: monthly(31, at="09:00", every=12, since="2026-02-01", leap="omit"),
        lambda: weekly(at="09:00"),
        lambda: weekly("noday", at="09:00"),
        lambda: daily("09:00", every=0),
    ],
)
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidRule):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: daily("9 o'clock"),
        lambda: daily(time(9, tzinfo=UTC)),
        lambda: daily(()),
        lambda: anniversary(datetime(2000, 1, 1), at="09:00"),
        lambda: anniversary("yesterday", at="09:00"),
        lambda: every(hours=1, anchor=datetime(2026, 1, 1)),
        lambda: next_after(Timetable(rule=daily("09:00")), datetime(2026, 1, 1)),
        lambda: rrule("FREQ=DAILY", start=datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_the_wrong_kind_of_time_is_refused(wrong):
    with pytest.raises(WrongKindOfTime):
        wrong()


@given(several_times, st.integers(1, 9), dates, st.datetimes(datetime(1940, 1, 1), datetime(2040, 1, 1)))
@settings(max_examples=examples(150), deadline=None)
def test_daily_equals_the_recurrence_rule_that_says_the_same(at, step, since, after):
    ours = daily(at, every=step, since=since)
    assert locals_of(ours, 4, after) == _by_rrule(f"FREQ=DAILY;INTERVAL={step}", at, since, after)


@given(weekdays, st.integers(1, 5), dates, st.datetimes(datetime(1940, 1, 1), datetime(2040, 1, 1)))
@settings(max_examples=examples(150), deadline=None)
def test_weekly_equals_the_recurrence_rule_that_says_the_same(days, step, since, after):
    ours = weekly(*days, at="09:00", every=step, since=since)
    text = f"FREQ=WEEKLY;INTERVAL={step};BYDAY={','.join(days)}"
    assert locals_of(ours, 4, after) == _by_rrule(text, (time(9),), since, after)


@given(st.integers(1, 31), st.integers(1, 5), dates, st.datetimes(datetime(1940, 1, 1), datetime(2040, 1, 1)))
@settings(max_examples=examples(150), deadline=None)
def test_monthly_equals_the_recurrence_rule_that_says_the_same(day, step, since, after):
    ours = monthly(day, at="09:00", every=step, since=since)
    text = f"FREQ=MONTHLY;INTERVAL={step};BYMONTHDAY={day};RSCALE=GREGORIAN;SKIP=BACKWARD"
    assert locals_of(ours, 4, after) == _by_rrule(text, (time(9),), since, after)


def _by_rrule(text, at, since, after):
    series = [locals_of(rrule(text, start=datetime.combine(since, one)), 4, after) for one in at]
    return sorted({local for found in series for local in found})[:4]


def test_a_series_of_one_zone_only_differs_from_another_by_its_instants():
    rule = daily("02:30")
    keys = [
        [one.key for one in islice(upcoming(Timetable(rule=rule, zone=zone), NOW), 5)]
        for zone in ("Europe/London", "Africa/Lagos")
    ]
    assert keys[0][1:] == keys[1][1:]
    assert resolve(datetime(2026, 1, 2, 2, 30), "Africa/Lagos")[0].instant.hour == 1
