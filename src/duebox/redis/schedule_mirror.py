"""Upcoming schedules as a sorted set in Redis, and the worker thread that keeps it up to date.

For dashboards and other frequent readers. `duebox.upcoming` reads the database; it also returns the repetitions after
the next one, which are not in the mirror.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.db import DatabaseError, connections
from django.db.models import Q

from duebox import clock
from duebox.conf import conf
from duebox.exceptions import NotReady
from duebox.redis.connection import Errors, client, errors, place
from duebox.store import schedules

__all__ = ["Mirrored", "rebuild", "upcoming_from_redis"]

TIMEOUT_SECONDS = 5.0
CHUNK = 1000
LOCK_SECONDS = 60
"""For one batch, not for the whole rebuild."""
REBUILD_SECONDS = 900.0
"""Lost changes are repaired after this time at the latest."""
_SHOWN = ("key", "type", "local_time", "zone", "aggregate_type", "aggregate_id", "organization", "plan")


class Mirrored(NamedTuple):
    """A schedule in the mirror."""

    at: datetime
    id: int
    key: str
    type: str
    local_time: str
    zone: str
    aggregate_type: str
    aggregate_id: str
    organization: str
    plan: str


def upcoming_from_redis(
    limit: int = 100, *, within: timedelta | None = None, using: str | None = None
) -> list[Mirrored]:
    """The next schedules that are due, in order; of those within a span from now, if one is given."""
    alias = using or conf().DATABASE
    last = (clock.now() + within).timestamp() if within is not None else "+inf"
    try:
        redis = client(TIMEOUT_SECONDS)
        due = redis.zrangebyscore(place(alias, "upcoming"), "-inf", last, start=0, num=limit, withscores=True)
        shown = redis.hmget(place(alias, "shown"), [name for name, _ in due]) if due else []
    except errors() as error:
        raise NotReady(
            f"Redis cannot be reached ({error}); use duebox.upcoming(), which reads the database."
        ) from error
    # One may have been removed between the two queries.
    return [_mirrored(name, at, text) for (name, at), text in zip(due, shown, strict=True) if text is not None]


def rebuild(using: str | None = None, *, between: Callable[[], object] = lambda: None) -> int:
    """Rebuild the mirror from the database; returns the number of schedules. It works in batches: other processes may
    write in between, and `between` is called.
    """
    alias = using or conf().DATABASE
    count = 0
    ids = schedules.rows(alias).scheduled().values_list("id", flat=True)
    for chunk in _chunks(map(str, ids.iterator(chunk_size=CHUNK))):
        with _alone(alias) as lock:
            count += _refresh(alias, lock, ids=chunk)
        between()
    # Further schedules in Redis are looked up too, and removed.
    for chunk in _chunks(name for name, _ in client(TIMEOUT_SECONDS).zscan_iter(place(alias, "upcoming"))):
        with _alone(alias) as lock:
            _refresh(alias, lock, ids=chunk)
        between()
    return count


def rebuild_if_due(
    using: str, *, every: float = REBUILD_SECONDS, between: Callable[[], object] = lambda: None
) -> int | None:
    """Rebuild once per interval for all workers: None if another worker has done it or is doing it. The marker is in
    Redis, and is lost together with the mirror."""
    redis, built = client(TIMEOUT_SECONDS), place(using, "built")
    mine = redis.lock(place(using, "building"), timeout=LOCK_SECONDS)

    def step() -> None:
        mine.reacquire()
        between()

    if redis.exists(built) or not mine.acquire(blocking=False):
        return None
    try:
        if redis.exists(built):  # it was done between the two queries
            return None
        count = rebuild(using, between=step)
        redis.set(built, "", px=round(every * 1000))
        return count
    finally:
        with suppress(*errors()):  # otherwise it expires
            mine.release()


def refresh_changed(using: str, taken: set[str] | None = None) -> int:
    """Look up the schedules that changed since the last time, a thousand at most; returns how many there were, 0 if
    another process is doing it.

    Keys that were taken from Redis and could not be looked up stay in `taken`, for the next time.
    """
    names = set() if taken is None else taken
    lock = _lock(using)
    if not lock.acquire(blocking=False):
        return 0
    try:
        names.update(client(TIMEOUT_SECONDS).spop(place(using, "changed"), CHUNK))
        if names:
            ids = [name.removeprefix("id:") for name in names if name.startswith("id:")]
            keys = [name.removeprefix("key:") for name in names if name.startswith("key:")]
            _refresh(using, lock, ids=ids, keys=keys)
        count = len(names)
        names.clear()
        return count
    finally:
        with suppress(*errors()):
            lock.release()


@contextmanager
def _alone(using: str) -> Iterator[Any]:
    """One process at a time: newer data must not be overwritten by older data."""
    with _lock(using) as lock:
        yield lock


def _lock(using: str) -> Any:
    return client(TIMEOUT_SECONDS).lock(place(using, "lock"), timeout=LOCK_SECONDS, blocking_timeout=LOCK_SECONDS)


def _refresh(using: str, lock: Any, *, ids: Sequence[str] = (), keys: Sequence[str] = ()) -> int:
    """Write the current state of these schedules; those that the database does not have are removed."""
    found = list(
        schedules.rows(using).filter(Q(id__in=ids) | Q(key__in=keys)).values("id", "status", "due_at", *_SHOWN)
    )
    live = [row for row in found if row["status"] == "scheduled"]
    gone = {*ids, *(str(row["id"]) for row in found)} - {str(row["id"]) for row in live}
    lock.reacquire()  # if the lock was lost while the database was slow, the data may be outdated: that is an error
    with client(TIMEOUT_SECONDS).pipeline(transaction=True) as pipeline:
        if live:
            pipeline.zadd(place(using, "upcoming"), {str(row["id"]): row["due_at"].timestamp() for row in live})
            pipeline.hset(place(using, "shown"), mapping={str(row["id"]): _text(row) for row in live})
        if gone:
            pipeline.zrem(place(using, "upcoming"), *gone)
            pipeline.hdel(place(using, "shown"), *gone)
        pipeline.execute()
    return len(live)


def _text(row: dict[str, Any]) -> str:
    return json.dumps([row[name] for name in _SHOWN], ensure_ascii=False)


def _mirrored(name: str, at: float, text: str) -> Mirrored:
    return Mirrored(datetime.fromtimestamp(at, UTC), int(name), *json.loads(text))


def _chunks(names: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(names)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


logger = logging.getLogger("duebox.redis")

LOOK_SECONDS = 1.0
AWAY_SECONDS = 10.0
LEAVING_SECONDS = 2.0


class _Stopped(Exception):
    """A rebuild is in progress."""


class Mirroring:
    """Updates the mirror. Several workers share the work; one of them rebuilds it, and processes changes meanwhile."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._taken: set[str] = set()
        """Keys from Redis that are not yet looked up."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work_until_stopped, name="duebox-mirror", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits a moment for a running lookup, so that it releases its lock: other processes would otherwise wait until
        the lock expires."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(LEAVING_SECONDS)

    def _work_until_stopped(self) -> None:
        away = False
        trouble: Errors = (*errors(), DatabaseError)
        while not self._stopping.is_set():
            try:
                self._work()
            except _Stopped:
                return
            except trouble as error:
                if not away:
                    logger.warning("the mirror of schedules is not kept up: %s", error or type(error).__name__)
                away = True
                self._stopping.wait(AWAY_SECONDS)
            finally:
                connections[self._using].close()

    def _work(self) -> None:
        while not self._stopping.is_set():
            count = rebuild_if_due(self._using, between=self._between)
            if count is not None:
                logger.info("the mirror holds %d schedules", count)
            while refresh_changed(self._using, self._taken) >= CHUNK and not self._stopping.is_set():
                pass
            self._stopping.wait(LOOK_SECONDS)

    def _between(self) -> None:
        if self._stopping.is_set():
            raise _Stopped
        refresh_changed(self._using, self._taken)
