"""The envelope: an event as JSON, as it is sent.

The names are common in event envelopes: `event_id` to drop duplicates, `correlation_id` to find related events, `data`
for the payload. A public event has `workspace_id`, and no internal fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import Any

from django.utils.crypto import salted_hmac

from duebox.conf import conf
from duebox.context.tracing import KEY as TRACEPARENT
from duebox.context.tracing import parse
from duebox.events.fact import Fact, FactRow

__all__ = ["envelope"]

PUBLIC = "public."
_quoted = encode_basestring


def envelope(fact: Fact) -> str:
    """The whole event as JSON. The data is not parsed: it is sent as it was stored."""
    return envelope_of(fact.row)


def envelope_of(row: FactRow) -> str:
    return f"{{{','.join(_public_members(row) if is_public(row) else _members(row))}}}"


def is_public(row: FactRow) -> bool:
    return row.type.startswith(PUBLIC)


def _members(row: FactRow) -> Iterator[str]:
    # Built by hand: parsing the data and json.dumps take three times as long.
    yield from _of_every_event(row)
    for name, value in _around(row).items():
        yield f'"{name}":{value or "null"}'
    yield f'"data":{row.data}'
    if row.metadata != "{}":
        yield f'"metadata":{row.metadata}'


def _public_members(row: FactRow) -> Iterator[str]:
    """The tenant as the workspace, and of the other fields those that PUBLIC_ENVELOPE allows, if they have a value."""
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
    """The fields beside the data, each as JSON."""
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
    """The same as values, for patterns; for a public event also the fields that are not sent."""
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
    """Headers or attributes for transports that have them, so that consumers can route, deduplicate and trace a message
    without parsing it."""
    row = fact.row
    fields = {
        "event_id": row.id,
        "event_type": row.type,
        "schema_version": str(row.version),
        "workspace_id" if is_public(row) else "organization_id": row.organization,
        "correlation_id": correlation(row),
        "traceparent": traceparent(fact),
    }
    return {name: value for name, value in fields.items() if value}


def ordering_key(row: FactRow) -> str | None:
    """The ordering key for a transport: the aggregate, if there is one. For a public event it is a keyed hash, which
    does not reveal the aggregate."""
    if not row.aggregate_type:
        return None
    text = f"{row.aggregate_type}:{row.aggregate_id}"
    return salted_hmac("duebox.ordering_key", text, algorithm="sha256").hexdigest() if is_public(row) else text


def correlation(row: FactRow) -> str:
    """The correlation id, if it may be sent. A public event without one from a request or caller has the id of the
    event that it was made from, which is internal."""
    made_up = is_public(row) and row.correlation == row.causation
    return "" if made_up and "correlation_id" not in conf().PUBLIC_ENVELOPE else row.correlation


def producer(row: FactRow) -> str:
    """The service that emitted the event, if it may be sent."""
    return row.producer if not is_public(row) or "producer" in conf().PUBLIC_ENVELOPE else ""


def traceparent(fact: Fact) -> str:
    """The trace parent of the event, or empty."""
    if TRACEPARENT not in fact.row.metadata:
        return ""
    return str(parse(fact.metadata.get(TRACEPARENT)) or "")  # any other value may not be valid in a header
