"""Order per aggregate: what it costs on many keys, and whether two keys that are hot hold up the others."""

from __future__ import annotations

import subprocess
import sys
import time

import duebox
from bench import drain, stage
from duebox.models import Attempt, Delivery

HOT = 100_000
OTHERS = 2_000


def rates(count: int) -> tuple[float, float]:
    """Events per second on many keys: in order, and in no order."""
    return drain.drain("bench.ordered", count), drain.drain("bench.plain", count)


def others(hot: int) -> float:
    """Seconds until the events of 200 ordinary keys are handled that were stored behind those of two hot ones."""
    stage.empty()
    for _ in range(0, hot, 1000):
        _emit(1000, lambda number: number % 2)
    _emit(OTHERS, lambda number: 10 + number % 200)
    stage.settle_down()
    worker = subprocess.Popen([sys.executable, "-m", "bench.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin
    assert worker.stdout
    assert worker.stdout.readline() == b"ready\n"
    started = time.perf_counter()
    worker.stdin.write(b"go\n")
    worker.stdin.flush()
    while Delivery.objects.exclude(stream__in=["account:0", "account:1"]).exists():
        time.sleep(0.02)
    seconds = time.perf_counter() - started
    worker.terminate()
    worker.communicate()
    assert Attempt.objects.filter(outcome="delivered").count() >= OTHERS
    return seconds


def _emit(count: int, key) -> None:
    duebox.emit_many(
        duebox.NewEvent(type="bench.ordered", data=stage.PAYLOAD, about=("account", key(number)))
        for number in range(count)
    )


def measure() -> dict[str, object]:
    ordered, plain = rates(50_000)
    return {
        "ordered_events_s": round(ordered, 1),
        "unordered_events_s": round(plain, 1),
        "others_alone_s": round(others(0), 2),
        "others_behind_hot_s": round(others(HOT), 2),
    }
