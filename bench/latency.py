"""Latency: from commit to the start of the handler, with an idle worker; and what an idle worker costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from django.db import transaction

import duebox
from bench import stage
from duebox.models import Worker


@contextmanager
def idle_worker() -> Iterator[subprocess.Popen[str]]:
    stage.empty()
    process = subprocess.Popen(
        [sys.executable, "-m", "django", "duebox", "worker"],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "bench.settings"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_until_listening()
        yield process
    finally:
        process.terminate()
        process.communicate()


def latency(samples: int) -> dict[str, float]:
    """Milliseconds, one event every 25 ms."""
    with idle_worker() as process:
        committed = [_commit(number) for number in range(samples)]
        assert process.stdout
        started = {}
        while len(started) < samples:
            words = process.stdout.readline().split()
            if len(words) == 2 and words[0].isdigit():
                started[int(words[0])] = float(words[1])
    late = sorted((started[number] - at) * 1000 for number, at in enumerate(committed))
    return {f"p{share}": round(late[min(len(late) - 1, len(late) * share // 100)], 2) for share in (50, 95, 99)}


def idle_cost(seconds: float) -> tuple[float, float]:
    """Share of a core in percent, and megabytes."""
    with idle_worker() as process:
        seen = psutil.Process(process.pid)
        time.sleep(2)
        before, since = sum(seen.cpu_times()[:2]), time.monotonic()
        time.sleep(seconds)
        used = sum(seen.cpu_times()[:2]) - before
        return 100 * used / (time.monotonic() - since), seen.memory_info().rss / 1e6


def _commit(number: int) -> float:
    with transaction.atomic():
        duebox.emit("bench.latency", {"number": number})
    at = time.time()
    time.sleep(0.025)
    return at


def _wait_until_listening() -> None:
    deadline = time.monotonic() + 20
    while not Worker.objects.filter(listening=True).exists():
        assert time.monotonic() < deadline, "the worker did not start to listen"
        time.sleep(0.05)
    time.sleep(1.5)
