"""Moments: what is stored when one is planned, moved, rests or is taken back, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import connections, transaction

import duebox
from duebox.exceptions import InvalidEvent, InvalidPayload, InvalidSchedule
from duebox.models import Event, Schedule, ScheduleLog
from duebox.schedules.intent import Intent, read_intent, rules_of
from duebox.testing import drain, travel
from duebox.when import (
    CatchUp,
    InvalidRule,
    NonexistentTime,
    Timetable,
    UnknownZone,
    WhenError,
    WrongKindOfTime,
    anniversary,
    cron,
    daily,
    every,
    once,
    reminder,
    rrule,
    weekly,
    zones,
)
from tests.app.models import Account
from tests.support import undone

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)  # a Monday


@pytest.fixture(autouse=True)
def trip():
    with travel(NOON) as traveller:
        yield traveller


def utc(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def local(text):
    return datetime.fromisoformat(text)


def the_row(key="it"):
    return Schedule.objects.get(key=key)


def state(key="it"):
    """Everything but the moment of the last write."""
    return Schedule.objects.filter(key=key).values().get()


def fired(type="bell.rung"):
    return [event.metadata["schedule"]["occurrence"] for event in Event.objects.filter(type=type).order_by("id")]


def schedule_log(key="it"):
    return [
        (line.what, line.occurrence, line.due_before, line.due_after)
        for line in ScheduleLog.objects.filter(source=key).order_by("id")
    ]


# What is stored


def test_an_aware_time_is_that_instant():
    row = duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    assert (row.status, row.due_at, row.occurrence) == ("scheduled", utc("2026-06-02T09:00Z"), "2026-06-02T09:00Z")
    assert row.intent == {
        "when": {
            "rule": {"kind": "moment", "at": "2026-06-02T09:00:00Z"},
            "zone": "America/Chicago",
            "gap": "shift_forward",
            "fold": "first",
        }
    }


@pytest.mark.parametrize("zone", [timezone(timedelta(hours=9)), ZoneInfo("Asia/Tokyo")])
def test_an_aware_time_in_whatever_zone_is_the_same_instant(zone):
    row = duebox.schedule("bell.rung", at=datetime(2026, 6, 2, 18, tzinfo=zone))
    assert (row.due_at, row.occurrence) == (utc("2026-06-02T09:00Z"), "2026-06-02T09:00Z")


def test_a_naive_time_is_read_on_the_wall_clock_of_its_zone():
    row = duebox.schedule("bell.rung", at=local("2026-06-02T09:00"), zone="Asia/Tokyo", key="it")
    assert (row.due_at, row.occurrence) == (utc("2026-06-02T00:00Z"), "2026-06-02T09:00")
    assert (row.zone, row.local_time, row.marks) == ("Asia/Tokyo", "2026-06-02T09:00", "")
    assert row.intent["when"]["rule"] == {"kind": "once", "at": "2026-06-02T09:00:00"}
    assert str(row) == "it: bell.rung at 2026-06-02T09:00 Asia/Tokyo"


def test_the_project_names_the_zone_of_whatever_names_none(settings):
    settings.TIME_ZONE = "Europe/Lisbon"
    row = duebox.schedule("bell.rung", at=local("2026-06-02T09:00"))
    assert (row.zone, row.due_at) == ("Europe/Lisbon", utc("2026-06-02T08:00Z"))


def test_the_rules_and_the_release_that_an_instant_was_derived_from_are_known():
    row = duebox.schedule("bell.rung", at=local("2026-06-02T09:00"), zone="Asia/Tokyo")
    assert (row.zone_rules, row.tz_release) == rules_of("Asia/Tokyo")
    assert row.tz_release == zones.current().release


@pytest.mark.parametrize(
    ("at", "due", "marks"),
    [
        ("2027-03-14T02:30", "2027-03-14T07:30Z", "gap_shifted_forward"),
        ("2026-11-01T01:30", "2026-11-01T05:30Z", "fold_first"),
        ("2026-11-02T01:30", "2026-11-02T06:30Z", ""),
    ],
)
def test_a_time_that_clocks_skip_or_repeat_is_marked(at, due, marks):
    row = duebox.schedule("bell.rung", at=local(at), zone="America/New_York")
    assert (row.due_at, row.local_time, row.marks) == (utc(due), at, marks)


def test_a_leap_day_in_another_year_is_marked():
    row = duebox.schedule("bell.rung", repeat=anniversary("1992-02-29", at="09:00"), zone="UTC")
    assert (row.occurrence, row.local_time, row.marks) == ("2027", "2027-02-28T09:00", "leap_moved")


def test_a_rule_is_stored_with_its_first_occurrence_to_come():
    row = duebox.schedule("bell.rung", repeat=weekly("mon", at="09:00"), zone="Europe/London")
    assert (row.due_at, row.occurrence) == (utc("2026-06-08T08:00Z"), "2026-06-08T09:00")
    assert row.intent["when"]["rule"] == {"kind": "weekly", "days": ["MO"], "at": ["09:00:00"]}


def test_a_timetable_keeps_its_policies_bounds_and_number():
    table = Timetable(
        rule=daily("02:30"),
        zone="America/New_York",
        gap="skip",
        fold="both",
        start=local("2026-07-01T00:00"),
        end=local("2027-07-01T00:00"),
        remaining=3,
        calendar="weekdays",
        closed="forward",
        flex=timedelta(minutes=10),
    )
    policy = CatchUp(mode="all", cap=5)
    row = duebox.schedule("bell.rung", repeat=table, catch_up=policy, late="skip", key="it")
    assert read_intent(row.intent) == Intent(table=table, catch_up=policy, late="skip")
    assert (row.zone, row.remaining, row.occurrence) == ("America/New_York", 3, "2026-07-01T02:30")
    assert utc("2026-07-01T06:30Z") <= row.due_at < utc("2026-07-01T06:40Z")


@pytest.mark.parametrize("repeat", [daily("09:00"), Timetable(rule=daily("09:00"))], ids=["rule", "timetable"])
@pytest.mark.parametrize("zone", [None, ""])
def test_a_rule_and_a_timetable_without_a_zone_are_in_that_of_the_project(settings, repeat, zone):
    settings.TIME_ZONE = "Europe/Paris"
    row = duebox.schedule("bell.rung", repeat=repeat, zone=zone)
    assert (row.zone, row.intent["when"]["zone"], row.due_at) == (
        "Europe/Paris", "Europe/Paris", utc("2026-06-02T07:00Z"),
    )  # fmt: skip


def test_a_timetable_without_a_zone_leaves_a_schedule_in_the_zone_that_it_has():
    duebox.schedule("bell.rung", repeat=daily("09:00"), zone="Asia/Tokyo", key="it")
    duebox.reschedule("it", repeat=Timetable(rule=daily("10:00"), fold="both"))
    assert (the_row().zone, the_row().due_at) == ("Asia/Tokyo", utc("2026-06-02T01:00Z"))
    duebox.reschedule("it", repeat=Timetable(rule=daily("10:00")), zone="Europe/London")
    assert (the_row().zone, the_row().due_at) == ("Europe/London", utc("2026-06-02T09:00Z"))


def test_a_zone_beside_a_timetable_wins():
    table = Timetable(rule=daily("09:00"), zone="America/New_York")
    row = duebox.schedule("bell.rung", repeat=table, zone="Asia/Tokyo")
    assert (row.zone, row.due_at) == ("Asia/Tokyo", utc("2026-06-02T00:00Z"))


@pytest.mark.parametrize("repeat", [daily("09:00"), Timetable(rule=daily("09:00"), zone="Europe/London")])
@pytest.mark.parametrize("at", [local("2026-07-10T00:00"), utc("2026-07-09T23:00Z")])
def test_a_time_beside_a_rule_is_the_first_at_which_it_may_fire(repeat, at):
    row = duebox.schedule("bell.rung", at=at, repeat=repeat, zone="Europe/London")
    assert row.due_at == utc("2026-07-10T08:00Z")


def test_the_event_is_stored_as_it_will_be_emitted():
    account = Account.objects.create()
    row = duebox.schedule(
        "account.reviewed",
        {"a": [1, "ü"]},
        at=utc("2026-06-02T09:00Z"),
        about=account,
        organization=7,
        actor="3",
        version=2,
        correlation_id="request-1",
        metadata={"ip": "::1"},
    )
    assert (row.type, row.version, row.data, row.metadata) == ("account.reviewed", 2, {"a": [1, "ü"]}, {"ip": "::1"})
    assert (row.aggregate_type, row.aggregate_id, row.organization) == ("app.account", str(account.pk), "7")
    assert (row.actor, row.correlation_id, row.plan) == ({"type": "user", "id": "3"}, "request-1", "")


def test_a_schedule_without_a_key_gets_one_of_its_own():
    one, other = (duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z")) for _ in range(2))
    assert one.key != other.key
    assert one.key.startswith("bell.rung:")


# The transaction it lives in


def test_a_rolled_back_transaction_leaves_nothing():
    with undone():
        duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"))
    assert not Schedule.objects.exists()


def test_a_rolled_back_change_leaves_everything_as_it_was():
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    before = state()
    with undone():
        duebox.reschedule("it", at=utc("2026-06-03T09:00Z"))
        duebox.pause("it")
        duebox.cancel("it")
    assert state() == before
    assert schedule_log() == []


def test_a_rolled_back_savepoint_takes_only_its_own_along():
    with transaction.atomic():
        duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="kept")
        with undone():
            duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="gone")
    assert [row.key for row in Schedule.objects.all()] == ["kept"]


def test_a_schedule_of_a_nested_block_is_kept_with_the_outer_one():
    with transaction.atomic(), transaction.atomic():
        duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"))
    assert Schedule.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_in_a_transaction_a_schedule_is_visible_to_others_after_the_commit(elsewhere):
    count = "SELECT count(*) FROM duebox_schedule"
    with transaction.atomic():
        duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"))
        assert elsewhere.execute(count).fetchone() == (0,)
    assert elsewhere.execute(count).fetchone() == (1,)


@pytest.mark.django_db(transaction=True)
def test_outside_of_any_transaction_a_refused_change_leaves_everything_as_it_was():
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    before = state()
    with pytest.raises(InvalidSchedule):
        duebox.reschedule("it", at=utc("2026-05-03T09:00Z"))
    assert state() == before


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_is_named_by_its_alias():
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it", using="other")
    assert not Schedule.objects.exists()
    assert duebox.reschedule("it", at=utc("2026-06-03T09:00Z"), using="other") == 1
    assert duebox.pause("it", using="other") == 1
    assert duebox.resume("it", using="other") == 1
    assert duebox.cancel("it", using="other") == 1
    assert Schedule.objects.using("other").get().status == "cancelled"
    told = set(ScheduleLog.objects.using("other").values_list("what", flat=True))
    assert told >= {"moved", "paused", "resumed", "cancelled"}
    assert not ScheduleLog.objects.exists()


@pytest.mark.django_db(databases=["default", "other"])
def test_the_alias_of_the_settings_is_used_unless_one_is_given(settings):
    settings.DUEBOX = {**settings.DUEBOX, "DATABASE": "other"}
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    assert (Schedule.objects.count(), Schedule.objects.using("other").count()) == (0, 1)


@pytest.mark.django_db(databases=["default", "other"])
def test_what_a_handler_schedules_goes_to_the_database_that_is_being_served(on):
    on("bell.hung", name="it")(lambda event: duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z")) and None)
    duebox.emit("bell.hung", using="other")
    drain(using="other")
    assert not Schedule.objects.exists()
    assert Schedule.objects.using("other").get().type == "bell.rung"


def test_what_a_handler_schedules_continues_its_story(on, trip):
    on("bell.hung", name="it")(lambda event: duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z")) and None)
    first = duebox.emit("bell.hung", actor="3", correlation_id="request-1")
    drain()
    trip.run(timedelta(days=1))
    event = Event.objects.get(type="bell.rung")
    assert (event.correlation_id, event.actor) == ("request-1", {"type": "user", "id": "3"})
    assert first.correlation_id == "request-1"


def test_each_event_of_a_schedule_without_a_story_begins_one_of_its_own(trip):
    duebox.schedule("bell.rung", repeat=daily("09:00"), zone="UTC")
    trip.run(timedelta(days=2))
    events = list(Event.objects.all())
    assert [event.correlation_id for event in events] == [str(event.id) for event in events]


# The same key again


def test_the_same_call_again_changes_nothing():
    def call():
        table = Timetable(rule=daily("09:00"), zone="Europe/London", remaining=4)
        return duebox.schedule("bell.rung", {"a": 1}, repeat=table, about=("bell", 1), key="it", metadata={"b": 2})

    call()
    before = state()
    assert call().revision == 1
    assert state() == before
    assert schedule_log() == []


def test_the_same_call_again_after_some_firings_changes_nothing(trip):
    def call():
        return duebox.schedule("bell.rung", repeat=Timetable(rule=daily("09:00"), remaining=4, zone="UTC"), key="it")

    call()
    trip.run(timedelta(days=2))
    before = state()
    assert (call().remaining, state()) == (2, before)


def test_the_same_call_again_while_it_is_overdue_changes_nothing(trip):
    at = utc("2026-06-01T13:00Z")
    duebox.schedule("bell.rung", at=at, key="it")
    trip.by(timedelta(hours=2))
    before = state()
    duebox.schedule("bell.rung", at=at, key="it")
    assert state() == before


def test_the_same_call_again_while_it_rests_changes_nothing():
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    duebox.pause("it")
    before = state()
    assert duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it").status == "paused"
    assert state() == before


def test_the_same_key_with_another_time_replaces_it():
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    row = duebox.schedule("bell.rung", at=utc("2026-06-03T09:00Z"), key="it")
    assert (row.due_at, row.revision, Schedule.objects.count()) == (utc("2026-06-03T09:00Z"), 2, 1)
    assert ("moved", "2026-06-02T09:00Z", utc("2026-06-02T09:00Z"), utc("2026-06-03T09:00Z")) in schedule_log()


@pytest.mark.parametrize(
    "change",
    [{"data": {"a": 2}}, {"about": ("bell", 2)}, {"organization": 8}, {"metadata": {"b": 1}}, {"version": 2}],
)
def test_the_same_key_with_another_event_keeps_the_time(change):
    given = {"data": {"a": 1}, "about": ("bell", 1), "at": utc("2026-06-02T09:00Z"), "key": "it"}
    duebox.schedule("bell.rung", **given)
    before = state()
    duebox.schedule("bell.rung", **{**given, **change})
    after = state()
    assert after["revision"] == 2
    kept = ("due_at", "occurrence", "local_time", "marks", "intent", "zone", "status")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert after != {**before, "revision": 2}
    assert schedule_log() == []


@pytest.mark.parametrize("key", [7, UUID(int=7), object()])
def test_a_key_that_is_no_text_is_refused_as_such(key):
    with pytest.raises(InvalidSchedule, match=rf"key is of type {type(key).__name__}; pass a text"):
        duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key=key)


@pytest.mark.parametrize("paused", [False, True])
def test_the_key_of_a_live_schedule_is_refused_for_another_type(paused):
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    if paused:
        duebox.pause("it")
    before = state()
    told = (
        r"key='it' is that of a live schedule of 'bell.rung', not of 'gong.struck'; .*another key, or .*cancel\('it'\)"
    )
    with pytest.raises(InvalidSchedule, match=told):
        duebox.schedule("gong.struck", at=utc("2026-06-02T09:00Z"), key="it")
    assert state() == before


@pytest.mark.parametrize("end", [lambda trip: duebox.cancel("it"), lambda trip: trip.run(timedelta(days=1))])
def test_a_key_whose_schedule_has_ended_may_be_used_for_another_type(trip, end):
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    end(trip)
    duebox.schedule("gong.struck", at=utc("2026-06-03T09:00Z"), key="it")
    trip.run(timedelta(days=2))
    assert Event.objects.latest("id").type == "gong.struck"


# From now on


def test_a_countdown_fires_that_much_later(trip):
    row = duebox.schedule("bell.rung", after=timedelta(minutes=90), key="it")
    assert (row.due_at, row.zone) == (NOON + timedelta(minutes=90), "America/Chicago")
    trip.run(timedelta(days=1))
    assert fired() == ["2026-06-01T13:30Z"]


def test_a_countdown_under_the_same_key_starts_anew(trip):
    duebox.schedule("bell.rung", after=timedelta(minutes=10), key="it")
    trip.run(timedelta(minutes=9))
    duebox.schedule("bell.rung", after=timedelta(minutes=10), key="it")
    trip.run(timedelta(days=1))
    assert fired() == ["2026-06-01T12:19Z"]


def test_a_schedule_is_moved_to_so_much_later(trip):
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    assert duebox.reschedule("it", after=timedelta(minutes=5)) == 1
    assert the_row().due_at == NOON + timedelta(minutes=5)


def test_a_zone_may_be_a_zoneinfo():
    row = duebox.schedule("bell.rung", at=local("2026-06-02T09:00"), zone=ZoneInfo("Asia/Tokyo"), key="it")
    assert (row.zone, row.due_at) == ("Asia/Tokyo", utc("2026-06-02T00:00Z"))
    duebox.reschedule("it", zone=ZoneInfo("Europe/London"))
    assert (the_row().zone, the_row().due_at) == ("Europe/London", utc("2026-06-02T08:00Z"))
    assert Timetable(rule=daily("09:00"), zone=ZoneInfo("Asia/Tokyo")) == Timetable(
        rule=daily("09:00"), zone="Asia/Tokyo"
    )


def test_what_fired_stays_fired_whatever_comes_under_its_key(trip):
    duebox.schedule("bell.rung", at=utc("2026-06-01T13:00Z"), key="it")
    trip.run(timedelta(hours=1))
    row = duebox.schedule("bell.rung", at=utc("2026-06-02T13:00Z"), key="it")
    assert (row.status, row.fired, row.fired_at) == ("scheduled", "2026-06-01T13:00Z", utc("2026-06-01T13:00Z"))
    trip.run(timedelta(days=2))
    assert fired() == ["2026-06-01T13:00Z", "2026-06-02T13:00Z"]


def test_a_key_that_was_cancelled_can_be_used_again(trip):
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    duebox.cancel("it")
    assert duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it").status == "scheduled"
    trip.run(timedelta(days=1))
    assert fired() == ["2026-06-02T09:00Z"]


def test_a_number_of_firings_starts_anew_with_another_intention(trip):
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("09:00"), remaining=3, zone="UTC"), key="it")
    trip.run(timedelta(days=2))
    row = duebox.schedule("bell.rung", repeat=Timetable(rule=daily("10:00"), remaining=2, zone="UTC"), key="it")
    assert row.remaining == 2
    trip.run(timedelta(days=9))
    assert len(fired()) == 4


def test_the_same_call_again_follows_a_new_release_of_the_zone_database():
    def call():
        return duebox.schedule("bell.rung", at=local("2026-11-15T09:00"), zone="America/Vancouver", key="it")

    with zones.using(zones.from_folder(Path(__file__).parents[1] / "vectors" / "zones" / "2025b", release="2025b")):
        assert (call().due_at, call().tz_release) == (utc("2026-11-15T17:00Z"), "2025b")
    row = call()
    assert (row.due_at, row.tz_release) == (utc("2026-11-15T16:00Z"), zones.current().release)
    assert schedule_log() == [("moved", "2026-11-15T09:00", utc("2026-11-15T17:00Z"), utc("2026-11-15T16:00Z"))]


# What is refused


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, InvalidSchedule, r"needs a time; pass at=datetime\(...\), after=timedelta\(...\) or repeat="),
        ({"at": local("2026-06-01T06:59")}, InvalidSchedule, r"2026-06-01T06:59:00 America/Chicago has no occurrence"),
        ({"at": NOON}, InvalidSchedule, r"^2026-06-01T12:00:00Z has no occurrence after now \(2026-06-01T12:00:00Z\)"),
        ({"at": utc("2026-05-01T00:00Z")}, InvalidSchedule, r"give a later time, or emit\(\) the event"),
        ({"at": local("2026-06-01T12:30"), "zone": "Europe/London"}, InvalidSchedule, "has no occurrence"),
        ({"at": "2026-06-02T09:00"}, WrongKindOfTime, r"at='2026-06-02T09:00' is not a datetime; .*fromisoformat"),
        ({"at": date(2026, 6, 2)}, WrongKindOfTime, r"names a day and no time; pass at=datetime\(2026, 6, 2, 9\)"),
        ({"at": timedelta(hours=1)}, WrongKindOfTime, r"is a distance; pass it as after="),
        ({"at": NOON, "after": timedelta(hours=1)}, InvalidSchedule, "after= .* together with at="),
        ({"repeat": daily("09:00"), "after": timedelta(hours=1)}, InvalidSchedule, "after= .* together with repeat="),
        ({"after": 30}, WrongKindOfTime, r"after=30 is not a timedelta; pass after=timedelta\(seconds=30\)"),
        ({"after": NOON}, WrongKindOfTime, r"is not a timedelta; .* a moment is at="),
        ({"after": timedelta(0)}, InvalidSchedule, r"after=0:00:00 does not lie ahead; .* or emit\(\) the event"),
        ({"after": -timedelta(hours=1)}, InvalidSchedule, "does not lie ahead"),
        ({"after": timedelta(days=40_000)}, InvalidSchedule, "longer than a century"),
        (
            {"at": local("2026-06-02T09:00"), "zone": UTC},
            UnknownZone,
            "datetime.timezone.utc is not in the zone database",
        ),
        ({"at": local("2026-06-02T09:00"), "zone": "Europe/Londn"}, UnknownZone, "did you mean .*Europe/London"),
        ({"at": local("2026-06-02T09:00"), "zone": "UTC+2"}, UnknownZone, "not in the zone database"),
        ({"repeat": "daily"}, InvalidRule, r"not a rule; use one such as daily"),
        ({"repeat": daily("09:00"), "at": "soon"}, WrongKindOfTime, "at='soon' is not a datetime"),
        ({"repeat": daily("09:00"), "catch_up": "all"}, InvalidSchedule, r"catch_up='all' .*pass when.CatchUp"),
        ({"repeat": daily("09:00"), "late": "maybe"}, WhenError, "Late policy 'maybe'"),
        (
            {"repeat": Timetable(rule=daily("09:00"), end=utc("2026-06-01T00:00Z"))},
            InvalidSchedule,
            "This timetable has no occurrence after now",
        ),
        ({"repeat": rrule("FREQ=DAILY;COUNT=3", start=local("2026-05-01T09:00"))}, InvalidSchedule, "This timetable"),
        ({"repeat": reminder(local("2026-06-01T12:00"), "-P1D")}, InvalidSchedule, "This timetable"),
        ({"repeat": Timetable(rule=daily("09:00"), remaining=0)}, InvalidSchedule, "remaining=0 leaves nothing"),
        (
            {"repeat": Timetable(rule=once(local("2027-03-14T02:30")), zone="America/New_York", gap="reject")},
            NonexistentTime,
            "does not exist in America/New_York",
        ),
        ({"at": utc("2026-06-02T09:00Z"), "key": ""}, InvalidSchedule, "key='' must be 1 to 400 printable"),
        ({"at": utc("2026-06-02T09:00Z"), "key": "x" * 401}, InvalidSchedule, "must be 1 to 400 printable"),
        ({"at": utc("2026-06-02T09:00Z"), "key": "a\nb"}, InvalidSchedule, "printable"),
        ({"at": utc("2026-06-02T09:00Z"), "key": "a\x00b"}, InvalidSchedule, "printable"),
        ({"at": utc("2026-06-02T09:00Z"), "key": 42}, InvalidSchedule, "key is of type int; pass a text"),
        ({"at": utc("2026-06-02T09:00Z"), "type": "Bell"}, InvalidEvent, "'Bell' is not lower snake case"),
        ({"at": utc("2026-06-02T09:00Z"), "about": 42}, InvalidEvent, "or a pair like"),
        ({"at": utc("2026-06-02T09:00Z"), "about": Account()}, InvalidEvent, "save it first"),
        ({"at": utc("2026-06-02T09:00Z"), "data": {"who": Account()}}, InvalidPayload, r"^data\.who: is a tests"),
        ({"at": utc("2026-06-02T09:00Z"), "data": {"at": local("2026-06-02")}}, InvalidPayload, "naive datetime"),
        ({"at": utc("2026-06-02T09:00Z"), "metadata": {"a": {1}}}, InvalidPayload, r"^metadata\.a"),
        ({"at": utc("2026-06-02T09:00Z"), "metadata": {"schedule": 1}}, InvalidSchedule, "use another name"),
        ({"at": utc("2026-06-02T09:00Z"), "version": 0}, InvalidEvent, "version=0"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_the_door_with_the_repair(options, error, message):
    with pytest.raises(error, match=message):
        duebox.schedule(**{"type": "bell.rung", **options})
    assert not Schedule.objects.exists()  # and the transaction is still good


@pytest.mark.parametrize("make", [lambda: cron("0 0 31 4 *"), lambda: rrule("FREQ=SECONDLY", start=NOON)])
def test_a_rule_that_can_never_be_followed_is_refused_when_it_is_made(make):
    with pytest.raises(WhenError):
        make()


def test_a_payload_over_the_limit_is_refused_today_and_not_when_it_fires(settings):
    settings.DUEBOX = {**settings.DUEBOX, "PAYLOAD_LIMIT_BYTES": 20}
    with pytest.raises(InvalidPayload, match="over the limit of 20"):
        duebox.schedule("bell.rung", {"a": "x" * 20}, at=utc("2026-06-02T09:00Z"))


def test_an_ordered_subscriber_needs_an_aggregate(on):
    on("bell.rung", name="in.order", ordered=True)(lambda event: None)
    with pytest.raises(InvalidEvent, match=r"'in.order' takes 'bell.rung' in order .*about="):
        duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"))
    assert duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), about=("bell", 1)).status == "scheduled"


@pytest.mark.parametrize("status", ["scheduled", "paused"])
def test_a_time_in_the_past_is_refused_and_what_is_planned_stays(status):
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    if status == "paused":
        duebox.pause("it")
    before = state()
    with pytest.raises(InvalidSchedule, match="has no occurrence after now"):
        duebox.schedule("bell.rung", at=utc("2026-05-02T09:00Z"), key="it")
    assert state() == before


def test_the_time_that_fired_already_is_refused_under_its_key(trip):
    duebox.schedule("bell.rung", at=local("2026-06-02T09:00"), zone="Asia/Tokyo", key="it")
    trip.run(timedelta(days=1))
    # Nine o'clock of that day is still to come in Lisbon, but it has been.
    trip.to(utc("2026-06-02T01:00Z"))
    with pytest.raises(InvalidSchedule, match="2026-06-02T09:00:00 Europe/Lisbon fired already"):
        duebox.schedule("bell.rung", at=local("2026-06-02T09:00"), zone="Europe/Lisbon", key="it")
    assert fired() == ["2026-06-02T09:00"]


def declared_at_each_deploy(**changes):
    given = {"at": utc("2026-06-02T09:00Z"), "key": "launch", "on_past": "ignore"}
    return duebox.schedule("site.launched", **{**given, **changes})


def test_a_call_that_is_made_again_at_each_deploy_changes_nothing_once_it_has_fired(trip):
    declared_at_each_deploy()
    trip.run(timedelta(days=2))
    before = state("launch")
    row = declared_at_each_deploy()
    assert (row.status, row.fired) == ("completed", "2026-06-02T09:00Z")
    assert state("launch") == before
    assert fired("site.launched") == ["2026-06-02T09:00Z"]
    with pytest.raises(InvalidSchedule, match=r"fired already.*or pass on_past='ignore' where the call is made again"):
        declared_at_each_deploy(on_past="error")


def test_a_call_that_is_made_again_at_each_deploy_finds_a_new_database_after_its_time(trip):
    trip.by(timedelta(days=30))
    row = declared_at_each_deploy()
    assert (row.status, row.due_at, row.fired) == ("completed", None, "")
    before = state("launch")
    declared_at_each_deploy()
    assert state("launch") == before
    trip.run(timedelta(days=1))
    assert fired("site.launched") == []
    assert declared_at_each_deploy(at=trip.now + timedelta(days=1)).status == "scheduled"


def test_a_call_that_ignores_the_past_leaves_what_is_planned():
    declared_at_each_deploy()
    before = state("launch")
    declared_at_each_deploy(at=utc("2026-05-02T09:00Z"))
    assert state("launch") == before


def test_a_call_that_ignores_the_past_plans_what_is_to_come():
    assert declared_at_each_deploy().due_at == utc("2026-06-02T09:00Z")
    assert declared_at_each_deploy(at=utc("2026-06-03T09:00Z")).due_at == utc("2026-06-03T09:00Z")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": None}, r"is for a call that is made again under the same key; pass key="),
        ({"on_past": "skip"}, r"on_past='skip' must be 'error' or 'ignore'"),
        ({"at": None, "repeat": Timetable(rule=daily("09:00"), remaining=0)}, "remaining=0 leaves nothing"),
    ],
)
def test_what_makes_no_sense_about_the_past_is_refused(options, message):
    with pytest.raises(InvalidSchedule, match=message):
        declared_at_each_deploy(**options)


# Another time, rule or zone


@pytest.mark.parametrize("to", ["2026-06-01T18:00Z", "2026-06-05T09:00Z"])
def test_a_schedule_is_moved_to_an_earlier_or_a_later_time(to, trip):
    duebox.schedule("bell.rung", {"a": 1}, at=utc("2026-06-02T09:00Z"), key="it", about=("bell", 1))
    assert duebox.reschedule("it", at=utc(to)) == 1
    row = the_row()
    assert (row.due_at, row.revision, row.data, row.aggregate_id) == (utc(to), 2, {"a": 1}, "1")
    trip.run(timedelta(days=9))
    assert [event.occurred_at for event in Event.objects.all()] == [utc(to)]


def test_a_move_is_in_the_schedule_log():
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it", about=("bell", 1))
    duebox.reschedule("it", at=utc("2026-06-05T09:00Z"))
    line = ScheduleLog.objects.get(what="moved")
    assert (line.due_before, line.due_after) == (utc("2026-06-02T09:00Z"), utc("2026-06-05T09:00Z"))
    assert (line.at, line.note) == (NOON, "rescheduled")
    assert (line.aggregate_type, line.aggregate_id, line.occurrence) == ("bell", "1", "2026-06-02T09:00Z")


def test_a_move_that_was_asked_for_is_told_as_no_loss():
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    duebox.reschedule("it", at=utc("2026-06-05T09:00Z"))
    duebox.schedule("bell.rung", at=utc("2026-06-06T09:00Z"), key="it")
    assert [what for what, *_ in schedule_log()] == ["moved", "moved"]


def test_all_schedules_of_an_entity_are_moved_and_no_others():
    account = Account.objects.create()
    for key in "ab":
        duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key=key, about=account)
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="c", about=("account", account.pk + 1))
    assert duebox.reschedule(about=account, at=utc("2026-06-03T09:00Z")) == 2
    assert [row.due_at.day for row in Schedule.objects.order_by("key")] == [3, 3, 2]


def test_of_an_entity_without_schedules_nothing_is_moved():
    assert duebox.reschedule(about=("bell", 9), at=utc("2026-06-03T09:00Z")) == 0


def test_a_naive_time_is_read_in_the_zone_that_the_schedule_has():
    duebox.schedule("bell.rung", at=local("2026-06-02T09:00"), zone="Asia/Tokyo", key="it")
    duebox.reschedule("it", at=local("2026-06-03T09:00"))
    assert (the_row().zone, the_row().due_at) == ("Asia/Tokyo", utc("2026-06-03T00:00Z"))


def test_another_zone_alone_keeps_the_local_time():
    duebox.schedule("bell.rung", at=local("2026-06-02T09:00"), zone="Asia/Tokyo", key="it")
    duebox.reschedule("it", zone="America/New_York")
    row = the_row()
    assert (row.zone, row.due_at, row.occurrence) == ("America/New_York", utc("2026-06-02T13:00Z"), "2026-06-02T09:00")
    assert row.zone_rules == rules_of("America/New_York")[0]


def test_another_zone_does_not_move_an_instant():
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    duebox.reschedule("it", zone="Asia/Tokyo")
    assert (the_row().zone, the_row().due_at) == ("Asia/Tokyo", utc("2026-06-02T09:00Z"))
    assert schedule_log() == []


def test_a_move_of_zone_into_the_past_fires_at_once(trip):
    duebox.schedule("bell.rung", at=local("2026-06-01T18:00"), zone="Europe/London", key="it")
    duebox.reschedule("it", zone="Asia/Tokyo")  # where 18:00 was three hours ago
    assert the_row().due_at == NOON
    trip.run(timedelta(days=2))
    assert fired() == ["2026-06-01T18:00"]


def test_a_move_of_zone_into_the_past_fires_not_at_all_where_that_is_asked_for(trip):
    duebox.schedule("bell.rung", at=local("2026-06-01T18:00"), zone="Europe/London", key="it", late="skip")
    duebox.reschedule("it", zone="Asia/Tokyo")
    assert (the_row().status, the_row().due_at) == ("completed", None)
    trip.run(timedelta(days=2))
    assert fired() == []
    assert [what for what, *_ in schedule_log()] == ["missed"]


def test_a_one_shot_moved_to_an_earlier_local_time_in_another_zone_still_fires(trip):
    duebox.schedule("bell.rung", at=local("2026-06-02T23:00"), zone="Pacific/Kiritimati", key="it")
    trip.run(utc("2026-06-02T10:00Z"))
    assert fired() == ["2026-06-02T23:00"]
    duebox.schedule("bell.rung", at=local("2026-06-02T09:00"), zone="Pacific/Honolulu", key="it")
    trip.run(timedelta(days=2))
    assert fired() == ["2026-06-02T23:00", "2026-06-02T09:00"]


def test_a_move_to_the_west_fires_the_same_day_no_second_time(trip):
    duebox.schedule("bell.rung", repeat=daily("09:00"), zone="Asia/Tokyo", key="it")
    trip.run(utc("2026-06-02T00:00Z"))
    duebox.reschedule("it", zone="America/Los_Angeles")
    trip.run(utc("2026-06-04T00:00Z"))
    assert fired() == ["2026-06-02T09:00", "2026-06-03T09:00"]
    assert Event.objects.last().occurred_at == utc("2026-06-03T16:00Z")


def test_a_move_to_the_west_that_brings_a_day_forward_tells_of_no_loss(trip):
    duebox.schedule("bell.rung", repeat=daily("09:00"), zone="Asia/Tokyo", key="it")  # June 1 has passed there
    duebox.reschedule("it", zone="America/Los_Angeles")  # where it has not
    trip.run(timedelta(days=2))
    assert fired() == ["2026-06-01T09:00", "2026-06-02T09:00"]
    assert [what for what, *_ in schedule_log()] == ["moved"]


def test_an_edited_rule_never_fires_what_is_past(trip):
    duebox.schedule("bell.rung", repeat=daily("16:00"), zone="UTC", key="it")
    duebox.reschedule("it", repeat=daily("11:00"))
    assert the_row().due_at == utc("2026-06-02T11:00Z")
    trip.run(timedelta(hours=12))
    assert fired() == []
    assert ("moved", "2026-06-01T16:00", utc("2026-06-01T16:00Z"), utc("2026-06-02T11:00Z")) in schedule_log()


def test_an_edited_rule_never_fires_what_is_overdue_either(trip):
    duebox.schedule("bell.rung", repeat=daily("16:00"), zone="UTC", key="it")
    trip.to(utc("2026-06-03T17:00Z"))  # no worker ran
    duebox.reschedule("it", repeat=daily("18:00"))
    trip.run(timedelta(hours=2))
    assert fired() == ["2026-06-03T18:00"]
    assert [what for what, *_ in schedule_log()] == ["missed", "moved"]


def test_an_edit_of_policies_alone_fires_nothing_that_is_overdue(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
    trip.by(timedelta(minutes=65))  # no worker ran
    duebox.reschedule("it", repeat=Timetable(rule=daily("13:00"), zone="UTC", fold="both"))
    trip.run(timedelta(hours=12))
    assert fired() == []
    assert ("missed", "2026-06-01T13:00", utc("2026-06-01T13:00Z"), None) in schedule_log()


def test_a_rule_edited_after_the_firing_of_the_day_fires_that_day_again_only_at_a_later_time(trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
    trip.run(utc("2026-06-01T13:30Z"))
    duebox.reschedule("it", repeat=daily("15:00"))
    trip.run(utc("2026-06-02T00:00Z"))
    assert fired() == ["2026-06-01T13:00", "2026-06-01T15:00"]


def test_an_edited_rule_keeps_policies_bounds_and_the_number_that_is_left(trip):
    table = Timetable(
        rule=daily("13:00"),
        zone="Europe/London",
        gap="skip",
        fold="both",
        end=utc("2026-09-01T00:00Z"),
        remaining=3,
        calendar="weekdays",
        flex=timedelta(minutes=1),
    )
    duebox.schedule("bell.rung", repeat=table, key="it", catch_up=CatchUp(mode="all"), late="skip")
    trip.run(timedelta(days=1))
    duebox.reschedule("it", repeat=daily("14:00"))
    now = read_intent(the_row().intent)
    assert (now.table.gap, now.table.fold, now.table.calendar, now.table.flex) == (
        "skip", "both", "weekdays", timedelta(minutes=1),
    )  # fmt: skip
    assert (now.table.end, now.table.zone, now.late, now.catch_up.mode) == (table.end, "Europe/London", "skip", "all")
    assert the_row().remaining == 2
    trip.run(timedelta(days=30))
    assert len(fired()) == 3


def test_a_moved_one_shot_keeps_its_policies():
    table = Timetable(rule=once(local("2026-06-02T09:00")), zone="America/New_York", fold="second")
    duebox.schedule("bell.rung", repeat=table, key="it")
    duebox.reschedule("it", at=local("2026-11-01T01:30"))
    assert (the_row().due_at, the_row().marks) == (utc("2026-11-01T06:30Z"), "fold_second")


def test_of_one_that_repeats_a_time_is_the_first_at_which_it_may_fire_again(trip):
    duebox.schedule("bell.rung", repeat=daily("09:00"), zone="UTC", key="it")
    duebox.reschedule("it", at=local("2026-06-10T00:00"))
    trip.run(utc("2026-06-12T00:00Z"))
    assert fired() == ["2026-06-10T09:00", "2026-06-11T09:00"]


def test_a_zone_move_keeps_the_number_that_is_left(trip):
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("13:00"), zone="UTC", remaining=3), key="it")
    trip.run(timedelta(days=1))
    duebox.reschedule("it", zone="Europe/London")
    assert the_row().remaining == 2
    trip.run(timedelta(days=30))
    assert len(fired()) == 3


def test_a_whole_timetable_replaces_the_old_one():
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("09:00"), zone="Asia/Tokyo", fold="both"), key="it")
    table = Timetable(rule=weekly("wed", at="10:00"), zone="Europe/London", remaining=2)
    duebox.reschedule("it", repeat=table)
    assert read_intent(the_row().intent).table == table
    assert (the_row().zone, the_row().due_at) == ("Europe/London", utc("2026-06-03T09:00Z"))


def test_a_move_to_where_it_is_changes_nothing():
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    before = state()
    assert duebox.reschedule("it", at=utc("2026-06-02T09:00Z")) == 1
    assert state() == before
    assert schedule_log() == []


def test_what_repeats_by_an_interval_keeps_its_anchor():
    duebox.schedule("bell.rung", repeat=every(hours=6), key="it")
    duebox.reschedule("it", repeat=every(hours=4))
    assert the_row().due_at == utc("2026-06-01T16:00Z")


@pytest.mark.parametrize("kept", ["2026-06-02T09:00Z", None])
def test_a_key_without_a_live_schedule_cannot_be_moved(kept, trip):
    if kept:
        duebox.schedule("bell.rung", at=utc(kept), key="it")
        duebox.cancel("it")
    with pytest.raises(InvalidSchedule, match=r"No live schedule has the key 'it'; create it with duebox.schedule"):
        duebox.reschedule("it", at=utc("2026-06-05T09:00Z"))


def test_what_fired_cannot_be_moved_any_more(trip):
    duebox.schedule("bell.rung", at=utc("2026-06-01T13:00Z"), key="it", about=("bell", 1))
    trip.run(timedelta(hours=1))
    with pytest.raises(InvalidSchedule, match="No live schedule"):
        duebox.reschedule("it", at=utc("2026-06-05T09:00Z"))
    assert duebox.reschedule(about=("bell", 1), at=utc("2026-06-05T09:00Z")) == 0
    trip.run(timedelta(days=9))
    assert fired() == ["2026-06-01T13:00Z"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "it"}, r"changes nothing; pass at=, after=, repeat= or zone="),
        ({"at": NOON + timedelta(days=1)}, "Say which"),
        ({"key": "it", "about": ("bell", 1), "zone": "UTC"}, "and not both"),
        ({"key": "it", "at": utc("2026-05-01T00:00Z")}, "2026-05-01T00:00:00Z has no occurrence after now"),
        ({"key": "it", "repeat": Timetable(rule=daily("09:00"), end=utc("2026-06-01T00:00Z"))}, "This timetable"),
        ({"key": "it", "repeat": Timetable(rule=daily("09:00"), remaining=0)}, "remaining=0"),
        ({"key": "it", "zone": "Mars/Olympus"}, "not in the zone database"),
        ({"key": "it", "repeat": "daily"}, "not a rule"),
        ({"key": "it", "at": "tomorrow"}, "at='tomorrow' is not a datetime"),
        ({"key": "it", "at": timedelta(hours=1)}, "pass it as after="),
        ({"key": "it", "after": timedelta(0)}, "does not lie ahead"),
        ({"key": "it", "after": timedelta(1), "zone": "UTC", "at": NOON}, "together with at="),
    ],
)
def test_a_move_that_makes_no_sense_is_refused_and_what_is_planned_stays(options, message):
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it", about=("bell", 1))
    before = state()
    with pytest.raises(ValueError, match=message):
        duebox.reschedule(**options)
    assert state() == before


# Rest, wake, take back


def test_a_cancelled_schedule_does_not_fire(trip):
    duebox.schedule("bell.rung", repeat=daily("09:00"), zone="UTC", key="it")
    assert duebox.cancel("it") == 1
    trip.run(timedelta(days=9))
    assert fired() == []
    assert (the_row().status, the_row().due_at, str(the_row())) == ("cancelled", None, "it: cancelled")
    assert schedule_log() == [("cancelled", "2026-06-02T09:00", utc("2026-06-02T09:00Z"), None)]


def test_what_is_cancelled_or_over_or_unknown_cannot_be_cancelled(trip):
    duebox.schedule("bell.rung", at=utc("2026-06-01T13:00Z"), key="it")
    duebox.schedule("bell.rung", at=utc("2026-06-01T13:00Z"), key="other")
    duebox.cancel("other")
    trip.run(timedelta(hours=1))
    assert [duebox.cancel(key) for key in ("it", "other", "unknown")] == [0, 0, 0]
    assert the_row().status == "completed"


def test_all_schedules_of_an_entity_are_cancelled_paused_and_resumed():
    for key in "abc":
        duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key=key, about=("bell", 1))
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="d", about=("bell", 11))
    duebox.cancel("c")
    assert duebox.pause(about=("bell", 1)) == 2
    assert duebox.pause(about=("bell", 1)) == 0
    assert duebox.resume(about=("bell", 1)) == 2
    assert duebox.resume(about=("bell", 1)) == 0
    duebox.pause("a")
    assert duebox.cancel(about=("bell", 1)) == 2
    assert duebox.cancel(about=("bell", 1)) == 0
    assert [row.status for row in Schedule.objects.order_by("key")] == ["cancelled"] * 3 + ["scheduled"]


@pytest.mark.parametrize("verb", [duebox.cancel, duebox.pause, duebox.resume])
def test_one_has_to_say_which(verb):
    with pytest.raises(InvalidSchedule, match="Say which"):
        verb()
    with pytest.raises(InvalidSchedule, match="not both"):
        verb("it", about=("bell", 1))


def test_what_rests_does_not_fire_and_what_wakes_does_not_make_up_for_it(trip):
    duebox.schedule("bell.rung", repeat=daily("09:00"), zone="UTC", key="it", catch_up=CatchUp(mode="all"))
    trip.run(utc("2026-06-02T12:00Z"))
    assert duebox.pause("it") == 1
    trip.run(utc("2026-06-05T12:00Z"))
    assert duebox.resume("it") == 1
    trip.run(utc("2026-06-07T12:00Z"))
    assert fired() == ["2026-06-02T09:00", "2026-06-06T09:00", "2026-06-07T09:00"]


def test_pause_and_resume_are_in_the_schedule_log(trip):
    duebox.schedule("bell.rung", repeat=daily("09:00"), zone="UTC", key="it", about=("bell", 1))
    duebox.pause("it")
    trip.by(timedelta(days=3))
    duebox.resume("it")
    lines = ScheduleLog.objects.order_by("id")
    assert [(line.what, line.at) for line in lines] == [("paused", NOON), ("resumed", NOON + timedelta(days=3))]
    assert (lines[0].occurrence, lines[0].due_before) == ("2026-06-02T09:00", utc("2026-06-02T09:00Z"))
    assert {(line.aggregate_type, line.aggregate_id) for line in lines} == {("bell", "1")}


def test_what_wakes_before_its_time_fires_at_its_time(trip):
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    duebox.pause("it")
    trip.by(timedelta(hours=1))
    duebox.resume("it")
    trip.run(timedelta(days=1))
    assert [event.occurred_at for event in Event.objects.all()] == [utc("2026-06-02T09:00Z")]


def test_what_wakes_after_its_only_time_is_over(trip):
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    duebox.pause("it")
    trip.by(timedelta(days=2))
    assert duebox.resume("it") == 1
    trip.run(timedelta(days=2))
    assert (the_row().status, fired()) == ("completed", [])


def test_only_what_is_awake_goes_to_rest_and_only_what_rests_wakes():
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    assert duebox.resume("it") == 0
    assert [duebox.pause("it"), duebox.pause("it")] == [1, 0]
    assert [duebox.resume("it"), duebox.resume("it")] == [1, 0]
    assert duebox.pause("unknown") == 0


@pytest.mark.parametrize(
    "change",
    [
        {"at": local("2026-06-05T09:00")},
        {"repeat": daily("15:00")},
        {"zone": "Asia/Tokyo"},
        {"repeat": Timetable(rule=daily("15:00"), zone="UTC")},
    ],
)
def test_what_rests_goes_on_resting_when_it_is_moved(change, trip):
    duebox.schedule("bell.rung", repeat=daily("09:00"), zone="UTC", key="it")
    duebox.pause("it")
    assert duebox.reschedule("it", **change) == 1
    assert (the_row().status, the_row().due_at) == ("paused", None)
    trip.run(timedelta(days=9))
    assert fired() == []
    duebox.resume("it")
    trip.run(timedelta(days=1))
    assert len(fired()) == 1


def test_what_rests_goes_on_resting_when_it_is_scheduled_anew(trip):
    duebox.schedule("bell.rung", repeat=daily("09:00"), zone="UTC", key="it")
    duebox.pause("it")
    assert duebox.schedule("bell.rung", repeat=daily("10:00"), zone="UTC", key="it").status == "paused"
    trip.run(timedelta(days=3))
    assert fired() == []
    duebox.resume("it")
    assert the_row().occurrence == "2026-06-05T10:00"


def test_rest_keeps_the_number_that_is_left(trip):
    duebox.schedule("bell.rung", repeat=Timetable(rule=daily("13:00"), remaining=2, zone="UTC"), key="it")
    trip.run(timedelta(days=1))
    duebox.pause("it")
    duebox.resume("it")
    trip.run(timedelta(days=9))
    assert (len(fired()), the_row().status, the_row().remaining) == (2, "completed", 0)


def test_every_change_has_another_revision():
    duebox.schedule("bell.rung", repeat=daily("09:00"), key="it")
    seen = [the_row().revision]
    for change in (
        lambda: duebox.reschedule("it", repeat=daily("10:00")),
        lambda: duebox.pause("it"),
        lambda: duebox.resume("it"),
        lambda: duebox.cancel("it"),
    ):
        change()
        seen.append(the_row().revision)
    assert seen == [1, 2, 3, 4, 5]


# Two at once


@pytest.mark.django_db(transaction=True)
def test_a_change_waits_for_another_change_of_the_same_schedule(elsewhere):
    duebox.schedule("bell.rung", at=utc("2026-06-02T09:00Z"), key="it")
    elsewhere.execute("SELECT 1 FROM duebox_schedule WHERE key = 'it' FOR UPDATE")
    with connections["default"].cursor() as cursor:
        cursor.execute("SET lock_timeout = '100ms'")
    try:
        with pytest.raises(Exception, match="lock timeout"):
            duebox.cancel("it")
    finally:
        with connections["default"].cursor() as cursor:
            cursor.execute("RESET lock_timeout")
    elsewhere.rollback()
    assert duebox.cancel("it") == 1


def test_quotes_braces_and_letters_of_all_kinds_are_kept():
    key, text = 'a"b\\{c}, NULL', '✓ "quoted" \\ {braces}'
    duebox.schedule("bell.rung", {"ü": text}, repeat=cron("0 9 * * 1-5"), zone="UTC", key=key)
    assert the_row(key).data == {"ü": text}
    duebox.cancel(key)
    assert [what for what, *_ in schedule_log(key)] == ["cancelled"]
