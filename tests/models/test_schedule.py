"""The state of a schedule as a person would name it, told by what became of the event that it fired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

import duebox
from duebox import deliveries
from duebox.models import Delivery, Event, Schedule
from duebox.schedules.fire import fire_due
from duebox.testing import drain, travel
from duebox.when import CatchUp, daily
from tests.support import a_lease, analyze, claims_of

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
STATES = {"scheduled", "paused", "processing", "completed", "failed", "cancelled"}


@pytest.fixture(autouse=True)
def trip():
    with travel(NOON) as traveller:
        yield traveller


@pytest.fixture
def once():
    return duebox.schedule("bell.rung", at=NOON + HOUR, key="it")


@pytest.fixture
def each_day():
    return duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")


@pytest.fixture
def handler(on):
    """Does what it is told: nothing, or fail, now or for good."""
    told = {}

    def handle(event):
        if told.get("error"):
            raise told["error"]

    on("bell.rung", name="it", retry=duebox.Retry(limit=1))(handle)
    return told


def state(key="it"):
    row = Schedule.objects.with_state().get(key=key)
    assert row.state in STATES
    return row.state, row.last_state


def listed():
    """The schedules by the question that finds them."""
    questions = ("scheduled", "paused", "processing", "completed", "failed", "cancelled")
    found = {name: [row.key for row in getattr(Schedule.objects, name)().order_by("key")] for name in questions}
    return {name: keys for name, keys in found.items() if keys}


def test_what_is_to_come_is_scheduled(once, handler):
    assert state() == ("scheduled", "")
    assert listed() == {"scheduled": ["it"]}


def test_what_has_fired_is_processing_until_its_handler_has_run(once, handler, trip):
    trip.by(HOUR)
    fire_due("default")
    assert state() == ("processing", "processing")
    claims_of(a_lease(), "it")
    assert Delivery.objects.with_state().get().state == "running"
    assert state() == ("processing", "processing")
    assert listed() == {"processing": ["it"]}


def test_what_its_handler_has_handled_is_completed(once, handler, trip):
    trip.by(HOUR)
    drain()
    assert state() == ("completed", "completed")
    assert listed() == {"completed": ["it"]}


def test_what_is_tried_again_is_processing_and_what_died_has_failed(once, handler, trip):
    handler["error"] = RuntimeError("broken")
    trip.by(HOUR)
    drain(raises=False)
    assert Delivery.objects.with_state().get().state == "retrying"
    assert (state(), listed()) == (("processing", "processing"), {"processing": ["it"]})
    trip.run(HOUR, raises=False)
    assert Delivery.objects.get().status == "dead"
    assert (state(), listed()) == (("failed", "failed"), {"failed": ["it"]})
    Delivery.objects.update(status="parked")
    assert (state(), listed()) == (("failed", "failed"), {"failed": ["it"]})


def test_one_handler_that_failed_tells_more_than_another_that_is_still_to_run(once, handler, on, trip):
    on("bell.rung", name="other")(lambda event: duebox.Snooze(DAY))
    handler["error"] = duebox.Permanent("never")
    trip.by(HOUR)
    drain(raises=False)
    assert sorted(Delivery.objects.values_list("status", flat=True)) == ["dead", "pending"]
    assert state() == ("failed", "failed")
    Delivery.objects.filter(status="dead").delete()
    assert state() == ("processing", "processing")


def test_one_whose_dead_letter_was_discarded_is_completed(once, handler, trip):
    handler["error"] = duebox.Permanent("never")
    trip.by(HOUR)
    drain(raises=False)
    deliveries.discard(state="dead", reason="not needed any more")
    assert (state(), listed()) == (("completed", "completed"), {"completed": ["it"]})


def test_earlier_occurrences_that_died_are_found_by_their_events(each_day, handler, trip):
    handler["error"] = duebox.Permanent("never")
    trip.run(2 * DAY, raises=False)
    handler.clear()
    trip.run(DAY)
    assert state() == ("scheduled", "completed")
    died = Event.objects.dead().filter(metadata__schedule__key="it").order_by("id")
    assert [event.metadata["schedule"]["due"][:10] for event in died] == ["2026-06-01", "2026-06-02"]


@pytest.mark.parametrize("each", sorted(STATES))
def test_in_state_finds_what_with_state_says(each, handler, trip):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="failed")
    handler["error"] = duebox.Permanent("never")
    trip.by(HOUR)
    drain(raises=False)
    handler["error"] = ValueError("once more")
    duebox.schedule("bell.rung", at=NOON + 2 * HOUR, key="processing")
    duebox.schedule("gong.struck", at=NOON + 2 * HOUR, key="completed")
    trip.by(HOUR)
    drain(raises=False)
    for key in ("scheduled", "paused", "cancelled"):
        duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key=key)
    duebox.pause("paused")
    duebox.cancel("cancelled")
    assert [(row.key, row.state) for row in Schedule.objects.in_state(each)] == [(each, each)]
    assert Schedule.objects.in_state(*STATES).count() == len(STATES)


def test_what_nobody_handles_is_completed_when_it_has_fired(once, trip):
    trip.by(HOUR)
    drain()
    assert state() == ("completed", "completed")


def test_one_that_repeats_is_scheduled_and_says_what_became_of_the_last_one(each_day, handler, trip):
    assert state() == ("scheduled", "")
    trip.by(HOUR)
    fire_due("default")
    assert state() == ("scheduled", "processing")
    drain()
    assert state() == ("scheduled", "completed")
    handler["error"] = duebox.Permanent("never")
    trip.run(DAY, raises=False)
    assert state() == ("scheduled", "failed")
    assert listed() == {"scheduled": ["it"], "failed": ["it"]}
    handler.clear()
    trip.run(DAY)
    assert state() == ("scheduled", "completed")
    assert listed() == {"scheduled": ["it"]}


def test_the_last_of_several_that_are_caught_up_counts(handler, trip):
    duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it", catch_up=CatchUp(mode="all"))
    trip.by(3 * DAY)
    fire_due("default")
    assert Event.objects.count() == 3
    Delivery.objects.filter(event_id=Event.objects.latest("id").pk).delete()
    assert state() == ("scheduled", "completed")


@pytest.mark.parametrize(("verb", "word"), [(duebox.pause, "paused"), (duebox.cancel, "cancelled")])
def test_one_at_rest_says_so_and_what_became_of_the_last_one(each_day, handler, trip, verb, word):
    handler["error"] = duebox.Permanent("never")
    trip.by(HOUR)
    drain(raises=False)
    verb("it")
    assert state() == (word, "failed")
    assert listed() == {word: ["it"], "failed": ["it"]}


def test_one_whose_rule_cannot_be_followed_has_failed(each_day, handler, trip):
    Schedule.objects.update(intent={"when": {"rule": {"kind": "lunar"}, "zone": "UTC"}})
    trip.by(HOUR)
    drain()
    assert (state()[0], listed()) == ("failed", {"failed": ["it"]})


def test_one_that_was_missed_is_completed_and_has_no_last_one(handler, trip):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it", catch_up=CatchUp(mode="none"))
    trip.by(DAY)
    drain()
    assert state() == ("completed", "")
    assert listed() == {"completed": ["it"]}


def test_one_whose_event_was_deleted_is_completed(once, handler, trip):
    trip.by(HOUR)
    drain()
    Event.objects.all().delete()
    assert state() == ("completed", "completed")


def test_the_deliveries_of_another_event_are_of_no_concern(once, handler, trip):
    trip.by(HOUR)
    drain()
    duebox.emit("bell.rung", metadata={"schedule": {"key": "it"}})
    Delivery.objects.update(status="dead")
    assert state() == ("completed", "completed")
    assert listed() == {"completed": ["it"]}


def test_the_last_event_is_found_from_the_schedule(each_day, trip):
    assert each_day.last_event() is None
    trip.run(2 * DAY)
    each_day.refresh_from_db()
    assert each_day.last_event() == Event.objects.latest("id")
    Event.objects.all().delete()
    assert each_day.last_event() is None


def test_a_schedule_in_a_word_says_its_state_if_that_is_known(each_day, handler, trip):
    handler["error"] = duebox.Permanent("never")
    trip.by(HOUR)
    drain(raises=False)
    assert str(Schedule.objects.get()) == "it: bell.rung at 2026-06-02T13:00 UTC"
    assert str(Schedule.objects.with_state().get()) == "it: bell.rung at 2026-06-02T13:00 UTC, the last one is failed"
    Schedule.objects.update(status="completed", due_at=None)
    assert str(Schedule.objects.with_state().get()) == "it: failed"


def test_states_can_be_asked_for_among_others(handler, trip):
    for number in range(4):
        duebox.schedule("bell.rung", at=NOON + (number + 1) * HOUR, key=f"it:{number}", about=("bell", number % 2))
    trip.run(HOUR)
    trip.by(HOUR)
    fire_due("default")
    rows = Schedule.objects.with_state()
    assert {row.key: row.state for row in rows} == {
        "it:0": "completed", "it:1": "processing", "it:2": "scheduled", "it:3": "scheduled",
    }  # fmt: skip
    assert [row.key for row in rows.filter(state="processing")] == ["it:1"]
    assert [row.key for row in Schedule.objects.about("bell", 1).processing()] == ["it:1"]
    assert not Schedule.objects.about("bell", 0).processing().exists()


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_has_its_own_states(handler, trip):
    duebox.schedule("bell.rung", at=NOON + HOUR, key="it", using="other")
    handler["error"] = duebox.Permanent("never")
    trip.by(HOUR)
    drain(using="other", raises=False)
    assert [row.key for row in Schedule.objects.using("other").failed()] == ["it"]
    assert Schedule.objects.using("other").get().last_event() is not None
    assert not Schedule.objects.failed().exists()


@pytest.mark.large
def test_states_are_found_with_one_query_by_indexes_however_many_there_are(django_assert_num_queries):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO duebox_event (id, type, occurred_at, idempotency_key, data, metadata) "
            "SELECT gen_random_uuid(), 'bell.rung', now(), 'it:' || n || '/x', '{}', "
            "jsonb_build_object('schedule', jsonb_build_object('key', 'it:' || n)) FROM generate_series(1, 20000) AS n"
        )
        cursor.execute(
            "INSERT INTO duebox_schedule (key, status, fired, zone, intent, type, data, metadata) "
            "SELECT 'it:' || n, 'completed', 'x', 'UTC', '{}', 'bell.rung', '{}', '{}' "
            "FROM generate_series(1, 20000) AS n"
        )
        cursor.execute(
            "INSERT INTO duebox_delivery (event_id, subscriber, status) "
            "SELECT id, 'it', CASE WHEN idempotency_key LIKE '%000/x' THEN 'dead' ELSE 'pending' END "
            "FROM duebox_event WHERE idempotency_key LIKE '%0/x'"
        )
        analyze("duebox_event", "duebox_schedule", "duebox_delivery")
    with django_assert_num_queries(1):
        assert {row.state for row in Schedule.objects.with_state().order_by("key")[:50]} <= STATES
    page, failed = Schedule.objects.with_state().order_by("id")[:50], Schedule.objects.failed()
    for asked, indexes in (
        (page, {"duebox_event_once_per_key", "duebox_delivery_of_event"}),
        (failed, {"duebox_delivery_list_", "duebox_schedule_one_per_key", "duebox_schedule_list_failed"}),
    ):
        told = asked.explain()
        assert "Seq Scan" not in told
        assert [name for name in indexes if name not in told] == []
    with django_assert_num_queries(1):
        assert len(failed) == 20
