"""Timetables in plain English."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from duebox.when import (
    Timetable,
    anniversary,
    cron,
    daily,
    describe,
    every,
    monthly,
    once,
    rrule,
    weekly,
)
from duebox.when.describe import joined, ordinal

START = datetime(2026, 1, 31, 9)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (once(START), "Once, on 2026-01-31 at 09:00, UTC time."),
        (once(START.replace(tzinfo=UTC)), "Once, on 2026-01-31 at 09:00 UTC."),
        (daily("09:00"), "Every day at 09:00, UTC time."),
        (
            daily(("09:00", "17:30"), every=2, since="2026-01-01"),
            "Every 2 days at 09:00 and 17:30, UTC time.",
        ),
        (weekly("mon", "thu", at="09:00"), "Every week on Monday and Thursday at 09:00, UTC time."),
        (monthly(15, at="09:00"), "On the 15th day of every month at 09:00, UTC time."),
        (
            monthly(31, at="09:00"),
            "On the 31st day of every month at 09:00, or the last day of the month where that date is missing, "
            "UTC time.",
        ),
        (anniversary("1990-11-20", at="09:00"), "Every year on November 20 at 09:00, UTC time."),
        (
            anniversary("1992-02-29", at="09:00", leap="omit"),
            "Every year on February 29 at 09:00, left out where that date is missing, UTC time.",
        ),
        (every(hours=6), "Every 6 hours."),
        (every(minutes=90), "Every 90 minutes."),
        (every(seconds=30), "Every 30 seconds."),
        (every(seconds=1), "Every second."),
        (every(days=1, anchor=datetime(2026, 1, 1, tzinfo=UTC)), "Every day from 2026-01-01 at 00:00 UTC."),
        (cron("30 9 * * MON-FRI"), "At 09:30 on Monday through Friday, UTC time."),
        (rrule("FREQ=WEEKLY", start=START), "Every week on Saturday at 09:00, UTC time."),
        (
            rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;COUNT=5", start=START),
            "Every 2 weeks on Monday and Friday at 09:00, from 2026-01-31 at 09:00, 5 times in all, UTC time.",
        ),
        (
            rrule("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", start=START),
            "Every month on Monday, Tuesday, Wednesday, Thursday and Friday, only the last of these at 09:00, "
            "UTC time.",
        ),
        (
            rrule("FREQ=MONTHLY;SKIP=BACKWARD;UNTIL=20271231", start=START),
            "Every month on the 31st day of the month at 09:00, moved back where that date is missing, "
            "until 2027-12-31, UTC time.",
        ),
        (
            rrule("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", start=START, exdates=[date(2026, 11, 26)]),
            "Every year in November on the 4th Thursday at 09:00, except 1 date, UTC time.",
        ),
        (
            rrule("FREQ=HOURLY;BYHOUR=9,10;BYMINUTE=0", start=START),
            "Every hour within hour 09 and 10 at minute 00, UTC time.",
        ),
    ],
)
def test_a_rule_reads_as_a_sentence(rule, text):
    assert describe(Timetable(rule=rule, zone="UTC")) == text


def test_only_choices_that_are_not_the_default_are_told():
    table = Timetable(
        rule=daily("01:30"),
        zone="UTC",
        gap="skip",
        fold="both",
        start=datetime(2026, 1, 1),
        end=datetime(2027, 1, 1, tzinfo=UTC),
        remaining=3,
        calendar="weekdays",
        closed="forward",
        flex=timedelta(minutes=10),
    )
    assert describe(table) == (
        "Every day at 01:30, UTC time; from 2026-01-01 at 00:00; before 2027-01-01 at 00:00 UTC; "
        "3 more times; moved after the closed days of weekdays; spread over 10 minutes; "
        "times that clocks jump over are skipped; repeated times run both times."
    )


@pytest.mark.parametrize(
    ("number", "word"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (22, "22nd"), (113, "113th"), (-1, "last"), (-2, "2nd last")],
)
def test_numbers_have_their_endings(number, word):
    assert ordinal(number) == word


def test_words_are_joined_as_people_do():
    assert [joined(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
