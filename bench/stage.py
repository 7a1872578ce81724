"""Sets the tables up for a measurement."""

from __future__ import annotations

from django.db import connection

import duebox

PAYLOAD = {"text": "x" * 260}
TABLES = (
    "duebox_event, duebox_delivery, duebox_attempt, duebox_worker, duebox_schedule, duebox_trail, "
    "duebox_gate, bench_effect, bench_person"
)


def empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLES} RESTART IDENTITY")


def fill(event_type: str, count: int) -> None:
    """Stored events of about 300 bytes, one delivery each, and statistics as after a while in production."""
    empty()
    for start in range(0, count, 1000):
        duebox.emit_many(
            duebox.New(type=event_type, data=PAYLOAD, about=("account", number))
            for number in range(start, min(start + 1000, count))
        )
    settle_down()


def settle_down() -> None:
    with connection.cursor() as cursor:
        for table in TABLES.split(", "):
            cursor.execute(f"VACUUM ANALYZE {table}")
        cursor.execute("CHECKPOINT")


def left() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM duebox_delivery")
        return int(cursor.fetchone()[0])
