"""Drain: stored events, one worker process (or several), until none is left; and the limit of the SQL itself."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import psycopg
from django.db import connection

from bench import stage
from duebox.store.run_sql import statement

BATCH = 500


def drain(event_type: str, count: int, processes: int = 1) -> float:
    """Events per second by real worker processes, from their first claim to the last settlement."""
    stage.fill(event_type, count)
    return run_workers(count, processes)


def run_workers(count: int, processes: int = 1) -> float:
    """The same for events that are stored already."""
    command = [sys.executable, "-m", "bench.worker"]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    for each in running:
        assert each.stdout
        assert each.stdout.readline() == "ready\n"
    started = time.perf_counter()
    for each in running:
        assert each.stdin
        each.stdin.write("go\n")
        each.stdin.flush()
    delivered = sum(json.loads(each.stdout.readline())["delivered"] for each in running if each.stdout)
    seconds = time.perf_counter() - started
    for each in running:
        each.communicate()
    assert delivered == count, f"{delivered} of {count} were delivered"
    assert stage.left() == 0
    return count / seconds


def limit(count: int, clients: int = 1) -> float:
    """The same claim and settle statements, sent by bare psycopg, with nothing done in between."""
    stage.fill("bench.plain", count)
    params = {key: connection.settings_dict[key] for key in ("HOST", "PORT", "USER", "NAME")}
    with ProcessPoolExecutor(clients) as pool:
        list(pool.map(_warm, range(clients)))
        started = time.perf_counter()
        done = sum(pool.map(_bare_client, [params] * clients))
        seconds = time.perf_counter() - started
    assert done == count
    return count / seconds


def _warm(number: int) -> None:
    time.sleep(0.2)


def _bare_client(params: dict[str, str]) -> int:
    done = 0
    with psycopg.connect(
        host=params["HOST"], port=params["PORT"], user=params["USER"], dbname=params["NAME"], autocommit=True
    ) as bare:
        lease = bare.execute(statement("lease_take"), {"name": "bare", "seconds": 3600}).fetchone()[0]
        due_from = 0.0
        while rows := bare.execute(
            statement("claim"),
            {"lease": lease, "subscribers": ["plain"], "limit": BATCH, "due_from": due_from, "past": [], "now": None},
        ).fetchall():
            ids = "{" + ",".join(str(row[0]) for row in rows) + "}"
            zeros = "{" + ",".join("0" for _ in rows) + "}"
            settled = {"id": ids, "started": zeros, "took": zeros, "lease": lease, "now": None}
            bare.execute(statement("settle_delivered"), settled)
            done += len(rows)
            due_from = max(row[5] for row in rows)
    return done
