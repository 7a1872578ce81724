"""The bell may be rung from anywhere, a signal handler included."""

from __future__ import annotations

import subprocess
import sys
import threading

from duebox.worker.bell import Bell

RUNG_BY_SIGNALS = """
import random, signal
from duebox.worker.bell import Bell

bell, rung = Bell(), 0

def ring(signum, frame):
    global rung
    rung += 1
    bell.ring()

signal.signal(signal.SIGALRM, ring)
heard = 0
while heard < 300:
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00005, 0.002))
    while not bell.wait(0.0001):
        pass
    heard += 1
print(rung >= heard)
"""


def test_it_is_heard_by_who_waits():
    bell = Bell()
    threading.Timer(0.05, bell.ring).start()
    assert bell.wait(30)


def test_it_is_heard_by_who_comes_later_and_once():
    bell = Bell()
    bell.ring()
    bell.ring()
    assert bell.wait(0)
    assert not bell.wait(-1.0)


def test_a_signal_handler_that_rings_it_never_locks_out_the_thread_that_waits():
    done = subprocess.run([sys.executable, "-c", RUNG_BY_SIGNALS], timeout=120, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
