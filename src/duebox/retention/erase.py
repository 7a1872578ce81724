"""Erase the personal data of one row: payloads, error texts, schedules, and values in the audit log.

That it happened stays: the events without their payload, and an audit entry that says who erased how much and when.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from django.db import ProgrammingError, models
from psycopg.errors import InsufficientPrivilege

from duebox.audit_log.erase import ERASED, erasable, erase_values
from duebox.audit_log.record import own_entry, write
from duebox.conf import conf
from duebox.events.identities import aggregate_of
from duebox.exceptions import InvalidErasure
from duebox.schedules.planner import cancel_all
from duebox.store import erasure, operations
from duebox.store import schedules as stored_schedules

logger = logging.getLogger("duebox.retention")


@dataclass(slots=True)
class Erased:
    """What was erased, or with a dry run would be."""

    entity: str
    events: int = 0
    """Events that lost their payload, metadata and actor."""
    attempts: int = 0
    """Lines of the history that lost their text."""
    deliveries: int = 0
    """Open deliveries that were discarded."""
    schedules: int = 0
    """Schedules that were removed, or lost their data."""
    log_lines: int = 0
    """Lines of the log of schedules that were removed."""
    audit_entries: int = 0
    """Audit entries whose values were replaced."""
    unsealed: int = 0
    """Audit entries that are left, because they are not sealed yet. Erase again after a worker has sealed them."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def erase(
    entity: models.Model | tuple[str, object],
    *,
    force: bool = False,
    dry_run: bool = False,
    actor: object = None,
    reason: str = "",
    using: str | None = None,
) -> Erased:
    """Erase what is stored about one row, in one transaction.

    Raises `InvalidErasure` while deliveries are open or schedules are live; with `force` they are discarded and
    cancelled.
    """
    alias = using or conf().DATABASE
    kind, id = aggregate_of(entity, "entity")
    if not kind:
        raise InvalidErasure("entity is None; pass a saved model instance, or a pair like ('shop.customer', 42).")
    if kind == "audit":
        raise InvalidErasure(
            f"{kind}:{id} is what the audit log records about itself; without it the log cannot be verified."
        )
    if dry_run:
        return _counted(alias, kind, id)
    done = Erased(f"{kind}:{id}")
    with _permitted(alias), erasure.erasing(alias):
        _close(alias, kind, id, done, force=force)
        done.events, done.attempts = erasure.erase_events(alias, kind, id)
        done.schedules, done.log_lines = erasure.erase_schedules(alias, kind, id)
        done.audit_entries, done.unsealed = erase_values(alias, kind, id)
        counts = {name: count for name, count in done.as_dict().items() if name != "entity"}
        if any(counts.values()):
            told = {**counts, "reason": reason} if reason else counts
            write([own_entry(ERASED, (kind, id), told, actor)], alias)
    logger.info("erased: events=%d schedules=%d audit_entries=%d", done.events, done.schedules, done.audit_entries)
    return done


@contextmanager
def _permitted(using: str) -> Iterator[None]:
    try:
        yield
    except ProgrammingError as error:
        if not isinstance(error.__cause__, InsufficientPrivilege):
            raise
        fact = str(error).splitlines()[0]
        raise InvalidErasure(
            f"The role of database {using!r} may not erase: {fact}; use a role with UPDATE and DELETE on that table."
        ) from error


def _counted(using: str, kind: str, id: str) -> Erased:
    return Erased(
        entity=f"{kind}:{id}",
        events=erasure.events(using, kind, id).count(),
        attempts=erasure.texts(using, kind, id),
        deliveries=erasure.open_deliveries(using, kind, id).count(),
        schedules=erasure.schedules(using, kind, id).count(),
        log_lines=erasure.log_lines(using, kind, id),
        audit_entries=erasable(using, kind, id).count(),
    )


def _close(using: str, kind: str, id: str, done: Erased, *, force: bool) -> None:
    """End what would still deliver or emit personal data."""
    erasure.lock_events(using, kind, id)
    deliveries = list(erasure.open_deliveries(using, kind, id).values_list("id", flat=True))
    live = stored_schedules.locked(erasure.schedules(using, kind, id).live())
    if (deliveries or live) and not force:
        raise InvalidErasure(
            f"{kind}:{id} has {len(deliveries)} open deliveries and {len(live)} live schedules; wait until they are "
            "done, or discard and cancel them with force=True (--force)."
        )
    if deliveries:
        found = operations.discard(using, deliveries, note="erased")
        if found.left:
            delivery, why = next(iter(found.left.items()))
            raise InvalidErasure(f"Delivery {delivery} of {kind}:{id} cannot be discarded: {why}.")
        done.deliveries = len(found.ids)
    cancel_all(using, live, why="erased")
