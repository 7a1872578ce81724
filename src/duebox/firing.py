"""Fire what is due: events and deliveries inserted, schedules advanced, in one transaction, a few statements for all.

No code of the user runs here but the queries by which a plan checks that its subjects are still valid.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction

from duebox.conf import conf
from duebox.deciding import Decision as Decision
from duebox.deciding import Slot, decide, event_key, next_step, trail_of
from duebox.emit import announce, stream_of
from duebox.fact import EXPIRES_AFTER, EXPIRES_AT, Fact, FactRow
from duebox.ids import uuid7
from duebox.promise import with_twins
from duebox.store import schedules
from duebox.store.row_changes import changed_of, sources_with_changes
from duebox.store.schedules import DueSchedule, FiredDelivery, Route
from duebox.subscribers import PERIODIC, Subscriber, receivers_for

logger = logging.getLogger("duebox.worker")

BATCH = 1000
POSTPONE = timedelta(minutes=1)
Guard = Callable[[str, Collection[str]], set[str]]

Refresh = Callable[[str, Collection[str]], tuple[set[str], set[str]]]

_guards: dict[str, Guard] = {}
_follows: dict[str, Follow] = {}
_dump = json.JSONEncoder(ensure_ascii=False).encode


class Follow(NamedTuple):
    """How the schedules of a plan follow rows that change."""

    sources: tuple[str, ...]
    """The types of the rows that the plan follows besides those of its own model."""
    refresh: Refresh
    """Plan rows anew, given a database and ids; gives the ids of those that are up to date until the transaction ends,
    and of those that cannot be planned."""


class Fired(NamedTuple):
    """How many schedules were due, and how many events they made."""

    due: int = 0
    events: int = 0


def guard(plan: str, still_valid: Guard) -> None:
    """Ask this before firing schedules of a plan: given a database and ids, which of them are still valid?"""
    _guards[plan] = still_valid


def unguard(plan: str) -> None:
    """Ask no more."""
    _guards.pop(plan, None)


def follow(plan: str, sources: tuple[str, ...], refresh: Refresh) -> None:
    """Schedules of this plan do not fire while a row of theirs has a change that was not planned yet."""
    _follows[plan] = Follow(sources, refresh)


def unfollow(plan: str) -> None:
    """Fire them whatever has changed."""
    _follows.pop(plan, None)


def fire_due(using: str, *, limit: int = BATCH, floor: datetime | None = None, now: datetime | None = None) -> Fired:
    """Fire at most `limit` schedules that are due; call again while it finds that many. With `floor` the caller says
    that none is due from before."""
    # Without a savepoint: in a test that lives through years, each would make every later look at the row slower.
    with transaction.atomic(using=using, savepoint=False):
        due, moment = schedules.due(using, limit, floor=floor, now=now)
        failed: set[int] = set()
        if stale := _stale(using, due):
            refreshed, failed = _refreshed(using, stale)
            due, moment = schedules.due(using, limit, floor=floor, now=now)
            left = {row.id for row in _stale(using, due)} - refreshed - failed
            due = [row for row in due if row.id not in left]
        if not due:
            return Fired()
        decided = [_postponed(row, moment) if row.id in failed else decide(row, max(moment, row.due_at)) for row in due]
        decisions = _guarded(using, decided, moment)
        fired = carry_out(using, decisions, occurred=moment.timestamp(), now=now)
        stored = {row.key for _, row in fired}
        schedules.tell(using, [line for each in decisions for line in trail_of(each, stored)], now=now)
    for each in decisions:
        if each.problem:
            logger.error("schedule failed: key=%s problem=%s", each.row.key, each.problem)
    return Fired(len(due), len({one.event for one, _ in fired}))


def _stale(using: str, due: Sequence[DueSchedule]) -> list[DueSchedule]:
    """Those whose row was changed and not planned again yet; of a plan that follows other rows, all of them as long as
    one of those rows was: which of them it concerns is known when they are planned. The schedules are locked, and a
    change of their rows locks them too, so no change that was committed before is missed."""
    rows = [row for row in due if row.plan in _follows] if conf().CAPTURE else []
    if not rows:
        return []
    changed = changed_of(using, [(row.id, row.aggregate_type, row.aggregate_id) for row in rows])
    sources = {source for row in rows for source in _follows[row.plan].sources}
    pending = sources_with_changes(using, sources) if sources else set()
    return [row for row in rows if row.id in changed or not pending.isdisjoint(_follows[row.plan].sources)]


def _refreshed(using: str, stale: Sequence[DueSchedule]) -> tuple[set[int], set[int]]:
    """Plan their rows again; gives the ids of the schedules for which that was possible, and of those whose plan
    failed. The others are held by somebody else."""
    by_plan: dict[str, dict[str, list[int]]] = {}
    for row in stale:
        by_plan.setdefault(row.plan, {}).setdefault(row.aggregate_id, []).append(row.id)
    refreshed: set[int] = set()
    failed: set[int] = set()
    for plan, rows in by_plan.items():
        try:
            fresh, wrong = _follows[plan].refresh(using, list(rows))
            refreshed.update(id for each in fresh for id in rows[each])
            failed.update(id for each in wrong for id in rows[each])
        except Exception:
            logger.exception("changed rows not planned: plan=%s; its schedules are tried again in a minute", plan)
            failed.update(id for ids in rows.values() for id in ids)
    return refreshed, failed


class Prepared(NamedTuple):
    """What is to be done about schedules that come due soon."""

    ready: list[Decision]
    other: datetime | None
    """When the first of those comes due that cannot be decided before its time: its plan is to be asked, or its rule
    cannot be followed."""
    last: DueSchedule | None
    """The last one that was looked at, where there may be more."""


def prepare(
    using: str, *, limit: int, seconds: float, before: float = 0.0, after: DueSchedule | None = None
) -> Prepared:
    """Decide about those that come due within so many seconds, or came due within the last seconds `before`; with
    `after`, about those that follow that one."""
    rows = schedules.ahead(using, limit, seconds=seconds, before=before, after=after)
    decisions = [decide(row, row.due_at) for row in rows]
    ready = [each for each in decisions if _is_plain(each)]
    others = [each.row.due_at for each in decisions if not _is_plain(each)]
    return Prepared(ready, min(others, default=None), rows[-1] if len(rows) == limit else None)


def _is_plain(each: Decision) -> bool:
    """Whether there is nothing to ask and nothing to tell about it."""
    return bool(each.fire) and not each.missed and not each.problem and each.row.plan not in _guards


def carry_out(
    using: str,
    decisions: Sequence[Decision],
    *,
    occurred: float,
    now: datetime | None = None,
    lease: int = 0,
    mine: Collection[str] = (),
    look: bool = False,
) -> list[tuple[FiredDelivery, FactRow]]:
    """Store what was decided; gives the deliveries, those of subscribers in `mine` under the lease. With `look`, what
    has a change that was not planned yet is left out."""
    producer = conf().PRODUCER
    facts = [
        (each.row.id, fact)
        for each in decisions
        for slot in each.fire
        for fact in with_twins([_fact_row(each.row, slot, occurred, producer)])
    ]
    routes = [
        Route(row.id, each.name, stream_of(row, each), each.name in mine and not each.ordered)
        for _, row in facts
        for each in _receivers(row)
    ]
    steps = [next_step(each) for each in decisions]
    rows = {row.id: row for _, row in facts}
    plans = {each.row.plan for each in decisions if each.row.plan in _follows} if look and conf().CAPTURE else set()
    follows = [(plan, source) for plan in plans for source in _follows[plan].sources] if plans else None
    fired = schedules.fire(using, steps, facts, routes, lease=lease, now=now, follows=follows)
    stored = [(one, rows[one.event]) for one in fired]
    announce([Fact(rows[event]) for event in dict.fromkeys(one.event for one, _ in stored)], using)
    return stored


def _receivers(row: FactRow) -> Sequence[Subscriber]:
    """Who gets the event. That of a periodic function waits for it also where this worker's code is too old to know it,
    as during a deployment."""
    found = receivers_for(row)
    if found or not row.type.startswith(PERIODIC):
        return found
    return [Subscriber(name=row.aggregate_id, pattern=row.type, handler=lambda event: None)]


def _guarded(using: str, decisions: list[Decision], now: datetime) -> list[Decision]:
    """Without those whose plan says that their subject is not valid any more; one query for each plan."""
    asked: dict[str, set[str]] = {}
    for each in decisions:
        if each.fire and each.row.plan in _guards:
            asked.setdefault(each.row.plan, set()).add(each.row.aggregate_id)
    answers = {plan: _ask(using, plan, ids) for plan, ids in asked.items()}
    return [_checked(each, answers[each.row.plan], now) if each.fire and each.row.plan in answers else each
            for each in decisions]  # fmt: skip


def _ask(using: str, plan: str, ids: set[str]) -> set[str] | None:
    try:
        with transaction.atomic(using=using):
            return _guards[plan](using, ids)
    except Exception:
        logger.exception("still_valid failed: plan=%s; its schedules are tried again in a minute", plan)
        return None


def _postponed(row: DueSchedule, now: datetime) -> Decision:
    return Decision(row, [], None, None, postponed=now + POSTPONE)


def _checked(each: Decision, valid: set[str] | None, now: datetime) -> Decision:
    if valid is None:
        return _postponed(each.row, now)
    return each if each.row.aggregate_id in valid else each._replace(fire=[], skipped=each.fire)


def _fact_row(row: DueSchedule, slot: Slot, occurred: float, producer: str) -> FactRow:
    new_id = str(uuid7())
    return FactRow(
        id=new_id, type=row.type, version=row.version, occurred=occurred, aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id, organization=row.organization, correlation=row.correlation_id or new_id,
        causation=None, actor=row.actor, producer=producer, key=event_key(row, slot), data=row.data,
        metadata=_metadata(row, slot),
    )  # fmt: skip


def _metadata(row: DueSchedule, slot: Slot) -> str:
    about: dict[str, Any] = {
        "key": row.key,
        "occurrence": slot.key,
        "due": slot.at.isoformat(),
        "local": slot.local,
        "zone": row.zone,
    }
    if "/" in slot.key:
        about["offset"] = slot.key.partition("/")[2]
    if slot.marks:
        about["marks"] = slot.marks.split(",")
    given = {} if row.metadata == "{}" else json.loads(row.metadata)
    if EXPIRES_AFTER in given:
        given[EXPIRES_AT] = (slot.at + timedelta(seconds=given.pop(EXPIRES_AFTER))).astimezone(UTC).isoformat()
    return _dump({**given, "schedule": about})
