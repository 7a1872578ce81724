"""Bring the schedules of a plan in line with the rows of its model: in batches, a handful of statements for each.

The rows of the model are locked before they are read and the schedules after that, in the same order as a save that
plans anew: so nobody writes down a plan that is older than the row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import models, transaction
from django.db.models import Q

from duebox.context.current import detached
from duebox.events.identities import key_from_text, text_of_key
from duebox.schedules.intent import rules_of
from duebox.schedules.planner import Change, Ready, Wanted, cancel_all, lift_opt_outs, plan_all, write_all
from duebox.store import run_sql, schedules
from duebox.store.run_sql import any_of, with_keys

if TYPE_CHECKING:
    from duebox.models.schedule import Schedule, ScheduleQuerySet
    from duebox.schedules.plans import Plan

logger = logging.getLogger("duebox.plans")

BATCH = 2_000
COMPARED_FROM = 50
"""So many rows and more are compared with what is stored by the database; fewer are not worth a round trip."""
Rows = models.QuerySet[Any] | Iterable[Any]
Progress = Callable[[int], None]
OfRow = tuple[str, list[Wanted]]
"""The primary key of a row, and the schedules that it should have."""


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
        with transaction.atomic(using=using, savepoint=False):
            _sync_batch(plan, pks, using, dry_run, strict, synced, restored, why)
        if progress:
            progress(len(pks))
    return synced


def reconcile_rows(plan: Plan, *, using: str, dry_run: bool = False, progress: Progress | None = None) -> Synced:
    """Plan anew for all rows, and take back what belongs to rows that are gone."""
    with detached():  # it brings up to date what a request has asked for, and has asked for nothing itself
        synced = sync_rows(plan, plan.queryset(), using=using, dry_run=dry_run, progress=progress)
    last = 0
    while found := _held_after(plan, using, last):
        last = found[-1][0]
        pks = [key_from_text(plan.model, aggregate_id) for _, aggregate_id, _ in found]
        there = plan.queryset().using(using).filter(with_keys(set(pks), plan.model))
        gone = set(pks).difference(there.values_list("pk", flat=True))
        if dry_run and gone:
            ends = (
                pk in gone and status in ("scheduled", "paused") for pk, (_, _, status) in zip(pks, found, strict=True)
            )
            synced.cancelled += sum(ends)
        elif gone:
            synced.cancelled += cancel_rows(plan, list(gone), using=using)
    return synced


def cancel_rows(plan: Plan, pks: Sequence[Any], *, using: str) -> int:
    """Take back everything that was planned for these rows."""
    with transaction.atomic(using=using, savepoint=False):
        stored = _existing(plan, pks, using)
        _forget_opt_outs(plan, stored, using)
        return cancel_all(using, stored, why="its row is gone")


def _forget_opt_outs(plan: Plan, stored: Iterable[Schedule], using: str) -> None:
    """What was cancelled for a row counts as long as the row exists: a new row with its primary key is another entity.
    One that the plan does not see any more, because of its `queryset`, still exists."""
    noted = [each for each in stored if each.opt_out]
    if not noted:
        return
    pks = {key_from_text(plan.model, each.aggregate_id) for each in noted}
    rows = plan.model._base_manager.using(using).filter(with_keys(list(pks), plan.model))
    there = {text_of_key(pk) for pk in rows.values_list("pk", flat=True)}
    schedules.opt_out(using, [each.id for each in noted if each.aggregate_id not in there], "")


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
    # Made one by one, and not kept where nothing is to be compared: the fewer objects there are at a time, the less
    # there is for Python's garbage collector to look at, which took a fifth of the time.
    wanted: Iterable[OfRow] = _wanted(plan, rows, strict, synced)
    unchanged: set[str] = set()
    if len(pks) < COMPARED_FROM:
        stored = _existing(plan, pks, using)
    elif _of_rows(plan, pks, using).exists():
        wanted = list(wanted)
        unchanged, stored = _compare(plan, pks, wanted, using)
    else:
        stored = []
    before = {row.key: row for row in stored}
    opt_outs = OptOuts(before, unchanged, restored, until_moved=plan.restore_on_move)
    changes = _changes(plan, wanted, before, unchanged, opt_outs, using, strict, synced)
    ready = Ready.of(_counted(changes, before, synced), why=f"plan {plan.name}")
    # What was not taken out of `before` is not wanted any more.
    left = [row for row in before.values() if _may_end(row, synced)]
    if dry_run:
        synced.cancelled += len(left)
        return
    if stored:
        seen = {text_of_key(row.pk) for row in rows}
        _forget_opt_outs(plan, (row for row in stored if row.aggregate_id not in seen), using)
    write_all(using, ready)
    lift_opt_outs(using, opt_outs.lifted, ready.rows, why=why if restored else "its anchor moved")
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
    if "." in rows.model._meta.db_table:
        return False  # FOR UPDATE OF takes no name with a schema
    across = any(getattr(each, "contains_over_clause", False) for each in query.annotations.values())
    return not (query.distinct or query.group_by is not None or query.combinator or query.extra or across)


def _wanted(plan: Plan, rows: Iterable[Any], strict: bool, synced: Synced) -> Iterator[OfRow]:
    """The schedules that each row should have, with its primary key; rows that cannot be planned are left out. A row
    that a queryset with joins finds twice counts once."""
    draft = plan.draft()
    seen: set[str] = set()
    for row in rows:
        pk = text_of_key(row.pk)
        if pk in seen:
            continue
        seen.add(pk)
        try:
            of_row = list(plan.wanted(row, draft))
        except Exception as error:
            _note_failure(plan, pk, error, strict, synced)
        else:
            yield pk, of_row


def _compare(plan: Plan, pks: Sequence[Any], wanted: Sequence[OfRow], using: str) -> tuple[set[str], list[Schedule]]:
    """The keys of schedules that are stored as they are wanted, and all other stored schedules, locked.

    Of many rows the database compares: to read each schedule back and to take its rule apart took longer than to plan
    it. What is unchanged is not locked, since nothing is written for it.
    """
    every = [each for _, of_row in wanted for each in of_row]
    compared = [_compared(each) for each in every]
    ids, keys = schedules.differing(using, plan.name, plan.aggregate_type, map(str, pks), compared)
    stored = schedules.locked(schedules.rows(using).filter(any_of("id", ids))) if ids else []
    return {each.key for each in every} - keys, stored


def _compared(wanted: Wanted) -> schedules.Compared:
    event, intent = wanted.event, wanted.intent
    return schedules.Compared(
        wanted.key, intent.to_json(), rules_of(intent.table.zone)[0], event.type, event.version, event.aggregate_id,
        event.organization, event.actor if wanted.names_actor else None, event.data, event.metadata,
    )  # fmt: skip


def _changes(
    plan: Plan,
    wanted: Iterable[OfRow],
    before: Mapping[str, Schedule],
    unchanged: set[str],
    opt_outs: OptOuts,
    using: str,
    strict: bool,
    synced: Synced,
) -> Iterator[Change]:
    now = run_sql.now(using)
    for pk, of_row in wanted:
        try:
            to_plan, _ = opt_outs.without(pk, of_row)
            changed = [each for each in to_plan if each.key not in unchanged]
            synced.unchanged += len(of_row) - len(changed)
            if changed:
                yield from plan_all(changed, before, now)
        except Exception as error:
            _note_failure(plan, pk, error, strict, synced)


def _counted(changes: Iterable[Change], before: dict[str, Schedule], synced: Synced) -> Iterator[Change]:
    """The same, counted, and taken out of what is stored."""
    for change in changes:
        synced.count(change)
        before.pop(change.wanted.key, None)
        yield change


def _note_failure(plan: Plan, pk: str, error: Exception, strict: bool, synced: Synced) -> None:
    if strict:
        raise error
    synced.failed[pk] = f"{type(error).__name__}: {error}"
    logger.error("not planned: plan=%s row=%s", plan.name, pk, exc_info=error)


def _existing(plan: Plan, pks: Sequence[Any], using: str) -> list[Schedule]:
    return schedules.locked(_of_rows(plan, pks, using))


def _of_rows(plan: Plan, pks: Sequence[Any], using: str) -> ScheduleQuerySet:
    rows = schedules.rows(using).filter(
        any_of("aggregate_id", map(text_of_key, pks)), aggregate_type=plan.aggregate_type
    )
    return rows.filter(plan=plan.name)


def _held_after(plan: Plan, using: str, last: int) -> list[tuple[int, str, str]]:
    """Schedules that a row which is gone must not leave behind: live ones, and those that somebody cancelled. Of each
    its id, the primary key of its row as text, and its status."""
    held = Q(status__in=["scheduled", "paused"]) | ~Q(opt_out="")
    rows = schedules.rows(using).filter(held, plan=plan.name, id__gt=last)
    return schedules.listed(rows.order_by("id").values_list("id", "aggregate_id", "status")[:BATCH])
