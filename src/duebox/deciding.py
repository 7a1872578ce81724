"""What becomes of a schedule that is due: which occurrences fire, which are missed, and what comes next.

Decided from the row alone; nothing here asks or writes anything.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from duebox.emit import refuse_unroutable
from duebox.intent import Intent, described, is_plain_single, is_superseded, next_of, read_intent, rules_of
from duebox.planner import unlimited
from duebox.store.schedules import DueSchedule, NextStep, TrailLine
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
        return Decision(row, [], None, None, problem=_told(error))


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


def trail_of(each: Decision, stored: Collection[str | None]) -> Sequence[TrailLine]:
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
    """What somebody wrote past the front door would fail the statement, and everything else with it."""
    if not row.metadata.startswith("{"):
        raise ValueError("its metadata is not an object")


def _decide(row: DueSchedule, now: datetime) -> Decision:
    changed = is_superseded(row.zone, row.zone_rules, row.tz_release)
    if not changed and POSTPONED not in row.marks:
        return _fire(row, now)
    intent = read_intent(row.intent)
    named = _named(row, intent)
    if named is not None and not changed:
        return _fire(row._replace(due_at=named.instant, marks=",".join(_own_marks(row))), now)
    if named is not None and named.instant > now:
        # By the rules as they are now, this is not the moment.
        return Decision(row, [], None, named, note=ZONES_CHANGED)
    found = _fire(row, now)
    if not changed or (named is not None and _may_be_late(named, row, intent)):
        return found
    fire = [slot for slot in found.fire if slot.key != row.occurrence]
    if found.missed is None:
        missed = _one_missed(_pending(row))
    elif found.missed.first.key == row.occurrence:
        missed = found.missed
    else:
        missed = found.missed.and_before(_pending(row))
    return found._replace(fire=fire, missed=missed, note=ZONES_CHANGED)


def _named(row: DueSchedule, intent: Intent) -> Occurrence | None:
    """The pending occurrence as its rule names it today, which need not be when the row is due."""
    meant = datetime.fromisoformat(row.local_time).replace(tzinfo=UTC) if row.local_time else row.due_at
    since = min(row.due_at, meant) - _AROUND
    found = between(unlimited(intent.table), since, row.due_at + _AROUND, seed=row.key)
    return next((one for one in found if one.key == row.occurrence), None)


def _may_be_late(named: Occurrence, row: DueSchedule, intent: Intent) -> bool:
    moved_back = row.due_at - named.instant
    return moved_back <= timedelta(0) or (intent.late is Late.FIRE_NOW and moved_back <= intent.grace)


def _fire(row: DueSchedule, now: datetime) -> Decision:
    if is_plain_single(row.intent):
        return Decision(row, [_pending(row)], None, None)
    intent = read_intent(row.intent)
    try:
        found = _in_turn(row, intent, now)
    except WhenError as error:
        # Nothing can follow it; that is no reason to keep it back.
        found = Decision(row, *_if_in_time(row, intent, now), None, problem=_told(error))
    if row.remaining is None or len(found.fire) < row.remaining:
        return found
    return found._replace(fire=found.fire[: row.remaining], next=None, problem="")


def _in_turn(row: DueSchedule, intent: Intent, now: datetime) -> Decision:
    after = None if intent.table.rule.single else _following(row, row.due_at)
    if after is None or after.instant > now:
        return Decision(row, *_if_in_time(row, intent, now), after)
    return _caught_up(row, intent, now)


def _following(row: DueSchedule, moment: datetime) -> Occurrence | None:
    """The first occurrence after a moment, by its instant: close to a clock change names come in another order."""
    found = next_of(row.intent, moment, seed=row.key)
    if found is not None and found.key == row.occurrence:
        found = next_of(row.intent, found.instant, seed=row.key)
    return found


def _if_in_time(row: DueSchedule, intent: Intent, now: datetime) -> tuple[list[Slot], MissedSlots | None]:
    reach = intent.catch_up.grace if intent.catch_up.mode is CatchUpMode.NONE else intent.catch_up.window
    pending = _pending(row)
    return ([pending], None) if reach is None or now - row.due_at <= reach else ([], _one_missed(pending))


def _caught_up(row: DueSchedule, intent: Intent, now: datetime) -> Decision:
    """Several came due while nobody looked."""
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


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _line(what: str, row: DueSchedule, slot: Slot, note: str) -> TrailLine:
    return TrailLine(what, row.key, slot.key, row.aggregate_type, row.aggregate_id, slot.at, note=note)


def _missed_line(row: DueSchedule, missed: MissedSlots, note: str) -> TrailLine:
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
