"""A worker that cannot LISTEN is woken through the real Redis."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connections, transaction

import duebox
from duebox.redis import wakeup as bell_module
from duebox.redis.connection import place
from duebox.redis.wakeup import RedisListener, RedisWakeup, tier_of
from tests.destinations.proxy import AWAY, HANG, PASS
from tests.support import eventually, undone

pytestmark = [
    pytest.mark.django_db(transaction=True),
    # A socket that the proxy cut is closed by the driver when it is collected.
    pytest.mark.filterwarnings("default::ResourceWarning"),
]


@contextmanager
def listening(wake):
    listener = RedisListener(wake, "default")
    listener.start()
    try:
        yield listener
    finally:
        listener.stop()
        listener._thread.join(10)


@pytest.fixture
def woken(configure):
    """A listener, and how often it woke."""
    times = []
    with listening(lambda: times.append(time.monotonic())) as listener:
        eventually(lambda: listener.connected and times)
        times.clear()
        yield times


def test_an_emission_wakes_after_the_commit_and_not_before(woken):
    with transaction.atomic():
        duebox.emit("a.b")
        assert not wakes_within(woken, 0.1)
    eventually(lambda: woken, seconds=5)


def test_what_is_rolled_back_wakes_nobody(woken):
    with undone():
        duebox.emit("a.b")
    assert not wakes_within(woken, 0.2)


def test_an_event_wakes_although_an_earlier_one_was_rolled_back(woken):
    with transaction.atomic():
        with undone():
            duebox.emit("a.b")
        duebox.emit("a.b")
    eventually(lambda: woken, seconds=5)


def test_a_schedule_wakes_too(woken):
    duebox.schedule("a.b", repeat=duebox.when.daily("09:00"), key="breakfast")
    eventually(lambda: woken, seconds=5)


def test_many_events_are_few_messages(woken):
    started = time.monotonic()
    for _ in range(200):
        duebox.emit("a.b")
    took = time.monotonic() - started
    eventually(lambda: woken, seconds=5)
    assert len(woken) <= 2 + took / bell_module.PAUSE_SECONDS


def test_a_transaction_rings_once_however_many_events_it_has(configure):
    with transaction.atomic():
        for _ in range(10):
            duebox.emit("a.b")
        assert len(connections["default"].run_on_commit) == 1


def test_a_worker_that_cannot_listen_is_woken_at_once(configure, hire, on):
    heard = []
    on("a.b", name="it", atomic=False)(lambda event: heard.append(time.monotonic()))
    configure(POLL_SECONDS=60)
    worker = hire()
    tier = tier_of(worker.wakeup.notified, worker.using)
    tier.start()
    try:
        eventually(lambda: tier.listener.connected)
        for number in range(3):
            emitted_at = time.monotonic()
            duebox.emit("a.b")
            eventually(lambda number=number: len(heard) > number)
            assert heard[-1] - emitted_at < 5
    finally:
        tier.stop()
        tier.listener._thread.join(10)
        tier.mirroring._thread.join(10)


@pytest.mark.parametrize("trouble", [AWAY, HANG])
def test_a_redis_that_is_in_trouble_is_not_felt_by_who_emits(configure, wire, trouble):
    wire.set(trouble)
    slowest = 0.0
    for _ in range(20):
        started = time.monotonic()
        duebox.emit("a.b")
        slowest = max(slowest, time.monotonic() - started)
    assert slowest < 0.5  # the timeout of Redis is twice that


def test_a_redis_in_trouble_is_told_once(configure, wire, caplog):
    caplog.set_level("INFO", logger="duebox.redis")
    wire.set(AWAY)
    wakeups = RedisWakeup()
    wakeups.wake("default")
    eventually(lambda: "Redis cannot be reached; workers are woken by polling only" in caplog.text)
    wakeups.wake("default")
    wire.set(PASS)
    eventually(lambda: "Redis can be reached again" in caplog.text)
    assert caplog.text.count("Redis cannot be reached") == 1


def test_what_was_rung_while_redis_was_away_is_rung_later(woken, wire):
    wire.set(AWAY)
    wakeups = RedisWakeup()
    wakeups.wake("default", frozenset({("key", "breakfast")}))
    eventually(lambda: wakeups._away)
    wire.set(PASS)
    eventually(lambda: woken)


def test_a_listener_whose_connection_broke_comes_back_and_looks(woken, wire):
    wire.set(AWAY)
    wire.set(PASS)
    eventually(lambda: woken)  # nobody has rung: it connected again
    woken.clear()
    duebox.emit("a.b")
    eventually(lambda: woken)


def test_a_listener_notices_that_redis_fell_silent(configure, wire):
    with listening(lambda: None) as listener:
        eventually(lambda: listener.connected)
        wire.set(HANG)
        eventually(lambda: not listener.connected)


def test_databases_have_bells_of_their_own(configure):
    assert place("default", "wake") != place("other", "wake")


def test_without_a_redis_nothing_is_connected(settings):
    settings.DUEBOX = {"UNDECLARED": "allow"}
    assert tier_of(lambda: None, "default") is None
    with transaction.atomic():
        duebox.emit("a.b")
        duebox.schedule("a.b", after=timedelta(hours=1))
        assert connections["default"].run_on_commit == []


def test_a_process_that_emits_and_ends_has_rung(woken, wire):
    run_elsewhere("import duebox; duebox.emit('a.b')", wire)
    eventually(lambda: woken)


def test_a_fork_rings_although_the_thread_of_its_parent_is_gone(woken, wire):
    run_elsewhere(FORK, wire)
    eventually(lambda: woken)


def test_whatever_its_library_raises_the_listener_goes_on(configure, monkeypatch, caplog):
    real, raised = RedisListener._listen, []

    def listen(self):
        if not raised:
            raised.append(1)
            raise AttributeError("'NoneType' object has no attribute 'readline'")
        real(self)

    monkeypatch.setattr(RedisListener, "_listen", listen)
    with listening(lambda: None) as listener:
        eventually(lambda: listener.connected)
    assert "cannot listen to Redis; polling" in caplog.text


FORK = """
import os
from duebox.redis.wakeup import wakeups
wakeups.wake("other")
assert wakeups._idle.wait(10)
child = os.fork()
if not child:
    wakeups.wake("default")
    os._exit(0 if wakeups._idle.wait(10) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def run_elsewhere(code, wire):
    """In a process of its own, on this test's database and Redis."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DUEBOX_TEST_NAME": connections["default"].settings_dict["NAME"],
        "DUEBOX_TEST_SETTINGS": f'{{"REDIS_URL": "redis://127.0.0.1:{wire.port}/0"}}',
    }
    words = [sys.executable, "-c", f"import django; django.setup()\n{code}"]
    subprocess.run(words, env=environment, check=True, timeout=60)


def wakes_within(woken, seconds):
    """Nothing can be awaited that must not come; so a moment."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not woken:
        time.sleep(0.01)
    return bool(woken)
