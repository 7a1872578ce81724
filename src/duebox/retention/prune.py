"""Prune: remove what is older than the `RETENTION_*_DAYS` settings say, in batches with a pause after each.

A worker does this once an hour beside its other work, `manage.py duebox prune` by hand. The pause is several times as
long as the batch took, so that most of the database's time is left to others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.db import DatabaseError, connections

from duebox.conf import conf
from duebox.store import retention
from duebox.store.retention import Page
from duebox.store.run_sql import Busy, now

logger = logging.getLogger("duebox.retention")

PAUSE_SHARE = 4.0
"""How much longer than a batch the pause after it is."""
SHORTEST_PAUSE_SECONDS = 0.05
BUSY_SECONDS = 0.5
Rest = Callable[[float], bool]


@dataclass(slots=True)
class Pruned:
    """What was removed of one kind, or with a dry run would be."""

    what: str
    days: int
    removed: int = 0
    bare: int = 0
    """Events that lost their payload and stay, because their idempotency key is remembered."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Kind(NamedTuple):
    what: str
    days: int | None
    page: Callable[..., Page]
    """Removes what is old in one page of the table."""


def prune(
    using: str | None = None,
    *,
    dry_run: bool = False,
    patient: bool = True,
    rest: Rest | None = None,
    progress: Callable[[int], None] | None = None,
    cursors: dict[str, Any] | None = None,
) -> list[Pruned]:
    """Remove what is old; gives how much of each kind.

    `rest` is called after each batch with the seconds to wait, and ends the work by returning True. Where another
    process is pruning, or holds a lock, this one waits for it, or if it is not `patient` leaves that kind for the next
    time. A kind that the database refuses to remove is logged, and the others are removed; if it is `patient` the error
    is raised at the end. With `cursors`, each kind goes on where the last call with the same dict ended: what was left
    behind then is not looked at again.
    """
    alias = using or conf().DATABASE
    moment, done = now(alias), []
    failed: DatabaseError | None = None
    rest = _go_on if dry_run else rest or _sleep
    for kind in _kinds(moment):
        if kind.days is None:
            continue
        found, before = Pruned(kind.what, kind.days), moment - timedelta(days=kind.days)
        done.append(found)
        page = partial(kind.page, alias, before, dry_run=dry_run)
        try:
            is_over = _prune_pages(page, found, patient=patient, rest=rest, progress=progress, cursors=cursors)
        except DatabaseError as error:
            if _is_lost(alias):
                raise
            logger.warning("old %s not removed: %s", kind.what, str(error).strip())
            failed, is_over = failed or error, False
        if (found.removed or found.bare) and not dry_run:
            payloads = f", and the payloads of {found.bare} with an idempotency key" if found.bare else ""
            logger.info("removed: %d %s older than %d days%s", found.removed, kind.what, kind.days, payloads)
        if is_over:
            break
    if failed and patient:
        raise failed
    return done


def _is_lost(using: str) -> bool:
    connection = connections[using].connection
    return connection is None or connection.closed


def _kinds(moment: datetime) -> list[_Kind]:
    """Dead letters before events: an event leaves when its last dead letter has left."""
    settings = conf()
    letters, keys = settings.RETENTION_DEAD_LETTERS_DAYS, settings.RETENTION_KEYS_DAYS
    keys_before = None if keys is None else moment - timedelta(days=keys)
    return [
        _Kind(
            "dead letters",
            letters,
            partial(retention.dead_letters, note=f"removed by retention after {letters} days"),
        ),
        _Kind("events", settings.RETENTION_EVENTS_DAYS, partial(retention.events, keys_before=keys_before)),
        _Kind("attempts", settings.RETENTION_ATTEMPTS_DAYS, retention.attempts),
        _Kind("schedules", settings.RETENTION_SCHEDULES_DAYS, retention.schedules),
        _Kind("schedule log", settings.RETENTION_SCHEDULE_LOG_DAYS, retention.schedule_log),
        _Kind("receipts", settings.RETENTION_RECEIPTS_DAYS, retention.receipts),
    ]


def _prune_pages(
    page: Callable[..., Page],
    found: Pruned,
    *,
    patient: bool,
    rest: Rest,
    progress: Callable[[int], None] | None,
    cursors: dict[str, Any] | None,
) -> bool:
    """Page after page; whether the work is over."""
    after = cursors.get(found.what) if cursors is not None else None
    while True:
        begun = time.monotonic()
        try:
            seen = page(after=after)
        except Busy:
            if not patient:
                return False
            if rest(BUSY_SECONDS):
                return True
            continue
        found.removed += seen.removed
        found.bare += seen.bare
        if progress and seen.looked_at:
            progress(seen.looked_at)
        if seen.after is None:
            return False
        after = seen.after
        if cursors is not None:
            cursors[found.what] = after
        if rest(pause_after(time.monotonic() - begun)):
            return True


def pause_after(batch_seconds: float) -> float:
    return max(SHORTEST_PAUSE_SECONDS, PAUSE_SHARE * batch_seconds)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _go_on(seconds: float) -> bool:
    return False
