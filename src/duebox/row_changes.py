"""Plan rows again whose changes were noted by triggers: those that no save through Django has planned already."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from django.db import InterfaceError, OperationalError

from duebox.conf import conf
from duebox.context import detached
from duebox.following import lookups_to
from duebox.identities import aggregate_type
from duebox.plans import plans
from duebox.store import row_changes
from duebox.store.brief import Busy, brief
from duebox.store.row_changes import Change
from duebox.syncing import reconcile_rows, sync_rows

logger = logging.getLogger("duebox.plans")

BATCH = 500
"""So many rows are planned in one transaction, or those of one note, which may be 1,000."""
LOCK_SECONDS = 0.05
"""How long to wait for a row that another transaction holds. Less than the server's deadlock_timeout, so that the other
transaction is never the one that is ended."""
Until = Callable[[], bool]


def plan_changes(using: str, *, until: Until = lambda: False) -> int:
    """Plan what was noted, in batches, each in a transaction of its own; gives how many rows that were. What is locked
    by somebody else, or cannot be planned, is left for later."""
    sources = _sources() if conf().CAPTURE else set()
    if not sources or not row_changes.any_changes(using):
        return 0
    skipped: set[int] = set()
    done = _plan_all_rows(using, sources)
    while not until():
        count = _plan_some(using, sources, skipped, until, many=False)
        count += _plan_some(using, sources, skipped, until, many=True)
        if not count:
            break
        done += count
    return done


def _sources() -> set[str]:
    """The types of rows that plans follow."""
    return {aggregate_type(model) for plan in plans() for model in (plan.model, *plan.follows)}


def _plan_all_rows(using: str, sources: Collection[str]) -> int:
    """After a TRUNCATE, or while a column is being renamed. A whole table is not planned in one transaction, so the
    notes stay until it is done."""
    notes = row_changes.of_all_rows(using, sources)
    named = {note.source for note in notes}
    for plan in plans():
        if plan.aggregate_type in named or any(lookups_to(plan, source) for source in named):
            reconcile_rows(plan, using=using)
    if notes:
        row_changes.remove(using, notes)
    return len(notes)


def _plan_some(using: str, sources: Collection[str], skipped: set[int], until: Until, *, many: bool) -> int:
    """All notes that can be planned now, of one row each; or one note of many."""
    done, most = 0, 1 if many else BATCH
    limit = most
    while not until():
        taken: list[Change] = []
        try:
            with brief(using, LOCK_SECONDS), detached():
                taken = row_changes.take(using, limit, many=many, sources=sources, busy=skipped)
                _plan(using, taken)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            if not taken:
                return done  # the notes themselves are locked
            if many and isinstance(error, Busy):
                row_changes.split(using, taken[0])
                return done + _plan_some(using, sources, skipped, until, many=False)
            if len(taken) == 1:
                skipped.add(taken[0].id)
                if not isinstance(error, Busy):
                    logger.exception("changed rows not planned: source=%s keys=%s", taken[0].source, taken[0].keys[:5])
            limit = 1
            continue
        done += sum(len(change.keys) for change in taken)
        if many or not taken:
            return done
        limit = min(most, limit * 2)
    return done


def _plan(using: str, changes: Collection[Change]) -> None:
    """Rows that follow a changed one are noted in their turn: there may be very many of them."""
    by_source: dict[str, set[str]] = {}
    for change in changes:
        by_source.setdefault(change.source, set()).update(change.keys)
    for source, keys in by_source.items():
        for plan in plans():
            if plan.aggregate_type == source:
                sync_rows(plan, _primary_keys(plan.model, keys), using=using, why="its row was changed")
            for model, lookup in lookups_to(plan, source):
                rows = plan.queryset().using(using).filter(**{f"{lookup}__pk__in": _primary_keys(model, keys)})
                found = [str(pk) for pk in rows.order_by("pk").values_list("pk", flat=True).distinct()]
                row_changes.add(using, plan.aggregate_type, found)


def _primary_keys(model: Any, keys: Iterable[str]) -> list[Any]:
    return sorted(model._meta.pk.to_python(key) for key in keys)
