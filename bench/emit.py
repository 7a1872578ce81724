"""Emit: one event per committed transaction, beside a bare loop of two INSERTs and a COMMIT."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import psycopg
from django.db import connection, transaction

import duebox
from bench import stage
from duebox.events.identities import uuid7

EVENT = """INSERT INTO duebox_event (id, type, version, occurred_at, aggregate_type, aggregate_id, organization,
    correlation_id, causation_id, actor, producer, idempotency_key, data, metadata)
    VALUES (%s, %s, %s, now(), %s, %s, '', %s, NULL, NULL, '', NULL, %s, '{}')"""
DELIVERY = "INSERT INTO duebox_delivery (event_id, subscriber, due_at) VALUES (%s, %s, now())"


def emit_and_limit(count: int, rounds: int = 3) -> tuple[float, float]:
    """Transactions per second of each, measured in turns so that a slow minute of the machine hits both."""
    stage.empty()
    ours, bare = [], []
    with _bare_connection() as other:
        for _ in range(rounds):
            ours.append(_rate(_emit, count // rounds))
            bare.append(_rate(lambda: _bare(other), count // rounds))
    return sorted(ours)[rounds // 2], sorted(bare)[rounds // 2]


def _rate(action: Callable[[], None], count: int) -> float:
    for _ in range(50):
        action()
    started = time.perf_counter()
    for _ in range(count):
        action()
    return count / (time.perf_counter() - started)


def _emit() -> None:
    with transaction.atomic():
        duebox.emit("bench.plain", stage.PAYLOAD, about=("account", 1))


def _bare(other: psycopg.Connection) -> None:
    event = uuid7()
    cursor = other.cursor()
    cursor.execute(EVENT, [event, "bench.plain", 1, "account", "1", str(event), json.dumps(stage.PAYLOAD)])
    cursor.execute(DELIVERY, [event, "plain"])
    other.commit()


def _bare_connection() -> psycopg.Connection:
    entry = connection.settings_dict
    return psycopg.connect(host=entry["HOST"], port=entry["PORT"], user=entry["USER"], dbname=entry["NAME"])
