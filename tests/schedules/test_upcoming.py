"""What is to come: the stored moment, and those that follow it."""

from __future__ import annotations

import json
from copy import copy
from datetime import UTC, datetime, timedelta

import pytest

import duebox
from duebox import clock
from duebox.contracts.enforce import Own
from duebox.exceptions import InvalidSchedule
from duebox.models import Event, Schedule
from duebox.store.run_sql import any_of
from duebox.testing import travel
from duebox.when import (
    CatchUp,
    Timetable,
    WrongKindOfTime,
    anniversary,
    between,
    cron,
    daily,
    every,
    once,
    reminder,
    rrule,
    weekly,
)
from tests.app.models import Account
from tests.app.people import Person
from tests.support import analyze

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def trip():
    with travel(NOON) as traveller:
        yield traveller


def utc(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def at(found):
    return [one.at for one in found]


def keys(found):
    return [one.key for one in found]


def test_nothing_is_to_come_where_nothing_is_planned():
    assert duebox.upcoming() == []


def test_one_that_is_to_come_is_told_in_full():
    duebox.schedule("bell.rung", at=datetime(2026, 6, 2, 9), zone="Asia/Tokyo", key="it", about=("bell", 1))
    [one] = duebox.upcoming()
    assert (one.at, one.local, one.zone) == (utc("2026-06-02T00:00Z"), "2026-06-02T09:00", "Asia/Tokyo")
    assert (one.key, one.occurrence, one.type) == ("it", "2026-06-02T09:00", "bell.rung")
    assert (one.marks, one.about, one.plan) == ((), ("bell", "1"), "")


def test_everything_comes_in_the_order_of_its_moments_repetitions_included():
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="daily")
    duebox.schedule("bell.rung", at=NOON + 30 * HOUR, key="once")
    duebox.schedule("bell.rung", repeat=every(hours=8), key="often")
    found = duebox.upcoming(days=2)
    assert at(found) == sorted(at(found))
    assert [(one.key, one.at - NOON) for one in found] == [
        ("daily", 1 * HOUR),
        ("often", 4 * HOUR),
        ("often", 12 * HOUR),
        ("often", 20 * HOUR),
        ("daily", 25 * HOUR),
        ("often", 28 * HOUR),
        ("once", 30 * HOUR),
        ("often", 36 * HOUR),
        ("often", 44 * HOUR),
    ]


def test_a_week_is_shown_unless_told_otherwise():
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC")
    assert len(duebox.upcoming()) == 7
    assert len(duebox.upcoming(days=2)) == 2
    assert len(duebox.upcoming(days=0.5)) == 1
    assert duebox.upcoming(days=0) == []


def test_the_end_of_the_span_is_not_part_of_it():
    duebox.schedule("bell.rung", repeat=daily("12:00"), zone="UTC")
    assert at(duebox.upcoming(days=2)) == [NOON + DAY]


def test_what_will_fire_is_what_was_shown(trip):
    tables = {
        "daily": Timetable(rule=daily("02:30"), zone="America/New_York"),
        "flex": Timetable(rule=weekly("mon", "thu", at="09:00"), zone="Europe/London", flex=timedelta(minutes=30)),
        "count": Timetable(rule=rrule("FREQ=DAILY;COUNT=4", start=datetime(2026, 6, 1, 18)), zone="Asia/Tokyo"),
        "cron": Timetable(rule=cron("0 */9 * * *"), zone="Asia/Kolkata"),
        "few": Timetable(rule=daily("15:00"), zone="UTC", remaining=3),
        "once": Timetable(rule=once(NOON + 50 * HOUR)),
        "reminder": Timetable(rule=reminder(datetime(2026, 6, 5, 9), "-P1D"), zone="Africa/Cairo"),
    }
    for key, table in tables.items():
        duebox.schedule("bell.rung", repeat=table, key=key)
    shown = duebox.upcoming()
    trip.run(7 * DAY - timedelta.resolution)
    events = [event.metadata["schedule"] for event in Event.objects.order_by("id")]
    assert [(datetime.fromisoformat(one["due"]), one["key"], one["occurrence"]) for one in events] == [
        (one.at, one.key, one.occurrence) for one in shown
    ]
    assert {one.key for one in shown} == set(tables)


def test_skipped_and_repeated_times_are_marked():
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("01:30"), zone="America/New_York", fold="both"), key="it")
    found = duebox.upcoming(start=utc("2026-11-01T00:00Z"), days=2)
    assert [(one.occurrence, one.marks) for one in found] == [
        ("2026-11-01T01:30", ("fold_first",)),
        ("2026-11-01T01:30#2", ("fold_second",)),
        ("2026-11-02T01:30", ()),
    ]


def test_around_a_gap_everything_that_the_timetable_names_is_shown(trip):
    trip.to(utc("2027-03-14T00:00Z"))
    table = Timetable(rule=daily(("02:30", "03:00")), zone="America/New_York")
    duebox.schedule("bell.rung", repeat=table)
    found = duebox.upcoming(days=1)
    assert [one.occurrence for one in found] == ["2027-03-14T03:00", "2027-03-14T02:30"]
    assert found[1].marks == ("gap_shifted_forward",)


def test_the_mark_of_the_stored_one_is_shown(trip):
    trip.to(utc("2027-03-14T00:00Z"))
    duebox.schedule("bell.rung", repeat=daily("02:30"), zone="America/New_York")
    assert duebox.upcoming(days=1)[0].marks == ("gap_shifted_forward",)


@pytest.fixture
def four():
    account = Account.objects.create()
    duebox.schedule("bell.rung", at=NOON + HOUR, key="a", about=account)
    duebox.schedule("gong.struck", at=NOON + 2 * HOUR, key="b", about=account)
    duebox.schedule("bell.rung", at=NOON + 3 * HOUR, key="c", about=("account", account.pk + 1))
    duebox.schedule("bell.rung", at=NOON + 4 * HOUR, key="d")
    Schedule.objects.filter(key__in="ac").update(plan="app.Bells")
    return account


def test_one_may_ask_for_an_entity_a_plan_a_type_or_a_key(four):
    assert keys(duebox.upcoming()) == ["a", "b", "c", "d"]
    assert keys(duebox.upcoming(four)) == ["a", "b"]
    assert keys(duebox.upcoming(about=("app.account", four.pk))) == ["a", "b"]
    assert keys(duebox.upcoming(plan="app.Bells")) == ["a", "c"]
    assert keys(duebox.upcoming(type="bell.rung")) == ["a", "c", "d"]
    assert keys(duebox.upcoming(key="d")) == ["d"]
    assert keys(duebox.upcoming(key="unknown")) == []


def test_what_is_asked_for_counts_together(four):
    assert keys(duebox.upcoming(four, type="bell.rung", plan="app.Bells")) == ["a"]
    assert keys(duebox.upcoming(four, key="d")) == []


def test_what_rests_or_is_over_is_not_to_come(four, trip):
    duebox.pause("b")
    duebox.cancel("c")
    trip.run(HOUR)
    assert keys(duebox.upcoming()) == ["d"]
    duebox.resume("b")
    assert keys(duebox.upcoming()) == ["b", "d"]


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_has_its_own(settings):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it", using="other")
    assert duebox.upcoming() == []
    assert keys(duebox.upcoming(using="other")) == ["it"]
    settings.DUEBOX = {**settings.DUEBOX, "DATABASE": "other"}
    assert keys(duebox.upcoming()) == ["it"]


def test_one_may_look_at_a_span_that_lies_ahead():
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="daily")
    duebox.schedule("bell.rung", at=NOON + HOUR, key="before")
    duebox.schedule("bell.rung", at=utc("2026-07-01T14:00Z"), key="within")
    found = duebox.upcoming(start=utc("2026-07-01T00:00Z"), days=2)
    assert [(one.key, one.at) for one in found] == [
        ("daily", utc("2026-07-01T13:00Z")),
        ("within", utc("2026-07-01T14:00Z")),
        ("daily", utc("2026-07-02T13:00Z")),
    ]


def test_the_start_of_a_span_is_part_of_it():
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="daily")
    duebox.schedule("bell.rung", at=utc("2026-07-01T13:00Z"), key="once")
    assert len(duebox.upcoming(start=utc("2026-07-01T13:00Z"), days=0.5)) == 2


def test_a_span_that_begins_before_now_shows_nothing_that_has_been(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
    trip.run(3 * DAY)
    found = duebox.upcoming(start=NOON, days=5)
    assert at(found) == [utc("2026-06-04T13:00Z"), utc("2026-06-05T13:00Z")]


def test_the_start_of_a_span_has_to_be_an_instant():
    with pytest.raises(WrongKindOfTime, match="start is"):
        duebox.upcoming(start=datetime(2026, 7, 1))


def test_no_more_than_asked_for_are_shown_and_those_are_the_first():
    for number in range(5):
        duebox.schedule("bell.rung", repeat=every(hours=6), at=NOON + number * DAY, key=f"it:{number}")
    everything = duebox.upcoming(days=9)
    assert len(everything) > 100
    for limit in (1, 3, 10, 50):
        assert duebox.upcoming(days=9, limit=limit) == everything[:limit]
        assert duebox.upcoming(days=9, start=NOON + DAY, limit=limit) == [
            one for one in everything if one.at >= NOON + DAY
        ][:limit]  # fmt: skip
    assert duebox.upcoming(limit=0) == []


def test_a_rule_that_never_ends_is_no_trouble():
    duebox.schedule("bell.rung", repeat=cron("* * * * *"), zone="UTC")
    assert len(duebox.upcoming(days=36_500, limit=20)) == 20


def test_no_more_are_shown_than_are_left():
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("13:00"), remaining=3, zone="UTC"), key="it")
    assert len(duebox.upcoming(days=30)) == 3


def test_what_is_left_is_used_up_on_the_way_to_a_span_that_lies_ahead():
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("13:00"), remaining=3, zone="UTC"), key="it")
    assert at(duebox.upcoming(start=NOON + DAY, days=30)) == [utc("2026-06-02T13:00Z"), utc("2026-06-03T13:00Z")]
    assert duebox.upcoming(start=NOON + 9 * DAY, days=30) == []


def test_after_some_firings_fewer_are_left(trip):
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("13:00"), remaining=3, zone="UTC"), key="it")
    trip.run(DAY + 2 * HOUR)
    assert at(duebox.upcoming(days=30)) == [utc("2026-06-03T13:00Z")]


def test_one_that_is_overdue_is_still_to_come(trip):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="once")
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="daily", catch_up=CatchUp(mode="latest"))
    trip.by(3 * DAY)
    assert [(one.key, one.at) for one in duebox.upcoming(days=2)] == [
        ("daily", NOON + HOUR),
        ("once", NOON + HOUR),
        ("daily", utc("2026-06-04T13:00Z")),
        ("daily", utc("2026-06-05T13:00Z")),
    ]


def test_one_that_is_overdue_does_not_belong_to_a_span_that_lies_ahead(trip):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="once")
    trip.by(3 * DAY)
    assert duebox.upcoming(start=NOON + 4 * DAY) == []


def test_what_is_shown_is_json():
    duebox.schedule("bell.rung", repeat=daily("01:30"), zone="America/New_York", key="it", about=("bell", 1))
    duebox.schedule("bell.rung", at=utc("2026-11-01T05:00Z"), key="other")
    found = duebox.upcoming(start=utc("2026-11-01T00:00Z"), days=1)
    assert json.loads(json.dumps([one.as_dict() for one in found]))[1] == {
        "at": "2026-11-01T05:30:00+00:00",
        "key": "it",
        "occurrence": "2026-11-01T01:30",
        "type": "bell.rung",
        "local": "2026-11-01T01:30",
        "zone": "America/New_York",
        "marks": ["fold_first"],
        "about": ["bell", "1"],
        "plan": "",
    }


def test_two_that_come_at_the_same_moment_are_both_shown():
    for key in "ba":
        duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key=key)
    assert keys(duebox.upcoming(days=2)) == ["a", "b", "a", "b"]


def test_a_flex_window_is_part_of_what_is_shown():
    table = Timetable(rule=daily("13:00"), zone="UTC", flex=HOUR)
    duebox.schedule("bell.rung", repeat=table, key="it")
    found = duebox.upcoming(days=3)
    assert at(found) == [one.instant for one in between(table, NOON, NOON + 3 * DAY, seed="it")]
    assert len(found) == 3


def test_one_question_is_asked_however_much_is_to_come(django_assert_num_queries):
    for number in range(5):
        duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key=f"it:{number}")
    with django_assert_num_queries(1):
        assert len(duebox.upcoming()) == 35


# How far


@pytest.fixture
def far():
    """Once in a year, each year, each day, all about one bell."""
    duebox.schedule("bell.rung", at=NOON + 365 * DAY, key="once", about=("bell", 1))
    duebox.schedule(
        "bell.rung", repeat=anniversary("1990-01-01", at="09:00"), zone="UTC", key="yearly", about=("bell", 1)
    )
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="daily", about=("bell", 1))


def test_of_an_entity_the_next_of_each_schedule_is_shown_however_far_and_what_repeats_for_a_week(far):
    found = duebox.upcoming(("bell", 1))
    assert keys(found) == ["daily"] * 7 + ["yearly", "once"]
    assert at(found)[-2:] == [utc("2027-01-01T09:00Z"), NOON + 365 * DAY]
    assert keys(duebox.upcoming(("bell", None))) == keys(found)


def test_of_a_schedule_the_next_is_shown_however_far(far):
    assert at(duebox.upcoming(key="once")) == [NOON + 365 * DAY]
    assert at(duebox.upcoming(key="yearly")) == [utc("2027-01-01T09:00Z")]


def test_with_a_limit_as_many_repetitions_are_shown_as_it_allows(far):
    assert at(duebox.upcoming(key="yearly", limit=3)) == [utc(f"{year}-01-01T09:00Z") for year in (2027, 2028, 2029)]
    assert keys(duebox.upcoming(("bell", 1), limit=300)) == ["daily"] * 214 + ["yearly"] + ["daily"] * 85
    assert len(duebox.upcoming(key="daily", limit=1500)) == 1500


def test_of_everything_or_a_plan_or_a_type_only_a_week_is_shown(far):
    Schedule.objects.update(plan="app.Bells")
    for asked in ({}, {"plan": "app.Bells"}, {"type": "bell.rung"}):
        assert keys(duebox.upcoming(**asked)) == ["daily"] * 7


def test_a_span_of_an_entity_is_what_was_asked_for(far):
    assert keys(duebox.upcoming(("bell", 1), days=2)) == ["daily"] * 2
    assert keys(duebox.upcoming(("bell", 1), until=NOON + 2 * DAY)) == ["daily"] * 2
    assert len(duebox.upcoming(("bell", 1), days=400)) == 400 + 1 + 1


def test_from_another_moment_the_next_after_it_is_shown_however_far(far):
    found = duebox.upcoming(("bell", 1), start=utc("2027-03-01T00:00Z"))
    assert keys(found) == ["daily"] * 7 + ["once", "yearly"]
    assert found[-1].at == utc("2028-01-01T09:00Z")


def test_a_span_may_end_at_an_instant_which_is_not_part_of_it():
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC")
    assert at(duebox.upcoming(until=NOON + 2 * DAY + HOUR)) == [NOON + HOUR, NOON + HOUR + DAY]
    found = duebox.upcoming(start=NOON + 3 * DAY, until=NOON + 5 * DAY)
    assert at(found) == [NOON + 3 * DAY + HOUR, NOON + 4 * DAY + HOUR]
    assert duebox.upcoming(until=NOON - DAY) == []


def test_a_span_ends_once():
    with pytest.raises(InvalidSchedule, match=r"days=3 and until=.* both say how far to look; pass one of them"):
        duebox.upcoming(days=3, until=NOON)
    with pytest.raises(WrongKindOfTime, match="until is"):
        duebox.upcoming(until=datetime(2026, 7, 1))


# Duebox's own


def test_the_upkeep_of_duebox_itself_is_shown_only_if_asked_for():
    duebox.schedule("bell.rung", at=NOON + HOUR, key="mine")
    about = ("upkeep", "plans")
    duebox.schedule(Own("duebox.plans.reconcile"), repeat=every(hours=24), about=about, key="duebox:reconcile")
    assert keys(duebox.upcoming()) == ["mine"]
    assert keys(duebox.upcoming(limit=1)) == ["mine"]
    assert len(duebox.upcoming(include_internal=True)) == 8
    for asked in ({"key": "duebox:reconcile"}, {"about": about}, {"type": "duebox.plans.reconcile"}):
        assert set(keys(duebox.upcoming(**asked))) == {"duebox:reconcile"}


# Of many rows


def test_what_comes_for_each_of_many_rows_is_found_with_one_query(django_assert_num_queries):
    accounts = [Account.objects.create() for _ in range(4)]
    for number, account in enumerate(accounts[:3]):
        duebox.schedule("bell.rung", at=NOON + (100 - number) * DAY, key=f"once:{number}", about=account)
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="daily", about=accounts[1])
    duebox.schedule("bell.rung", at=NOON + HOUR, key="other", about=("bell", accounts[0].pk))
    with django_assert_num_queries(1):
        found = duebox.upcoming_of(accounts)
    assert found == {account.pk: duebox.upcoming(account) for account in accounts}
    assert [len(found[account.pk]) for account in accounts] == [1, 8, 1, 0]
    with django_assert_num_queries(2):  # the queryset itself, which keeps its rows, and what comes
        rows = Account.objects.filter(pk__in=[account.pk for account in accounts[:2]])
        assert duebox.upcoming_of(rows) == {account.pk: found[account.pk] for account in rows}


def test_a_span_and_a_limit_are_for_each_row():
    accounts = [Account.objects.create() for _ in range(2)]
    for number, account in enumerate(accounts):
        duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key=f"it:{number}", about=account)
    lengths = [
        [len(each) for each in duebox.upcoming_of(accounts, **span).values()]
        for span in ({"limit": 3}, {"days": 2}, {"until": NOON + 5 * DAY}, {"start": NOON + 5 * DAY, "days": 1})
    ]
    assert lengths == [[3, 3], [2, 2], [5, 5], [1, 1]]


def test_of_no_rows_nothing_comes_and_rows_of_several_models_are_refused(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert duebox.upcoming_of([]) == {}
    with pytest.raises(InvalidSchedule, match=r"The rows are of several models \(.*person\); ask for each"):
        duebox.upcoming_of([Account.objects.create(), Person.objects.create()])


@pytest.mark.large
def test_what_comes_for_many_rows_is_found_by_an_index():
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it", about=("bell", "0"))
    row = Schedule.objects.get()
    copies = []
    for number in range(1, 5000):
        another = copy(row)
        another.pk, another.key, another.aggregate_id = None, f"it:{number}", str(number)
        copies.append(another)
    Schedule.objects.bulk_create(copies)
    analyze("duebox_schedule")
    asked = Schedule.objects.scheduled().about("bell").filter(any_of("aggregate_id", map(str, range(50))))
    assert "duebox_schedule_about" in asked.explain()


# One line for each schedule


def test_one_line_for_each_schedule_has_the_rule_the_next_moment_and_the_count(trip):
    now = clock.now()
    duebox.schedule("bell.rung", repeat=every(minutes=1), zone="UTC", key="ticks", about=("tower", 1))
    duebox.schedule("gong.struck", repeat=every(hours=1), zone="UTC", key="hours", about=("tower", 2))
    duebox.schedule(Own("duebox.swept"), repeat=every(hours=1), key="sweep")
    ticks, hours = duebox.upcoming_schedules()
    assert (ticks.next.key, ticks.rule, ticks.count, ticks.more) == ("ticks", "Every minute", 1000, True)
    assert (hours.next.key, hours.count, hours.more, hours.last_state) == ("hours", 7 * 24 - 1, False, "")
    assert hours.as_dict() | {"key": "hours", "count": 167, "more": False} == hours.as_dict()
    assert [each.count for each in duebox.upcoming_schedules(until=now + timedelta(hours=3), key="hours")] == [2]
    assert [each.next.key for each in duebox.upcoming_schedules(about=("tower", None), limit=1)] == ["ticks"]
    assert len(duebox.upcoming_schedules(include_internal=True)) == 3


def test_a_count_that_is_reached_exactly_is_not_capped(trip):
    duebox.schedule("bell.rung", repeat=Timetable(rule=every(minutes=1), zone="UTC", remaining=1000), key="it")
    [each] = duebox.upcoming_schedules()
    assert (each.count, each.more) == (1000, False)


def test_a_type_of_entities_as_a_text_is_refused_with_the_two_ways_to_write_it():
    for verb in (duebox.upcoming, duebox.cancel, duebox.pause, duebox.resume, duebox.restore):
        with pytest.raises(InvalidSchedule, match=r"'bell' is a text; .* the model class, or \('bell', None\)"):
            verb(about="bell")
