"""An event as it travels: its envelope, as JSON.

The names are those that consumers know from the envelope of any event: `event_id` to drop repeats by, `correlation_id`
to follow a story, `data` for what the event says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import Any

from duebox.fact import Fact, FactRow
from duebox.tracing import KEY as TRACEPARENT
from duebox.tracing import parse

_quoted = encode_basestring


def envelope(fact: Fact) -> str:
    """JSON of the whole event. The data is not read for it: it goes out as it was stored."""
    return f"{{{','.join(_members(fact.row))}}}"


def _members(row: FactRow) -> Iterator[str]:
    # Written by hand: json.dumps of the same, data read and written anew, takes three times as long.
    yield f'"event_id":"{row.id}"'
    yield f'"event_type":"{row.type}"'
    yield f'"schema_version":{row.version}'
    yield f'"occurred_at":"{occurred_at(row)}"'
    for name, value in (
        ("aggregate_type", row.aggregate_type),
        ("aggregate_id", row.aggregate_id),
        ("organization_id", row.organization),
        ("correlation_id", row.correlation),
        ("causation_id", row.causation),
        ("actor", row.actor),
        ("producer", row.producer),
    ):
        yield f'"{name}":{_quoted(value) if value else "null"}'
    yield f'"data":{row.data}'
    if row.metadata != "{}":
        yield f'"metadata":{row.metadata}'


def occurred_at(row: FactRow) -> str:
    """RFC 3339, in UTC."""
    return datetime.fromtimestamp(row.occurred, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def as_dict(row: FactRow) -> dict[str, Any]:
    """The same as values, for patterns to look at."""
    return {
        "event_id": row.id,
        "event_type": row.type,
        "schema_version": row.version,
        "occurred_at": occurred_at(row),
        "aggregate_type": row.aggregate_type or None,
        "aggregate_id": row.aggregate_id or None,
        "organization_id": row.organization or None,
        "correlation_id": row.correlation or None,
        "causation_id": row.causation,
        "actor": row.actor or None,
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
        "organization_id": row.organization,
        "correlation_id": row.correlation,
        "traceparent": traceparent(fact),
    }
    return {name: value for name, value in told.items() if value}


def traceparent(fact: Fact) -> str:
    """The trace that the event was born in, or nothing."""
    if TRACEPARENT not in fact.row.metadata:
        return ""
    return str(parse(fact.metadata.get(TRACEPARENT)) or "")  # whatever else is there may be no header at all
