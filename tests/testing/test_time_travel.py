"""Time travel: everything happens at its instant, and the clock is put back afterwards."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

import duebox
from duebox import clock
from duebox.models import Attempt, Delivery, Event, Schedule
from duebox.testing import drain, travel
from duebox.when import WrongKindOfTime, daily, every, local_time

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def utc(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def happened():
    return list(Event.objects.order_by("id").values_list("occurred_at", flat=True))


def is_real():
    return clock.override() is None and abs(timezone.now() - datetime.now(UTC)) < timedelta(seconds=5)


def test_inside_it_is_that_moment_and_afterwards_it_is_now():
    real_now = timezone.now
    with travel(NOON) as trip:
        assert (trip.now, timezone.now(), clock.now(), clock.override()) == (NOON, NOON, NOON, NOON)
        assert duebox.emit("bell.rung").occurred_at == NOON
    assert timezone.now is real_now
    assert is_real()


def test_the_clock_stands_still_until_it_is_moved():
    with travel(NOON):
        time.sleep(0.01)
        assert timezone.now() == NOON
        assert clock.real_seconds(1) == float("inf")


def test_the_clock_is_put_back_also_after_an_error():
    with pytest.raises(RuntimeError), travel(NOON):
        raise RuntimeError
    assert is_real()
    assert clock.real_seconds(1) == 1


def test_one_travels_to_a_moment_or_by_a_distance_forth_and_back():
    with travel(NOON) as trip:
        trip.to(datetime.fromisoformat("2026-07-01T09:00+09:00"))
        assert timezone.now() == utc("2026-07-01T00:00Z")
        trip.by(DAY)
        assert timezone.now() == utc("2026-07-02T00:00Z")
        trip.by(-2 * DAY)
        assert timezone.now() == utc("2026-06-30T00:00Z")


def test_a_journey_within_a_journey_leads_back_to_the_first():
    with travel(NOON) as outer:
        with travel(NOON + DAY) as inner:
            inner.by(HOUR)
            assert timezone.now() == NOON + DAY + HOUR
        assert timezone.now() == NOON
        outer.by(HOUR)
        assert (timezone.now(), clock.override()) == (NOON + HOUR, NOON + HOUR)
    assert is_real()


@pytest.mark.parametrize("moment", [datetime(2026, 6, 1), "2026-06-01", None])
def test_a_moment_has_to_be_an_instant(moment):
    with pytest.raises(WrongKindOfTime, match="names no instant"), travel(moment):
        pass
    with travel(NOON) as trip:
        with pytest.raises(WrongKindOfTime):
            trip.to(moment)
        with pytest.raises(WrongKindOfTime):
            trip.run(moment)
    assert is_real()


def test_a_jump_makes_nothing_happen_until_somebody_looks():
    with travel(NOON) as trip:
        duebox.schedule("bell.rung", at=NOON + HOUR)
        trip.by(2 * HOUR)
        assert happened() == []
        drain()
        assert happened() == [NOON + 2 * HOUR]


def test_living_through_the_time_everything_happens_at_its_instant_and_in_order(on):
    heard = []
    on("bell.rung", name="it")(lambda event: heard.append((event.data["n"], timezone.now(), event.occurred_at)))
    with travel(NOON) as trip:
        moments = [NOON + timedelta(seconds=seconds) for seconds in (3600, 1, 86_399.999999, 7200.5, 2)]
        for number, at in enumerate(moments):
            duebox.schedule("bell.rung", {"n": number}, at=at)
        drained = trip.run(DAY)
        assert heard == [(number, moments[number], moments[number]) for number in (1, 4, 0, 3, 2)]
        assert (drained.delivered, trip.now) == (5, NOON + DAY)


@pytest.mark.large
def test_instants_are_met_to_the_microsecond():
    dice = random.Random(7)
    with travel(NOON) as trip:
        moments = sorted(NOON + timedelta(microseconds=dice.randrange(1, 4 * 10**13)) for _ in range(150))
        for number, at in enumerate(moments):
            duebox.schedule("bell.rung", at=at, key=f"it:{number}")
        trip.run(500 * DAY)
        assert happened() == moments


def test_the_moment_one_lives_up_to_is_included_and_those_after_it_are_not():
    with travel(NOON) as trip:
        duebox.schedule("bell.rung", at=NOON + HOUR)
        duebox.schedule("bell.rung", at=NOON + HOUR + timedelta.resolution)
        trip.run(HOUR)
        assert happened() == [NOON + HOUR]
        assert trip.now == NOON + HOUR


def test_one_may_live_up_to_a_moment_or_for_a_while():
    with travel(NOON) as trip:
        duebox.schedule("bell.rung", repeat=every(hours=1))
        trip.run(NOON + 2 * HOUR)
        trip.run(2 * HOUR)
        assert happened() == [NOON + number * HOUR for number in range(1, 5)]


def test_what_is_overdue_happens_first_and_now():
    with travel(NOON) as trip:
        duebox.schedule("bell.rung", at=NOON + HOUR)
        trip.by(3 * HOUR)
        trip.run(timedelta(0))
        assert happened() == [NOON + 3 * HOUR]


def test_living_up_to_the_past_only_does_what_is_due():
    with travel(NOON) as trip:
        duebox.schedule("bell.rung", at=NOON + HOUR)
        trip.run(NOON - DAY)
        assert (happened(), trip.now) == ([], NOON)


def test_without_anything_to_come_time_just_passes():
    with travel(NOON) as trip:
        assert trip.run(365 * DAY).delivered == 0
        assert timezone.now() == NOON + 365 * DAY


def test_what_handlers_plan_and_emit_on_the_way_happens_too(on):
    @on("bell.rung", name="it")
    def handler(event):
        duebox.emit("bell.heard")
        if event.data["left"]:
            duebox.schedule("bell.rung", {"left": event.data["left"] - 1}, at=timezone.now() + HOUR)

    with travel(NOON) as trip:
        duebox.schedule("bell.rung", {"left": 3}, at=NOON + HOUR)
        trip.run(DAY)
    assert happened() == [NOON + number * HOUR for number in (1, 1, 2, 2, 3, 3, 4, 4)]


def test_a_snoozed_delivery_comes_back_at_its_time(on):
    moments = []

    @on("bell.rung", name="it")
    def handler(event):
        moments.append(timezone.now())
        return duebox.Snooze(timedelta(minutes=90)) if len(moments) < 3 else None

    with travel(NOON) as trip:
        duebox.schedule("bell.rung", at=NOON + HOUR)
        trip.run(DAY)
    assert moments == [NOON + HOUR, NOON + 2.5 * HOUR, NOON + 4 * HOUR]
    assert Attempt.objects.filter(outcome="delivered").count() == 1


def test_the_first_error_of_a_handler_is_raised_at_its_instant(on):
    @on("bell.rung", name="it")
    def handler(event):
        raise LookupError("no bell")

    with travel(NOON) as trip:
        duebox.schedule("bell.rung", at=NOON + HOUR)
        duebox.schedule("bell.rung", at=NOON + DAY)
        with pytest.raises(LookupError, match="no bell"):
            trip.run(2 * DAY)
        assert trip.now == NOON + HOUR
        assert happened() == [NOON + HOUR]
    assert is_real()


def test_by_option_errors_are_only_reported_and_tried_again_in_time(on):
    tries = []

    @on("bell.rung", name="it")
    def handler(event):
        tries.append(timezone.now())
        if len(tries) < 3:
            raise LookupError("no bell")

    with travel(NOON) as trip:
        duebox.schedule("bell.rung", at=NOON + HOUR)
        drained = trip.run(DAY, raises=False)
    assert (drained.retried, drained.delivered, len(drained.errors)) == (2, 1, 2)
    assert tries[0] == NOON + HOUR
    assert tries[0] < tries[1] < tries[2]
    assert not Delivery.objects.exists()


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_lives_through_its_own_time():
    with travel(NOON) as trip:
        duebox.schedule("bell.rung", at=NOON + HOUR, using="other")
        trip.run(DAY)
        assert not Event.objects.using("other").exists()
        trip.to(NOON)
        trip.run(DAY, using="other")
    assert Event.objects.using("other").get().occurred_at == NOON + HOUR


def test_rows_are_written_at_the_moment_one_is_at():
    with travel(NOON) as trip:
        duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="it")
        trip.run(DAY)
        row = Schedule.objects.get()
    assert (row.created_at, row.updated_at, row.fired_at) == (NOON, NOON + HOUR, NOON + HOUR)


@pytest.mark.large
def test_a_year_of_mornings_with_both_changes_of_clocks_passes_in_seconds(on):
    mornings = []
    on("bell.rung", name="it")(lambda event: mornings.append(timezone.now()))
    begun = time.monotonic()
    with travel(utc("2026-01-01T00:00Z")) as trip:
        duebox.schedule("bell.rung", repeat=daily("09:00"), zone="America/New_York")
        trip.run(365 * DAY)
    took = time.monotonic() - begun
    assert len(mornings) == 365
    assert {local_time(at, "America/New_York").strftime("%H:%M") for at in mornings} == {"09:00"}
    assert {at.hour for at in mornings} == {13, 14}
    assert took < 300
