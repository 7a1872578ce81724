"""Latency: from commit to the start of the handler, with an idle worker, beside a bare client that listens; and what
an idle worker costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psutil
import psycopg
from django.db import connection, transaction

import duebox
from bench import stage
from bench.emit import DELIVERY, EVENT
from duebox.events.identities import uuid7
from duebox.models import Worker

PAUSE = 0.025
SHARES = (50, 95, 99)


@contextmanager
def idle_worker() -> Iterator[subprocess.Popen[str]]:
    stage.empty()
    process = subprocess.Popen(
        [sys.executable, "-m", "django", "duebox", "worker", "-v", "0"],
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
        started = starts(process, samples)
    return shares((started[number] - at) * 1000 for number, at in enumerate(committed))


def raw_listen(samples: int) -> dict[str, float]:
    """The same two rows and a NOTIFY by a bare client, until another one that listens has taken the delivery."""
    stage.empty()
    entry = connection.settings_dict
    params = {"host": entry["HOST"], "port": entry["PORT"], "user": entry["USER"], "dbname": entry["NAME"]}
    command = [sys.executable, "-m", "bench.listener", json.dumps(params)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        with psycopg.connect(**params) as bare:
            committed = [_commit_bare(bare, number) for number in range(samples)]
        received = starts(process, samples)
    finally:
        process.terminate()
        process.communicate()
    return shares((received[number] - at) * 1000 for number, at in enumerate(committed))


def starts(process: subprocess.Popen[str], count: int) -> dict[int, float]:
    """When each number was printed by a handler, or by the listener."""
    assert process.stdout
    found: dict[int, float] = {}
    while len(found) < count:
        words = process.stdout.readline().split()
        if len(words) == 2 and words[0].isdigit():
            found[int(words[0])] = float(words[1])
    return found


def shares(values: Iterable[float]) -> dict[str, float]:
    """Percentiles."""
    found = sorted(values)
    return {f"p{share}": round(found[min(len(found) - 1, len(found) * share // 100)], 2) for share in SHARES}


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
    time.sleep(PAUSE)
    return at


def _commit_bare(bare: psycopg.Connection, number: int) -> float:
    event = uuid7()
    cursor = bare.cursor()
    cursor.execute(EVENT, [event, "bench.latency", 1, "", "", str(event), json.dumps({"number": number})])
    cursor.execute(DELIVERY, [event, "latency"])
    cursor.execute("NOTIFY bench")
    bare.commit()
    at = time.time()
    time.sleep(PAUSE)
    return at


def _wait_until_listening() -> None:
    deadline = time.monotonic() + 20
    while not Worker.objects.filter(listening=True).exists():
        assert time.monotonic() < deadline, "the worker did not start to listen"
        time.sleep(0.05)
    time.sleep(1.5)
