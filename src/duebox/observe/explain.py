"""What happened to an event, a schedule, an entity or in a request, in order and in words; why something did not
happen; and what is to come, and what could stop it.

`explain` loads the rows. Everything else is a pure function of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duebox.dead_letters.fingerprint import telling_line
from duebox.events.address import Address, is_outside
from duebox.events.fact import EXPIRES_AFTER
from duebox.events.subscribers import is_known
from duebox.models import Attempt, AuditEntry, Delivery, DestinationState, Event, Schedule, ScheduleLog
from duebox.models.audit import name_of
from duebox.observe.find import Target, find
from duebox.observe.lines import (
    Line,
    blocking_state,
    clock,
    late,
    line,
    local,
    marks,
    may_stop,
    receiver,
    risks,
    span,
    utc,
    wall,
    workers,
    zone_of,
)
from duebox.observe.records import DAYS, Head, Jump, PlanState, Records, load
from duebox.observe.status import ways_out
from duebox.schedules.fire import EXISTS, NOT_VALID, ZONES_CHANGED
from duebox.schedules.intent import read_intent
from duebox.when import CatchUpMode, WhenError, describe

__all__ = ["Explanation", "Line", "explain", "past_of", "present_of"]

# Events


def happened(event: Event, records: Records) -> Line:
    due = event.metadata.get("schedule")
    if due:
        seconds = (event.occurred_at - datetime.fromisoformat(due["due"])).total_seconds()
        meant = f"{wall(due['local'])} {due['zone']}{marks(due.get('marks', ()))}"
        text = f"{event.type} was fired by the schedule {due['key']!r} for {meant}, {late(seconds)}"
        return line(event.occurred_at, "fired", text, due["zone"], _of_event(event), late_seconds=seconds)
    about = f" about {event.aggregate_type}:{event.aggregate_id}" if event.aggregate_type else ""
    who = f" by {name_of(event.actor)}" if event.actor else ""
    text = f"{event.type}{about} was recorded{who}{_cause(event, records)}{_moment_before(event, records)}"
    return line(event.recorded_at, "recorded", text, records.zone, _of_event(event))


def _moment_before(event: Event, records: Records) -> str:
    """Where the project said that it happened at another time than that at which it was recorded."""
    before = (event.recorded_at - event.occurred_at).total_seconds()
    return f"; it had happened at {local(event.occurred_at, records.zone)}" if before >= 60 else ""


def _cause(event: Event, records: Records) -> str:
    if event.causation_id is None:
        return ""
    among = {each.id: each for each in records.events}
    cause = records.related.get(event.causation_id) or among.get(event.causation_id)
    return f", caused by {cause.type} ({cause.id})" if cause else f", caused by {event.causation_id}, which is gone"


def caused(event: Event, records: Records) -> Line:
    text = f"It caused {event.type} ({event.id})"
    return line(event.recorded_at, "caused", text, zone_of(event, records), _of_event(event))


def _of_event(event: Event) -> dict[str, Any]:
    return {
        "event_id": str(event.id),
        "type": event.type,
        "about": f"{event.aggregate_type}:{event.aggregate_id}" if event.aggregate_type else None,
        "actor": name_of(event.actor) or None,
        "correlation_id": event.correlation_id,
        "causation_id": str(event.causation_id) if event.causation_id else None,
    }


def untaken(records: Records) -> Iterator[Line]:
    """Events that no handler or destination has taken, one line for each type."""
    by_type: dict[str, list[Event]] = {}
    for event in records.events:
        if event.id not in records.taken:
            by_type.setdefault(event.type, []).append(event)
    return (_untaken(events, records) for events in by_type.values())


def _untaken(events: Sequence[Event], records: Records) -> Line:
    event = events[-1]
    names = records.receivers.get(event.type, ())
    times = f" {len(events)} times" if len(events) > 1 else ""
    text = f"{event.type} did nothing{times}: no handler or destination took it when it was recorded"
    if names:
        send = f"manage.py duebox events replay resend {event.id} --to {Address.parse(names[0]).plain}"
        text += f"; today {receiver(names[0])} would. Send it: {send}"
    else:
        text += f", and none does today. Write one under @duebox.on({event.type!r})"
    return line(records.now, "no_handler", text, zone_of(event, records), _of_event(event), receivers=list(names))


# Attempts

_KINDS = {"retried": "failed", "rescued": "worker_lost", "redriven": "retried"}
"""The words for outcomes that people would take for something else."""


def attempted(one: Attempt, records: Records) -> Line:
    event = next((each for each in records.events if each.id == one.event_id), None)
    zone, seconds = zone_of(event, records), _lateness(one, event, records)
    details = {
        "event_id": str(one.event_id), "delivery_id": one.delivery_id, "subscriber": one.subscriber,
        "attempt": one.number, "took_ms": one.took_ms, "late_seconds": seconds, "note": one.note,
    }  # fmt: skip
    lateness = f", {late(seconds)}" if seconds is not None else ""
    text = _attempt_text(one, event.type if event else "the event", lateness, zone, records)
    return line(one.settled_at, _KINDS.get(one.outcome, one.outcome), text, zone, details)


def _attempt_text(one: Attempt, event: str, lateness: str, zone: str, records: Records) -> str:
    who, took = receiver(one.subscriber), f" in {span(one.took_ms / 1000)}" if one.took_ms is not None else ""
    number = f" at attempt {one.number}" if one.number > 1 else ""
    by = one.note.strip().rstrip(".")
    match one.outcome:
        case "delivered":
            done = f"{event} was sent to {who}" if is_outside(one.subscriber) else f"{who} handled {event}"
            return f"{done}{took}{number}{lateness}"
        case "retried" | "dead":
            then = "It became a dead letter" if one.outcome == "dead" else _again(one, zone, records)
            error = telling_line(one.note, one.status)
            return f"{who} failed to handle {event} at attempt {one.number}{took}{lateness}: {error}. {then}"
        case "snoozed":
            return f"{who} snoozed {event}{lateness}. {_again(one, zone, records)}"
        case "discarded":
            return f"{event} was not handled by {who}: {by or 'it was discarded'}"
        case "expired":
            due = f"it was due at {local(one.due_at, zone)}"
            return f"{who} was not run for {event}, because it had expired ({by}); {due}"
        case "rescued":
            return f"{event} was taken back from a worker that was lost while it ran {who}"
        case "redriven":
            return f"{event} to {who} was {by or 'retried'}: it became due again, with all its attempts"
        case "parked":
            return f"{event} to {who} was {by or 'parked'}"
        case "replayed":
            return f"{event} was sent to {who} again: {by}"
        case "deduplicated":
            again = f"with the same idempotency key{f' ({by})' if by else ''}"
            return f"{event} was emitted again {again}; nothing was stored"
    return f"{event} to {who}: {one.outcome} {one.note}"


def _again(one: Attempt, zone: str, records: Records) -> str:
    """When it was to be tried again, by the attempt that followed, or by the delivery that is still there."""
    later = [each.due_at for each in records.attempts if each.delivery_id == one.delivery_id and each.id > one.id]
    for due in later or [row.due_at for row in records.deliveries if row.id == one.delivery_id]:
        wait = span((due - one.settled_at).total_seconds())
        return f"The next attempt was set for {local(due, zone)}, {wait} later"
    return "It was to be tried again"


def _lateness(one: Attempt, event: Event | None, records: Records) -> float | None:
    """Seconds from when it was due until its handler started. What a schedule fired was due by the schedule."""
    if one.started_at is None:
        return None
    due = one.due_at
    is_first = not any(each.delivery_id == one.delivery_id and each.id < one.id for each in records.attempts)
    if is_first and event is not None and "schedule" in event.metadata:
        due = datetime.fromisoformat(event.metadata["schedule"]["due"])
    return max(0.0, (one.started_at - due).total_seconds())


# Deliveries that are stored


def event_outlook(row: Delivery, records: Records) -> Iterator[Line]:
    """The state of a delivery, and what could prevent a future one."""
    event = next((each for each in records.events if each.id == row.event_id), None)
    zone = zone_of(event, records)
    what = f"{event.type if event else 'an event that is gone'} to {receiver(row.subscriber)}"
    details = {"event_id": str(row.event_id), "delivery_id": row.id, "subscriber": row.subscriber, "state": _state(row)}
    at, kind, text = _standing(row, zone, records)
    yield line(at, kind, f"{what} {text}", zone, details)
    if kind == "next":
        yield from risks(at, what, may_stop(records, event.expires_at if event else None, zone), zone, details)


def _standing(row: Delivery, zone: str, records: Records) -> tuple[datetime, str, str]:
    state, held, now = _state(row), blocking_state(row.subscriber, records), records.now
    if state in ("dead", "parked"):
        word = "a dead letter" if state == "dead" else "parked"
        since = f" since {local(row.died_at, zone)}" if row.died_at else ""
        retry = f"manage.py duebox deliveries retry {row.id}"
        return now, state, f"is {word}{since}; no worker takes it. Retry it: {retry}"
    if not is_known(row.subscriber) and row.lease is None:
        gone = f"waits for {row.subscriber!r}, which this code does not have"
        return now, "no_handler", f"{gone}; {ways_out(row.subscriber)}"
    if row.id in records.heads:
        return now, "blocked", _behind(row, records.heads[row.id], records)
    if row.lease is not None:
        lost = "a worker that is lost; another one takes it back"
        return now, "running", f"is running on {records.runners.get(row.lease, lost)}"
    if held is not None:
        return now, "paused" if held.paused_at else "failing", _held_back(held, zone)
    if row.due_at > now:
        failed = f", after {row.attempt} failed attempt{'' if row.attempt == 1 else 's'}" if row.attempt else ""
        wait = span((row.due_at - now).total_seconds())
        return row.due_at, "next", f"is due at {local(row.due_at, zone)}, in {wait}{failed}"
    since = f"has been due for {span((now - row.due_at).total_seconds())}"
    if not records.workers:
        return now, "no_worker", f"{since}, and no worker is alive. Start one: manage.py duebox worker"
    return now, "due", f"{since}; {workers(records)} should take it now"


def _behind(row: Delivery, head: Head, records: Records) -> str:
    first, zone, state = head.delivery, zone_of(head.event, records), _state(head.delivery)
    kind = head.event.type if head.event else "an event that is gone"
    word = "a dead letter" if state == "dead" else state
    since = f" since {local(first.died_at, zone)}" if first.died_at else ""
    why = f": {telling_line(head.failure.note, head.failure.status)}" if head.failure else ""
    ahead = f"delivery {first.id} ({kind}, {first.event_id}) of the stream {row.stream}"
    text = f"waits behind {ahead}, which is {word}{since}{why}"
    if state not in ("dead", "parked"):
        return text
    ways = f"manage.py duebox deliveries retry {first.id}, or deliveries discard {first.id}"
    return f"{text}. It goes on after: {ways}"


def _held_back(held: DestinationState, zone: str) -> str:
    if held.paused_at:
        note = f" ({held.paused_note})" if held.paused_note else ""
        resume = f"manage.py duebox destinations resume {Address.parse(held.name).plain}"
        return f"is held back: the destination was paused at {local(held.paused_at, zone)}{note}. Resume it: {resume}"
    assert held.open_until is not None
    why = f": {telling_line(held.error)}" if held.error else ""
    return f"is held back until {local(held.open_until, zone)}, because the destination failed too often{why}"


def _state(row: Delivery) -> str:
    return str(getattr(row, "state", row.status))


_PLAN = re.compile(r"plan (?P<name>[^,]+)(, )?(?P<by>by .+)?")
_ZONES = re.compile(rf"zone database \S+ to \S+|{ZONES_CHANGED}")


def made(row: Schedule) -> Line:
    about = f" about {row.aggregate_type}:{row.aggregate_id}" if row.aggregate_type else ""
    makers = [f"plan {row.plan}"] if row.plan else []
    if row.actor and row.revision == 1:  # later it is who changed it last
        makers.append(name_of(row.actor))
    who = f" by {' and '.join(makers)}" if makers else ""
    text = f"The schedule {row.key!r} of {row.type}{about} was made{who}. {_rule(row)}"
    return line(row.created_at, "scheduled", text, row.zone, _of_schedule(row))


def _rule(row: Schedule) -> str:
    try:
        return f"Its rule now: {describe(read_intent(row.intent).table)}"
    except WhenError as error:
        return f"Its rule cannot be read: {error}"


def _of_schedule(row: Schedule) -> dict[str, Any]:
    return {"schedule": row.key, "type": row.type, "plan": row.plan, "state": getattr(row, "state", row.status)}


def logged(entry: ScheduleLog, records: Records) -> Line:
    row = next((each for each in records.schedules if each.key == entry.source), None)
    zone = row.zone if row else records.zone
    details = {
        "schedule": entry.source, "occurrence": entry.occurrence, "note": entry.note, "occurrences": entry.occurrences,
        "due_before": entry.due_before.isoformat() if entry.due_before else None,
        "due_after": entry.due_after.isoformat() if entry.due_after else None,
    }  # fmt: skip
    kind = "deduplicated" if entry.note == EXISTS else entry.what
    return line(entry.at, kind, f"{entry.source!r} {_log_text(entry, row, zone, records)}", zone, details)


def _log_text(entry: ScheduleLog, row: Schedule | None, zone: str, records: Records) -> str:
    before = f" at {local(entry.due_before, zone)}" if entry.due_before else ""
    note = f": {entry.note}" if entry.note else ""
    match entry.what:
        case "moved":
            return _moved(entry, zone)
        case "missed":
            return _missed(entry, row, zone)
        case "skipped" if entry.note == NOT_VALID:
            plan = f"plan {row.plan}" if row and row.plan else "its plan"
            return f"did not fire{before}: still_valid() of {plan} did not return the row any more"
        case "skipped" if entry.note == EXISTS:
            return f"did not fire{before} again: the event of this occurrence was stored before"
        case "cancelled":
            return (
                f"was cancelled{_cancelled(entry, records)}; it was due{before or ' at no time, since it was paused'}"
            )
        case "paused":
            return f"was paused{f' {entry.note}' if entry.note else ''}; it was due{before}"
        case "resumed":
            return f"was resumed{f' {entry.note}' if entry.note else ''}"
        case "restored":
            due = f"; it is due at {local(entry.due_after, zone)}" if entry.due_after else ""
            return f"was restored{f' {entry.note}' if entry.note else ''}{due}"
        case "failed":
            return f"cannot be followed any more{note}"
        case "swept":
            return f"found {entry.aggregate_type}:{entry.aggregate_id}{note}"
    return f"{entry.what}{before}{note}"


def _moved(entry: ScheduleLog, zone: str) -> str:
    assert entry.due_before is not None
    assert entry.due_after is not None
    if _ZONES.fullmatch(entry.note):
        return (
            f"was moved from {utc(entry.due_before)} to {utc(entry.due_after)} by an update of the zone database "
            f"({entry.note}); clocks in {zone} show {clock(entry.due_after, zone).removesuffix(':00')}, as they were to"
        )
    by = _PLAN.fullmatch(entry.note)
    why = f"because its row changed (plan {by['name']}{', ' + by['by'] if by['by'] else ''})" if by else entry.note
    return (
        f"was moved from {local(entry.due_before, zone)} to {local(entry.due_after, zone)}{f', {why}' if why else ''}"
    )


def _missed(entry: ScheduleLog, row: Schedule | None, zone: str) -> str:
    first = f"{local(entry.due_before, zone)}" if entry.due_before else wall(entry.occurrence)
    note = entry.note
    if _ZONES.fullmatch(note):
        return f"will not fire for {first}: an update of the zone database ({note}) moved it into the past"
    if by := _PLAN.fullmatch(note):
        who = f", {by['by']}" if by["by"] else ""
        change = f"its row was changed (plan {by['name']}{who}), and the new time had passed"
        return f"was taken back: {change}; it was due at {first}"
    if note.startswith(("rescheduled", "scheduled again")):
        return f"was taken back: it was {note}, and the new time had passed; it was due at {first}"
    if entry.occurrences > 1:
        last = f" to {local(entry.due_after, zone)}" if entry.due_after else ""
        what = f"missed {entry.occurrences} occurrences, from {first}{last}"
    else:
        what = f"missed {first}"
    late = span((entry.at - entry.due_before).total_seconds()) if entry.due_before else "some time"
    return f"{what}: no worker fired it in time; the next look was {late} later{_policy(row)}"


def _policy(row: Schedule | None) -> str:
    """Which policy decided about occurrences that became due while no worker ran."""
    try:
        policy = read_intent(row.intent).catch_up if row else None
    except WhenError:
        policy = None
    if policy is None:
        return ""
    window = f", and nothing older than {span(policy.window.total_seconds())}" if policy.window else ""
    if policy.mode is CatchUpMode.NONE:
        return f", and by catch_up 'none' only what is at most {span(policy.grace.total_seconds())} late is fired"
    if policy.mode is CatchUpMode.ALL:
        return f", and by catch_up 'all' at most the newest {policy.cap} are fired{window}"
    return f", and by catch_up 'latest' only the newest is fired{window}"


def _cancelled(entry: ScheduleLog, records: Records) -> str:
    by = _PLAN.fullmatch(entry.note)
    if by is None:
        return f" {entry.note}" if entry.note.startswith("by ") else f" ({entry.note})" if entry.note else ""
    who = f", {by['by']}" if by["by"] else ""
    now = next((each for each in records.plans if each.name == by["name"]), None)
    why = f"; now {_why_not(now)}" if now and now.answer != "plans" else ", since its row no longer asks for it"
    return f" by plan {by['name']}{who}{why}"


def _why_not(state: PlanState) -> str:
    return {
        "no row": "the row does not exist",
        "not in queryset": "the row is not in the queryset() of the plan",
        "condition": "the condition when() of the plan is false for the row",
        "no moment": "the row has no moment to plan for: anchor() or rule() gives None",
        "error": f"the plan fails for the row: {state.error}",
    }[state.answer]


def answered(state: PlanState, records: Records) -> Line:
    text = f"Plan {state.name} plans no {state.event}: {_why_not(state)}"
    return line(records.now, "plan", text, records.zone, {"plan": state.name, "answer": state.answer})


def jumped(jump: Jump, records: Records) -> Line:
    zone = next((row.zone for row in records.schedules if row.key == jump.key), records.zone)
    from_, to = (f"{jump.at.replace(tzinfo=None) + offset:%H:%M}" for offset in (jump.before, jump.after))
    tense = "was" if jump.at <= records.now else "is"
    text = (
        f"{jump.key!r} {tense} skipped for {wall(jump.local)} {zone}: that time did not exist, since clocks jumped "
        f"from {from_} to {to}, and its rule skips such times (gap='skip')"
    )
    if tense == "is":
        text = text.replace("did not exist, since clocks jumped", "does not exist, since clocks jump")
    return line(jump.at, "skipped", text, zone, {"schedule": jump.key, "local": wall(jump.local)})


def schedule_outlook(row: Schedule, records: Records) -> Iterator[Line]:
    details, name = _of_schedule(row), f"The schedule {row.key!r}"
    last = f"; it fired last at {local(row.fired_at, row.zone)}" if row.fired_at else ""
    if row.status == "paused":
        note = _last_note(row, "paused", records)
        resume = f"manage.py duebox schedules resume {row.key}"
        text = f"{name} is paused{note}, and does not fire until it is resumed: {resume}"
        yield line(records.now, "paused", text, row.zone, details)
    elif row.status == "cancelled":
        again = f" until it is restored: manage.py duebox schedules restore {row.key}" if row.opt_out else ""
        text = f"{name} is cancelled{_last_note(row, 'cancelled', records)}, and does not fire{again}{last}"
        yield line(records.now, "cancelled", text, row.zone, details)
    elif row.status == "failed":
        text = f"{name} has failed{_last_note(row, 'failed', records)}, and does not fire until it is scheduled again"
        yield line(records.now, "failed", text, row.zone, details)
    elif row.status == "completed":
        text = f"{name} has nothing left to fire{last}" if row.fired else f"{name} has nothing to fire, and never fired"
        yield line(records.now, "completed", text, row.zone, details)
    else:
        yield from _to_come(row, records, details)


def _last_note(row: Schedule, what: str, records: Records) -> str:
    entry = next((each for each in reversed(records.logged) if each.source == row.key and each.what == what), None)
    if entry is None:
        return ""
    note = f" {entry.note}" if entry.note.startswith("by ") else f" ({entry.note})" if entry.note else ""
    return f" since {local(entry.at, row.zone)}{note}"


def _to_come(row: Schedule, records: Records, details: dict[str, Any]) -> Iterator[Line]:
    assert row.due_at is not None
    name, due = f"The schedule {row.key!r}", f"{wall(row.local_time)} {row.zone}{marks(row.marks.split(','))}"
    if row.due_at <= records.now:
        late = span((records.now - row.due_at).total_seconds())
        who = (
            f"{workers(records)} should fire it now"
            if records.workers
            else "no worker is alive. Start one: manage.py duebox worker"
        )
        kind = "due" if records.workers else "no_worker"
        yield line(records.now, kind, f"{name} should have fired for {due}, {late} ago; {who}", row.zone, details)
        return
    wait = span((row.due_at - records.now).total_seconds())
    then = ", ".join(wall(one.nominal) for one in records.following.get(row.key, ()))
    text = f"{name} fires for {due}, in {wait}{f', then for {then}' if then else ''}"
    yield line(row.due_at, "next", text, row.zone, details)
    yield from risks(row.due_at, row.key, _may_stop_schedule(row, records), row.zone, details)


def _may_stop_schedule(row: Schedule, records: Records) -> list[str]:
    found = may_stop(records, None, row.zone)
    names = records.receivers.get(row.type, ())
    if not names:
        found.append(f"no handler or destination takes {row.type} today, so that nothing would follow")
    found += [f"{receiver(name)} is held back" for name in names if blocking_state(name, records)]
    if row.plan:
        asked = ", and still_valid() is asked again when it is due" if row.plan in records.guarded else ""
        found.append(f"plan {row.plan} moves or cancels it when its row changes{asked}")
    try:
        policy = read_intent(row.intent).catch_up
    except WhenError:
        return found
    reach = policy.grace if policy.mode is CatchUpMode.NONE else policy.window
    if reach is not None:
        found.append(f"it is not fired if no worker looks within {span(reach.total_seconds())} after its time")
    if EXPIRES_AFTER in row.metadata:
        found.append(f"its event expires {span(row.metadata[EXPIRES_AFTER])} after its time")
    return [*found, "it is paused or cancelled"]


@dataclass(frozen=True, slots=True)
class Explanation:
    target: Target
    now: datetime
    zone: str
    past: tuple[Line, ...]
    """What happened, in the order of time."""
    present: tuple[Line, ...]
    """The current state, and what will happen."""
    more: tuple[str, ...] = ()
    """What was left out."""

    @property
    def lines(self) -> tuple[Line, ...]:
        return self.past + self.present

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.target.kind, "id": self.target.id, "now": self.now.isoformat(), "zone": self.zone,
            "past": [each.as_dict() for each in self.past], "present": [each.as_dict() for each in self.present],
            "more": list(self.more),
        }  # fmt: skip


def explain(
    text: str, *, kind: str | None = None, days: float = DAYS, audit: bool = True, using: str | None = None
) -> Explanation:
    """What happened to what this text names: the id of an event or delivery, the key of a schedule, an entity such as
    `clinic.appointment:42`, or a correlation id. Occurrences of a rule are shown for `days` back and ahead.
    Without `audit`, nothing of the audit log is shown."""
    records = load(find(text, kind=kind, audit=audit, using=using), days=days, audit=audit, using=using)
    past, present = past_of(records), present_of(records)
    return Explanation(records.target, records.now, records.zone, tuple(past), tuple(present), records.more)


def past_of(records: Records) -> list[Line]:
    """What happened, in the order of time."""
    return sorted((each for lines in _past(records) for each in lines), key=lambda each: each.at)


def present_of(records: Records) -> list[Line]:
    """The current state and what will happen, ordered by time."""
    return sorted((each for lines in _present(records) for each in lines), key=lambda each: each.at)


def _past(records: Records) -> Iterator[Iterable[Line]]:
    if _is_about_schedules(records):
        yield (made(row) for row in records.schedules)
    yield (logged(each, records) for each in records.logged)
    yield (happened(event, records) for event in records.events)
    yield (caused(event, records) for event in records.effects)
    yield (attempted(attempt, records) for attempt in records.attempts)
    yield (jumped(jump, records) for jump in records.jumps if jump.at <= records.now)
    yield (_changed(entry, records) for entry in records.audit)


def _present(records: Records) -> Iterator[Iterable[Line]]:
    yield (each for row in records.deliveries for each in event_outlook(row, records))
    yield untaken(records)
    if _is_about_schedules(records):
        yield (each for row in records.schedules for each in schedule_outlook(row, records))
        yield (jumped(jump, records) for jump in records.jumps if jump.at > records.now)
        yield (answered(state, records) for state in records.plans if state.answer != "plans")


def _is_about_schedules(records: Records) -> bool:
    """Of the schedule of an event, only what concerns the occurrence that became the event is shown."""
    return records.target.kind not in ("event", "delivery")


def _changed(entry: AuditEntry, records: Records) -> Line:
    who = f" by {name_of(entry.actor)}" if entry.actor else ""
    behind = f" (in truth {name_of(entry.impersonator)})" if entry.impersonator else ""
    names = "".join(f", {name}" for name in entry.changes)  # not the values, which may be personal
    text = f"{entry.entity_type}:{entry.entity_id} was changed{who}{behind}: {entry.action}{names}"
    details = {"entry": entry.id, "action": entry.action, "correlation_id": entry.correlation_id}
    return line(entry.recorded_at, "changed", text, records.zone, details)
