"""Sets the tables up for a measurement."""

from __future__ import annotations

from django.db import connection

import duebox

PAYLOAD = {"text": "x" * 260}
TABLES = (
    "duebox_event, duebox_delivery, duebox_attempt, duebox_worker, duebox_schedule, duebox_schedule_log, "
    "duebox_destination_state, duebox_row_change, bench_effect, bench_person"
)


def empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLES} RESTART IDENTITY")


_copied: tuple[str, int] | None = None
COPIES = {"duebox_event": "bench_copy_of_event", "duebox_delivery": "bench_copy_of_delivery"}


def fill(event_type: str, count: int) -> None:
    """Stored events of about 300 bytes, one delivery each, and statistics as after a while in production."""
    global _copied
    empty()
    if _copied == (event_type, count):
        _fill_from_copies()
    else:
        _emit(event_type, count)
        _copy()
        _copied = (event_type, count)
    settle_down()


def _emit(event_type: str, count: int) -> None:
    for start in range(0, count, 1000):
        duebox.emit_many(
            duebox.NewEvent(type=event_type, data=PAYLOAD, about=("account", number))
            for number in range(start, min(start + 1000, count))
        )


def _copy() -> None:
    """Keep the rows for the next time: to emit 100,000 events takes ten times as long as to copy them."""
    with connection.cursor() as cursor:
        for table, copy in COPIES.items():
            cursor.execute(f"DROP TABLE IF EXISTS {copy}")
            cursor.execute(f"CREATE UNLOGGED TABLE {copy} AS TABLE {table}")


def _fill_from_copies() -> None:
    with connection.cursor() as cursor:
        for table, copy in COPIES.items():
            cursor.execute(f"INSERT INTO {table} SELECT * FROM {copy}")
        cursor.execute("SELECT setval(pg_get_serial_sequence('duebox_delivery', 'id'), max(id)) FROM duebox_delivery")


def settle_down() -> None:
    with connection.cursor() as cursor:
        for table in TABLES.split(", "):
            cursor.execute(f"VACUUM ANALYZE {table}")
        cursor.execute("CHECKPOINT")


def left() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM duebox_delivery")
        return int(cursor.fetchone()[0])
