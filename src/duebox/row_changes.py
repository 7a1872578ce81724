"""Plan rows again whose changes were noted by triggers: those that no save through Django has planned already."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from duebox.context import detached
from duebox.following import lookups_to
from duebox.plans import Plan, plans
from duebox.store import row_changes
from duebox.store.brief import Busy, brief
from duebox.store.row_changes import ALL_ROWS, Change
from duebox.syncing import reconcile_rows, sync_rows

logger = logging.getLogger("duebox.plans")

BATCH = 500
"""So many rows are planned in one transaction, or those of one note, which may be 1,000."""
LOCK_SECONDS = 0.05
"""How long to wait for a row that another transaction holds. Less than the server's deadlock_timeout, so that the other
transaction is never the one that is ended."""


def plan_changes(using: str, *, until: Callable[[], bool] = lambda: False) -> int:
    """Plan what was noted, in batches; gives how many rows that were. Rows that are locked are left for later."""
    if not plans() or not row_changes.any_changes(using):
        return 0
    return _plan_until(using, until, many=False) + _plan_until(using, until, many=True)


def _plan_until(using: str, until: Callable[[], bool], *, many: bool) -> int:
    done, most = 0, 1 if many else BATCH
    limit, busy = most, set[int]()
    while not until():
        taken: list[Change] = []
        try:
            with brief(using, LOCK_SECONDS), detached():
                taken = row_changes.take(using, limit, many=many, busy=busy)
                _plan(using, taken)
        except Busy:
            if not taken:
                return done
            if many:
                row_changes.split(using, taken[0])
                return done + _plan_until(using, until, many=False)
            if len(taken) == 1:
                busy.add(taken[0].id)
            limit = 1
            continue
        if not taken:
            return done
        done += sum(len(change.keys) for change in taken)
        limit = min(most, limit * 2)
    return done


def _plan(using: str, changes: Collection[Change]) -> None:
    by_source: dict[str, set[str]] = {}
    for change in changes:
        by_source.setdefault(change.source, set()).update(change.keys)
    for source, keys in by_source.items():
        for plan in plans():
            _plan_rows(plan, source, keys, using)


def _plan_rows(plan: Plan, source: str, keys: Collection[str], using: str) -> None:
    lookups = lookups_to(plan, source)
    if ALL_ROWS in keys and (plan.aggregate_type == source or lookups):
        reconcile_rows(plan, using=using)
        return
    if plan.aggregate_type == source:
        sync_rows(plan, _primary_keys(plan.model, keys), using=using, why="its row was changed")
    for model, lookup in lookups:
        rows = plan.queryset().using(using).filter(**{f"{lookup}__in": _primary_keys(model, keys)})
        sync_rows(plan, rows, using=using, why="a row that it follows was changed")


def _primary_keys(model: Any, keys: Iterable[str]) -> list[Any]:
    return sorted(model._meta.pk.to_python(key) for key in keys)
