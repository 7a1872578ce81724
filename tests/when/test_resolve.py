"""From a wall clock to instants, at the places where it is hard."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from duebox.when import (
    How,
    NonexistentTime,
    RepeatedTime,
    WhenError,
    WrongKindOfTime,
    local_time,
    resolve,
    start_of_day,
)

NEW_YORK = "America/New_York"
IN_GAP = datetime(2026, 3, 8, 2, 30)
IN_FOLD = datetime(2026, 11, 1, 1, 30)


def at(text):
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("gap", "expected", "how"),
    [
        ("shift_forward", "2026-03-08T07:30Z", How.GAP_SHIFTED_FORWARD),
        ("shift_backward", "2026-03-08T06:30Z", How.GAP_SHIFTED_BACKWARD),
        ("next_valid", "2026-03-08T07:00Z", How.GAP_NEXT_VALID),
    ],
)
def test_a_time_in_a_gap_follows_the_gap_policy(gap, expected, how):
    (found,) = resolve(IN_GAP, NEW_YORK, gap=gap)
    assert (found.instant, found.how) == (at(expected), how)


def test_a_time_in_a_gap_can_be_skipped():
    assert resolve(IN_GAP, NEW_YORK, gap="skip") == ()


def test_a_time_in_a_gap_can_be_refused_and_the_message_says_how_to_repair_it():
    with pytest.raises(NonexistentTime, match=r"2026-03-08T02:30:00 does not exist in America/New_York; .*policy"):
        resolve(IN_GAP, NEW_YORK, gap="reject")


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        ("first", [("2026-11-01T05:30Z", How.FOLD_FIRST)]),
        ("second", [("2026-11-01T06:30Z", How.FOLD_SECOND)]),
        ("both", [("2026-11-01T05:30Z", How.FOLD_FIRST), ("2026-11-01T06:30Z", How.FOLD_SECOND)]),
    ],
)
def test_a_repeated_time_follows_the_fold_policy(fold, expected):
    found = resolve(IN_FOLD, NEW_YORK, fold=fold)
    assert [(one.instant, one.how) for one in found] == [(at(text), how) for text, how in expected]


def test_a_repeated_time_can_be_refused():
    with pytest.raises(RepeatedTime, match="happens twice"):
        resolve(IN_FOLD, NEW_YORK, fold="reject")


def test_the_fold_flag_of_the_value_itself_says_nothing():
    assert resolve(IN_FOLD.replace(fold=1), NEW_YORK) == resolve(IN_FOLD, NEW_YORK)


def test_a_half_hour_gap_is_half_an_hour():
    (found,) = resolve(datetime(2026, 10, 4, 2, 15), "Australia/Lord_Howe")
    assert found.instant == at("2026-10-03T15:45Z")


def test_a_two_hour_gap_is_two_hours():
    (found,) = resolve(datetime(2026, 3, 29, 1, 30), "Antarctica/Troll")
    assert local_time(found.instant, "Antarctica/Troll") == datetime(2026, 3, 29, 3, 30)


def test_a_day_that_never_was_resolves_to_the_day_after():
    (found,) = resolve(datetime(2011, 12, 30, 9), "Pacific/Apia")
    assert local_time(found.instant, "Pacific/Apia") == datetime(2011, 12, 31, 9)


def test_microseconds_survive():
    (found,) = resolve(datetime(2026, 6, 1, 9, 0, 0, 250), NEW_YORK)
    assert found.instant.microsecond == 250


def test_the_end_of_a_gap_is_a_whole_second_whatever_was_asked():
    (found,) = resolve(IN_GAP.replace(microsecond=999), NEW_YORK, gap="next_valid")
    assert found.instant == at("2026-03-08T07:00Z")


@pytest.mark.parametrize(
    ("day", "zone", "expected"),
    [
        (date(2026, 4, 24), "Africa/Cairo", "2026-04-23T22:00Z"),
        (date(2025, 11, 2), "America/Havana", "2025-11-02T04:00Z"),
        (date(2026, 6, 1), "Asia/Kathmandu", "2026-05-31T18:15Z"),
        (date(2011, 12, 30), "Pacific/Apia", "2011-12-30T10:00Z"),
    ],
)
def test_a_day_starts_at_its_first_instant(day, zone, expected):
    assert start_of_day(day, zone) == at(expected)


def test_an_aware_time_is_refused_where_a_local_one_is_needed():
    with pytest.raises(WrongKindOfTime, match="naive"):
        resolve(datetime(2026, 3, 8, tzinfo=UTC), NEW_YORK)


def test_a_naive_time_is_refused_where_an_instant_is_needed():
    with pytest.raises(WrongKindOfTime, match="aware"):
        local_time(datetime(2026, 3, 8), NEW_YORK)


def test_a_misspelt_policy_is_refused_with_the_right_one():
    with pytest.raises(WhenError, match="did you mean 'shift_forward'"):
        resolve(IN_GAP, NEW_YORK, gap="shift_foward")
    with pytest.raises(WhenError, match="use one of first, second, both, reject"):
        resolve(IN_FOLD, NEW_YORK, fold="earliest-ish")
