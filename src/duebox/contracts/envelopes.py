"""The JSON Schema of the envelope: the whole of an event as every destination sends it, around whatever data.

`data` has a schema of its own for each type and version. `duebox schemas write` writes both beside each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duebox.conf import conf
from duebox.contracts.types import EventType
from duebox.contracts.validation import DIALECT

Schema = dict[str, Any]

INTERNAL, PUBLIC = "envelope.v1.json", "public_envelope.v1.json"
"""The names of the files. They have no dot before the version, so no type of event is called so."""

_NAME = "[a-z0-9_]+([.][a-z0-9_]+)+"
_TEXT: Schema = {"type": "string", "minLength": 1}
_UUID: Schema = {"type": "string", "format": "uuid"}
_NULL: Schema = {"type": "null"}
_ACTOR: Schema = {
    "type": "object",
    "properties": {"type": _TEXT, "id": _TEXT, "email": {**_TEXT, "x-pii": True}},
    "required": ["type", "id"],
}
_EVERY: Schema = {
    "event_id": {**_UUID, "description": "The same at every delivery; remember it to drop repeats."},
    "event_type": {"type": "string", "pattern": f"^{_NAME}$", "description": "What happened."},
    "schema_version": {
        "type": "integer",
        "minimum": 1,
        "description": "The version of the schema of `data`, which is in <event_type>.v<schema_version>.json.",
    },
    "occurred_at": {"type": "string", "format": "date-time", "description": "When it happened."},
}
_AROUND: dict[str, tuple[Schema, str]] = {
    "aggregate_type": (_TEXT, "The kind of thing that it happened to, as in shop.order."),
    "aggregate_id": (_TEXT, "Which one of them."),
    "organization_id": (_TEXT, "The tenant that it belongs to."),
    "correlation_id": (_TEXT, "The same for all that one first request or event caused."),
    "causation_id": (_UUID, "The event whose handler emitted it."),
    "actor": (_ACTOR, "Who caused it."),
    "producer": (_TEXT, "The service that emitted it."),
}
_WORKSPACE: Schema = {"workspace_id": {**_TEXT, "description": "The tenant that it belongs to."}}
_DATA: Schema = {"data": {"type": "object", "description": "The fields of the event."}}
_METADATA: Schema = {"metadata": {"type": "object", "description": "What is known about it beyond the fact."}}


def internal() -> Schema:
    """Of events inside the project's own systems: what is not known is null."""
    around = {name: {"anyOf": [schema, _NULL], "description": meaning} for name, (schema, meaning) in _AROUND.items()}
    return _document(
        "envelope",
        "An event as it is sent to destinations, public events excepted.",
        {**_EVERY, **around, **_DATA},
        optional=_METADATA,
    )


def public() -> Schema:
    """Of public events: the workspace, and of the rest what DUEBOX["PUBLIC_ENVELOPE"] allows."""
    name = {**_EVERY["event_type"], "pattern": f"^public[.]{_NAME}$"}
    allowed = {
        name: {**schema, "description": meaning}
        for name, (schema, meaning) in _AROUND.items()
        if name in conf().PUBLIC_ENVELOPE
    }
    return _document(
        "public_envelope",
        "A public event as it is sent to destinations.",
        {**_EVERY, "event_type": name, **_WORKSPACE, **_DATA},
        optional=allowed,
    )


def wanted(kinds: Iterable[EventType]) -> dict[str, Schema]:
    """The files that belong to these types, by name."""
    kinds = tuple(kinds)
    found = {INTERNAL: internal()} if kinds else {}
    return {**found, PUBLIC: public()} if any(kind.twin_of for kind in kinds) else found


def _document(title: str, description: str, required: Schema, *, optional: Schema) -> Schema:
    return {
        "$schema": DIALECT,
        "title": title,
        "description": description,
        "type": "object",
        "properties": {**required, **optional},
        "required": [*required],
    }
