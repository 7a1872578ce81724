"""Fire due schedules: decide which occurrences fire and which are missed, insert events and deliveries, and advance the
schedules in one transaction.

The decision is made from the row alone: `decide` reads and writes nothing. No code of the user runs here but the
queries by which a plan checks that its subjects are still valid.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from json.encoder import encode_basestring as _quoted
from typing import NamedTuple

from django.db import transaction

from duebox.conf import conf
from duebox.contracts.enforce import with_public_events
from duebox.events.emit import announce, refuse_unroutable, stream_of
from duebox.events.fact import EXPIRES_AFTER, EXPIRES_AT, FactRow
from duebox.events.identities import uuid7
from duebox.events.subscribers import PERIODIC, Subscriber, receivers_for
from duebox.schedules.intent import Intent, described, is_plain_single, is_superseded, next_of, read_intent, rules_of
from duebox.schedules.planner import unlimited
from duebox.store import schedules
from duebox.store.row_changes import changed_of, sources_with_changes
from duebox.store.schedules import DueSchedule, FiredDelivery, NextStep, Route, ScheduleLogLine
from duebox.when import CatchUpMode, Late, Missed, Occurrence, WhenError, between, catch_up

NOT_VALID = "no longer valid"
ZONES_CHANGED = "the zone database changed"
EXISTS = "its event exists already"
POSTPONED = "postponed"
_AROUND = timedelta(days=2)


class Slot(NamedTuple):
    """One occurrence as the row or the rule names it."""

    key: str
    local: str
    at: datetime
    marks: str


_NONE = Slot("", "", datetime.max, "")


@dataclass(frozen=True, slots=True)
class MissedSlots:
    """Occurrences that will not fire any more; one line of the log, however many they are."""

    count: int
    first: Slot
    last: Slot
    more: bool = False

    def and_before(self, slot: Slot) -> MissedSlots:
        return MissedSlots(self.count + 1, slot, self.last, self.more)


class Decision(NamedTuple):
    """What becomes of one due schedule."""

    row: DueSchedule
    fire: list[Slot]
    missed: MissedSlots | None
    next: Occurrence | None
    note: str = ""
    problem: str = ""
    skipped: Sequence[Slot] = ()
    postponed: datetime | None = None


def decide(row: DueSchedule, now: datetime) -> Decision:
    """A row that cannot be read must not stop others: its problem is part of the decision."""
    try:
        refuse_unroutable(row.type, row.aggregate_type)
        _refuse_unstorable(row)
        return _decide(row, now)
    except Exception as error:
        return Decision(row, [], None, None, problem=_error_text(error))


def next_step(each: Decision) -> NextStep:
    """What is written down about the schedule itself."""
    row = each.row
    remaining = None if row.remaining is None else row.remaining - len(each.fire)
    zone_rules, release = ("", "") if each.problem else rules_of(row.zone)
    fired = each.fire[-1].key if each.fire else None
    status, due, slot = "scheduled", each.postponed, _pending(row)
    if each.postponed:
        slot = slot._replace(marks=",".join(filter(None, [*_own_marks(row), POSTPONED])))
    elif each.next is None or remaining == 0:
        status, slot = "failed" if each.problem else "completed", _NONE
    else:
        due, slot = each.next.instant, _slot(each.next)
    return NextStep(
        row.id, row.revision, status, due, slot.key, slot.local, slot.marks, fired, remaining, zone_rules, release
    )


def event_key(row: DueSchedule, slot: Slot) -> str:
    """The idempotency key of the event that an occurrence becomes."""
    return f"{row.key}/{slot.key}"


def log_lines_of(each: Decision, stored: Collection[str | None]) -> Sequence[ScheduleLogLine]:
    """What did not go as planned; `stored` are the keys of the events that were new."""
    row = each.row
    pending = _pending(row)
    lines = [_missed_line(row, each.missed, each.note)] if each.missed else []
    lines += [_line("skipped", row, slot, NOT_VALID) for slot in each.skipped]
    lines += [_line("skipped", row, slot, EXISTS) for slot in each.fire if event_key(row, slot) not in stored]
    if each.next is not None and each.next.key == row.occurrence:
        lines.append(_line("moved", row, pending, each.note)._replace(due_after=each.next.instant))
    return [*lines, _line("failed", row, pending, each.problem)] if each.problem else lines


def _refuse_unstorable(row: DueSchedule) -> None:
    """A row that was written with SQL may hold what the statement that fires cannot store. The statement would fail for
    all schedules that it fires."""
    if not row.metadata.startswith("{"):
        raise ValueError("its metadata is not an object")


def _decide(row: DueSchedule, now: datetime) -> Decision:
    changed = is_superseded(row.zone, row.zone_rules, row.tz_release)
    if not changed and POSTPONED not in row.marks:
        return _fire(row, now)
    intent = read_intent(row.intent)
    pending = _pending_today(row, intent)
    if pending is not None and not changed:
        return _fire(row._replace(due_at=pending.instant, marks=",".join(_own_marks(row))), now)
    if pending is not None and pending.instant > now:
        # By the rules as they are now, this is not the moment.
        return Decision(row, [], None, pending, note=ZONES_CHANGED)
    found = _fire(row, now)
    if not changed or (pending is not None and _may_fire_late(pending, row, intent)):
        return found
    fire = [slot for slot in found.fire if slot.key != row.occurrence]
    if found.missed is None:
        missed = _one_missed(_pending(row))
    elif found.missed.first.key == row.occurrence:
        missed = found.missed
    else:
        missed = found.missed.and_before(_pending(row))
    return found._replace(fire=fire, missed=missed, note=ZONES_CHANGED)


def _pending_today(row: DueSchedule, intent: Intent) -> Occurrence | None:
    """The pending occurrence as its rule and the zone database give it today. Its instant differs from `due_at` if the
    zone database changed or the schedule was postponed; None if the rule does not have this occurrence any more."""
    meant = datetime.fromisoformat(row.local_time).replace(tzinfo=UTC) if row.local_time else row.due_at
    since = min(row.due_at, meant) - _AROUND
    found = between(unlimited(intent.table), since, row.due_at + _AROUND, seed=row.key)
    return next((one for one in found if one.key == row.occurrence), None)


def _may_fire_late(pending: Occurrence, row: DueSchedule, intent: Intent) -> bool:
    """Whether an occurrence whose instant is past fires after an update of the zone database: the update did not move
    it to an earlier time, or by no more than the grace and `late` is `fire_now`."""
    moved_back = row.due_at - pending.instant
    return moved_back <= timedelta(0) or (intent.late is Late.FIRE_NOW and moved_back <= intent.grace)


def _fire(row: DueSchedule, now: datetime) -> Decision:
    if is_plain_single(row.intent):
        return Decision(row, [_pending(row)], None, None)
    intent = read_intent(row.intent)
    try:
        found = _fire_and_advance(row, intent, now)
    except WhenError as error:
        # Nothing can follow it; that is no reason to keep it back.
        found = Decision(row, *_if_in_time(row, intent, now), None, problem=_error_text(error))
    if row.remaining is None or len(found.fire) < row.remaining:
        return found
    return found._replace(fire=found.fire[: row.remaining], next=None, problem="")


def _fire_and_advance(row: DueSchedule, intent: Intent, now: datetime) -> Decision:
    """Fire the pending occurrence and find the one after it. If that is due already, too, catch up."""
    after = None if intent.table.rule.single else _following(row, row.due_at)
    if after is None or after.instant > now:
        return Decision(row, *_if_in_time(row, intent, now), after)
    return _caught_up(row, intent, now)


def _following(row: DueSchedule, moment: datetime) -> Occurrence | None:
    """The first occurrence after a moment, by its instant. Keys are local times; close to a clock change their order is
    not that of the instants."""
    found = next_of(row.intent, moment, seed=row.key)
    if found is not None and found.key == row.occurrence:
        found = next_of(row.intent, found.instant, seed=row.key)
    return found


def _if_in_time(row: DueSchedule, intent: Intent, now: datetime) -> tuple[list[Slot], MissedSlots | None]:
    reach = intent.catch_up.grace if intent.catch_up.mode is CatchUpMode.NONE else intent.catch_up.window
    pending = _pending(row)
    return ([pending], None) if reach is None or now - row.due_at <= reach else ([], _one_missed(pending))


def _caught_up(row: DueSchedule, intent: Intent, now: datetime) -> Decision:
    """Several occurrences came due while no worker ran: the catch-up policy decides which of them fire."""
    policy = intent.catch_up
    found = catch_up(unlimited(intent.table), since=row.due_at, now=now, by=policy, seed=row.key)
    fire = [_slot(one) for one in found.fire]
    missed = _missed_slots(found.missed) if found.missed else None
    first = missed.first if missed else fire[0] if fire else None
    if first is None or first.key != row.occurrence:
        # Due at another instant than its own: a change of its zone made it late.
        pending = _pending(row)
        in_time, _ = _if_in_time(row, intent, now)
        if policy.mode is CatchUpMode.ALL and len(fire) < policy.cap and not missed and in_time:
            fire = [pending, *fire]
        else:
            missed = missed.and_before(pending) if missed else _one_missed(pending)
    return Decision(row, fire, missed, _following(row, now))


def _missed_slots(missed: Missed) -> MissedSlots:
    return MissedSlots(missed.count, _slot(missed.first), _slot(missed.last), missed.more)


def _one_missed(slot: Slot) -> MissedSlots:
    return MissedSlots(1, slot, slot)


def _pending(row: DueSchedule) -> Slot:
    return Slot(row.occurrence, row.local_time, row.due_at, row.marks)


def _slot(one: Occurrence) -> Slot:
    local, marks = described(one)
    return Slot(one.key, local, one.instant, marks)


def _own_marks(row: DueSchedule) -> list[str]:
    return [mark for mark in row.marks.split(",") if mark != POSTPONED]


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _line(what: str, row: DueSchedule, slot: Slot, note: str) -> ScheduleLogLine:
    return ScheduleLogLine(what, row.key, slot.key, row.aggregate_type, row.aggregate_id, slot.at, note=note)


def _missed_line(row: DueSchedule, missed: MissedSlots, note: str) -> ScheduleLogLine:
    line = _line("missed", row, missed.first, note)
    if missed.count == 1:
        return line
    more = f"{missed.count} were counted, there are more" if missed.more else ""
    return line._replace(
        occurrences=missed.count,
        last_occurrence=missed.last.key,
        due_after=missed.last.at,
        note=", ".join(filter(None, [note, more])),
    )


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

    sources: Callable[[], tuple[str, ...]]
    """The types of the rows that the plan follows besides those of its own model. Asked for when they are needed: a
    setting that gives one type to two models is reported by a system check, before which the plan is declared."""
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


def follow(plan: str, sources: Callable[[], tuple[str, ...]], refresh: Refresh) -> None:
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
        refreshed: set[int] = set()
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
        fired, left = carry_out(using, decisions, occurred=moment.timestamp(), now=now, refreshed=refreshed | failed)
        decisions = [each for each in decisions if each.row.id not in left]
        stored = {row.key for _, row in fired}
        schedules.write_log(using, [line for each in decisions for line in log_lines_of(each, stored)], now=now)
    for each in decisions:
        if each.problem:
            logger.error("schedule failed: key=%s problem=%s", each.row.key, each.problem)
    return Fired(len(due), len({one.event for one, _ in fired}))


def _stale(using: str, due: Sequence[DueSchedule]) -> list[DueSchedule]:
    """Those whose row was changed and not planned again yet; of a plan that follows other rows, all of them as long as
    one of those rows was: which of them it concerns is known when they are planned. The schedules are locked, and a
    change of their rows locks them too, so no change that was committed before is missed."""
    rows = [row for row in due if row.plan in _follows]
    if not rows:
        return []
    changed = changed_of(using, [(row.id, row.aggregate_type, row.aggregate_id) for row in rows])
    followed = {plan: _follows[plan].sources() for plan in {row.plan for row in rows}}
    sources = {source for of_plan in followed.values() for source in of_plan}
    pending = sources_with_changes(using, sources) if sources else set()
    return [row for row in rows if row.id in changed or not pending.isdisjoint(followed[row.plan])]


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


class CarriedOut(NamedTuple):
    """The events that were stored, one for each delivery, and the ids of schedules that were left alone."""

    stored: list[tuple[FiredDelivery, FactRow]]
    left: set[int]


def carry_out(
    using: str,
    decisions: Sequence[Decision],
    *,
    occurred: float,
    now: datetime | None = None,
    lease: int = 0,
    mine: Collection[str] = (),
    refreshed: Collection[int] = (),
) -> CarriedOut:
    """Store what was decided, deliveries to subscribers in `mine` under the lease. What has a change that was not
    planned yet is left alone: the statement that fires looks for it. Those in `refreshed` were planned again in this
    transaction, as far as it was possible."""
    producer = conf().PRODUCER
    facts = [
        (each.row.id, fact)
        for each in decisions
        for slot in each.fire
        for fact in with_public_events([_fact_row(each.row, slot, occurred, producer)])
    ]
    routes = [
        Route(row.id, each.name, stream_of(row, each), each.name in mine and not each.ordered)
        for _, row in facts
        for each in _receivers(row)
    ]
    steps = [next_step(each) for each in decisions]
    rows = {row.id: row for _, row in facts}
    plans = {each.row.plan for each in decisions if each.row.plan in _follows}
    follows = [(plan, source) for plan in plans for source in _follows[plan].sources()] if plans else None
    fired, left = schedules.fire(
        using, steps, facts, routes, lease=lease, now=now, follows=follows, refreshed=refreshed
    )
    stored = [(one, rows[one.event]) for one in fired]
    announce([rows[event] for event in dict.fromkeys(one.event for one, _ in stored)], using)
    return CarriedOut(stored, left)


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
    # Put together by hand: an encoder takes four times as long, and a crowd of schedules waits for it.
    about = f'"key": {_quoted(row.key)}, "occurrence": {_quoted(slot.key)}, "due": "{slot.at.isoformat()}"'
    about += f', "local": {_quoted(slot.local)}, "zone": {_quoted(row.zone)}'
    if "/" in slot.key:
        about += f', "offset": {_quoted(slot.key.partition("/")[2])}'
    if slot.marks:
        about += f', "marks": {_dump(slot.marks.split(","))}'
    schedule = f'"schedule": {{{about}}}'
    if row.metadata == "{}":
        return f"{{{schedule}}}"
    given = json.loads(row.metadata)
    given.pop("schedule", None)
    if EXPIRES_AFTER in given:
        given[EXPIRES_AT] = (slot.at + timedelta(seconds=given.pop(EXPIRES_AFTER))).astimezone(UTC).isoformat()
    return f"{_dump(given)[:-1]}{', ' if given else ''}{schedule}}}"
