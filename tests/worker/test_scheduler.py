"""A worker and its clock: moments are met, also those that were planned, moved or taken back while it slept."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import transaction

import duebox
from duebox import clock
from duebox.models import Delivery, Event, Schedule, ScheduleLog
from duebox.models import Worker as WorkerRow
from duebox.schedules import fire
from duebox.testing import travel
from duebox.when import CatchUp, Timetable, daily, every
from duebox.worker import scheduler
from duebox.worker.lease import Clock
from duebox.worker.scheduler import PreparedSchedules
from duebox.worker.worker import Worker
from tests.app.models import Effect
from tests.support import a_lease, eventually, expire, stored_ahead, undone

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("configure")]

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MS = timedelta(milliseconds=1)


def now():
    return datetime.now(UTC)


def soon(milliseconds):
    return now() + milliseconds * MS


@dataclass
class Rung:
    tone: str


@pytest.fixture
def heard(on):
    """When each `bell.rung` was heard, by the key of its schedule, in seconds after it was due."""
    late = {}

    @on("bell.rung", name="ear", atomic=False)
    def handler(event):
        about = event.metadata["schedule"]
        assert about["key"] not in late, "heard twice"
        late[about["key"]] = time.time() - datetime.fromisoformat(about["due"]).timestamp()

    return late


def ring(key, at, **options):
    return duebox.schedule("bell.rung", at=at, key=key, **options)


def ring_in(key, milliseconds, **options):
    """Counted from the call, so that it is not past when it is stored, however long the machine took until then."""
    return duebox.schedule("bell.rung", after=milliseconds * MS, key=key, **options)


PROMPT_SECONDS = 20
"""A worker that sleeps and is not woken looks again after 30 seconds."""


# What is prepared


class Hands:
    """A clock that a test sets; worker and database read it."""

    def __init__(self):
        self.now = NOON

    def by(self, milliseconds):
        self.now += milliseconds * MS


@pytest.fixture
def hands():
    found = Hands()
    clock.replace(lambda: found.now, speed=1.0)
    yield found
    clock.replace(None)


@pytest.fixture
def ahead(hands):
    return PreparedSchedules("default", Clock())


def test_nothing_is_prepared_where_nothing_is_near(ahead, hands):
    ring("far", NOON + timedelta(hours=1))
    ahead.look()
    assert ahead.seconds() is None
    hands.by(3_600_000)
    assert ahead.fire(a_lease(), ["ear"], 10) == ([], False, False)
    assert not Event.objects.exists()


def test_what_was_prepared_fires_when_its_moment_has_come_and_under_the_lease(ahead, hands, heard):
    lease = a_lease()
    ring("it", NOON + 300 * MS, about=("bell", 1))
    ahead.look()
    hands.by(299)
    assert ahead.fire(lease, ["ear"], 10) == ([], False, False)
    hands.by(1)
    [claim], _, look_again = ahead.fire(lease, ["ear"], 10)
    assert not look_again
    assert (claim.lease, claim.subscriber, claim.attempt, claim.rescues) == (lease, "ear", 1, 0)
    assert (claim.fact.type, claim.fact.about, claim.fact.id) == ("bell.rung", ("bell", "1"), Event.objects.get().id)
    delivery = Delivery.objects.get()
    assert (delivery.id, delivery.lease) == (claim.id, lease)
    assert Schedule.objects.get().status == "completed"
    assert ahead.fire(lease, ["ear"], 10) == ([], False, False)


def test_it_is_known_how_long_until_the_first_that_was_prepared(ahead, hands):
    for milliseconds in (700, 300, 5000):
        ring(f"it:{milliseconds}", NOON + milliseconds * MS)
    ahead.look()
    assert ahead.seconds() == pytest.approx(0.3)
    hands.by(400)
    assert ahead.seconds() == 0.0


def test_what_others_are_to_run_is_left_to_them(ahead, hands, on):
    on("bell.rung", name="theirs")(lambda event: None)
    on("bell.rung", name="ordered", ordered=True)(lambda event: None)
    on("bell.rung", name="mine")(lambda event: None)
    lease = a_lease()
    ring("it", NOON + 50 * MS, about=("bell", 1))
    ahead.look()
    hands.by(50)
    claims, to_claim, look_again = ahead.fire(lease, ["mine", "ordered"], 10)
    assert ([claim.subscriber for claim in claims], to_claim, look_again) == (["mine"], True, False)
    assert dict(Delivery.objects.values_list("subscriber", "lease")) == {"theirs": None, "ordered": None, "mine": lease}


def test_a_worker_that_lost_its_lease_fires_and_runs_nothing(ahead, hands, heard):
    lease = a_lease()
    ring("it", NOON + 50 * MS)
    ahead.look()
    hands.by(50)
    expire(lease)
    assert ahead.fire(lease, ["ear"], 10) == ([], True, False)
    assert Delivery.objects.get().lease is None


@pytest.mark.parametrize(("room", "mine"), [(5, 5), (4, 0)])
def test_all_that_are_due_fire_and_without_room_for_them_any_worker_may_run_them(ahead, hands, heard, room, mine):
    lease = a_lease()
    for number in range(5):
        ring(f"it:{number}", NOON + (100 + number) * MS)
    ring("not yet", NOON + 500 * MS)
    ahead.look()
    hands.by(200)
    claims, to_claim, _ = ahead.fire(lease, ["ear"], room)
    assert (Event.objects.count(), len(claims), to_claim) == (5, mine, not mine)
    assert Delivery.objects.filter(lease=lease).count() == mine
    assert Delivery.objects.filter(lease=None).count() == 5 - mine


def test_what_was_prepared_long_ago_is_forgotten(ahead, hands):
    ring("it", NOON + 900 * MS)
    ahead.look()
    assert ahead.seconds_to_further_look() is not None, "it is prepared"
    eventually(lambda: ahead.seconds() is None)


@pytest.mark.parametrize(
    ("options", "late", "fires"),
    [
        ({}, 4.9, True),
        ({}, 5.1, False),
        ({"catch_up": CatchUp(mode="none", grace=timedelta(seconds=2))}, 0.9, True),
        ({"catch_up": CatchUp(mode="none", grace=timedelta(seconds=2))}, 1.1, False),
    ],
)
def test_what_was_prepared_fires_late_unless_its_catch_up_may_say_otherwise(ahead, hands, options, late, fires):
    ring("it", NOON + 100 * MS, **options)
    ahead.look()
    hands.by(100 + late * 1000)
    assert ahead.seconds() == (0.0 if fires else None)


def test_many_that_are_due_at_once_fire_as_they_were_prepared(hire, heard, hands, tune, monkeypatch):
    tune(prepare_slice=10, fire_prepared_at_most=10, prepared_first_seconds=60.0)
    with transaction.atomic():
        for number in range(160):
            ring(f"it:{number}", NOON + 900 * MS)
    worker = hire()
    eventually(lambda: len(worker.scheduler.prepared._ready) == 160)
    read = []
    original = scheduler.fire_due
    monkeypatch.setattr(scheduler, "fire_due", lambda using: (found := original(using), read.append(found.due))[0])
    hands.by(1_700)  # later than what is read from the table and decided anew, if nothing is prepared
    eventually(lambda: len(heard) == 160, 30)
    assert sum(read) == 0


LATER = NOON + timedelta(minutes=1)


@pytest.mark.parametrize(
    "change",
    [
        lambda: duebox.cancel("it"),
        lambda: duebox.pause("it"),
        lambda: duebox.reschedule("it", at=LATER),
        lambda: duebox.schedule("bell.rung", {"other": 1}, at=LATER, key="it"),
    ],
    ids=["cancelled", "paused", "moved", "replaced"],
)
def test_what_was_changed_after_it_was_prepared_does_not_fire(ahead, hands, heard, change):
    ring("it", NOON + 600 * MS)
    ahead.look()
    assert change()
    hands.by(600)
    assert ahead.fire(a_lease(), ["ear"], 10) == ([], False, True)
    assert (Event.objects.count(), Delivery.objects.count()) == (0, 0)


def test_what_another_worker_fired_after_it_was_prepared_does_not_fire_again(ahead, hands, heard):
    ring("it", NOON + 600 * MS)
    ahead.look()
    hands.by(600)
    assert fire.fire_due("default").events == 1
    assert ahead.fire(a_lease(), ["ear"], 10) == ([], False, True)
    assert (Event.objects.count(), Delivery.objects.get().lease) == (1, None)


def test_a_public_twin_of_one_event_does_not_hide_that_another_schedule_did_not_fire(ahead, hands, declare):
    declare("bell.rung", public={"tone"})(Rung)
    for key in ("it", "other"):
        ring(key, NOON + 600 * MS, data={"tone": "c"}, organization="acme")
    ahead.look()
    assert duebox.pause("other")
    hands.by(600)
    assert ahead.fire(a_lease(), [], 10) == ([], False, True)
    assert Event.objects.count() == 2


def test_an_event_changed_after_it_was_prepared_fires_as_it_is_now(ahead, hands, heard):
    at = NOON + 600 * MS
    ring("it", at, data={"a": 1})
    ahead.look()
    assert duebox.schedule("bell.rung", {"a": 2}, at=at, key="it")
    hands.by(600)
    assert ahead.fire(a_lease(), ["ear"], 10) == ([], False, True)
    fire.fire_due("default")
    assert [event.data for event in Event.objects.all()] == [{"a": 2}]


# A worker in a thread


def is_prepared(worker):
    """Whether the worker has prepared a schedule, and that not long ago."""
    return worker.scheduler.prepared.seconds() is not None


def test_moments_are_met(hire, heard, configure):
    configure(POLL_SECONDS=60)
    with transaction.atomic():
        for number in range(20):
            ring_in(f"it:{number}", 2000 + 37 * number)
    hire()
    eventually(lambda: len(heard) == 20)
    assert min(heard.values()) > -0.002
    assert statistics.median(heard.values()) < 5
    assert Event.objects.count() == 20


def test_what_was_overdue_when_the_worker_started_fires_at_once(hire, heard):
    with travel(now() - timedelta(days=3)):
        ring("it", now() - timedelta(days=2))
    hire()
    eventually(lambda: heard)


@pytest.mark.parametrize("ahead_ms", [400, 800, 1700])
def test_a_sleeping_worker_is_woken_by_a_schedule_that_is_committed_meanwhile(hire, heard, configure, ahead_ms):
    configure(POLL_SECONDS=60, LISTEN=True)
    hire()
    eventually(lambda: WorkerRow.objects.filter(listening=True).exists())
    time.sleep(1.5)  # it has stopped to look around by itself
    ring_in("it", ahead_ms)
    eventually(lambda: heard)
    assert heard["it"] < PROMPT_SECONDS


def test_a_sleeping_worker_is_woken_by_a_schedule_that_is_moved_closer(hire, heard, configure):
    configure(POLL_SECONDS=60, LISTEN=True)
    ring("it", soon(3_600_000))
    hire()
    eventually(lambda: WorkerRow.objects.filter(listening=True).exists())
    time.sleep(1.5)
    duebox.reschedule("it", after=300 * MS)
    eventually(lambda: heard)
    assert heard["it"] < PROMPT_SECONDS


def test_a_sleeping_worker_is_woken_by_a_schedule_that_is_resumed(hire, heard, configure, hands):
    configure(POLL_SECONDS=60, LISTEN=True)
    ring("it", NOON + 900 * MS)
    duebox.pause("it")
    worker = hire()
    eventually(lambda: WorkerRow.objects.filter(listening=True).exists())
    time.sleep(1.5)
    duebox.resume("it")
    eventually(lambda: is_prepared(worker), PROMPT_SECONDS)
    hands.by(900)
    eventually(lambda: heard)


def test_however_long_a_worker_sleeps_it_is_woken_by_what_comes_due_before_it_looks_again(hire, heard, configure):
    configure(POLL_SECONDS=60, LISTEN=True)
    hire()
    eventually(lambda: WorkerRow.objects.filter(listening=True).exists())
    time.sleep(1.5)
    try:
        clock.replace(clock.lapse(now(), 60.0, since=time.monotonic(), read=time.monotonic), speed=60.0)
        ring_in("it", 90_000)  # in a second and a half, as the hands of this clock run
        eventually(lambda: heard, PROMPT_SECONDS)
    finally:
        clock.replace(None)


def test_without_being_called_a_worker_finds_out_when_it_looks_again(hire, heard, configure):
    configure(POLL_SECONDS=0.3)
    hire()
    time.sleep(0.5)
    ring_in("it", 2000)
    eventually(lambda: heard)
    assert heard["it"] < PROMPT_SECONDS


def test_what_was_prepared_and_then_moved_or_taken_back_does_not_fire_at_the_old_time(hire, heard, configure, hands):
    configure(POLL_SECONDS=60, LISTEN=True)
    at = NOON + 900 * MS
    for key in ("kept", "cancelled", "paused", "later", "undone"):
        ring(key, at)
    worker = hire()
    eventually(lambda: is_prepared(worker))
    duebox.cancel("cancelled")
    duebox.pause("paused")
    duebox.reschedule("later", at=at + 700 * MS)
    with undone():
        duebox.cancel("undone")
    hands.by(900)
    eventually(lambda: len(heard) >= 2)
    assert set(heard) == {"kept", "undone"}
    hands.by(700)
    eventually(lambda: len(heard) == 3)
    assert set(heard) == {"kept", "undone", "later"}
    assert Event.objects.count() == 3


def test_a_change_that_is_not_committed_yet_when_the_moment_comes_wins_once_it_is(hire, heard, configure, hands):
    configure(POLL_SECONDS=0.2)
    at = NOON + 900 * MS
    ring("it", at)
    worker = hire()
    with transaction.atomic():
        eventually(lambda: is_prepared(worker))
        duebox.reschedule("it", at=at + 2500 * MS)
        hands.by(900)
        for _ in range(2):  # the first look may have begun before
            moment = time.monotonic()
            eventually(lambda moment=moment: worker.scheduler.fired_at > moment)
        assert heard == {}
    hands.by(2500)
    eventually(lambda: heard)
    assert Event.objects.count() == 1
    assert Event.objects.get().metadata["schedule"]["due"] == (at + 2500 * MS).isoformat()


def test_two_workers_make_one_event_of_each_moment(hire, on):
    on("bell.rung", name="ear")(lambda event: Effect.objects.create(event_id=event.id, subscriber="ear") and None)

    def store(start):
        for number in range(60):
            ring(f"it:{number}", start + (number // 3) * 20 * MS)

    stored_ahead(store)
    hire()
    hire()
    eventually(lambda: Effect.objects.count() == 60)
    time.sleep(0.3)
    assert (Event.objects.count(), Effect.objects.count()) == (60, 60)
    assert len(set(Effect.objects.values_list("event_id", flat=True))) == 60
    assert not Schedule.objects.exclude(status="completed").exists()


@pytest.mark.parametrize("limit", [100, 10_000], ids=["in part", "in whole"])
def test_a_crowd_larger_than_what_is_prepared_at_once_fires_in_full(hire, heard, hands, limit, tune):
    tune(prepared_at_most=limit)
    with transaction.atomic():
        for number in range(160):
            ring(f"it:{number}", NOON + 900 * MS)
    worker = hire()
    eventually(lambda: is_prepared(worker))
    hands.by(900)
    eventually(lambda: len(heard) == 160, 30)
    assert Event.objects.count() == 160


def test_a_moment_is_met_while_all_hands_are_busy(hire, on, configure):
    configure(THREADS=1)
    started, gate = threading.Event(), threading.Event()

    @on("nap.taken", name="sleeper", atomic=False)
    def handler(event):
        started.set()
        gate.wait(60)

    hire()
    duebox.emit("nap.taken")
    assert started.wait(5)
    try:
        ring_in("it", 600)
        eventually(lambda: Event.objects.filter(type="bell.rung").exists())
    finally:
        gate.set()


def test_what_a_plan_has_to_be_asked_about_fires_at_its_moment_too(hire, heard, configure):
    configure(POLL_SECONDS=60)
    fire.guard("the plan", lambda using, ids: set(ids) - {"gone"})
    try:
        for key in ("valid", "gone"):
            ring_in(key, 2000, about=("bell", key))
        Schedule.objects.update(plan="the plan")
        hire()
        eventually(lambda: heard and ScheduleLog.objects.exists())
    finally:
        fire.unguard("the plan")
    assert set(heard) == {"valid"}
    assert heard["valid"] < PROMPT_SECONDS
    assert ScheduleLog.objects.get().what == "skipped"


def test_a_schedule_that_cannot_be_read_does_not_stop_the_worker(hire, heard, caplog):
    for key in ("broken", "fine"):
        ring_in(key, 2000)
    Schedule.objects.filter(key="broken").update(intent={})
    hire()
    eventually(lambda: heard and Schedule.objects.get(key="broken").status == "failed")
    assert set(heard) == {"fine"}
    eventually(lambda: "schedule failed: key=broken" in caplog.text)


def test_a_handler_that_schedules_again_and_again_is_met_each_time(hire, on, configure):
    configure(POLL_SECONDS=60, LISTEN=True)
    moments = []

    @on("bell.rung", name="ear")
    def handler(event):
        moments.append(time.time())
        if len(moments) < 4:
            ring_in(f"it:{len(moments)}", 400)

    ring_in("it:0", 400)
    hire()
    eventually(lambda: len(moments) == 4, 4 * PROMPT_SECONDS)
    assert max(later - before for before, later in pairwise(moments)) < PROMPT_SECONDS


def test_a_worker_on_a_quicker_clock_lives_through_days_in_a_second(hire, on):
    heard = []
    on("bell.rung", name="ear", ordered=True)(lambda event: heard.append(event.metadata["schedule"]["occurrence"]))
    speed = 4 * 86_400.0
    clock.replace(clock.lapse(NOON, speed, since=time.monotonic(), read=time.monotonic), speed=speed)
    try:
        table = Timetable(rule=daily("09:00"), zone="Europe/London")
        duebox.schedule("bell.rung", repeat=table, key="it", about=("bell", 1), catch_up=CatchUp(mode="all"))
        hire()
        eventually(lambda: len(heard) >= 8)
        duebox.cancel("it")
    finally:
        clock.replace(None)
    assert heard == [f"2026-06-{day:02}T09:00" for day in range(2, 2 + len(heard))]


# `once`


def test_once_fires_what_is_due_delivers_it_and_ends(heard):
    with travel(now() - timedelta(hours=1)):
        for number in range(3):
            ring(f"it:{number}", now() - timedelta(minutes=number + 1))
        duebox.schedule("bell.rung", repeat=every(hours=1), key="again")
    ring("later", soon(3_600_000))
    worker = Worker(until_idle=True)
    worker.run()
    assert set(heard) == {"it:0", "it:1", "it:2", "again"}
    assert Schedule.objects.get(key="later").status == "scheduled"
    assert Schedule.objects.get(key="again").due_at > now()
    assert not WorkerRow.objects.exists()


def test_once_fires_what_is_due_although_there_is_nobody_to_serve():
    with travel(now() - timedelta(hours=1)):
        ring("it", now() - timedelta(minutes=1))
    Worker(until_idle=True, only=("nobody",)).run()
    assert Event.objects.count() == 1
