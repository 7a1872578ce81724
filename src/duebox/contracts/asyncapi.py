"""The event types as one AsyncAPI 3.0 document: a channel for each type, a message for each version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from duebox.contracts.event_types import EventType, by_name
from duebox.contracts.examples import example
from duebox.contracts.json_schema import Schema, rewritten

VERSION = "3.0.0"
SCHEMA_FORMAT = "application/schema+json;version=draft-2020-12"

_TEXT, _UUID = {"type": "string"}, {"type": "string", "format": "uuid"}
_HEADERS: Schema = {
    "type": "object",
    "required": ["id", "type", "version", "occurred_at", "correlation_id"],
    "properties": {
        "id": {**_UUID, "description": "The same at every delivery."},
        "type": _TEXT,
        "version": {"type": "integer", "minimum": 1},
        "occurred_at": {"type": "string", "format": "date-time"},
        "aggregate_type": {**_TEXT, "description": "The kind of thing it happened to."},
        "aggregate_id": _TEXT,
        "organization": {**_TEXT, "description": "The tenant that it belongs to."},
        "correlation_id": {**_TEXT, "description": "The same for all that one first event caused."},
        "causation_id": {**_UUID, "description": "The event whose handler emitted it."},
    },
}


def asyncapi(kinds: Iterable[EventType], *, title: str) -> dict[str, Any]:
    """The whole document. Its version is a fingerprint that changes if and only if a contract changes."""
    types = by_name(kinds)
    body: dict[str, Any] = {"channels": {}, "operations": {}}
    for name, versions in types.items():
        channel = f"#/channels/{name}"
        body["channels"][name] = _without_empty(
            address=name,
            title=name,
            description=versions[-1].purpose,
            messages={f"v{kind.version}": {"$ref": f"#/components/messages/{_key(kind)}"} for kind in versions},
        )
        body["operations"][f"send.{name}"] = {
            "action": "send",
            "channel": {"$ref": channel},
            "messages": [{"$ref": f"{channel}/messages/v{kind.version}"} for kind in versions],
        }
    messages = {_key(kind): _message(kind) for versions in types.values() for kind in versions}
    body["components"] = {"messages": messages, "schemas": {"headers": _HEADERS}}
    fingerprint = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:12]
    info = {"title": title, "version": fingerprint}
    return {"asyncapi": VERSION, "info": info, "defaultContentType": "application/json", **body}


def _key(kind: EventType) -> str:
    return f"{kind.name}.v{kind.version}"


def _message(kind: EventType) -> dict[str, Any]:
    payload = example(kind.schema)
    return _without_empty(
        name=kind.name,
        title=f"{kind.name} v{kind.version}",
        summary=kind.purpose,
        contentType="application/json",
        headers={"$ref": "#/components/schemas/headers"},
        payload={"schemaFormat": SCHEMA_FORMAT, "schema": _moved(kind)},
        correlationId={"location": "$message.header#/correlation_id"},
        tags=[{"name": kind.aggregate}] if kind.aggregate else [],
        examples=[{"name": "example", "payload": payload}] if payload is not None else [],
    )


def _moved(kind: EventType) -> Any:
    """The schema with references as paths in the whole document, which is how most tools follow them."""
    root = f"#/components/messages/{_key(kind)}/payload/schema"

    def moved(schema: Schema) -> Schema:
        return {**schema, "$ref": f"{root}{schema['$ref'][1:]}"} if "$ref" in schema else schema

    return rewritten(kind.schema, moved)


def _without_empty(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in ("", [])}
