"""What several tests say: wait for something, take a lease, claim, end a claim."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import psycopg
from django.db import connections, transaction
from django.utils import timezone

from duebox.exceptions import InvalidSchedule
from duebox.models import Worker
from duebox.store import leases
from duebox.store.deliveries import Claim, Ended
from duebox.store.deliveries import claim as store_claim


def examples(many: int) -> int:
    """How many examples of a property to try: a sixth of them, or all where DUEBOX_TEST_THOROUGH is set, as in CI."""
    return many if os.environ.get("DUEBOX_TEST_THOROUGH") else max(1, many // 6)


def eventually(check: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What `check` gives once it gives something; fails when the time is over."""
    deadline, pause = time.monotonic() + seconds, 0.005
    while not (found := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {found!r} after {seconds:g} s")
        time.sleep(pause)
        pause = min(0.03, pause * 1.2)  # most checks ask the database, and so hold up what they wait for
    return found


def stored_ahead(store: Callable[[datetime], None]) -> datetime:
    """Calls `store` in a transaction with a moment that is not past when it ends, however slow the machine is. What is
    past when it is scheduled is refused, so a first wait that was too short is tried again with a longer one."""
    for seconds in (1.5, 6.0, 24.0):
        start = timezone.now() + timedelta(seconds=seconds)
        try:
            with transaction.atomic():
                store(start)
                if timezone.now() >= start:
                    raise Undo
        except (Undo, InvalidSchedule):
            continue
        return start
    raise AssertionError("storing took more than 24 s")


def queries(captured: Any) -> list[str]:
    return [query["sql"] for query in captured.captured_queries]


def a_lease(seconds: float = 60.0, using: str = "default") -> int:
    return leases.take(using, seconds)


def expire(lease: int) -> None:
    """As if the worker's heart had stopped a lease ago."""
    Worker.objects.filter(id=lease).update(expires_at=timezone.now() - timedelta(seconds=1))


def claims_of(lease: int, *subscribers: str, limit: int = 100, **options: Any) -> list[Claim]:
    return store_claim("default", lease, list(subscribers), limit, **options).claims


def ended(claim: Claim, outcome: Any = None) -> Ended:
    return Ended(claim, outcome, time.time(), 1.0)


def connection_params(alias: str = "default") -> dict[str, Any]:
    """For psycopg.connect: a session beside Django's."""
    entry = connections[alias].settings_dict
    params = {"host": entry["HOST"], "port": entry["PORT"], "user": entry["USER"], "password": entry.get("PASSWORD")}
    return {"dbname": entry["NAME"], **{name: value for name, value in params.items() if value}}


class Undo(Exception):
    pass


@contextmanager
def undone(using: str = "default") -> Iterator[None]:
    """A transaction that an error rolls back at its end."""
    try:
        with transaction.atomic(using=using):
            yield
            raise Undo
    except Undo:
        pass


def terminate_others(elsewhere: psycopg.Connection, query: str = "%") -> int:
    """Breaks every other connection to this test's database whose last query is like this."""
    connection = connections["default"]
    connection.ensure_connection()
    mine = connection.connection.info.backend_pid
    victims = elsewhere.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid NOT IN (%s, pg_backend_pid()) AND query LIKE %s",
        [mine, query],
    ).fetchall()
    elsewhere.commit()
    return len(victims)


def nap_is_going_on() -> bool:
    """Seen from outside: some session has written the nap's effect and sits in its transaction."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND state = 'idle in transaction' AND query LIKE '%%INSERT INTO \"app_effect\"%%'"
        )
        return bool(cursor.fetchone()[0])


def analyze(*tables: str, using: str = "default") -> None:
    """Refreshes statistics and rebuilds indexes, so that a test of a query plan does not depend on earlier tests.

    Earlier tests deleted rows. A vacuum truncates the table but leaves the empty pages of its indexes, so an index of
    twenty rows looks as if it had hundreds of pages, and the planner reads the small table instead.
    """
    with connections[using].cursor() as cursor:
        for table in tables:
            cursor.execute(f"REINDEX TABLE {table}")
            cursor.execute(f"ANALYZE {table}")
