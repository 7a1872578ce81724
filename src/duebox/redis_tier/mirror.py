"""Schedules to come as a sorted set in Redis: by when they are due, with what a list of them shows.

For dashboards and others that look often. `duebox.upcoming` reads the database; it also knows the repetitions after
the next one, which are not in here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import Q

from duebox import clock
from duebox.conf import conf
from duebox.exceptions import NotReady
from duebox.redis_tier.connection import client, errors, place
from duebox.store import schedules

TIMEOUT_SECONDS = 5.0
CHUNK = 1000
LOCK_SECONDS = 60
"""For a part, not for the whole."""
REBUILD_SECONDS = 900.0
"""Whatever was lost on the way is back after so long at the latest."""
_SHOWN = ("key", "type", "local_time", "zone", "aggregate_type", "aggregate_id", "organization", "plan")


class Mirrored(NamedTuple):
    """A schedule as the mirror has it."""

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
        raise NotReady(f"Redis cannot be reached ({error}); duebox.upcoming() asks the database.") from error
    # Between the two questions one may have gone.
    return [_mirrored(name, at, text) for (name, at), text in zip(due, shown, strict=True) if text is not None]


def rebuild(using: str | None = None, *, between: Callable[[], object] = lambda: None) -> int:
    """Make the mirror what the database says, whatever is in Redis; gives how many schedules are in it.

    Part by part, so that it may take its time: in between others may write, and `between` is called.
    """
    alias = using or conf().DATABASE
    count = 0
    ids = schedules.rows(alias).scheduled().values_list("id", flat=True)
    for chunk in _chunks(map(str, ids.iterator(chunk_size=CHUNK))):
        with _alone(alias) as lock:
            count += _refresh(alias, lock, ids=chunk)
        between()
    # What Redis still has beyond that is looked up too, and goes.
    for chunk in _chunks(name for name, _ in client(TIMEOUT_SECONDS).zscan_iter(place(alias, "upcoming"))):
        with _alone(alias) as lock:
            _refresh(alias, lock, ids=chunk)
        between()
    return count


def rebuild_if_due(
    using: str, *, every: float = REBUILD_SECONDS, between: Callable[[], object] = lambda: None
) -> int | None:
    """The same once in a while for all workers: None where one has done it, or is at it. Redis remembers that, and
    forgets it together with all the rest."""
    redis, built = client(TIMEOUT_SECONDS), place(using, "built")
    mine = redis.lock(place(using, "building"), timeout=LOCK_SECONDS)

    def step() -> None:
        mine.reacquire()
        between()

    if redis.exists(built) or not mine.acquire(blocking=False):
        return None
    try:
        if redis.exists(built):  # it was done between the two questions
            return None
        count = rebuild(using, between=step)
        redis.set(built, "", px=round(every * 1000))
        return count
    finally:
        with suppress(*errors()):  # or it runs out by itself
            mine.release()


def refresh_changed(using: str, taken: set[str] | None = None) -> int:
    """Look up again what was named since the last time, a thousand at most; gives how many there were; none
    where somebody else is at it.

    What Redis gave and could not be looked up stays in `taken`, for the next time.
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
    """One at a time, in all processes: what was read later must not be overwritten by what was read before."""
    with _lock(using) as lock:
        yield lock


def _lock(using: str) -> Any:
    return client(TIMEOUT_SECONDS).lock(place(using, "lock"), timeout=LOCK_SECONDS, blocking_timeout=LOCK_SECONDS)


def _refresh(using: str, lock: Any, *, ids: Sequence[str] = (), keys: Sequence[str] = ()) -> int:
    """What the database says about these now; those that it does not say anything about are taken out."""
    found = list(
        schedules.rows(using).filter(Q(id__in=ids) | Q(key__in=keys)).values("id", "status", "due_at", *_SHOWN)
    )
    live = [row for row in found if row["status"] == "scheduled"]
    gone = {*ids, *(str(row["id"]) for row in found)} - {str(row["id"]) for row in live}
    lock.reacquire()  # whoever lost it while the database was slow may hold old news: that is an error
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
