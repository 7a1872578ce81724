"""The facts about what was found, JSON-able: rows as they are stored, with payloads only if they are asked for, and
what is declared as personal data masked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duebox.contracts.event_types import latest, versions_of
from duebox.contracts.validation import personal_names
from duebox.events.subscribers import is_known
from duebox.models import Attempt, AuditEntry, Delivery, Event, Schedule, ScheduleLog
from duebox.models.audit import name_of
from duebox.observe.records import Records
from duebox.schedules.intent import read_intent
from duebox.when import WhenError, describe

MASK = "****"
MOST_SHOWN = 100_000
"""Characters of a payload that are shown to people: a page or a terminal with 50 MB helps nobody."""


def facts(records: Records, *, payload: bool = False) -> dict[str, Any]:
    """Everything that was loaded, by kind."""
    return {
        "kind": records.target.kind,
        "id": records.target.id,
        "events": [_event(each, payload) for each in records.events],
        "deliveries": [_delivery(each, records) for each in records.deliveries],
        "attempts": [_attempt(each) for each in records.attempts],
        "schedules": [_schedule(each, payload) for each in records.schedules],
        "log": [_logged(each) for each in records.logged],
        "audit": [_entry(each) for each in records.audit],
        "more": list(records.more),
    }


def masked(type: str, version: int, data: Any) -> Any:
    """The data of an event without what its schema marks as personal. A type that is not declared marks nothing."""
    kind = versions_of(type).get(version) or latest(type)
    if kind is None:
        return data
    return MASK if kind.schema.get("x-pii") else _without(data, personal_names(kind.schema))


def json_text(value: Any, *, indent: int | None = None, whole: str = "") -> str:
    """The value as JSON for people. A large one is cut, with the command of Duebox that prints the `whole`."""
    parts, length = [], 0
    # In pieces, so that what is not shown is not written. Not ASCII only: people read it.
    for part in json.JSONEncoder(indent=indent, ensure_ascii=False, default=str).iterencode(value):
        parts.append(part)
        length += len(part)
        if length > MOST_SHOWN:
            break
    text = "".join(parts)
    if len(text) <= MOST_SHOWN:
        return text
    hint = f"; all of it: manage.py duebox {whole}" if whole else ""
    return f"{text[:MOST_SHOWN]}… (cut after {MOST_SHOWN:,} characters{hint})"


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: MASK if key in names and each is not None else _without(each, names) for key, each in value.items()
        }
    return [_without(each, names) for each in value] if isinstance(value, list) else value


def _event(event: Event, payload: bool) -> dict[str, Any]:
    found = {
        "id": str(event.id),
        "type": event.type,
        "version": event.version,
        "occurred_at": event.occurred_at.isoformat(),
        "recorded_at": event.recorded_at.isoformat(),
        "about": _pair(event.aggregate_type, event.aggregate_id),
        "organization": event.organization or None,
        "actor": name_of(event.actor) or None,
        "correlation_id": event.correlation_id,
        "causation_id": str(event.causation_id) if event.causation_id else None,
        "idempotency_key": event.idempotency_key,
        "producer": event.producer,
        "expires_at": _iso(event.expires_at),
        "schedule": event.metadata.get("schedule"),
    }
    return {**found, "data": masked(event.type, event.version, event.data)} if payload else found


def _delivery(row: Delivery, records: Records) -> dict[str, Any]:
    head = records.heads.get(row.id)
    return {
        "id": row.id,
        "event_id": str(row.event_id),
        "subscriber": row.subscriber,
        "state": str(getattr(row, "state", row.status)),
        "orphaned": not is_known(row.subscriber) and row.lease is None,
        "due_at": row.due_at.isoformat(),
        "attempt": row.attempt,
        "died_at": _iso(row.died_at),
        "stream": row.stream,
        "behind": head.delivery.id if head else None,
        "worker": records.runners.get(row.lease) if row.lease else None,
    }


def _attempt(one: Attempt) -> dict[str, Any]:
    return {
        "event_id": str(one.event_id),
        "delivery_id": one.delivery_id,
        "subscriber": one.subscriber,
        "number": one.number,
        "outcome": one.outcome,
        "due_at": one.due_at.isoformat(),
        "started_at": _iso(one.started_at),
        "settled_at": one.settled_at.isoformat(),
        "took_ms": one.took_ms,
        "status": one.status,
        "note": one.note,
    }


def _schedule(row: Schedule, payload: bool) -> dict[str, Any]:
    found = {
        "id": row.id,
        "key": row.key,
        "type": row.type,
        "state": str(getattr(row, "state", row.status)),
        "last_state": str(getattr(row, "last_state", "")),
        "about": _pair(row.aggregate_type, row.aggregate_id),
        "organization": row.organization or None,
        "plan": row.plan or None,
        "rule": rule_of(row),
        "next": _iso(row.due_at),
        "local": row.local_time,
        "zone": row.zone,
        "marks": row.marks.split(",") if row.marks else [],
        "remaining": row.remaining,
        "last_fired_at": _iso(row.fired_at),
        "opt_out": row.opt_out or None,
        "actor": name_of(row.actor) or None,
        "correlation_id": row.correlation_id,
        "zone_release": row.tz_release,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }
    return {**found, "data": masked(row.type, row.version, row.data)} if payload else found


def rule_of(row: Schedule) -> str:
    """The rule of a schedule in English."""
    try:
        return describe(read_intent(row.intent).table)
    except WhenError as error:
        return f"cannot be read: {error}"


def _logged(line: ScheduleLog) -> dict[str, Any]:
    return {
        "at": line.at.isoformat(),
        "what": line.what,
        "schedule": line.source,
        "occurrence": line.occurrence,
        "occurrences": line.occurrences,
        "due_before": _iso(line.due_before),
        "due_after": _iso(line.due_after),
        "event_id": str(line.event_id) if line.event_id else None,
        "note": line.note,
    }


def _entry(entry: AuditEntry) -> dict[str, Any]:
    """Which columns changed; their values are shown by `duebox audit list`."""
    return {
        "id": entry.id,
        "recorded_at": entry.recorded_at.isoformat(),
        "action": entry.action,
        "actor": name_of(entry.actor) or None,
        "correlation_id": entry.correlation_id,
        "changed": list(entry.changes),
    }


def _pair(kind: str, id: str) -> str | None:
    return f"{kind}:{id}" if kind else None


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
