"""Firing: each occurrence once, at its moment, and what becomes of those that were late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connections, transaction

import duebox
from duebox.models import Attempt, Delivery, Event, Schedule, ScheduleLog
from duebox.schedules import fire
from duebox.schedules.fire import Fired, fire_due
from duebox.schedules.tzdata_update import rezone
from duebox.store import schedules
from duebox.testing import captured, drain, travel
from duebox.when import CatchUp, Timetable, anniversary, between, cron, daily, every, once, rrule, spread, zones
from tests.app.models import Account
from tests.support import undone

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def trip():
    with travel(NOON) as traveller:
        yield traveller


@pytest.fixture
def ask():
    """`firing.guard` for the plan that `planned` names, taken back after the test."""
    yield lambda still_valid: fire.guard("the plan", still_valid)
    fire.unguard("the plan")


def utc(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def local(text):
    return datetime.fromisoformat(text)


def the_row(key="it"):
    return Schedule.objects.get(key=key)


def in_order(**which):
    return list(Event.objects.filter(**which).order_by("id"))


def fired(**which):
    return [event.metadata["schedule"]["occurrence"] for event in in_order(**which)]


def schedule_log(what, key="it"):
    return [line.occurrence for line in ScheduleLog.objects.filter(source=key, what=what).order_by("id")]


def planned(key="it", **options):
    """A schedule that belongs to a plan."""
    given = {"repeat": daily("13:00"), "zone": "UTC", "about": ("bell", key), **options}
    duebox.schedule("bell.rung", key=key, **given)
    Schedule.objects.filter(key=key).update(plan="the plan")


# One event per occurrence


def test_a_moment_becomes_an_event_when_it_has_come(trip):
    account = Account.objects.create()
    duebox.schedule(
        "bell.rung", {"a": 1}, at=local("2026-06-01T15:00"), zone="Europe/London", key="it", about=account,
        organization=7, actor="3", version=2, correlation_id="request-1", metadata={"ip": "::1"},
    )  # fmt: skip
    assert fire_due("default") == Fired()
    trip.to(utc("2026-06-01T14:00Z"))
    assert fire_due("default") == Fired(due=1, events=1)
    event = Event.objects.get()
    assert (event.type, event.version, event.data, event.actor) == (
        "bell.rung",
        2,
        {"a": 1},
        {"type": "user", "id": "3"},
    )
    assert (event.aggregate_type, event.aggregate_id, event.organization) == ("app.account", str(account.pk), "7")
    assert (event.correlation_id, event.causation_id) == ("request-1", None)
    assert event.occurred_at == utc("2026-06-01T14:00Z")
    assert event.idempotency_key == "it/2026-06-01T15:00"
    assert event.metadata == {
        "ip": "::1",
        "schedule": {
            "key": "it",
            "occurrence": "2026-06-01T15:00",
            "due": "2026-06-01T14:00:00+00:00",
            "local": "2026-06-01T15:00",
            "zone": "Europe/London",
        },
    }


def test_what_fired_once_fires_no_more(trip):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it")
    trip.by(HOUR)
    assert [fire_due("default").due for _ in range(3)] == [1, 0, 0]
    row = the_row()
    assert (row.status, row.due_at, row.occurrence) == ("completed", None, "")
    assert (row.fired, row.fired_at, row.revision) == ("2026-06-01T13:00Z", NOON + HOUR, 2)


def test_what_repeats_goes_on_to_the_next(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
    trip.by(HOUR)
    fire_due("default")
    row = the_row()
    assert (row.status, row.due_at, row.occurrence) == ("scheduled", NOON + HOUR + DAY, "2026-06-02T13:00")
    assert (row.fired, row.fired_at, row.local_time) == ("2026-06-01T13:00", NOON + HOUR, "2026-06-02T13:00")


def test_the_moment_can_be_given(trip):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it")
    assert fire_due("default", now=NOON + HOUR - timedelta(microseconds=1)).due == 0
    assert fire_due("default", now=NOON + HOUR).due == 1
    assert Event.objects.get().occurred_at == NOON + HOUR


def test_each_occurrence_is_one_event(trip):
    duebox.schedule("bell.rung", repeat=daily(("09:00", "17:00")), zone="UTC", key="it")
    trip.run(3 * DAY)
    assert fired() == ["2026-06-01T17:00", "2026-06-02T09:00", "2026-06-02T17:00", "2026-06-03T09:00",
                       "2026-06-03T17:00", "2026-06-04T09:00"]  # fmt: skip
    assert [event.occurred_at.hour for event in in_order()] == [17, 9, 17, 9, 17, 9]
    assert ScheduleLog.objects.count() == 0


def test_an_event_that_exists_already_under_the_key_of_an_occurrence_is_the_one(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
    duebox.emit("bell.rung", idempotency_key="it/2026-06-01T13:00")
    trip.run(DAY + HOUR)
    assert [event.idempotency_key for event in in_order()] == ["it/2026-06-01T13:00", "it/2026-06-02T13:00"]
    line = ScheduleLog.objects.get()
    assert (line.what, line.occurrence, line.note) == ("skipped", "2026-06-01T13:00", "its event exists already")


def test_a_rolled_back_firing_leaves_nothing_and_comes_again(trip, on):
    on("bell.rung", name="it")(lambda event: None)
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it")
    trip.by(HOUR)
    with undone():
        assert fire_due("default").events == 1
    assert (Event.objects.count(), Delivery.objects.count(), the_row().status) == (0, 0, "scheduled")
    assert fire_due("default").events == 1


def test_receivers_of_the_signal_hear_of_what_fired(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
    with captured() as facts:
        trip.run(2 * DAY)
    assert [fact.idempotency_key for fact in facts] == ["it/2026-06-01T13:00", "it/2026-06-02T13:00"]


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_fires_its_own(trip):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it", using="other")
    trip.by(HOUR)
    assert fire_due("default").due == 0
    assert fire_due("other") == Fired(1, 1)
    assert Event.objects.using("other").count() == 1


# Who hears of it


def test_who_subscribes_today_hears_of_what_was_scheduled_yesterday(trip, on):
    duebox.schedule("bell.rung", {"a": 1}, at=NOON + HOUR, key="it", about=("bell", 1))
    heard = []
    on("bell.*", name="late.comer")(lambda event: heard.append((event.data, event.about, event.idempotency_key)))
    on("gong.*", name="stranger")(lambda event: heard.append("never"))
    trip.run(HOUR)
    assert heard == [({"a": 1}, ("bell", "1"), "it/2026-06-01T13:00Z")]
    assert Attempt.objects.get().subscriber == "late.comer"


def test_without_anybody_to_hear_of_it_the_event_is_stored(trip):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it")
    trip.by(HOUR)
    assert fire_due("default") == Fired(1, 1)
    assert (Event.objects.count(), Delivery.objects.count()) == (1, 0)


def test_deliveries_are_due_at_once_and_not_leased(trip, on):
    on("bell.rung", name="a")(lambda event: None)
    on("bell.rung", name="b", ordered=True)(lambda event: None)
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it", about=("bell", 1))
    trip.by(HOUR)
    assert fire_due("default") == Fired(1, 1)
    assert list(Delivery.objects.order_by("subscriber").values_list("subscriber", "stream", "due_at", "lease")) == [
        ("a", None, NOON + HOUR, None),
        ("b", "bell:1", NOON + HOUR, None),
    ]


def test_ordered_subscribers_hear_in_order_also_of_what_was_late(trip, on):
    heard = []
    on("bell.rung", name="it", ordered=True)(lambda event: heard.append(event.metadata["schedule"]["occurrence"]))
    duebox.schedule("bell.rung", repeat=every(hours=1), key="it", about=("bell", 1), catch_up=CatchUp(mode="all"))
    trip.by(30 * HOUR)
    drain()
    assert len(heard) == 30
    assert heard == sorted(heard)


def test_a_handler_may_move_or_cancel_the_schedule_it_hears_of(trip, on):
    @on("bell.rung", name="it")
    def handler(event):
        duebox.cancel(event.metadata["schedule"]["key"])

    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
    trip.run(9 * DAY)
    assert (fired(), the_row().status) == (["2026-06-01T13:00"], "cancelled")


# The end


def test_a_number_of_firings_is_counted_down_to_the_end(trip):
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("13:00"), remaining=3, zone="UTC"), key="it")
    left = []
    for _ in range(3):
        trip.run(DAY)
        left.append((the_row().remaining, the_row().status))
    assert left == [(2, "scheduled"), (1, "scheduled"), (0, "completed")]
    trip.run(9 * DAY)
    assert len(fired()) == 3


@pytest.mark.parametrize(
    "text", ["FREQ=DAILY;COUNT=3", "FREQ=DAILY;UNTIL=20260603T130000", "FREQ=DAILY;UNTIL=20260603"]
)
def test_a_recurrence_ends_by_itself(trip, text):
    duebox.schedule("bell.rung", repeat=rrule(text, start=local("2026-06-01T13:00")), zone="UTC", key="it")
    trip.run(30 * DAY)
    assert fired() == ["2026-06-01T13:00", "2026-06-02T13:00", "2026-06-03T13:00"]
    assert (the_row().status, the_row().due_at) == ("completed", None)


def test_a_timetable_ends_at_its_end(trip):
    table = Timetable(rule=daily("13:00"), end=utc("2026-06-03T00:00Z"), zone="UTC")
    duebox.schedule("bell.rung", repeat=table, key="it")
    trip.run(30 * DAY)
    assert fired() == ["2026-06-01T13:00", "2026-06-02T13:00"]
    assert the_row().status == "completed"


def test_closed_days_are_passed_over(trip):
    trip.to(utc("2026-06-05T00:00Z"))  # a Friday
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("13:00"), calendar="weekdays", zone="UTC"), key="it")
    trip.run(5 * DAY)
    assert [key[8:10] for key in fired()] == ["05", "08", "09"]


# Where clocks change


def test_a_time_that_clocks_skip_fires_by_policy_and_is_marked(trip):
    trip.to(utc("2027-03-13T12:00Z"))
    duebox.schedule("bell.rung", repeat=daily("02:30"), zone="America/New_York", key="forward")
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("02:30"), zone="America/New_York", gap="skip"), key="skip")
    trip.run(2 * DAY)
    first, second, third = (event.metadata["schedule"] for event in in_order())
    assert (first["key"], first["local"], first["due"]) == ("forward", "2027-03-14T02:30", "2027-03-14T07:30:00+00:00")
    assert first["marks"] == ["gap_shifted_forward"]
    assert {(one["key"], one["local"], "marks" in one) for one in (second, third)} == {
        ("forward", "2027-03-15T02:30", False), ("skip", "2027-03-15T02:30", False),
    }  # fmt: skip


def test_a_time_that_clocks_repeat_fires_once_or_by_policy_twice(trip):
    trip.to(utc("2026-10-31T12:00Z"))
    for fold in ("first", "second", "both"):
        table = Timetable(rule=daily("01:30"), zone="America/New_York", fold=fold)
        duebox.schedule(f"bell.{fold}", repeat=table, key=fold)
    trip.run(utc("2026-11-02T00:00Z"))
    instants = {fold: [event.occurred_at for event in in_order(type=f"bell.{fold}")] for fold in ("first", "second")}
    assert instants == {"first": [utc("2026-11-01T05:30Z")], "second": [utc("2026-11-01T06:30Z")]}
    assert fired(type="bell.both") == ["2026-11-01T01:30", "2026-11-01T01:30#2"]
    both = in_order(type="bell.both")
    assert [event.occurred_at for event in both] == [utc("2026-11-01T05:30Z"), utc("2026-11-01T06:30Z")]
    assert [event.metadata["schedule"]["marks"] for event in both] == [["fold_first"], ["fold_second"]]


def test_a_time_moved_out_of_a_gap_fires_though_a_later_name_fired_before_it(trip):
    trip.to(utc("2027-03-14T00:00Z"))
    duebox.schedule("bell.rung", repeat=daily(("02:30", "03:00")), zone="America/New_York", key="it")
    trip.run(utc("2027-03-15T07:00Z"))
    assert fired() == ["2027-03-14T03:00", "2027-03-14T02:30", "2027-03-15T02:30", "2027-03-15T03:00"]
    assert [event.occurred_at for event in in_order()][:2] == [utc("2027-03-14T07:00Z"), utc("2027-03-14T07:30Z")]


def test_a_time_moved_back_out_of_a_gap_spends_nothing_that_comes_after_it(trip):
    trip.to(utc("2027-03-14T00:00Z"))
    table = Timetable(rule=daily(("01:45", "02:30")), zone="America/New_York", gap="shift_backward")
    duebox.schedule("bell.rung", repeat=table, key="it")
    trip.run(DAY)
    assert fired() == ["2027-03-14T02:30", "2027-03-14T01:45"]


def test_both_readings_of_a_repeated_hour_fire_in_order(trip):
    trip.to(utc("2026-11-01T04:00Z"))
    table = Timetable(rule=daily(("01:00", "01:30")), zone="America/New_York", fold="both")
    duebox.schedule("bell.rung", repeat=table, key="it")
    trip.run(12 * HOUR)
    assert [key[11:] for key in fired()] == ["01:00", "01:30", "01:00#2", "01:30#2"]


def test_hourly_rules_run_on_elapsed_time_through_both_changes(trip):
    for start in ("2027-03-14T00:00Z", "2027-11-07T00:00Z"):
        trip.to(utc(start))
        duebox.schedule("bell.rung", repeat=cron("0 * * * *"), zone="America/New_York", key=start)
        trip.run(DAY)
        duebox.cancel(start)
        assert len(fired(metadata__schedule__key=start)) == 24


CHANGES = [
    ("America/New_York", "2027-03-14"),
    ("America/New_York", "2026-11-01"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("Australia/Lord_Howe", "2027-04-04"),
    ("America/Santiago", "2026-09-06"),
    ("Africa/Cairo", "2026-10-30"),
]


@pytest.mark.parametrize("gap", ["shift_forward", "shift_backward", "next_valid", "skip"])
@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_through_a_change_of_clocks_exactly_that_fires_which_the_timetable_names(trip, zone, day, gap):
    start, end = utc(f"{day}T00:00Z") - DAY, utc(f"{day}T00:00Z") + DAY
    trip.to(start)
    times = ("00:00", "00:30", "01:30", "01:45", "02:15", "02:30", "03:00", "23:30")
    table = Timetable(rule=daily(times), zone=zone, gap=gap, fold="both")
    duebox.schedule("bell.rung", repeat=table, key="it")
    trip.run(end)
    named = list(between(table, start + timedelta.resolution, end + timedelta.resolution))
    assert fired() == [one.key for one in named]
    assert [event.occurred_at for event in in_order()] == [one.instant for one in named]


def test_a_birthday_on_a_leap_day_comes_each_year_and_is_marked(trip):
    duebox.schedule("bell.rung", repeat=anniversary("1992-02-29", at="09:00"), zone="UTC", key="it")
    trip.run(utc("2028-12-31T00:00Z"))
    assert fired() == ["2027", "2028"]
    first, second = in_order()
    assert (first.occurred_at, first.metadata["schedule"]["marks"]) == (utc("2027-02-28T09:00Z"), ["leap_moved"])
    assert (second.occurred_at, "marks" in second.metadata["schedule"]) == (utc("2028-02-29T09:00Z"), False)


def test_a_crowd_is_spread_and_each_keeps_its_place_and_its_names(trip):
    window = timedelta(minutes=10)
    table = Timetable(rule=daily("13:00"), zone="UTC", flex=window)
    for number in range(20):
        duebox.schedule("bell.rung", {"number": number}, repeat=table, key=f"it:{number}")
    trip.run(2 * DAY)
    for number in range(20):
        one, other = in_order(data__number=number)
        assert one.occurred_at == utc("2026-06-01T13:00Z") + spread(f"it:{number}", window)
        assert other.occurred_at == one.occurred_at + DAY
        assert one.metadata["schedule"]["occurrence"] == "2026-06-01T13:00"
    assert len({event.occurred_at for event in in_order()}) > 30


# Late


MISSED = [f"2026-06-{day:02}T13:00" for day in range(1, 6)]


@pytest.mark.parametrize(
    ("policy", "fires"),
    [
        (None, MISSED[4:]),
        (CatchUp(mode="latest"), MISSED[4:]),
        (CatchUp(mode="none"), []),
        (CatchUp(mode="all"), MISSED),
        (CatchUp(mode="all", window=timedelta(hours=36)), MISSED[3:]),
        (CatchUp(mode="all", cap=3), MISSED[2:]),
        (CatchUp(mode="all", window=timedelta(hours=36), cap=1), MISSED[4:]),
        (CatchUp(mode="latest", window=timedelta(hours=5)), []),
        (CatchUp(mode="none", grace=timedelta(hours=7)), MISSED[4:]),
    ],
)
def test_after_downtime_what_came_due_fires_by_policy_and_the_rest_is_recorded(trip, policy, fires):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it", about=("bell", 1), catch_up=policy)
    trip.to(utc("2026-06-05T19:00Z"))
    assert fire_due("default") == Fired(1, len(fires))
    assert fired() == fires
    missed = [key for key in MISSED if key not in fires]
    assert ScheduleLog.objects.count() == bool(missed)
    for line in ScheduleLog.objects.all():
        assert (line.what, line.occurrence, line.occurrences) == ("missed", missed[0], len(missed))
        assert line.due_before == utc(f"{missed[0]}Z")
        several = len(missed) > 1
        assert line.last_occurrence == (missed[-1] if several else "")
        assert line.due_after == (utc(f"{missed[-1]}Z") if several else None)
        assert (line.at, line.aggregate_type, line.aggregate_id) == (utc("2026-06-05T19:00Z"), "bell", "1")
    assert (the_row().status, the_row().occurrence) == ("scheduled", "2026-06-06T13:00")
    assert fire_due("default").due == 0


def test_a_late_event_says_when_it_was_due_and_when_it_fired(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
    trip.to(utc("2026-06-03T19:00Z"))
    fire_due("default")
    event = Event.objects.get()
    assert event.occurred_at == utc("2026-06-03T19:00Z")
    assert event.metadata["schedule"]["due"] == "2026-06-03T13:00:00+00:00"


@pytest.mark.parametrize(("policy", "fires"), [(None, 1), (CatchUp(mode="none"), 0), (CatchUp(window=DAY), 0)])
def test_a_single_moment_that_is_late_fires_by_policy_too(trip, policy, fires):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it", catch_up=policy)
    trip.by(3 * DAY)
    assert fire_due("default") == Fired(1, fires)
    assert the_row().status == "completed"
    assert schedule_log("missed") == ["2026-06-01T13:00Z"] * (1 - fires)


def test_a_moment_late_is_not_missed_even_without_catching_up(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it", catch_up=CatchUp(mode="none"))
    trip.by(HOUR + timedelta(minutes=5))
    assert fire_due("default") == Fired(1, 1)


def test_what_is_left_limits_what_is_caught_up(trip):
    table = Timetable(rule=daily("13:00"), remaining=2, zone="UTC")
    duebox.schedule("bell.rung", repeat=table, key="it", catch_up=CatchUp(mode="all"))
    trip.by(9 * DAY)
    assert fire_due("default") == Fired(1, 2)
    assert fired() == MISSED[:2]
    assert (the_row().status, the_row().remaining) == ("completed", 0)


def test_what_is_missed_is_not_counted_down(trip):
    table = Timetable(rule=daily("13:00"), remaining=2, zone="UTC")
    duebox.schedule("bell.rung", repeat=table, key="it")
    trip.by(4 * DAY)
    fire_due("default")
    assert (fired(), the_row().remaining) == (["2026-06-04T13:00"], 1)


def test_a_recurrence_that_ended_while_nobody_looked_is_caught_up_and_over(trip):
    rule = rrule("FREQ=DAILY;COUNT=3", start=local("2026-06-01T13:00"))
    duebox.schedule("bell.rung", repeat=rule, zone="UTC", key="it", catch_up=CatchUp(mode="all"))
    trip.by(30 * DAY)
    fire_due("default")
    assert (fired(), the_row().status) == (MISSED[:3], "completed")


def test_a_flood_is_bounded(trip):
    policy = CatchUp(mode="all", window=2 * HOUR, cap=10)
    duebox.schedule("bell.rung", repeat=every(minutes=1), key="it", catch_up=policy)
    trip.by(DAY)
    assert fire_due("default") == Fired(1, 10)
    assert the_row().due_at == NOON + DAY + timedelta(minutes=1)
    line = ScheduleLog.objects.get()
    assert (line.what, line.occurrences) == ("missed", 24 * 60 - 10)
    assert (line.due_before, line.due_after) == (NOON + timedelta(minutes=1), NOON + DAY - timedelta(minutes=10))


@pytest.mark.large
def test_a_week_of_downtime_leaves_one_line_for_each_schedule(trip):
    for number in range(20):
        duebox.schedule("bell.rung", repeat=cron("* * * * *"), zone="UTC", key=f"it:{number}")
    trip.by(7 * DAY)
    assert fire_due("default") == Fired(20, 20)
    lines = ScheduleLog.objects.all()
    assert len(lines) == 20
    assert {(line.occurrences, line.note) for line in lines} == {(1_000, "1000 were counted, there are more")}
    assert {line.due_after for line in lines} == {NOON + 7 * DAY - timedelta(minutes=1)}


def test_after_downtime_across_a_change_of_clocks_each_day_is_caught_up_once(trip):
    trip.to(utc("2026-10-30T12:00Z"))
    table = Timetable(rule=daily("01:30"), zone="America/New_York", fold="both")
    duebox.schedule("bell.rung", repeat=table, key="it", catch_up=CatchUp(mode="all"))
    trip.to(utc("2026-11-03T12:00Z"))
    fire_due("default")
    assert [key[8:] for key in fired()] == ["31T01:30", "01T01:30", "01T01:30#2", "02T01:30", "03T01:30"]


# A clock that is set back


@pytest.mark.parametrize("repeat", [daily(("01:30", "13:00")), every(hours=5), anniversary("1990-06-03", at="09:00")])
def test_a_clock_that_steps_back_fires_nothing_twice(trip, repeat):
    duebox.schedule("bell.rung", repeat=repeat, zone="Europe/London", key="it")
    trip.run(3 * DAY)
    before = fired()
    assert before
    trip.to(NOON - DAY)
    trip.run(NOON + 3 * DAY)
    assert fired() == before
    trip.run(NOON + 3 * DAY + 13 * HOUR)
    assert len(fired()) == len(set(fired())) >= len(before)


def test_a_clock_that_steps_back_fires_nothing_twice_though_everything_is_planned_anew(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
    trip.run(3 * DAY)
    trip.to(NOON - DAY)
    duebox.reschedule("it", zone="Europe/London")
    duebox.pause("it")
    duebox.resume("it")
    trip.run(NOON + 4 * DAY - HOUR)
    assert fired() == [f"2026-06-0{day}T13:00" for day in range(1, 5)]


def test_a_single_moment_that_fired_does_not_fire_again_on_a_clock_that_steps_back(trip):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it")
    trip.run(2 * HOUR)
    trip.to(NOON)
    trip.run(2 * HOUR)
    assert len(fired()) == 1


# Rows that cannot be read


CORRUPT = [
    {"intent": {}},
    {"intent": []},
    {"intent": {"when": {"rule": {"kind": "lunar"}, "zone": "UTC"}}},
    {"intent": {"when": {"rule": {"kind": "daily"}, "zone": "UTC"}}},
    {"zone": "Mars/Olympus"},
    {"intent": {"when": {"rule": {"kind": "daily", "at": ["13:00"]}, "zone": "Mars/Olympus"}}},
    {"metadata": []},
]


@pytest.mark.parametrize("damage", CORRUPT, ids=str)
def test_a_row_that_cannot_be_read_fails_and_does_not_stop_the_others(trip, damage, caplog):
    for key in ("a", "it", "z"):
        duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key=key, about=("bell", key))
    Schedule.objects.filter(key="it").update(**damage)
    trip.by(HOUR)
    assert fire_due("default") == Fired(3, 2)
    assert {event.metadata["schedule"]["key"] for event in in_order()} == {"a", "z"}
    assert (the_row().status, the_row().due_at) == ("failed", None)
    line = ScheduleLog.objects.get()
    assert (line.what, line.source, line.occurrence, line.due_before) == (
        "failed",
        "it",
        "2026-06-01T13:00",
        NOON + HOUR,
    )
    assert line.note
    assert "schedule failed: key=it" in caplog.text
    assert fire_due("default").due == 0


def test_a_failed_schedule_can_be_scheduled_anew(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
    Schedule.objects.update(intent={})
    trip.run(2 * HOUR)
    assert duebox.schedule("bell.rung", repeat=daily("15:00"), zone="UTC", key="it").status == "scheduled"
    trip.run(2 * HOUR)
    assert fired() == ["2026-06-01T15:00"]


def test_what_is_due_fires_though_nothing_can_follow_it(trip):
    trip.to(utc("2027-03-12T12:00Z"))
    table = Timetable(rule=daily("02:30"), zone="America/New_York", gap="reject")
    duebox.schedule("bell.rung", repeat=table, key="it")
    trip.run(2 * DAY)
    assert fired() == ["2027-03-13T02:30"]
    assert (the_row().status, schedule_log("failed")) == ("failed", ["2027-03-13T02:30"])
    assert "does not exist in America/New_York" in ScheduleLog.objects.get().note


def test_a_row_that_found_no_place_in_an_order_fails_alone(trip, on):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it")
    duebox.schedule("gong.struck", at=NOON + HOUR, key="other")
    on("bell.rung", name="in.order", ordered=True)(lambda event: None)
    trip.by(HOUR)
    assert fire_due("default") == Fired(2, 1)
    assert the_row().status == "failed"
    assert "'in.order' takes 'bell.rung' in order" in ScheduleLog.objects.get().note


# Plans that are asked again


def test_a_plan_is_asked_once_about_all_that_are_due(trip, ask):
    questions = []
    ask(lambda using, ids: questions.append((using, set(ids))) or set(ids))
    for key in "abc":
        planned(key)
    duebox.schedule("bell.rung", at=NOON + HOUR, key="of no plan", about=("bell", "x"))
    trip.by(HOUR)
    assert fire_due("default") == Fired(4, 4)
    assert questions == [("default", {"a", "b", "c"})]


def test_what_is_not_valid_any_more_is_passed_over_and_goes_on(trip, ask):
    ask(lambda using, ids: set(ids) - {"it"})
    planned("it")
    planned("other")
    trip.by(HOUR)
    assert fire_due("default") == Fired(2, 1)
    assert [event.aggregate_id for event in in_order()] == ["other"]
    line = ScheduleLog.objects.get()
    assert (line.what, line.source, line.occurrence, line.note) == (
        "skipped", "it", "2026-06-01T13:00", "no longer valid",
    )  # fmt: skip
    assert (the_row().occurrence, the_row().fired) == ("2026-06-02T13:00", "")


def test_what_is_passed_over_is_not_counted_down(trip, ask):
    ask(lambda using, ids: set())
    planned(repeat=Timetable(rule=daily("13:00"), remaining=2, zone="UTC"))
    trip.by(HOUR)
    fire_due("default")
    assert the_row().remaining == 2


def test_a_single_moment_that_is_not_valid_any_more_is_over(trip, ask):
    ask(lambda using, ids: set())
    planned(repeat=once(NOON + HOUR))
    trip.by(HOUR)
    assert fire_due("default") == Fired(1, 0)
    assert (the_row().status, schedule_log("skipped")) == ("completed", ["2026-06-01T13:00Z"])


@pytest.mark.parametrize(("policy", "skipped"), [(None, MISSED[2:3]), (CatchUp(mode="all"), MISSED[:3])])
def test_of_several_late_ones_each_that_would_have_fired_is_told_as_passed_over(trip, ask, policy, skipped):
    ask(lambda using, ids: set())
    planned(catch_up=policy)
    trip.to(utc("2026-06-03T14:00Z"))
    assert fire_due("default") == Fired(1, 0)
    assert schedule_log("skipped") == skipped
    missed = [key for key in MISSED[:3] if key not in skipped]
    assert [(line.occurrence, line.occurrences) for line in ScheduleLog.objects.filter(what="missed")] == (
        [(missed[0], len(missed))] if missed else []
    )


def test_a_plan_that_cannot_answer_is_asked_again_a_minute_later(trip, ask, caplog):
    answers = iter([RuntimeError("the table is gone"), RuntimeError("still"), {"it"}])

    def still_valid(using, ids):
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    ask(still_valid)
    planned()
    duebox.schedule("bell.rung", at=NOON + HOUR, key="other")
    trip.by(HOUR)
    assert fire_due("default") == Fired(2, 1)
    assert "still_valid failed: plan=the plan" in caplog.text
    assert (the_row().due_at, the_row().occurrence) == (NOON + HOUR + timedelta(minutes=1), "2026-06-01T13:00")
    trip.run(timedelta(minutes=5))
    event = Event.objects.get(metadata__schedule__key="it")
    assert event.occurred_at == NOON + HOUR + timedelta(minutes=2)
    assert event.metadata["schedule"] == {
        "key": "it", "occurrence": "2026-06-01T13:00", "due": "2026-06-01T13:00:00+00:00",
        "local": "2026-06-01T13:00", "zone": "UTC",
    }  # fmt: skip
    assert (the_row().occurrence, the_row().marks) == ("2026-06-02T13:00", "")


def test_a_query_that_fails_while_a_plan_is_asked_does_not_break_the_firing_of_others(trip, ask):
    def still_valid(using, ids):
        with connections[using].cursor() as cursor:
            cursor.execute("SELECT 1/0")

    ask(still_valid)
    planned()
    duebox.schedule("bell.rung", at=NOON + HOUR, key="other")
    trip.by(HOUR)
    assert fire_due("default") == Fired(2, 1)


@pytest.mark.parametrize("minutes", [1, 5, 24 * 60])
def test_while_a_plan_cannot_answer_nothing_is_lost(trip, ask, minutes):
    answers = [RuntimeError, RuntimeError]

    def still_valid(using, ids):
        if answers:
            raise answers.pop()
        return set(ids)

    ask(still_valid)
    planned(repeat=every(minutes=minutes), catch_up=CatchUp(mode="all"))
    trip.by(timedelta(minutes=3 * minutes))
    trip.run(timedelta(minutes=10))
    wanted = [NOON + timedelta(minutes=minutes * number) for number in range(1, 3 + 10 // minutes + 1)]
    if minutes == 24 * 60:  # an exact day counts from midnight, which June 2, 3 and 4 have seen
        wanted = [utc(f"2026-06-0{day}T00:00Z") for day in (2, 3, 4)]
    assert [utc(key) for key in fired()] == wanted
    assert schedule_log("missed") == []


def test_a_plan_that_asks_no_more_lets_everything_fire(trip, ask):
    ask(lambda using, ids: set())
    fire.unguard("the plan")
    planned()
    trip.by(HOUR)
    assert fire_due("default") == Fired(1, 1)


# Many


def test_no_more_than_asked_for_fire_at_once_the_oldest_first(trip):
    for minute in range(10):
        duebox.schedule("bell.rung", {"minute": minute}, at=NOON + HOUR - timedelta(minutes=minute), key=f"it:{minute}")
    trip.by(HOUR)
    assert fire_due("default", limit=4) == Fired(4, 4)
    assert [event.data["minute"] for event in in_order()] == [9, 8, 7, 6]
    assert [fire_due("default", limit=4).due for _ in range(3)] == [4, 2, 0]
    assert Event.objects.count() == 10


def test_many_are_fired_by_a_few_statements(trip, on, django_assert_max_num_queries):
    on("bell.rung", name="it")(lambda event: None)
    for number in range(60):
        duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key=f"it:{number}", about=("bell", number))
    trip.by(HOUR)
    with django_assert_max_num_queries(4):  # with a savepoint, since the test is a transaction
        assert fire_due("default") == Fired(60, 60)
    assert Delivery.objects.count() == 60


def test_ones_due_together_are_heard_of_in_the_order_of_their_moments(trip, on):
    heard = []
    on("bell.rung", name="it")(lambda event: heard.append(event.data["number"]))
    for number in (3, 1, 2, 0):
        duebox.schedule("bell.rung", {"number": number}, at=NOON + timedelta(minutes=number + 1), key=f"it:{number}")
    trip.by(HOUR)
    drain()
    assert heard == [0, 1, 2, 3]


@pytest.mark.django_db(transaction=True)
def test_what_another_worker_is_firing_or_somebody_is_changing_is_passed_by_without_waiting(trip, elsewhere):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it")
    duebox.schedule("bell.rung", at=NOON + HOUR, key="other")
    trip.by(HOUR)
    elsewhere.execute("SELECT 1 FROM duebox_schedule WHERE key = 'it' FOR UPDATE")
    assert fire_due("default") == Fired(1, 1)
    elsewhere.rollback()
    assert fire_due("default") == Fired(1, 1)
    assert fire_due("default") == Fired()


@pytest.mark.django_db(transaction=True)
def test_a_change_in_the_second_of_the_firing_has_one_outcome(trip, elsewhere):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it")
    trip.by(HOUR)
    with transaction.atomic():
        duebox.reschedule("it", at=NOON + 2 * HOUR)
        # Another worker, which sees the row as it was, finds it locked.
        due = "SELECT key FROM duebox_schedule WHERE due_at <= %s FOR UPDATE SKIP LOCKED"
        assert elsewhere.execute(due, [NOON + HOUR]).fetchall() == []
        elsewhere.rollback()
    assert fire_due("default") == Fired()
    trip.run(2 * HOUR)
    assert [event.occurred_at for event in in_order()] == [NOON + 2 * HOUR]


def test_what_was_prepared_does_nothing_once_its_row_has_changed(trip):
    for key in ("moved", "cancelled", "paused", "fired", "kept"):
        duebox.schedule("bell.rung", at=NOON + timedelta(milliseconds=500), key=key)
    ready, other, _ = fire.prepare("default", limit=100, seconds=1.0)
    assert (len(ready), other) == (5, None)
    duebox.reschedule("moved", at=NOON + timedelta(milliseconds=400))
    duebox.cancel("cancelled")
    duebox.pause("paused")
    trip.by(timedelta(milliseconds=500))
    fire.carry_out("default", [each for each in ready if each.row.key == "fired"], occurred=0.0)
    stored, _ = fire.carry_out("default", ready, occurred=0.0)
    assert [row.key for _, row in stored] == ["kept/2026-06-01T12:00:00.500000Z"]
    assert {row.key: row.status for row in Schedule.objects.all()} == {
        "moved": "scheduled", "cancelled": "cancelled", "paused": "paused", "fired": "completed", "kept": "completed",
    }  # fmt: skip
    assert Event.objects.count() == 2


def test_only_what_needs_nobody_to_be_asked_is_prepared(trip, ask):
    ask(lambda using, ids: set(ids))
    soon = [NOON + timedelta(milliseconds=100 * number) for number in range(1, 12)]
    duebox.schedule("bell.rung", at=soon[0], key="plain")
    planned("guarded", repeat=once(soon[1]))
    duebox.schedule("bell.rung", at=soon[2], key="damaged")
    Schedule.objects.filter(key="damaged").update(intent={})
    duebox.schedule("bell.rung", at=soon[10], key="too far")
    ready, other, _ = fire.prepare("default", limit=100, seconds=1.0)
    assert ([each.row.key for each in ready], other) == (["plain"], soon[1])


def test_what_cannot_be_followed_is_not_prepared_for_there_is_something_to_tell(trip):
    trip.to(utc("2027-03-13T07:29:59.5Z"))
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("02:30"), zone="America/New_York", gap="reject"), key="it")
    ready, other, _ = fire.prepare("default", limit=100, seconds=1.0)
    assert (ready, other) == ([], utc("2027-03-13T07:30Z"))


def test_when_there_are_too_many_to_prepare_at_once_it_is_known_where_to_go_on(trip):
    soon = [NOON + timedelta(milliseconds=100 * number) for number in range(1, 6)]
    for number, at in enumerate(soon):
        duebox.schedule("bell.rung", at=at, key=f"it:{number}")
    ready, other, last = fire.prepare("default", limit=3, seconds=1.0)
    assert ([each.row.key for each in ready], other, last.key) == (["it:0", "it:1", "it:2"], None, "it:2")
    ready, other, last = fire.prepare("default", limit=3, seconds=1.0, after=last)
    assert ([each.row.key for each in ready], other, last) == (["it:3", "it:4"], None, None)


# The zone database changes between the planning and the moment


OLD = Path(__file__).parents[1] / "vectors" / "zones" / "2025b"
VANCOUVER = "America/Vancouver"


def release(name):
    """The rules of 2025b, by which Vancouver is an hour behind in winter, as whatever release it is called."""
    return zones.using(zones.from_folder(OLD, release=name))


def in_vancouver(trip, **options):
    trip.to(utc("2026-11-13T00:00Z"))
    table = options.pop("table", {})
    rule = options.pop("rule", once(local("2026-11-15T09:00")))
    return duebox.schedule("bell.rung", repeat=Timetable(rule=rule, zone=VANCOUVER, **table), key="it", **options)


def test_what_a_newer_zone_database_puts_later_does_not_fire_at_the_old_moment_but_moves(trip):
    assert in_vancouver(trip, about=("bell", 1)).due_at == utc("2026-11-15T16:00Z")
    with release("2099z"):
        trip.run(utc("2026-11-15T16:59Z"))
        assert fired() == []
        row = the_row()
        assert (row.due_at, row.occurrence, row.tz_release) == (utc("2026-11-15T17:00Z"), "2026-11-15T09:00", "2099z")
        trip.run(DAY)
    assert [event.occurred_at for event in in_order()] == [utc("2026-11-15T17:00Z")]
    line = ScheduleLog.objects.get()
    assert (line.what, line.occurrence, line.aggregate_id) == ("moved", "2026-11-15T09:00", "1")
    assert (line.due_before, line.due_after) == (utc("2026-11-15T16:00Z"), utc("2026-11-15T17:00Z"))
    assert "zone database" in line.note


def test_what_a_newer_zone_database_puts_earlier_fires_as_soon_as_that_is_seen(trip):
    with release("2025b"):
        assert in_vancouver(trip).due_at == utc("2026-11-15T17:00Z")
    trip.run(utc("2026-11-17T00:00Z"))
    assert fired() == ["2026-11-15T09:00"]


@pytest.mark.parametrize("rule", [once(local("2026-11-15T09:00")), daily("09:00")])
def test_what_a_newer_zone_database_puts_into_the_past_is_missed_where_that_is_asked_for(trip, rule):
    with release("2025b"):
        in_vancouver(trip, late="skip", rule=rule)
        trip.run(utc("2026-11-14T20:00Z"))
    before = fired()
    trip.run(utc("2026-11-15T20:00Z"))
    assert fired() == before
    assert schedule_log("missed") == ["2026-11-15T09:00"]


def test_an_older_zone_database_does_not_undo_what_a_newer_one_has_decided(trip):
    in_vancouver(trip)
    with release("2025b"):  # another worker, which nobody has updated yet
        trip.run(utc("2026-11-15T16:00Z"))
    assert [event.occurred_at for event in in_order()] == [utc("2026-11-15T16:00Z")]


def test_what_repeats_fires_each_day_once_through_a_change_of_the_zone_database(trip):
    with release("2025b"):
        in_vancouver(trip, rule=daily("09:00"))
        trip.run(utc("2026-11-15T12:00Z"))
    trip.run(utc("2026-11-18T12:00Z"))
    assert fired() == [f"2026-11-{day}T09:00" for day in range(13, 18)]
    assert in_order()[-1].occurred_at == utc("2026-11-17T16:00Z")


def test_a_moment_that_the_new_rules_do_not_have_is_missed_by_policy(trip):
    # By today's rules Vancouver's clocks do not change in March; by those of 2025b there is no 02:30 that day.
    in_vancouver(trip, rule=once(local("2027-03-14T02:30")), table={"gap": "skip"})
    with release("2099z"):
        trip.run(utc("2027-03-20T00:00Z"))
    assert (fired(), schedule_log("missed"), the_row().status) == ([], ["2027-03-14T02:30"], "completed")


def test_downtime_and_a_new_zone_database_together_lose_nothing(trip):
    with release("2025b"):
        in_vancouver(trip, rule=daily("09:00"), catch_up=CatchUp(mode="all"))
    trip.to(utc("2026-11-16T20:00Z"))
    assert fire_due("default").events == 4
    assert fired() == [f"2026-11-{day}T09:00" for day in range(13, 17)]
    assert schedule_log("missed") == []


def test_a_worker_that_starts_after_downtime_with_a_new_zone_database_loses_nothing(trip):
    with release("2025b"):
        in_vancouver(trip, rule=daily("09:00"), catch_up=CatchUp(mode="all"))
    trip.to(utc("2026-11-16T20:00Z"))
    rezone("default")  # as every worker does at its start
    drain()
    assert fired() == [f"2026-11-{day}T09:00" for day in range(13, 17)]


def test_in_a_zone_whose_rules_are_the_same_nothing_changes(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="Asia/Tbilisi", key="it")
    row = the_row()
    Schedule.objects.update(tz_release="1999a")
    trip.run(DAY)
    assert (fired(), row.zone_rules == the_row().zone_rules) == (["2026-06-02T13:00"], True)


def test_the_store_knows_what_is_due_in_order(trip):
    for number, at in enumerate((3, 1, 2)):
        duebox.schedule("bell.rung", at=NOON + timedelta(minutes=at), key=f"it:{number}")
    found = schedules.due("default", 10, now=NOON + HOUR).rows
    assert [row.key for row in found] == ["it:1", "it:2", "it:0"]
