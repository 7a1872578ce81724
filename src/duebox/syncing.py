"""Bring the schedules of a plan in line with the rows of its model: in batches, a handful of statements for each.

The rows of the model are locked before they are read and the schedules after that, in the same order as a save that
plans anew: so nobody writes down a plan that is older than the row.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import models, transaction

from duebox import clock
from duebox.planner import Change, cancel_all, plan_all, write_all
from duebox.store import schedules
from duebox.store.lookups import any_of, with_keys

if TYPE_CHECKING:
    from duebox.models import Schedule
    from duebox.plans import Plan

logger = logging.getLogger("duebox.plans")

BATCH = 2_000
Rows = models.QuerySet[Any] | Iterable[Any]
Progress = Callable[[int], None]


@dataclass
class Synced:
    """What a sync changed; `failed` holds what went wrong by primary key."""

    planned: int = 0
    moved: int = 0
    changed: int = 0
    unchanged: int = 0
    cancelled: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    def count(self, change: Change) -> None:
        before, row = change.before, change.row
        if row is None:
            self.unchanged += 1
        elif before is None or before.status in ("cancelled", "completed", "failed"):
            self.planned += 1
        elif row.due_at != before.due_at:
            self.moved += 1
        else:
            self.changed += 1

    def __str__(self) -> str:
        words = ("planned", "moved", "changed", "unchanged", "cancelled")
        return " ".join(f"{word}={getattr(self, word)}" for word in words) + f" failed={len(self.failed)}"


def sync_rows(
    plan: Plan,
    rows: Rows,
    *,
    using: str,
    dry_run: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
) -> Synced:
    """Plan anew for a queryset, or for primary keys. With `strict` the first row that cannot be planned raises."""
    synced = Synced()
    for pks in _batches(rows, using):
        with _collector_at_rest(), transaction.atomic(using=using, savepoint=False):
            _sync_batch(plan, pks, using, dry_run, strict, synced)
        if progress:
            progress(len(pks))
    return synced


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """A batch makes a hundred thousand objects and no cycles; looking for some among them took a fifth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def reconcile_rows(plan: Plan, *, using: str, dry_run: bool = False, progress: Progress | None = None) -> Synced:
    """Plan anew for all rows, and take back what belongs to rows that are gone."""
    synced = sync_rows(plan, plan.queryset(), using=using, dry_run=dry_run, progress=progress)
    last = 0
    while found := _live_after(plan, using, last):
        last = found[-1][0]
        pks = {plan.model._meta.pk.to_python(text) for _, text in found}
        gone = pks - set(plan.queryset().using(using).filter(pk__in=pks).values_list("pk", flat=True))
        if dry_run:
            synced.cancelled += sum(plan.model._meta.pk.to_python(text) in gone for _, text in found)
        elif gone:
            synced.cancelled += cancel_rows(plan, list(gone), using=using)
    return synced


def cancel_rows(plan: Plan, pks: Sequence[Any], *, using: str) -> int:
    """Take back everything that was planned for these rows."""
    with transaction.atomic(using=using, savepoint=False):
        return cancel_all(using, _existing(plan, pks, using), why="its row is gone")


def _batches(rows: Rows, using: str) -> Iterator[list[Any]]:
    """Primary keys. A queryset is read on from the last one each time: no cursor stays open, whatever is in between."""
    if not isinstance(rows, models.QuerySet):
        pks = list(rows)
        yield from (pks[begin : begin + BATCH] for begin in range(0, len(pks), BATCH))
        return
    if rows.query.is_sliced:
        yield from _batches(list(rows.using(using).values_list("pk", flat=True)), using)
        return
    ordered = rows.using(using).order_by("pk").values_list("pk", flat=True).distinct()
    batch = list(ordered[:BATCH])
    while batch:
        yield batch
        batch = list(ordered.filter(pk__gt=batch[-1])[:BATCH])


def _sync_batch(plan: Plan, pks: Sequence[Any], using: str, dry_run: bool, strict: bool, synced: Synced) -> None:
    rows = _read(plan, pks, using, locked=not dry_run)
    before = {row.key: row for row in _existing(plan, pks, using)}
    changes = sorted(_changes(plan, rows, before, strict, synced), key=lambda change: change.wanted.key)
    for change in changes:
        synced.count(change)
    keys = {change.wanted.key for change in changes}
    left = [row for row in before.values() if row.key not in keys and _may_end(row, synced)]
    if dry_run:
        synced.cancelled += len(left)
        return
    write_all(using, changes, why=f"plan {plan.name}")
    synced.cancelled += cancel_all(using, left, why=f"plan {plan.name}")


def _may_end(row: Schedule, synced: Synced) -> bool:
    """What could not be planned anew stays as it was."""
    return row.status in ("scheduled", "paused") and row.aggregate_id not in synced.failed


def _read(plan: Plan, pks: Sequence[Any], using: str, *, locked: bool) -> list[Any]:
    """The rows as the plan reads them, held until the transaction ends."""
    rows = plan.queryset().using(using).filter(with_keys(pks, plan.model))
    if locked and _may_be_locked(rows):
        return list(rows.select_for_update(no_key=True, of=("self",)).order_by("pk"))
    if locked:
        held = plan.model._base_manager.using(using).select_for_update(no_key=True)
        held = held.filter(with_keys(pks, plan.model)).order_by("pk")
        list(held.values_list("pk", flat=True))
    return list(rows)


def _may_be_locked(rows: models.QuerySet[Any]) -> bool:
    query = rows.query
    across = any(getattr(each, "contains_over_clause", False) for each in query.annotations.values())
    return not (query.distinct or query.group_by is not None or query.combinator or query.extra or across)


def _changes(
    plan: Plan, rows: Sequence[Any], before: dict[str, Schedule], strict: bool, synced: Synced
) -> Iterator[Change]:
    now, draft = clock.now(), plan.draft()
    for row in rows:
        try:
            yield from plan_all(plan.wanted(row, draft), before, now)
        except Exception as error:
            if strict:
                raise
            synced.failed[str(row.pk)] = f"{type(error).__name__}: {error}"
            logger.exception("not planned: plan=%s row=%s", plan.name, row.pk)


def _existing(plan: Plan, pks: Sequence[Any], using: str) -> list[Schedule]:
    rows = schedules.rows(using).filter(any_of("aggregate_id", map(str, pks)), aggregate_type=plan.aggregate_type)
    return schedules.locked(rows.filter(plan=plan.name))


def _live_after(plan: Plan, using: str, last: int) -> list[tuple[int, str]]:
    rows = schedules.rows(using).filter(plan=plan.name, status__in=["scheduled", "paused"], id__gt=last)
    return list(rows.order_by("id").values_list("id", "aggregate_id")[:BATCH])
