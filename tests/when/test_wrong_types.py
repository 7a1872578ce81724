"""What is not of the right type is refused where it is written, with what to write."""

from __future__ import annotations

from datetime import datetime, time, timedelta

import pytest

from duebox.exceptions import DueboxError
from duebox.when import (
    Offset,
    WhenError,
    anniversary,
    cron,
    daily,
    days,
    every,
    hours,
    minutes,
    monthly,
    months,
    weekly,
    weeks,
)

AT_NINE = r"at is 9, not a time of day; write it as '09:00', pass time\(9\), or several of them in a tuple"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: daily(9), AT_NINE),
        (lambda: daily(None), "at is None, not a time of day; write it as '09:00'"),
        (lambda: daily(timedelta(hours=9)), "not a time of day; write it as '09:00'"),
        (lambda: daily(datetime(2027, 1, 31, 9)), "not a time of day; write it as '09:00'"),
        (lambda: daily((9,)), "at is 9, not a naive time of day"),
        (lambda: daily("09:00", every="2"), "every='2' days is not a valid step; use a whole number from 1"),
        (lambda: daily("09:00", every=1.5, since="2027-01-01"), "every=1.5 days is not a valid step"),
        (lambda: weekly("mon", at=9), AT_NINE),
        (lambda: monthly(1, at=9), AT_NINE),
        (lambda: monthly("1", at="09:00"), "Day '1' of the month does not exist"),
        (lambda: monthly(1.5, at="09:00"), "Day 1.5 of the month does not exist"),
        (lambda: anniversary("1990-02-28", at=9), "at is 9, not a naive time of day"),
        (lambda: cron(5), r"Cron expression 5 is not a text; write five fields, as in cron\('30 9 \* \* MON-FRI'\)"),
        (lambda: cron(None), "Cron expression None is not a text"),
        (lambda: every(minutes="5"), r"every\(\) has minutes='5', not a number; write it as minutes=5"),
        (lambda: every(hours=None), r"every\(\) has hours=None, not a number"),
        (lambda: every(days=True), r"every\(\) has days=True, not a number"),
        (lambda: every(minutes=float("nan")), r"every\(\) cannot be used"),
        (lambda: every(weeks=10**12), r"every\(\) cannot be used"),
        (lambda: days("1"), r"days\('1'\) is not a whole number; write it as days\(-1\)"),
        (lambda: weeks(0.5), r"days\(0.5\) is not a whole number"),
        (lambda: months(None), r"months\(None\) is not a whole number"),
        (lambda: hours("2"), "The offset has hours='2', not a number"),
        (lambda: minutes(None), "The offset has minutes=None, not a number"),
        (lambda: Offset(exact=5), r"exact=5 is not a timedelta; use hours\(-2\) or minutes\(-15\)"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_what_to_write(ask, message):
    with pytest.raises(WhenError, match=message):
        ask()


def test_times_may_be_given_in_any_sequence():
    assert daily(["17:00", time(9)]).at == daily(("09:00", "17:00")).at


def test_errors_about_times_are_errors_of_duebox():
    with pytest.raises(DueboxError):
        daily("soon")
    assert issubclass(WhenError, DueboxError)
    assert issubclass(WhenError, ValueError)
