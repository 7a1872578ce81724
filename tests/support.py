"""What several tests say: wait for something, take a lease, claim, end a claim."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from django.db import connections, transaction
from django.utils import timezone

from duebox.models import Worker
from duebox.store import leases
from duebox.store.deliveries import Claim, Ended
from duebox.store.deliveries import claim as store_claim


def examples(many: int) -> int:
    """How many examples of a machine to play: a third of them, or all where DUEBOX_TEST_THOROUGH is set, as in CI."""
    return many if os.environ.get("DUEBOX_TEST_THOROUGH") else many // 3


def eventually(check: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What `check` gives once it gives something; fails when the time is over."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {found!r} after {seconds:g} s")
        time.sleep(0.005)
    return found


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
            "AND state = 'idle in transaction' AND query LIKE 'INSERT INTO \"app_effect\"%%'"
        )
        return bool(cursor.fetchone()[0])
