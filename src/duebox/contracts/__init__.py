"""Event types: names, schemas, validation, versions, compatibility, public events, documents.

json_schema    work with JSON Schema documents
naming         names of events
python_types   annotations as a schema; dataclass instances as data, and back
class_schemas  dataclasses, pydantic models and msgspec structs: their schema, their data, and back
validation     validate data against a schema, and explain what is wrong with it
cloudevents    CloudEvents 1.0, in both directions
compat/        whether one schema may replace another
examples       an example event made from a schema
public         public events: an allow-list of fields
event_types    `@duebox.event`, and the registry of declared types
asyncapi       the event types as an AsyncAPI document
codegen        Python source of a class for a schema file
documents      the event types as Markdown pages
enforce        hold a new event to its type, and derive its public event
schema_files   schema files of the repository
upcasting      stored events for current code
"""

from __future__ import annotations

from duebox.contracts.event_types import EventType, declared, event, latest, versions_of
from duebox.contracts.upcasting import read


class _Keywords(dict[str, object]):
    """JSON Schema keywords that are hashable, so that they can be used inside of a union."""

    __hash__ = object.__hash__  # type: ignore[assignment]


PII = _Keywords({"x-pii": True})
"""Marks a field as personal data: `email: Annotated[str, PII]`. Public events never contain it."""

__all__ = ["PII", "EventType", "declared", "event", "latest", "read", "versions_of"]
