"""Prune old events while a worker drains new ones: how fast it still drains, and how long anybody waited for a lock."""

from __future__ import annotations

import statistics
import threading
import time

from django.db import connection

from bench import stage
from bench.drain import run_workers
from duebox.retention import prune

SAMPLE_SECONDS = 0.005


def measure(old: int, fresh: int, repeat: int) -> dict[str, object]:
    """The rates without and with pruning, measured in turns, and the longest wait for a lock."""
    alone, beside, removed, longest, seconds = [], [], 0, 0.0, 0.0
    for _ in range(repeat):
        _fill(old, fresh)
        alone.append(run_workers(fresh))
        _fill(old, fresh)
        with _Pruning() as pruning, _Waits() as waits:
            beside.append(run_workers(fresh))
        removed, seconds = removed + pruning.removed, seconds + pruning.seconds
        longest = max(longest, waits.longest)
    return {
        "prune_old_events": old,
        "prune_drain_alone_s": round(statistics.median(alone), 1),
        "prune_drain_beside_s": round(statistics.median(beside), 1),
        "prune_share": round(statistics.median(beside) / statistics.median(alone), 3),
        "prune_removed": removed // repeat,
        "prune_events_s": round(removed / seconds, 1),
        "prune_longest_wait_ms": round(longest * 1000, 1),
    }


def _fill(old: int, fresh: int) -> None:
    """Events of 40 days ago with one attempt each, and events that are due."""
    stage.fill("bench.plain", fresh)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO duebox_event "
            "(id, type, occurred_at, recorded_at, aggregate_type, aggregate_id, data, metadata) "
            "SELECT (lpad(to_hex((extract(epoch FROM now() - interval '40 days') * 1000)::bigint + n / 100), 12, '0') "
            "|| '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid, 'bench.plain', "
            "now() - interval '40 days', now() - interval '40 days', 'account', n::text, "
            "jsonb_build_object('text', repeat('x', 260)), '{}' FROM generate_series(1, %s) n",
            [old],
        )
        cursor.execute(
            "INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at) "
            "SELECT id, 0, 'plain', 1, 'delivered', recorded_at, recorded_at FROM duebox_event "
            "WHERE recorded_at < now() - interval '39 days'"
        )
    stage.settle_down()


class _Beside:
    """A thread beside the measurement."""

    def __enter__(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_and_close)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run_and_close(self) -> None:
        try:
            self._run()
        finally:
            connection.close()


class _Pruning(_Beside):
    removed, seconds = 0, 1e-9

    def _run(self) -> None:
        begun = time.perf_counter()
        self.removed = sum(each.removed for each in prune(rest=self._stop.wait) if each.what == "events")
        self.seconds = time.perf_counter() - begun


class _Waits(_Beside):
    """Looks many times a second how long sessions have waited for locks of rows, tables and transactions."""

    longest = 0.0

    def _run(self) -> None:
        with connection.cursor() as cursor:
            while not self._stop.wait(SAMPLE_SECONDS):
                cursor.execute(
                    "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0) FROM pg_locks "
                    "WHERE NOT granted"
                )
                self.longest = max(self.longest, float(cursor.fetchone()[0]))
