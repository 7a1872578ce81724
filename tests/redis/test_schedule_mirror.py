"""The mirror of schedules is what the database says; losing it loses nothing."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.utils import timezone
from redis.exceptions import LockNotOwnedError

import duebox
from duebox import when
from duebox.exceptions import NotReady
from duebox.models import Schedule
from duebox.redis import schedule_mirror
from duebox.redis.connection import client, place
from duebox.redis.schedule_mirror import (
    Mirrored,
    Mirroring,
    rebuild,
    rebuild_if_due,
    refresh_changed,
    upcoming_from_redis,
)
from duebox.schedules.fire import fire_due
from tests.destinations.proxy import AWAY
from tests.support import eventually

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("default::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def _redis(server, configure):
    """Every test has a Redis, with nothing of ours in it afterwards."""


def soon(**span):
    return timezone.now() + timedelta(**span)


def in_the_database():
    rows = Schedule.objects.scheduled().order_by("due_at", "id")
    return [
        Mirrored(row.due_at, row.id, row.key, row.type, row.local_time, row.zone, row.aggregate_type, row.aggregate_id,
                 row.organization, row.plan)
        for row in rows
    ]  # fmt: skip


def caught_up():
    refresh_changed("default")
    return upcoming_from_redis() == in_the_database()


def some_schedules(count=5):
    for number in range(count):
        duebox.schedule("a.b", at=soon(hours=number + 1), key=f"one-{number}", about=("order", number))


def test_built_anew_it_is_what_the_database_says():
    some_schedules()
    duebox.cancel("one-3")
    duebox.pause("one-4")
    assert rebuild() == 3
    assert upcoming_from_redis() == in_the_database()
    assert [each.key for each in upcoming_from_redis()] == ["one-0", "one-1", "one-2"]


def test_the_instant_survives_to_the_microsecond():
    duebox.schedule("a.b", at=soon(hours=1).replace(microsecond=123_457), key="exact")
    rebuild()
    assert upcoming_from_redis()[0].at == Schedule.objects.get().due_at


def test_emptying_redis_loses_nothing(server):
    some_schedules()
    rebuild()
    server.delete(*server.scan_iter(place("default", "*")))
    assert upcoming_from_redis() == []
    assert len(duebox.upcoming(days=1)) == 5
    rebuild()
    assert upcoming_from_redis() == in_the_database()


def test_what_redis_has_too_much_goes():
    some_schedules(2)
    rebuild()
    Schedule.objects.filter(key="one-0").delete()
    assert rebuild() == 1
    assert upcoming_from_redis() == in_the_database()


def test_it_gives_the_next_ones_within_a_span():
    some_schedules()
    rebuild()
    assert [each.key for each in upcoming_from_redis(2)] == ["one-0", "one-1"]
    assert [each.key for each in upcoming_from_redis(within=timedelta(hours=3, minutes=30))] == [
        "one-0",
        "one-1",
        "one-2",
    ]


def test_what_is_overdue_is_still_to_come():
    some_schedules(1)
    Schedule.objects.update(due_at=soon(hours=-1))
    rebuild()
    assert len(upcoming_from_redis(within=timedelta(0))) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda: duebox.schedule("a.b", at=soon(hours=9), key="one-0"),
        lambda: duebox.reschedule("one-0", at=soon(hours=9)),
        lambda: duebox.cancel("one-0"),
        lambda: duebox.pause("one-0"),
        lambda: (duebox.pause("one-0"), rebuild(), duebox.resume("one-0")),
        lambda: duebox.schedule("c.d", at=soon(hours=9), key="another"),
    ],
    ids=["again", "rescheduled", "cancelled", "paused", "resumed", "new"],
)
def test_it_follows_a_change(change):
    some_schedules(2)
    rebuild()
    change()
    assert upcoming_from_redis() != in_the_database()  # not yet: whoever writes does not wait for it
    eventually(caught_up)


def test_it_follows_a_firing():
    duebox.schedule("a.b", repeat=when.every(hours=1), key="hourly")
    duebox.schedule("a.b", at=soon(hours=1), key="single")
    rebuild()
    assert fire_due("default", now=soon(hours=1, minutes=1)).due == 2
    eventually(caught_up)
    assert [each.key for each in upcoming_from_redis()] == ["hourly"]


def test_a_worker_keeps_it():
    some_schedules(1)
    mirroring = Mirroring("default")
    mirroring.start()
    try:
        eventually(lambda: len(upcoming_from_redis()) == 1)
        duebox.schedule("a.b", at=soon(minutes=1), key="sooner")
        eventually(lambda: [each.key for each in upcoming_from_redis()] == ["sooner", "one-0"])
    finally:
        mirroring.stop()
        mirroring._thread.join(10)


def test_several_at_once_do_not_get_in_each_others_way():
    some_schedules(20)
    counts = []

    def build():
        from django.db import connections

        counts.append(rebuild())
        connections["default"].close()

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert counts == [20] * 4
    assert upcoming_from_redis() == in_the_database()


@pytest.fixture
def slow(monkeypatch):
    """Chunks of one, and a lock that many of them outlast, as a hundred thousand schedules do a minute."""
    monkeypatch.setattr(schedule_mirror, "CHUNK", 1)
    monkeypatch.setattr(schedule_mirror, "LOCK_SECONDS", 1)

    def wait(execute, sql, params, many, context):
        if "duebox_schedule" in sql and sql.startswith("SELECT"):
            time.sleep(0.4)
        return execute(sql, params, many, context)

    return wait


def test_building_anew_may_take_longer_than_its_lock(slow):
    some_schedules(4)
    with connection.execute_wrapper(slow):
        assert rebuild() == 4
    assert upcoming_from_redis() == in_the_database()


def test_what_changes_while_it_is_built_is_seen_before_the_end(slow):
    some_schedules(3)
    with connection.execute_wrapper(slow):
        seen = []
        rebuild_if_due("default", between=lambda: seen.append(refresh_changed("default")))
    assert sum(seen) >= 3


def test_who_waited_too_long_with_what_was_read_writes_nothing(server, monkeypatch):
    some_schedules(1)
    rebuild()
    monkeypatch.setattr(schedule_mirror, "LOCK_SECONDS", 0.2)
    stale = upcoming_from_redis()

    def wait(execute, sql, params, many, context):
        answer = execute(sql, params, many, context)
        time.sleep(0.4)
        return answer

    Schedule.objects.update(due_at=soon(hours=9))
    with pytest.raises(LockNotOwnedError), connection.execute_wrapper(wait):
        rebuild()
    assert upcoming_from_redis() == stale


def test_it_is_built_once_for_all_workers(caplog):
    caplog.set_level("INFO", logger="duebox.redis")
    some_schedules(3)
    with keeping(4):
        eventually(lambda: "the mirror holds 3 schedules" in caplog.text)
        duebox.schedule("a.b", at=soon(minutes=1), key="sooner")
        eventually(lambda: upcoming_from_redis() == in_the_database())
    assert caplog.text.count("the mirror holds") == 1


def test_it_is_built_again_where_redis_lost_everything(server, caplog, monkeypatch):
    caplog.set_level("INFO", logger="duebox.redis")
    monkeypatch.setattr(schedule_mirror, "LOOK_SECONDS", 0.05)
    some_schedules(3)
    with keeping(2):
        eventually(lambda: "the mirror holds 3 schedules" in caplog.text)
        server.delete(*server.scan_iter(place("default", "*")))
        eventually(lambda: caplog.text.count("the mirror holds 3 schedules") == 2)
    assert upcoming_from_redis() == in_the_database()


def test_it_is_built_again_after_a_while(monkeypatch):
    some_schedules(1)
    assert rebuild_if_due("default", every=0.2) == 1
    assert rebuild_if_due("default", every=0.2) is None
    eventually(lambda: rebuild_if_due("default", every=0.2) == 1)


def test_who_ends_in_the_middle_leaves_it_to_another(monkeypatch):
    monkeypatch.setattr(schedule_mirror, "LOCK_SECONDS", 0.3)
    some_schedules(1)

    def end():
        raise OSError("cut off")

    with pytest.raises(OSError, match="cut off"):
        rebuild_if_due("default", between=end)
    eventually(lambda: rebuild_if_due("default") == 1)


def test_what_was_named_is_not_lost_to_a_database_that_was_away():
    some_schedules(1)
    rebuild()
    duebox.reschedule("one-0", at=soon(hours=9))
    eventually(lambda: client(5).scard(place("default", "changed")))

    def fail(execute, sql, params, many, context):
        raise OperationalError("away")

    taken = set()
    with pytest.raises(OperationalError), connection.execute_wrapper(fail):
        refresh_changed("default", taken)
    assert refresh_changed("default", taken) == 1
    assert taken == set()
    assert upcoming_from_redis() == in_the_database()


@contextmanager
def keeping(workers):
    kept = [Mirroring("default") for _ in range(workers)]
    for each in kept:
        each.start()
    try:
        yield
    finally:
        for each in kept:
            each.stop()
        for each in kept:
            each._thread.join(10)


def test_a_redis_that_is_away_is_said(wire):
    wire.set(AWAY)
    with pytest.raises(NotReady, match=r"Redis cannot be reached .*use duebox.upcoming\(\), which reads the database"):
        upcoming_from_redis()


def test_without_a_redis_the_repair_is_named(settings):
    settings.DUEBOX = {}
    with pytest.raises(NotReady, match=r"set DUEBOX\['REDIS_URL'\]"):
        upcoming_from_redis()


def test_a_worker_that_stops_while_it_looks_up_leaves_no_lock_behind(elsewhere, server):
    rebuild()
    server.set(place("default", "built"), "")
    keeper = Mirroring("default")
    duebox.schedule("a.b", at=soon(hours=1), key="late")
    elsewhere.execute("LOCK TABLE duebox_schedule IN ACCESS EXCLUSIVE MODE")
    keeper.start()
    eventually(lambda: server.exists(place("default", "lock")))
    unlocking = threading.Timer(0.3, elsewhere.rollback)
    unlocking.start()
    keeper.stop()
    unlocking.join()
    assert not server.exists(place("default", "lock")), "nobody could build the mirror for a minute"
