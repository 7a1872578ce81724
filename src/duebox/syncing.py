"""Bring the schedules of a plan in line with the rows of its model: in batches, a handful of statements for each.

The rows of the model are locked before they are read and the schedules after that, in the same order as a save that
plans anew: so nobody writes down a plan that is older than the row.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import models, transaction
from django.db.models import Q

from duebox.context import detached
from duebox.intent import rules_of
from duebox.planner import Change, Wanted, cancel_all, lift_opt_outs, plan_all, write_all
from duebox.store import database_clock, schedules
from duebox.store.lookups import any_of, with_keys

if TYPE_CHECKING:
    from duebox.models.schedule import Schedule, ScheduleQuerySet
    from duebox.plans import Plan

logger = logging.getLogger("duebox.plans")

BATCH = 2_000
COMPARED_FROM = 50
"""So many rows and more are compared with what is stored by the database; fewer are not worth a round trip."""
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
    restored: Collection[str] = (),
    why: str = "",
) -> Synced:
    """Plan anew for a queryset, or for primary keys. With `strict` the first row that cannot be planned raises.

    What somebody cancelled stays cancelled, but for the keys in `restored`.
    """
    synced = Synced()
    for pks in _batches(rows, using):
        with _collector_at_rest(), transaction.atomic(using=using, savepoint=False):
            _sync_batch(plan, pks, using, dry_run, strict, synced, restored, why)
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
    with detached():  # it brings up to date what a request has asked for, and has asked for nothing itself
        synced = sync_rows(plan, plan.queryset(), using=using, dry_run=dry_run, progress=progress)
    last = 0
    while found := _live_after(plan, using, last):
        last = found[-1][0]
        pks = {plan.model._meta.pk.to_python(text) for _, text in found}
        there = plan.queryset().using(using).filter(with_keys(pks, plan.model))
        gone = pks - set(there.values_list("pk", flat=True))
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


def _sync_batch(
    plan: Plan, pks: Sequence[Any], using: str, dry_run: bool, strict: bool, synced: Synced,
    restored: Collection[str], why: str,
) -> None:  # fmt: skip
    rows = _read(plan, pks, using, locked=not dry_run)
    wanted = _wanted(plan, rows, strict, synced)
    unchanged, stored = _compare(plan, pks, wanted, using)
    before = {row.key: row for row in stored}
    opt_outs = OptOuts(before, unchanged, restored, until_moved=plan.restore_on_move)
    found = _changes(plan, wanted, before, unchanged, opt_outs, using, strict, synced)
    changes = sorted(found, key=lambda change: change.wanted.key)
    for change in changes:
        synced.count(change)
    keys = {change.wanted.key for change in changes}
    left = [row for row in before.values() if row.key not in keys and _may_end(row, synced)]
    if dry_run:
        synced.cancelled += len(left)
        return
    write_all(using, changes, why=f"plan {plan.name}")
    lift_opt_outs(using, opt_outs.lifted, changes, why=why if restored else "its anchor moved")
    synced.cancelled += cancel_all(using, left, why=f"plan {plan.name}")


class OptOuts:
    """What somebody cancelled of the schedules of a plan: those are not planned, until they are restored."""

    def __init__(
        self, before: dict[str, Schedule], unchanged: Collection[str], restored: Collection[str], *, until_moved: bool
    ) -> None:
        self._known = before.keys() | unchanged
        self._until_moved = until_moved
        self._of_row: dict[str, list[Schedule]] = {}
        self.lifted: list[Schedule] = []
        for row in before.values():
            if row.opt_out and row.key in restored:
                self.lifted.append(row)
            elif row.opt_out:
                self._of_row.setdefault(row.aggregate_id, []).append(row)

    def without(self, pk: str, wanted: Iterable[Wanted]) -> tuple[Iterable[Wanted], int]:
        """What is to be planned of what a row of the model should have, and how many are not."""
        if pk not in self._of_row:
            return wanted, 0
        every = list(wanted)
        if self._until_moved:
            self._lift_moved(pk, every)
        cancelled = {row.key for row in self._of_row[pk]}
        # Who cancels everything about an entity means also what was not planned for it yet.
        whole = any(row.opt_out == "entity" for row in self._of_row[pk])
        kept = [each for each in every if each.key not in cancelled and not (whole and each.key not in self._known)]
        return kept, len(every) - len(kept)

    def _lift_moved(self, pk: str, wanted: Sequence[Wanted]) -> None:
        """An anchor that moved is another occurrence than the one that was cancelled."""
        anchors = {each.intent.table.rule.to_dict()["anchor"] for each in wanted}
        if not anchors:
            return
        of_row = self._of_row[pk]
        self._of_row[pk] = [row for row in of_row if _anchor_of(row) in anchors]
        self.lifted += [row for row in of_row if _anchor_of(row) not in anchors]


def _anchor_of(row: Schedule) -> str | None:
    """As the stored rule names it; None where the plan had another kind of rule then."""
    anchor: str | None = row.intent["when"]["rule"].get("anchor")
    return anchor


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


def _wanted(plan: Plan, rows: Sequence[Any], strict: bool, synced: Synced) -> dict[str, list[Wanted]]:
    """The schedules that each row should have, by its primary key; rows that cannot be planned are left out."""
    draft = plan.draft()
    found: dict[str, list[Wanted]] = {}
    for row in rows:
        try:
            found[str(row.pk)] = list(plan.wanted(row, draft))
        except Exception as error:
            _note_failure(plan, str(row.pk), error, strict, synced)
    return found


def _compare(
    plan: Plan, pks: Sequence[Any], wanted: dict[str, list[Wanted]], using: str
) -> tuple[set[str], list[Schedule]]:
    """The keys of schedules that are stored as they are wanted, and all other stored schedules, locked.

    Of many rows the database compares: to read each schedule back and to take its rule apart took longer than to plan
    it. What is unchanged is not locked, since nothing is written for it.
    """
    if len(pks) < COMPARED_FROM:
        return set(), _existing(plan, pks, using)
    if not _of_rows(plan, pks, using).exists():
        return set(), []
    unchanged = schedules.unchanged(using, [_as_stored(each) for of_row in wanted.values() for each in of_row])
    return unchanged, _existing(plan, pks, using, without=unchanged)


def _as_stored(wanted: Wanted) -> schedules.Compared:
    event, intent = wanted.event, wanted.intent
    return schedules.Compared(
        wanted.key, wanted.plan, intent.to_json(), rules_of(intent.table.zone)[0], event.type, event.version,
        event.aggregate_type, event.aggregate_id, event.organization, event.data, event.metadata,
    )  # fmt: skip


def _changes(
    plan: Plan,
    wanted: dict[str, list[Wanted]],
    before: dict[str, Schedule],
    unchanged: set[str],
    opt_outs: OptOuts,
    using: str,
    strict: bool,
    synced: Synced,
) -> Iterator[Change]:
    now = database_clock.now(using)
    for pk, of_row in wanted.items():
        try:
            to_plan, _ = opt_outs.without(pk, of_row)
            changed = [each for each in to_plan if each.key not in unchanged]
            synced.unchanged += len(of_row) - len(changed)
            yield from plan_all(changed, before, now)
        except Exception as error:
            _note_failure(plan, pk, error, strict, synced)


def _note_failure(plan: Plan, pk: str, error: Exception, strict: bool, synced: Synced) -> None:
    if strict:
        raise error
    synced.failed[pk] = f"{type(error).__name__}: {error}"
    logger.error("not planned: plan=%s row=%s", plan.name, pk, exc_info=error)


def _existing(plan: Plan, pks: Sequence[Any], using: str, without: Collection[str] = ()) -> list[Schedule]:
    rows = _of_rows(plan, pks, using)
    return schedules.locked(rows.filter(~Q(any_of("key", without))) if without else rows)


def _of_rows(plan: Plan, pks: Sequence[Any], using: str) -> ScheduleQuerySet:
    rows = schedules.rows(using).filter(any_of("aggregate_id", map(str, pks)), aggregate_type=plan.aggregate_type)
    return rows.filter(plan=plan.name)


def _live_after(plan: Plan, using: str, last: int) -> list[tuple[int, str]]:
    rows = schedules.rows(using).filter(plan=plan.name, status__in=["scheduled", "paused"], id__gt=last)
    return schedules.listed(rows.order_by("id").values_list("id", "aggregate_id")[:BATCH])
