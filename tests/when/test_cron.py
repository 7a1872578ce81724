"""Cron expressions: fixed times by policy, wildcard hours on elapsed time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from duebox.when import Clock, InvalidRule, Timetable, between, cron, local_time, upcoming, zones
from tests.support import examples
from tests.when.strategies import zone_and_instant

NEW_YORK = "America/New_York"
SPRING = datetime(2026, 3, 7, 12, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 31, 12, tzinfo=UTC)


def fires(expression, after, count, **options):
    table = Timetable(rule=cron(expression), zone=NEW_YORK, **options)
    return [one.instant.strftime("%m-%dT%H:%M") for one in islice(upcoming(table, after), count)]


@pytest.mark.parametrize(
    ("gap", "expected"),
    [("shift_forward", "03-08T07:30"), ("next_valid", "03-08T07:00"), ("skip", "03-09T06:30")],
)
def test_a_fixed_time_follows_the_gap_policy(gap, expected):
    assert fires("30 2 * * *", SPRING, 1, gap=gap) == [expected]


def test_a_fixed_time_fires_once_in_a_fold():
    assert fires("30 1 * * *", AUTUMN, 2) == ["11-01T05:30", "11-02T06:30"]


def test_a_wildcard_hour_paces_real_time():
    table = Timetable(rule=cron("*/15 * * * *"), zone=NEW_YORK)
    for start in (SPRING, AUTUMN):
        found = [one.instant for one in islice(upcoming(table, start), 150)]
        assert {after - before for before, after in pairwise(found)} == {timedelta(minutes=15)}


def test_a_wildcard_hour_runs_in_both_readings_and_each_has_its_own_key():
    found = list(between(Timetable(rule=cron("30 * * * *"), zone=NEW_YORK), AUTUMN, AUTUMN + timedelta(hours=24)))
    assert len(found) == 24
    assert len({one.key for one in found if one.key.endswith("Z")}) == 24
    assert len({one.nominal for one in found}) == 23


def test_the_clock_can_be_chosen():
    rule = cron("30 * * * *", clock="wall")
    found = list(between(Timetable(rule=rule, zone=NEW_YORK), AUTUMN, AUTUMN + timedelta(hours=24)))
    assert len(found) == 23


@pytest.mark.parametrize(
    ("expression", "clock"),
    [("30 2 * * *", "wall"), ("*/5 2 * * *", "wall"), ("0 9-17 * * *", "wall"), ("0 */2 * * *", "elapsed")],
)
def test_the_hour_field_decides_the_clock(expression, clock):
    assert cron(expression).clock is Clock(clock)


def test_day_of_month_or_day_of_week():
    table = Timetable(rule=cron("0 0 13 * 5"), zone="UTC")
    found = islice(upcoming(table, datetime(2026, 2, 1, tzinfo=UTC)), 3)
    assert [one.nominal.day for one in found] == [6, 13, 20]


def test_macros_are_spelled_out():
    assert cron("@daily") == cron("0 0 * * *")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("0 0 30 2 *", "correct"),
        ("*/5 * * * * *", "six|6 fields"),
        ("* * *", "3 fields"),
        ("99 * * * *", "minute"),
        ("@sometimes", "1 fields"),
    ],
)
def test_an_expression_that_cannot_work_is_refused(expression, message):
    with pytest.raises(InvalidRule, match=message):
        cron(expression)


@given(zone_and_instant((1980, 2040)), st.sampled_from(["*/20 * * * *", "30 * * * *", "0 */3 * * *"]))
@settings(max_examples=examples(100), deadline=None)
def test_elapsed_cron_is_every_instant_whose_local_minute_matches(drawn, expression):
    zone, start = drawn
    start = start.replace(second=0, microsecond=0)
    found = [
        one.instant for one in between(Timetable(rule=cron(expression), zone=zone), start, start + timedelta(hours=6))
    ]
    rules = zones.current().zone(zone)
    minutes = (start + timedelta(minutes=step) for step in range(360))
    assert found == [at for at in minutes if _shows(local_time(at, rules), expression)]


def _shows(local, expression):
    return not local.second and next(CronSim(expression, local - timedelta(minutes=1))) == local


def test_a_number_with_more_digits_than_python_reads_is_refused():
    with pytest.raises(InvalidRule, match="digits"):
        cron(f"*/{'9' * 5000} * * * *")
