"""The wakeup may be rung from anywhere, a signal handler included."""

from __future__ import annotations

import subprocess
import sys
import threading

from duebox.store.row_changes import CHANGES
from duebox.store.schedules import DUE_NOW, SCHEDULES
from duebox.worker.wakeup import Wakeup

RUNG_BY_SIGNALS = """
import random, signal
from duebox.worker.wakeup import Wakeup

wakeup, rung = Wakeup(), 0

def ring(signum, frame):
    global rung
    rung += 1
    wakeup.wake()

signal.signal(signal.SIGALRM, ring)
heard = 0
while heard < 300:
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00005, 0.002))
    while not wakeup.wait(0.0001):
        pass
    heard += 1
print(rung >= heard)
"""


def test_it_is_heard_by_who_waits():
    wakeup = Wakeup()
    threading.Timer(0.05, wakeup.wake).start()
    assert wakeup.wait(30)


def test_it_is_heard_by_who_comes_later_and_once():
    wakeup = Wakeup()
    wakeup.wake()
    wakeup.wake()
    assert wakeup.wait(0)
    assert not wakeup.wait(-1.0)


def test_a_wait_that_is_over_before_it_begins_ends():
    """As on a busy machine, where another process runs in between."""
    wakeup = Wakeup()

    def wait_often():
        for _ in range(20_000):
            wakeup.wake()
            wakeup.wait(0)
            wakeup.wait(0.000001)

    thread = threading.Thread(target=wait_often, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_a_signal_handler_that_rings_it_never_locks_out_the_thread_that_waits():
    done = subprocess.run([sys.executable, "-c", RUNG_BY_SIGNALS], timeout=120, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_a_signal_is_taken_once_by_the_loop():
    wakeup = Wakeup()
    wakeup.claim(look=True)
    assert wakeup.wait(0)
    assert (wakeup.take_claim(), wakeup.take_look()) == (True, True)
    assert (wakeup.take_claim(), wakeup.take_look()) == (False, False)


def test_a_notification_about_changed_rows_wakes_the_thread_that_plans_them_and_no_other():
    wakeup = Wakeup()
    wakeup.notified(CHANGES, 1)
    assert wakeup.row_changes.is_set()
    assert not wakeup.sender.is_set()
    assert not wakeup.limited_handlers.is_set()
    assert not wakeup.wait(0)


def test_a_notification_about_schedules_makes_the_loop_look_and_not_claim():
    wakeup = Wakeup()
    wakeup.notified(SCHEDULES, 1)
    assert wakeup.wait(0)
    assert wakeup.take_look()
    assert not wakeup.take_claim()


def test_a_notification_about_something_due_makes_the_loop_claim_and_not_look():
    wakeup = Wakeup()
    wakeup.notified(DUE_NOW, 1)
    assert wakeup.wait(0)
    assert wakeup.take_claim()
    assert not wakeup.take_look()


def test_a_stream_that_moved_on_makes_the_next_claim_start_at_the_beginning():
    wakeup = Wakeup()
    wakeup.streams_moved_on()
    assert wakeup.take_claim()
    assert wakeup.take_rewind()
    assert not wakeup.take_rewind()
