"""The one path by which an intention becomes a row, and a changed intention another due instant.

Whoever changes a schedule comes through here: a call of `schedule`, a plan whose subject moved, a new release of the
zone database. Rows are locked before anything is decided, so a change and a firing in the same second have one
outcome.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duebox.context.current import asked_by
from duebox.events.fact import Actor, FactRow
from duebox.schedules.intent import Intent, described, is_superseded, read_intent, rules_of
from duebox.store import schedules
from duebox.store.schedules import NextStep, ScheduleLogLine, ScheduleRow
from duebox.when import Late, Occurrence, Planned, Timetable, WhenError, next_after, replan

if TYPE_CHECKING:
    from duebox.models import Schedule


class Wanted(NamedTuple):
    """A schedule as somebody wants it: its name, the event it emits, and when."""

    key: str
    event: FactRow
    intent: Intent
    plan: str = ""
    names_actor: bool = False
    """Whether the actor of the event was given, and not taken from the request or event around the call."""


class Pending(Protocol):
    """A schedule as far as it says what is to come and what has been."""

    @property
    def key(self) -> str: ...
    @property
    def occurrence(self) -> str: ...
    @property
    def fired(self) -> str: ...


class Change(NamedTuple):
    """What became of one wanted schedule; `row` is None when nothing had to be written."""

    wanted: Wanted
    before: Schedule | None
    planned: Planned | None
    row: ScheduleRow | None
    missed: bool = False
    """Whether the occurrence that was pending will not fire any more, and nobody asked for that."""


def lock(using: str, keys: Collection[str]) -> dict[str, Schedule]:
    """The schedules under these keys, held until the transaction ends."""
    return {row.key: row for row in schedules.locked(schedules.rows(using).filter(key__in=keys))}


class Ready(NamedTuple):
    """What is to be written of changes."""

    rows: list[ScheduleRow]
    lines: list[ScheduleLogLine]

    @classmethod
    def of(cls, changes: Iterable[Change], *, why: str) -> Ready:
        ready = cls([], [])
        for each in changes:
            if each.row is not None:
                ready.rows.append(each.row)
                ready.lines.extend(_lines(each, why))
        return ready


def plan_all(wanted: Iterable[Wanted], before: Mapping[str, Schedule], now: datetime) -> list[Change]:
    """Decide; nothing is written yet."""
    return [_change(each, before.get(each.key), now) for each in wanted]


def write_all(using: str, ready: Ready) -> None:
    """Store what changed, and log why and who asked for it."""
    if ready.rows:
        schedules.write(using, ready.rows)
        schedules.write_log(using, _signed(ready.lines))


def write_past(using: str, change: Change) -> None:
    """Store that there is nothing to come under a key that is new; what is stored already stays as it is."""
    if change.before is None and change.planned is not None:
        remaining = change.wanted.intent.table.remaining
        schedules.write(using, [_row(change.wanted, change.planned, "completed", remaining)])


def cancel_all(using: str, rows: Sequence[Schedule], *, why: str = "") -> int:
    """Take locked schedules back; what has ended already stays as it is."""
    live = [row for row in rows if row.status in ("scheduled", "paused")]
    if live:
        schedules.advance(using, [_rest(row, "cancelled") for row in live])
        schedules.write_log(using, _signed([_line("cancelled", row, due_before=row.due_at, note=why) for row in live]))
    return len(live)


def opt_out(using: str, rows: Sequence[Schedule], how: str, *, why: str = "") -> int:
    """Take locked schedules back for somebody who asked for that; gives how many were live. A plan leaves them alone
    until they are restored, also those among them that had ended already."""
    live = [row for row in rows if row.status in ("scheduled", "paused")]
    schedules.opt_out(using, [row.id for row in rows], how)
    schedules.write_log(using, [_line("cancelled", row, due_before=row.due_at, note=why) for row in live])
    return len(live)


def lift_opt_outs(using: str, rows: Sequence[Schedule], written: Sequence[ScheduleRow], *, why: str) -> None:
    """Somebody asked for locked schedules again, or their anchor moved. What of them is to come has been written."""
    if rows:
        due = {row.key: row.due_at for row in written}
        schedules.opt_out(using, [row.id for row in rows if row.key not in due], "")
        schedules.write_log(using, [_restored(row, due.get(row.key), why) for row in rows])


def revive(using: str, rows: Sequence[Schedule], now: datetime, *, why: str) -> int:
    """Plan locked schedules again by their own intent; gives how many have something to come."""
    planned = [(row, replanned(row, read_intent(row.intent), now, moved_zone=False).next) for row in rows]
    found = [(row, one) for row, one in planned if one is not None]
    if found:
        schedules.advance(using, [step(row, one) for row, one in found])
        schedules.write_log(using, [_restored(row, one.instant, why) for row, one in found])
    return len(found)


def put_to_rest(using: str, rows: Sequence[Schedule], status: str, what: str, why: str = "") -> int:
    """Give locked schedules a status without a due instant."""
    if rows:
        schedules.advance(using, [_rest(row, status) for row in rows])
        schedules.write_log(using, [_line(what, row, due_before=row.due_at, note=why) for row in rows])
    return len(rows)


def wake(using: str, rows: Sequence[Schedule], now: datetime, *, why: str = "") -> int:
    """Let locked schedules run on from now."""
    if rows:
        found = [replanned(row, read_intent(row.intent), now, moved_zone=False).next for row in rows]
        schedules.advance(using, [step(row, one) for row, one in zip(rows, found, strict=True)])
        schedules.write_log(using, [_line("resumed", row, due_before=None, note=why) for row in rows])
    return len(rows)


def step(row: Schedule, found: Occurrence | None) -> NextStep:
    """The row with another occurrence to come, or with none."""
    if found is None:
        return _rest(row, "completed")
    now = ("scheduled", found.instant, found.key, *described(found))
    return NextStep(row.id, row.revision, *now, None, row.remaining, *rules_of(row.zone))


def event_of(row: Schedule) -> FactRow:
    """The event that a schedule emits, as far as it is known beforehand."""
    return FactRow(
        id="", type=row.type, version=row.version, occurred=0.0, aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id, organization=row.organization, correlation=row.correlation_id, causation=None,
        actor=_actor_of(row), producer="", key=None, data=json.dumps(row.data), metadata=json.dumps(row.metadata),
    )  # fmt: skip


def replanned(row: Pending, intent: Intent, now: datetime, *, moved_zone: bool) -> Planned:
    """What comes next for an existing schedule under an intent. Only a change of zone may fire what is late by it."""
    return replan(
        unlimited(intent.table),
        now=now,
        pending=row.occurrence or None,
        fired=row.fired or None,
        late=intent.late if moved_zone else Late.SKIP,
        grace=intent.grace,
        seed=row.key,
    )


def unlimited(table: Timetable) -> Timetable:
    """Without the number of firings, which the row counts down."""
    return replace(table, remaining=None) if table.remaining is not None else table


def _change(wanted: Wanted, before: Schedule | None, now: datetime) -> Change:
    if before is None or before.status in ("cancelled", "completed", "failed"):
        fired = before.fired if before else ""
        table = unlimited(wanted.intent.table)
        if fired:
            planned = replan(table, now=now, fired=fired, seed=wanted.key)
        else:
            planned = Planned(next_after(table, now, seed=wanted.key))
        if before is not None and planned.next is None and before.status == "completed":
            return Change(wanted, before, planned, None)
        row = _row(wanted, planned, "scheduled", wanted.intent.table.remaining) if planned.next else None
        return Change(wanted, before, planned, row)
    old = _old_intent(before)
    wanted = _with_origin(wanted, before)
    if old == wanted.intent and _still_holds(before, now):
        return Change(wanted, before, None, None if _same_event(wanted, before) else _with_new_event(wanted, before))
    moved_zone = old is not None and old.but_in(wanted.intent.table.zone) == wanted.intent
    planned = replanned(before, wanted.intent, now, moved_zone=moved_zone)
    remaining = before.remaining if moved_zone else wanted.intent.table.remaining
    missed = planned.lost is not None and (moved_zone or planned.next is None or _is_due(before, now))
    return Change(wanted, before, planned, _row(wanted, planned, before.status, remaining), missed)


def _old_intent(before: Schedule) -> Intent | None:
    """None when it cannot be followed any more, as when the zone database has lost its zone."""
    try:
        return read_intent(before.intent)
    except WhenError:
        return None


def _still_holds(before: Schedule, now: datetime) -> bool:
    """Whether its instant needs no new look: not derived from older rules of its zone; or due already, so that firing
    decides about it."""
    return _is_due(before, now) or not is_superseded(before.zone, before.zone_rules, before.tz_release)


def _is_due(before: Schedule, now: datetime) -> bool:
    return before.due_at is not None and before.due_at <= now


def _row(wanted: Wanted, planned: Planned, status: str, remaining: int | None) -> ScheduleRow:
    found = planned.next
    if found is None:
        return _stored(wanted, "completed", None, "", "", "", remaining)
    if status != "scheduled":
        return _stored(wanted, status, None, "", "", "", remaining)
    return _stored(wanted, status, found.instant, found.key, *described(found), remaining)


def _with_new_event(wanted: Wanted, before: Schedule) -> ScheduleRow:
    kept = (before.status, before.due_at, before.occurrence, before.local_time, before.marks, before.remaining)
    return _stored(wanted, *kept)


def _stored(
    wanted: Wanted,
    status: str,
    due_at: datetime | None,
    occurrence: str,
    local_time: str,
    marks: str,
    remaining: int | None,
) -> ScheduleRow:
    event, zone = wanted.event, wanted.intent.table.zone
    zone_rules, release = rules_of(zone)
    return ScheduleRow(
        wanted.key, wanted.plan, status, due_at, occurrence, local_time, marks, remaining, zone, zone_rules, release,
        wanted.intent.to_json(), event.type, event.version, event.aggregate_type, event.aggregate_id,
        event.organization, event.correlation, event.actor, event.data, event.metadata,
    )  # fmt: skip


def _same_event(wanted: Wanted, before: Schedule) -> bool:
    event = wanted.event
    new = (event.type, event.version, event.aggregate_type, event.aggregate_id, event.organization, wanted.plan)
    old = (before.type, before.version, before.aggregate_type, before.aggregate_id, before.organization, before.plan)
    if new != old or (wanted.names_actor and event.actor != _actor_of(before)):
        return False
    return bool(json.loads(event.data) == before.data and json.loads(event.metadata) == before.metadata)


def _actor_of(row: Schedule) -> str | None:
    """The actor of a stored schedule, as JSON."""
    return Actor(**row.actor).to_json() if row.actor else None


def _with_origin(wanted: Wanted, before: Schedule) -> Wanted:
    """What is changed outside of any request or event, as by a reconcile, stays with the request that made it."""
    event = wanted.event
    if event.correlation or event.actor:
        return wanted
    return wanted._replace(event=event._replace(correlation=before.correlation_id, actor=_actor_of(before)))


def _rest(row: Schedule, status: str) -> NextStep:
    return NextStep(row.id, row.revision, status, None, "", "", "", None, row.remaining, row.zone_rules, row.tz_release)


def _lines(change: Change, why: str) -> list[ScheduleLogLine]:
    """What the trail should say about a schedule that was there before."""
    before, row, planned = change.before, change.row, change.planned
    if before is None or row is None or before.due_at is None or planned is None:
        return []
    lines = [_line("missed", before, due_before=before.due_at, note=why)] if change.missed else []
    if row.due_at is not None and row.due_at != before.due_at:
        lines.append(_line("moved", before, due_before=before.due_at, due_after=row.due_at, note=why))
    return lines


def _signed(lines: list[ScheduleLogLine]) -> list[ScheduleLogLine]:
    """With who asked for the change, where that is known. Asked for once, and only where there is something to tell: to
    know the user of a request may take a query."""
    who = asked_by() if lines else ""
    return [line._replace(note=", ".join(filter(None, [line.note, who]))) for line in lines] if who else lines


def _restored(row: Schedule, due: datetime | None, why: str) -> ScheduleLogLine:
    return _line("restored", row, due_before=None, due_after=due, note=why)


def _line(
    what: str, row: Schedule, *, due_before: datetime | None, due_after: datetime | None = None, note: str = ""
) -> ScheduleLogLine:
    return ScheduleLogLine(
        what, row.key, row.occurrence, row.aggregate_type, row.aggregate_id, due_before, due_after, note=note
    )
