"""Before and after an anchor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebox.when import How, Offset, WhenError, at_offset, days, hours, minutes, months, offset, weeks

NEW_YORK = "America/New_York"


def utc(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def test_a_day_before_is_the_same_time_of_day_and_24_hours_before_is_not():
    anchor = datetime(2026, 3, 8, 10)
    assert at_offset(anchor, -days(1), NEW_YORK).instant == utc("2026-03-07T15:00Z")
    assert at_offset(anchor, -hours(24), NEW_YORK).instant == utc("2026-03-07T14:00Z")


def test_exact_hours_are_counted_on_the_instant():
    found = at_offset(datetime(2026, 3, 8, 3, 30), -hours(2), NEW_YORK)
    assert (found.instant, found.nominal) == (utc("2026-03-08T05:30Z"), datetime(2026, 3, 8, 0, 30))


def test_a_day_before_that_lands_in_a_gap_follows_the_policy():
    anchor = datetime(2026, 3, 9, 2, 30)
    assert at_offset(anchor, -days(1), NEW_YORK).how is How.GAP_SHIFTED_FORWARD
    assert at_offset(anchor, -days(1), NEW_YORK, gap="skip") is None


def test_calendar_units_move_first_and_exact_units_after():
    found = at_offset(datetime(2026, 3, 9, 2, 30), -(days(1) + hours(1)), NEW_YORK)
    assert found.instant == utc("2026-03-08T06:30Z")


def test_an_anchor_may_be_an_instant():
    anchor = utc("2026-11-01T06:30Z")
    assert at_offset(anchor, -minutes(15), NEW_YORK).instant == utc("2026-11-01T06:15Z")
    assert at_offset(anchor, -days(1), NEW_YORK).instant == utc("2026-10-31T05:30Z")


def test_a_month_after_the_31st_is_the_last_day_of_the_next():
    assert at_offset(datetime(2026, 1, 31, 9), months(1), "UTC").nominal == datetime(2026, 2, 28, 9)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-days(1), "-P1D"),
        (weeks(1), "P7D"),
        (-hours(2), "-PT2H"),
        (-minutes(90), "-PT1H30M"),
        (days(1) + hours(24), "P1DT24H"),
        (months(14), "P14M"),
        (Offset(), "PT0S"),
    ],
)
def test_an_offset_has_one_text(value, text):
    assert str(value) == text
    assert offset(text) == value


@pytest.mark.parametrize(("text", "value"), [("P1Y2M", months(14)), ("+P1W", weeks(1)), ("-PT15M", -minutes(15))])
def test_other_spellings_are_read(text, value):
    assert offset(text) == value


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "-1 day", "P1H", "PT1.5H"])
def test_what_is_no_offset_is_refused(text):
    with pytest.raises(WhenError, match="write it as"):
        offset(text)


def test_an_offset_in_two_directions_is_refused():
    with pytest.raises(WhenError, match="one direction"):
        days(1) + -hours(1)


@given(st.integers(0, 40), st.integers(0, 400), st.integers(0, 10**6), st.booleans())
def test_every_offset_survives_being_written(month, day, second, back):
    value = Offset(months=month, days=day, exact=timedelta(seconds=second))
    value = -value if back else value
    assert offset(str(value)) == value
