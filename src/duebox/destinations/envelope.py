"""An event as it travels: its envelope, as JSON.

The names are those that consumers know from the envelope of any event: `event_id` to drop repeats by, `correlation_id`
to follow a story, `data` for what the event says. A public event has `workspace_id`, and nothing that is internal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import Any

from django.utils.crypto import salted_hmac

from duebox.conf import conf
from duebox.fact import Fact, FactRow
from duebox.tracing import KEY as TRACEPARENT
from duebox.tracing import parse

PUBLIC = "public."
_quoted = encode_basestring


def envelope(fact: Fact) -> str:
    """JSON of the whole event. The data is not read for it: it goes out as it was stored."""
    return envelope_of(fact.row)


def envelope_of(row: FactRow) -> str:
    return f"{{{','.join(_public_members(row) if is_public(row) else _members(row))}}}"


def is_public(row: FactRow) -> bool:
    return row.type.startswith(PUBLIC)


def _members(row: FactRow) -> Iterator[str]:
    # Written by hand: json.dumps of the same, data read and written anew, takes three times as long.
    yield from _of_every_event(row)
    for name, value in _around(row).items():
        yield f'"{name}":{value or "null"}'
    yield f'"data":{row.data}'
    if row.metadata != "{}":
        yield f'"metadata":{row.metadata}'


def _public_members(row: FactRow) -> Iterator[str]:
    """The tenant is the workspace. Of what else is known only what PUBLIC_ENVELOPE allows, and where there is some."""
    yield from _of_every_event(row)
    yield f'"workspace_id":{_quoted(row.organization)}'
    if allowed := conf().PUBLIC_ENVELOPE:
        for name, value in _around(row).items():
            if value and name in allowed:
                yield f'"{name}":{value}'
    yield f'"data":{row.data}'


def _of_every_event(row: FactRow) -> Iterator[str]:
    yield f'"event_id":"{row.id}"'
    yield f'"event_type":"{row.type}"'
    yield f'"schema_version":{row.version}'
    yield f'"occurred_at":"{occurred_at(row)}"'


def _around(row: FactRow) -> dict[str, str | None]:
    """What is known around the data, each as JSON."""
    return {
        "aggregate_type": row.aggregate_type and _quoted(row.aggregate_type),
        "aggregate_id": row.aggregate_id and _quoted(row.aggregate_id),
        "organization_id": row.organization and _quoted(row.organization),
        "correlation_id": row.correlation and _quoted(row.correlation),
        "causation_id": row.causation and _quoted(row.causation),
        "actor": row.actor,
        "producer": row.producer and _quoted(row.producer),
    }


def occurred_at(row: FactRow) -> str:
    """RFC 3339, in UTC."""
    return datetime.fromtimestamp(row.occurred, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def as_dict(row: FactRow) -> dict[str, Any]:
    """The same as values, for patterns to look at: of a public event also what is not sent."""
    return {
        "workspace_id": row.organization if is_public(row) else None,
        "event_id": row.id,
        "event_type": row.type,
        "schema_version": row.version,
        "occurred_at": occurred_at(row),
        "aggregate_type": row.aggregate_type or None,
        "aggregate_id": row.aggregate_id or None,
        "organization_id": row.organization or None,
        "correlation_id": row.correlation or None,
        "causation_id": row.causation,
        "actor": json.loads(row.actor) if row.actor else None,
        "producer": row.producer or None,
        "data": json.loads(row.data),
        "metadata": json.loads(row.metadata),
    }


def headers(fact: Fact) -> dict[str, str]:
    """What belongs beside the message where a transport has headers or attributes, so that nobody must open it to
    route, drop or trace it."""
    row = fact.row
    told = {
        "event_id": row.id,
        "event_type": row.type,
        "schema_version": str(row.version),
        "workspace_id" if is_public(row) else "organization_id": row.organization,
        "correlation_id": correlation(row),
        "traceparent": traceparent(fact),
    }
    return {name: value for name, value in told.items() if value}


def ordering_key(row: FactRow) -> str | None:
    """By what a transport keeps events in order: the aggregate, if there is one. Of a public event it is a keyed hash,
    which says nothing about the aggregate."""
    if not row.aggregate_type:
        return None
    text = f"{row.aggregate_type}:{row.aggregate_id}"
    return salted_hmac("duebox.ordering_key", text, algorithm="sha256").hexdigest() if is_public(row) else text


def correlation(row: FactRow) -> str:
    """What the event can be followed by, where it may be told. If no request and no caller gave a public event one, it
    is the id of the event that it was made from, which is internal."""
    made_up = is_public(row) and row.correlation == row.causation
    return "" if made_up and "correlation_id" not in conf().PUBLIC_ENVELOPE else row.correlation


def producer(row: FactRow) -> str:
    """The service that emitted the event, where it may be told."""
    return row.producer if not is_public(row) or "producer" in conf().PUBLIC_ENVELOPE else ""


def traceparent(fact: Fact) -> str:
    """The trace that the event was born in, or nothing."""
    if TRACEPARENT not in fact.row.metadata:
        return ""
    return str(parse(fact.metadata.get(TRACEPARENT)) or "")  # whatever else is there may be no header at all
