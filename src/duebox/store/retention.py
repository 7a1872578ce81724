"""Remove old rows, one bounded batch in one short transaction at a time.

A batch reads the next page of a table by an index and removes what is old and done. It takes no lock that another
transaction waits for: an event without open deliveries is not touched by workers, and a row that is locked is left for
later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections

from duebox.exceptions import NotReady
from duebox.store import operations
from duebox.store.replay import first_id
from duebox.store.run_sql import Busy, lock_timeout, run

BATCH = 1_000
LOCK_SECONDS = 0.05
START = UUID(int=0)
_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


class Page(NamedTuple):
    """The result of one page of a table."""

    looked_at: int
    removed: int
    after: Any
    """Where the next page begins; None if there is none."""
    bare: int = 0
    """Events that lost their payload and stay, because their idempotency key is remembered."""


@contextmanager
def _batch(using: str) -> Iterator[None]:
    """A transaction that does not wait. Raises `Busy` if another process removes something, or a lock is held."""
    is_inner = connections[using].in_atomic_block
    with lock_timeout(using, LOCK_SECONDS):
        [(allows, synchronous_commit, isolation, is_alone, *_)] = run("retention_begin", using, {})
        if isolation != "read committed":
            # A delivery that is added while the batch runs would not be seen, and its event would be removed.
            raise NotReady(
                f"Old rows are removed in READ COMMITTED transactions; those of database {using!r} are "
                f"{isolation.upper()}. Let a worker remove them, or use an alias without that isolation_level."
            )
        if not is_alone:
            raise Busy
        yield
        if is_inner:
            run("retention_end", using, {"allows": allows, "synchronous_commit": synchronous_commit})


def events(using: str, before: datetime, *, keys_before: datetime | None, after: UUID | None, dry_run: bool) -> Page:
    """Remove events without open deliveries, with their history. One with an idempotency key stays until `keys_before`,
    without its payload; for ever if that is None."""
    params = {
        "before": first_id(before),
        "before_at": before,
        "keys_before": keys_before and first_id(keys_before),
        "keys_before_at": keys_before,
        "after": after or START,
        "limit": BATCH,
    }
    if dry_run:
        page, ids, bare = _old_events(using, params)
        return _events_page(page, len(ids) - len(bare), len(bare))
    with _batch(using):
        page, ids, bare = _old_events(using, params)
        if not ids:
            return _events_page(page, 0, 0)
        held = [id for (id,) in run("retention_events_lock", using, {"id": ids})]
        bare = [id for id in held if id in set(bare)]
        # A statement of its own: its snapshot must be younger than a delivery that was added before the lock.
        [(removed, settled)] = run("retention_events_remove", using, {"id": held, "bare": bare})
        bare = [id for id in bare if id in set(settled)]
        if bare:
            run("event_remove_payload", using, {"id": bare})
    return _events_page(page, removed, len(bare))


def _old_events(using: str, params: dict[str, Any]) -> tuple[list[tuple[Any, ...]], list[str], list[str]]:
    """The page, the events of it to remove, and those that stay without their payload."""
    page = run("retention_events", using, params)
    done = [(id, holds_key) for id, holds_key, is_bare, is_open in page if not is_open and not (holds_key and is_bare)]
    return page, [id for id, _ in done], [id for id, holds_key in done if holds_key]


def _events_page(page: list[tuple[Any, ...]], removed: int, bare: int) -> Page:
    return Page(len(page), removed, UUID(page[-1][0]) if len(page) == BATCH else None, bare)


def dead_letters(using: str, before: datetime, *, after: int | None, note: str, dry_run: bool) -> Page:
    """Remove dead and parked deliveries that died before then, unless others wait behind them."""
    params = {"before": before, "after": after or 0, "limit": BATCH}
    with nullcontext() if dry_run else _batch(using):
        [(last, size, ids)] = run("retention_dead", using, params)
        done = operations.discard(using, ids, note=note, states=("dead", "parked"), dry_run=dry_run)
    return Page(size, len(done.ids), last if size == BATCH else None)


def attempts(using: str, before: datetime, *, after: int | None, dry_run: bool) -> Page:
    """Remove lines about failures, retries and rescues. The line with the final outcome is removed with the event."""
    return _by_id("retention_attempts", using, before, after, dry_run=dry_run)


def schedule_log(using: str, before: datetime, *, after: int | None, dry_run: bool) -> Page:
    return _by_id("retention_schedule_log", using, before, after, dry_run=dry_run)


def receipts(using: str, before: datetime, *, after: int | None, dry_run: bool) -> Page:
    return _by_id("retention_receipts", using, before, after, dry_run=dry_run)


def _by_id(name: str, using: str, before: datetime, after: int | None, *, dry_run: bool) -> Page:
    """Remove rows of a table whose ids grow with time. A page with a row that is not old is the last one."""
    params = {"before": before, "after": after or 0, "limit": BATCH, "dry_run": dry_run}
    with nullcontext() if dry_run else _batch(using):
        [(last, size, old, removed)] = run(name, using, params)
    return Page(old, removed, last if old == size == BATCH else None)


def schedules(using: str, before: datetime, *, after: tuple[datetime, int] | None, dry_run: bool) -> Page:
    """Remove completed and cancelled schedules, except those that prevent an occurrence from firing again."""
    at, id = after or (_LONG_AGO, 0)
    params = {"before": before, "after_at": at, "after": id, "limit": BATCH, "dry_run": dry_run}
    with nullcontext() if dry_run else _batch(using):
        rows = run("retention_schedules", using, params)
    for last_at, last_id, looked_at, removed in rows:
        return Page(looked_at, removed, (last_at, last_id) if looked_at == BATCH else None)
    return Page(0, 0, None)


def remaining(using: str) -> dict[str, int]:
    """How many rows are stored of each kind that retention removes."""
    names = ("dead letters", "events", "attempts", "schedules", "schedule log", "receipts")
    [row] = run("retention_remaining", using, {})
    return dict(zip(names, row, strict=True))
