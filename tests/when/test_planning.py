"""What fires next after something changed: each occurrence once, nothing from the past by surprise."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from duebox.when import (
    CatchUp,
    Timetable,
    WhenError,
    anniversary,
    catch_up,
    cron,
    daily,
    every,
    is_spent,
    next_after,
    once,
    replan,
)

BIRTHDAY = anniversary("1990-11-20", at="09:00")
LONDON_DAILY = Timetable(rule=daily("09:00"), zone="Europe/London")


def utc(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def in_tokyo(rule=BIRTHDAY):
    return Timetable(rule=rule, zone="Asia/Tokyo")


def test_a_move_before_both_instants_takes_the_new_one():
    found = replan(in_tokyo(), now=utc("2026-11-19T20:00Z"), pending="2026")
    assert (found.next.key, found.next.instant, found.lost) == ("2026", utc("2026-11-20T00:00Z"), None)


def test_a_move_into_the_past_fires_at_once_within_grace():
    now = utc("2026-11-20T05:00Z")
    found = replan(in_tokyo(), now=now, pending="2026", late="fire_now", grace=timedelta(hours=12))
    assert (found.next.key, found.next.instant) == ("2026", now)


@pytest.mark.parametrize(("late", "grace"), [("skip", 12), ("fire_now", 4)])
def test_a_move_into_the_past_is_lost_without_grace(late, grace):
    now = utc("2026-11-20T05:00Z")
    found = replan(in_tokyo(), now=now, pending="2026", late=late, grace=timedelta(hours=grace))
    assert (found.next.key, found.lost) == ("2027", "2026")


def test_what_fired_in_the_old_zone_does_not_fire_in_the_new():
    table = Timetable(rule=BIRTHDAY, zone="America/Los_Angeles")
    found = replan(table, now=utc("2026-11-20T05:00Z"), pending="2027", fired="2026", late="fire_now")
    assert found.next.key == "2027"


def test_a_date_corrected_after_the_greeting_brings_no_second_one():
    corrected = anniversary("1990-11-21", at="09:00")
    found = replan(in_tokyo(corrected), now=utc("2026-11-20T02:00Z"), pending="2027", fired="2026")
    assert found.next.key == "2027"


def test_an_edited_rule_never_fires_what_is_already_past():
    edited = Timetable(rule=daily("14:00"), zone="Europe/London")
    found = replan(edited, now=utc("2026-06-10T13:30Z"), pending="2026-06-11T09:00", late="fire_now")
    assert (found.next.instant, found.lost) == (utc("2026-06-11T13:00Z"), "2026-06-11T09:00")


def test_a_clock_that_steps_back_fires_nothing_twice():
    fired = next_after(LONDON_DAILY, utc("2026-06-10T00:00Z"))
    found = replan(LONDON_DAILY, now=utc("2026-06-09T23:00Z"), fired=fired.key)
    assert found.next.key == "2026-06-11T09:00"


def test_a_rule_of_another_kind_starts_afresh():
    assert not is_spent("2026-11-20T09:00", "2026")
    assert not is_spent("2026", "2026-11-20T09:00")
    assert not is_spent("2026-11-20T09:00Z", "2026-11-20T09:00")


def test_the_second_reading_of_a_repeated_hour_is_not_spent_by_a_later_first_one():
    assert not is_spent("2026-11-01T01:00#2", "2026-11-01T01:30")
    assert is_spent("2026-11-01T01:00#2", "2026-11-01T01:30#2")
    assert is_spent("2026-11-01T01:00#2", "2026-11-02T01:00")


def test_a_move_to_the_west_that_puts_another_day_first_loses_nothing():
    # Made at 10:00 in Tokyo, too late for that day; in Los Angeles that day's 09:00 is still to come.
    moved = Timetable(rule=daily("09:00"), zone="America/Los_Angeles")
    found = replan(moved, now=utc("2026-11-20T02:00Z"), pending="2026-11-21T09:00", late="fire_now")
    assert (found.next.key, found.lost) == ("2026-11-20T09:00", None)


def test_a_pending_time_that_the_new_rule_does_not_name_is_lost_though_others_come_earlier():
    found = replan(
        Timetable(rule=daily("08:00"), zone="Europe/London"), now=utc("2026-06-10T20:00Z"), pending="2026-06-11T09:00"
    )
    assert (found.next.key, found.lost) == ("2026-06-11T08:00", "2026-06-11T09:00")


BOTH_SIDES_OF_THE_GAP = Timetable(rule=daily(("02:30", "03:00")), zone="America/New_York")


def test_a_time_moved_out_of_a_gap_is_not_spent_by_a_later_name_that_fired_before_it():
    # 02:30 does not exist and fires at 03:30, after 03:00.
    found = replan(BOTH_SIDES_OF_THE_GAP, now=utc("2026-03-08T07:10Z"), fired="2026-03-08T03:00")
    assert (found.next.key, found.next.instant) == ("2026-03-08T02:30", utc("2026-03-08T07:30Z"))


def test_a_time_moved_out_of_a_gap_is_spent_once_it_fired():
    found = replan(BOTH_SIDES_OF_THE_GAP, now=utc("2026-03-08T07:10Z"), fired="2026-03-08T02:30")
    assert found.next.key == "2026-03-09T02:30"


def test_a_time_moved_back_out_of_a_gap_does_not_spend_those_that_fire_after_it():
    # 02:30 fires at 01:30, before 01:45.
    table = Timetable(rule=daily(("01:45", "02:30")), zone="America/New_York", gap="shift_backward")
    found = replan(table, now=utc("2026-03-08T06:31Z"), fired="2026-03-08T02:30")
    assert found.next.key == "2026-03-08T01:45"


def test_what_fired_that_day_in_the_east_is_spent_for_that_day_in_the_west():
    table = Timetable(rule=daily(("09:00", "17:00")), zone="America/Los_Angeles")
    found = replan(table, now=utc("2026-11-20T08:30Z"), fired="2026-11-20T17:00", pending="2026-11-21T09:00")
    assert (found.next.key, found.lost) == ("2026-11-21T09:00", None)


def test_a_single_time_moved_to_before_the_one_that_fired_still_comes():
    table = Timetable(rule=once(datetime(2026, 6, 10, 9)), zone="Pacific/Honolulu")
    found = replan(table, now=utc("2026-06-10T10:00Z"), fired="2026-06-10T23:00")
    assert (found.next.key, found.next.instant) == ("2026-06-10T09:00", utc("2026-06-10T19:00Z"))


def test_a_single_time_that_fired_does_not_come_again():
    table = Timetable(rule=once(datetime(2026, 6, 10, 9)), zone="Pacific/Honolulu")
    found = replan(
        table, now=utc("2026-06-10T10:00Z"), pending="2026-06-10T09:00", fired="2026-06-10T09:00", late="fire_now"
    )
    assert (found.next, found.lost) == (None, None)


DOWN = {"since": utc("2026-03-27T09:00Z"), "now": utc("2026-03-31T12:00Z")}


@pytest.mark.parametrize(
    ("policy", "fired", "missed"),
    [
        (CatchUp(mode="none"), [], 5),
        (CatchUp(mode="latest"), [31], 4),
        (CatchUp(mode="all"), [27, 28, 29, 30, 31], 0),
        (CatchUp(mode="all", window=timedelta(hours=36)), [30, 31], 3),
        (CatchUp(mode="all", cap=3), [29, 30, 31], 2),
        (CatchUp(mode="latest", window=timedelta(hours=1)), [], 5),
    ],
)
def test_downtime_is_caught_up_by_policy_and_the_rest_is_recorded(policy, fired, missed):
    found = catch_up(LONDON_DAILY, by=policy, **DOWN)
    assert [one.nominal.day for one in found.fire] == fired
    assert (found.missed.count if found.missed else 0) == missed
    if found.missed:
        assert (found.missed.first.nominal.day, found.missed.last.nominal.day) == (27, 26 + missed)


def test_a_moment_late_is_not_missed_even_without_catching_up():
    due = utc("2026-03-31T08:00Z")
    found = catch_up(LONDON_DAILY, since=due, now=due + timedelta(seconds=3), by=CatchUp(mode="none"))
    assert [one.instant for one in found.fire] == [due]


def test_a_flood_of_missed_occurrences_is_bounded():
    table = Timetable(rule=cron("* * * * *"), zone="UTC")
    start = utc("2026-01-01T00:00Z")
    policy = CatchUp(mode="all", window=timedelta(hours=1), cap=10)
    found = catch_up(table, since=start, now=start + timedelta(days=60), by=policy)
    assert (len(found.fire), found.missed.count, found.missed.more) == (10, 1_000, True)
    assert found.fire[-1].instant == start + timedelta(days=60)
    assert found.missed.first.instant == start
    assert found.missed.last.instant == found.fire[0].instant - timedelta(minutes=1)


@pytest.mark.parametrize(
    ("policy", "fires"),
    [
        (CatchUp(mode="latest"), 1),
        (CatchUp(mode="all", cap=100), 100),
        (CatchUp(mode="all", cap=100, window=timedelta(minutes=30)), 31),
        (CatchUp(mode="none"), 1),
    ],
)
def test_of_a_flood_the_newest_fire_and_years_are_not_walked_through(policy, fires):
    end = utc("2026-01-01T00:00Z")
    begun = time.perf_counter()
    found = catch_up(Timetable(rule=every(minutes=1), zone="UTC"), since=end - timedelta(days=3650), now=end, by=policy)
    took = time.perf_counter() - begun
    assert [one.instant for one in found.fire] == [end - timedelta(minutes=n) for n in reversed(range(fires))]
    assert (found.missed.count, found.missed.more) == (3650 * 24 * 60 + 1 - fires, False)
    assert found.missed.first.instant == end - timedelta(days=3650)
    assert found.missed.last.instant == found.fire[0].instant - timedelta(minutes=1)
    assert took < 5  # the walk takes a minute


@pytest.mark.parametrize("missed", [999, 1_000, 1_001])
def test_whether_more_were_missed_than_are_counted_is_known_exactly(missed):
    start = utc("2026-01-01T00:00Z")
    end = start + timedelta(minutes=missed)
    for policy in (CatchUp(), CatchUp(window=timedelta(0))):
        found = catch_up(Timetable(rule=cron("* * * * *"), zone="UTC"), since=start, now=end, by=policy)
        assert (len(found.fire), found.fire[-1].instant) == (1, end)
        assert (found.missed.count, found.missed.more) == (min(missed, 1_000), missed > 1_000)


def test_of_a_day_without_a_worker_an_interval_of_a_second_fires_its_newest_at_once():
    end = utc("2026-01-02T00:00Z")
    begun = time.perf_counter()
    found = catch_up(Timetable(rule=every(seconds=1), zone="UTC"), since=end - timedelta(days=1), now=end, by=CatchUp())
    assert [one.instant for one in found.fire] == [end]
    assert (found.missed.count, found.missed.more) == (86_400, False)
    assert time.perf_counter() - begun < 5


def test_within_a_minute_what_fired_is_spent_and_what_follows_is_not():
    table = Timetable(rule=every(seconds=30), zone="UTC")
    on_the_minute = next_after(table, utc("2026-01-01T00:00:59Z"))
    found = replan(table, now=utc("2026-01-01T00:00:59Z"), fired=on_the_minute.key)
    assert found.next.instant == utc("2026-01-01T00:01:30Z")


def test_a_cap_of_none_fires_none():
    found = catch_up(LONDON_DAILY, by=CatchUp(mode="all", cap=0), **DOWN)
    assert (found.fire, found.missed.count) == ((), 5)


def test_a_rare_rule_is_caught_up_however_long_ago_it_was():
    table = Timetable(rule=anniversary("1990-11-20", at="09:00"), zone="UTC")
    found = catch_up(table, since=utc("2020-11-20T09:00Z"), now=utc("2026-06-01T00:00Z"), by=CatchUp(mode="latest"))
    assert ([one.key for one in found.fire], found.missed.count) == (["2025"], 5)


def test_an_unknown_catch_up_is_refused():
    with pytest.raises(WhenError, match="none, latest, all"):
        CatchUp(mode="everything")


def test_intervals_are_caught_up_too():
    table = Timetable(rule=every(hours=6), zone="UTC")
    found = catch_up(table, since=utc("2026-01-01T00:00Z"), now=utc("2026-01-02T01:00Z"), by=CatchUp(mode="all"))
    assert len(found.fire) == 5
