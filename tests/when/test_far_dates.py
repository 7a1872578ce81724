"""Dates at the ends of Python's calendar are refused, or are an end; they never raise anything but WhenError."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebox.when import (
    InvalidRule,
    Timetable,
    WhenError,
    anniversary,
    at_offset,
    between,
    daily,
    days,
    describe,
    every,
    monthly,
    months,
    next_after,
    offset,
    once,
    reminder,
    resolve,
    rrule,
    upcoming,
    weekly,
    weeks,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "UTC", "Pacific/Kiritimati"])
@pytest.mark.parametrize("at", [datetime.max, datetime(9999, 12, 31, 9), datetime.min, datetime(1, 1, 1, 3)])
def test_a_local_time_at_the_end_of_the_calendar_is_refused(at, zone):
    with pytest.raises(WhenError, match="years 2 to 9998"):
        next_after(Timetable(rule=once(at), zone=zone), NOW)
    with pytest.raises(WhenError, match="years 2 to 9998"):
        reminder(at, days(-1))


@pytest.mark.parametrize(
    "at",
    [
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    ],
)
def test_an_instant_at_the_end_of_the_calendar_is_refused(at):
    with pytest.raises(WhenError, match="years 2 to 9998"):
        once(at)


@pytest.mark.parametrize("end", [datetime.max, datetime.max.replace(tzinfo=UTC), datetime(9999, 12, 31)])
def test_an_end_at_the_end_of_the_calendar_is_no_end(end):
    table = Timetable(rule=daily("09:00"), zone="Asia/Tokyo", end=end)
    assert table.end is None
    assert next_after(table, NOW) is not None


@pytest.mark.parametrize("until", ["99991231T235959Z", "99991231", "99991231T235959"])
def test_a_rule_until_the_end_of_the_calendar_goes_on(until):
    rule = rrule(f"FREQ=DAILY;UNTIL={until}", start=datetime(2026, 1, 1, 9))
    assert next_after(Timetable(rule=rule, zone="Asia/Tokyo"), NOW) is not None


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=MONTHLY;BYDAY=20MO",
        "FREQ=YEARLY;BYDAY=99MO",
        "FREQ=YEARLY;BYMONTH=2;BYDAY=6MO",
        "FREQ=WEEKLY;BYDAY=1MO",
        "FREQ=DAILY;BYDAY=-1SU",
        f"FREQ=DAILY;COUNT={'9' * 5000}",
        f"FREQ=DAILY;INTERVAL={'9' * 5000}",
        "FREQ=DAILY;INTERVAL=99999999999",
        "FREQ=DAILY;COUNT=0",
    ],
)
def test_numbers_without_sense_are_refused(text):
    with pytest.raises(InvalidRule):
        rrule(text, start=datetime(2026, 1, 1, 9))


@pytest.mark.parametrize("text", [f"P{'9' * 5000}D", "P99999999Y", "-P999999999D", "PT99999999999H"])
def test_offsets_beyond_the_calendar_are_refused(text):
    with pytest.raises(WhenError):
        offset(text)


@pytest.mark.parametrize("by", [months(110_000), months(-110_000), days(3_600_000), days(-3_600_000), weeks(500_000)])
def test_an_offset_that_leads_out_of_the_calendar_is_refused_or_empty(by):
    with pytest.raises(WhenError):
        at_offset(datetime(2026, 1, 1, 9), by, "Asia/Tokyo")


_FAR = st.sampled_from(
    [datetime.min, datetime.max, datetime(2, 1, 1), datetime(9998, 12, 31, 23, 59), datetime(2026, 1, 1)]
)
_ANY_LOCAL = st.one_of(_FAR, st.datetimes())
_ANY_INSTANT = st.one_of(_FAR, st.datetimes()).flatmap(
    lambda at: st.integers(-23, 23).map(lambda hours: at.replace(tzinfo=timezone(timedelta(hours=hours))))
)
_ANY_TIME = st.one_of(_ANY_LOCAL, _ANY_INSTANT)
_ZONES = st.sampled_from(["UTC", "Asia/Tokyo", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe"])
_RULES = st.one_of(
    _ANY_TIME.map(lambda at: lambda: once(at)),
    st.tuples(_ANY_TIME, st.integers(-(10**7), 10**7)).map(lambda both: lambda: reminder(both[0], days(both[1]))),
    st.tuples(_ANY_TIME, st.integers(-(10**6), 10**6)).map(lambda both: lambda: reminder(both[0], months(both[1]))),
    st.dates().map(lambda of: lambda: anniversary(of, at="09:00")),
    st.tuples(st.integers(1, 10**7), _ANY_INSTANT).map(lambda both: lambda: every(minutes=both[0], anchor=both[1])),
    st.tuples(st.integers(1, 10**5), st.dates()).map(lambda both: lambda: daily("09:00", every=both[0], since=both[1])),
    st.tuples(st.integers(1, 10**5), st.dates()).map(
        lambda both: lambda: monthly(31, at="09:00", every=both[0], since=both[1])
    ),
    st.tuples(
        st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"]),
        st.integers(1, 10**6),
        _ANY_LOCAL,
    ).map(lambda three: lambda: rrule(f"FREQ={three[0]};INTERVAL={three[1]}", start=three[2])),
)


@pytest.mark.parametrize(
    "rule", [daily("09:00", every=482, since="1999-01-01"), weekly("mon", at="09:00", every=90, since="1999-01-01")]
)
def test_a_long_step_that_leads_past_the_end_of_the_calendar_ends_there(rule):
    assert list(upcoming(Timetable(rule=rule, zone="UTC"), datetime(9998, 12, 31, 23, tzinfo=UTC))) == []


@pytest.mark.parametrize("rule", [once(datetime(9998, 12, 31, 23, 59)), anniversary("1990-12-31", at="23:59")])
def test_a_local_time_whose_instant_lies_behind_the_end_of_the_calendar_does_not_occur(rule):
    table = Timetable(rule=rule, zone="America/St_Johns")
    last = datetime(9998, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert list(upcoming(table, last)) == []
    assert next_after(table, last) is None
    assert next_after(table, datetime(9998, 6, 1, tzinfo=UTC)) is None


@given(make=_RULES, zone=_ZONES, after=_ANY_INSTANT, start=st.none() | _ANY_TIME, end=st.none() | _ANY_TIME)
def test_whatever_the_dates_nothing_but_a_when_error_is_raised(make, zone, after, start, end):
    try:
        table = Timetable(rule=make(), zone=zone, start=start, end=end)
        found = list(islice(upcoming(table, after), 3))
        describe(table)
        Timetable.from_dict(table.to_dict())
    except WhenError:
        return
    assert all(one.instant > after for one in found)


@given(local=_ANY_LOCAL, zone=_ZONES)
def test_resolving_any_local_time_gives_instants_or_a_when_error(local, zone):
    try:
        assert resolve(local, zone, gap="next_valid")
    except WhenError:
        assert not 2 <= local.year <= 9998


@given(first=_ANY_INSTANT, last=_ANY_INSTANT)
def test_any_span_can_be_asked_for(first, last):
    table = Timetable(rule=anniversary(date(2000, 2, 29), at=time(9)), zone="Asia/Tokyo")
    with suppress(WhenError):
        list(islice(between(table, first, last), 3))
