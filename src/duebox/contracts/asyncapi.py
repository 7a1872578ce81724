"""The event types as one AsyncAPI 3.0 document, for tools that draw, check or generate from it.

A channel for each type, a message for each version. What stands around the data of an event are the headers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from duebox.contracts.compat.words import Schema, rewritten
from duebox.contracts.examples import example
from duebox.contracts.types import EventType

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
        "organization": {**_TEXT, "description": "Whose event it is."},
        "correlation_id": {**_TEXT, "description": "The same for all that one first event caused."},
        "causation_id": {**_UUID, "description": "The event whose handler emitted it."},
    },
}


def asyncapi(kinds: Iterable[EventType], *, title: str) -> dict[str, Any]:
    """The whole document. Its version is a fingerprint: it changes when, and only when, a contract does."""
    versions: dict[str, list[EventType]] = {}
    for kind in sorted(kinds, key=lambda each: (each.name, each.version)):
        versions.setdefault(kind.name, []).append(kind)
    body = {
        "channels": {name: _channel(own) for name, own in versions.items()},
        "operations": {f"send.{name}": _operation(own) for name, own in versions.items()},
        "components": {
            "messages": {_key(kind): _message(kind) for own in versions.values() for kind in own},
            "schemas": {"headers": _HEADERS},
        },
    }
    info = {"title": title, "version": _fingerprint(body)}
    return {"asyncapi": VERSION, "info": info, "defaultContentType": "application/json", **body}


def _fingerprint(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:12]


def _key(kind: EventType) -> str:
    return f"{kind.name}.v{kind.version}"


def _channel(versions: list[EventType]) -> dict[str, Any]:
    newest = versions[-1]
    messages = {f"v{kind.version}": {"$ref": f"#/components/messages/{_key(kind)}"} for kind in versions}
    found = {"address": newest.name, "title": newest.name, "description": newest.purpose, "messages": messages}
    return {word: value for word, value in found.items() if value}


def _operation(versions: list[EventType]) -> dict[str, Any]:
    channel = f"#/channels/{versions[-1].name}"
    return {
        "action": "send",
        "channel": {"$ref": channel},
        "messages": [{"$ref": f"{channel}/messages/v{kind.version}"} for kind in versions],
    }


def _message(kind: EventType) -> dict[str, Any]:
    made = example(kind.schema)
    found = {
        "name": kind.name,
        "title": f"{kind.name} v{kind.version}",
        "summary": kind.purpose,
        "contentType": "application/json",
        "headers": {"$ref": "#/components/schemas/headers"},
        "payload": {"schemaFormat": SCHEMA_FORMAT, "schema": _moved(kind)},
        "correlationId": {"location": "$message.header#/correlation_id"},
        "tags": [{"name": kind.aggregate}] if kind.aggregate else [],
        "examples": [{"name": "example", "payload": made}] if made is not None else [],
    }
    return {word: value for word, value in found.items() if value not in ("", [])}


def _moved(kind: EventType) -> Any:
    """The schema with its references as paths of the whole document, which is how most tools follow them."""
    root = f"#/components/messages/{_key(kind)}/payload/schema"

    def follow(schema: Schema) -> Schema:
        target = schema.get("$ref", "")
        return {**schema, "$ref": f"{root}{target[1:]}"} if target.startswith("#/") or target == "#" else schema

    return rewritten(dict(kind.schema), follow)
