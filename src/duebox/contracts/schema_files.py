"""Schema files of the repository, such as `schemas/events/member.invited.v1.json`, and the schemas of the envelope.

`duebox schemas write` writes a file for each type and version that a class declares, and the envelope beside them. A
file without a class declares its type by itself. Values without a JSON Schema keyword (version, owner, public fields)
are under `x-event`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings as django_settings

from duebox.conf import conf
from duebox.contracts.event_types import EventType, declare, versions_of
from duebox.contracts.json_schema import NULL, Schema
from duebox.contracts.naming import refuse_spelling
from duebox.contracts.validation import DIALECT, compiled
from duebox.exceptions import InvalidContract

__all__ = ["envelope_schema", "public_envelope_schema"]

Key = tuple[str, int]

INTERNAL, PUBLIC = ENVELOPES = ("envelope.v1.json", "public_envelope.v1.json")
"""The files of the envelopes. An event type cannot have such a name: it has a dot."""
FILE = re.compile(r"(?P<name>[a-z0-9_.]+)\.v(?P<version>[1-9][0-9]*)\.json")
BROKEN = "broken"

_NAME = "[a-z0-9_]+([.][a-z0-9_]+)+"
_TEXT: Schema = {"type": "string", "minLength": 1}
_UUID: Schema = {"type": "string", "format": "uuid"}
_ACTOR: Schema = {
    "type": "object",
    "properties": {"type": _TEXT, "id": _TEXT, "email": {**_TEXT, "x-pii": True}},
    "required": ["type", "id"],
}
_ALWAYS: Schema = {
    "event_id": {**_UUID, "description": "The same at every delivery; use it to ignore duplicates."},
    "event_type": {"type": "string", "pattern": f"^{_NAME}$", "description": "What happened."},
    "schema_version": {
        "type": "integer",
        "minimum": 1,
        "description": "The version of the schema of `data`, which is in <event_type>.v<schema_version>.json.",
    },
    "occurred_at": {"type": "string", "format": "date-time", "description": "When it happened."},
}
_CONTEXT: dict[str, tuple[Schema, str]] = {
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


def envelope_schema() -> Schema:
    """For events inside of the project's own systems: unknown values are null."""
    context = {name: {"anyOf": [schema, NULL], "description": meaning} for name, (schema, meaning) in _CONTEXT.items()}
    return _document(
        "envelope",
        "An event as it is sent to destinations, public events excepted.",
        {**_ALWAYS, **context, **_DATA},
        optional=_METADATA,
    )


def public_envelope_schema() -> Schema:
    """For public events: the workspace, and what DUEBOX["PUBLIC_ENVELOPE"] allows of the rest."""
    event_type = {**_ALWAYS["event_type"], "pattern": f"^public[.]{_NAME}$"}
    allowed = {
        name: {**schema, "description": meaning}
        for name, (schema, meaning) in _CONTEXT.items()
        if name in conf().PUBLIC_ENVELOPE
    }
    return _document(
        "public_envelope",
        "A public event as it is sent to destinations.",
        {**_ALWAYS, "event_type": event_type, **_WORKSPACE, **_DATA},
        optional=allowed,
    )


def _document(title: str, description: str, required: Schema, *, optional: Schema) -> Schema:
    return {
        "$schema": DIALECT,
        "title": title,
        "description": description,
        "type": "object",
        "properties": {**required, **optional},
        "required": [*required],
    }


class Difference(NamedTuple):
    """A file that differs from the declared types: "missing", "out of date" or "broken"."""

    path: Path
    what: str


def folder() -> Path:
    """The folder of the files: the setting SCHEMAS, or schemas/events beside manage.py."""
    base = Path(getattr(django_settings, "BASE_DIR", "."))
    return base / str(conf().SCHEMAS or "schemas/events")  # the check E001 reports a wrong type


def key_of(file_name: str) -> Key | None:
    """`member.invited.v1.json` → ("member.invited", 1); None for other names."""
    match = FILE.fullmatch(file_name) if file_name not in ENVELOPES else None
    return (match["name"], int(match["version"])) if match else None


def parsed(content: bytes, name: str) -> dict[str, Any]:
    """The schema in a file, which may begin with the byte order mark of Windows editors."""
    try:
        schema = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidContract(
            f"{name} is not JSON ({error}); repair it, or run: manage.py duebox schemas write"
        ) from None
    if not isinstance(schema, dict):
        raise InvalidContract(f"{name} contains a {type(schema).__name__}; a schema must be an object.")
    return schema


def at(path: Path) -> dict[str, Any]:
    """The schema of one file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidContract(f"{path} cannot be read ({error.strerror}); restore or remove it.") from None
    return parsed(content, str(path))


def paths(place: Path) -> dict[Key, Path]:
    """The schema files of a folder by type and version; none when there is no folder."""
    found = sorted(place.iterdir()) if place.is_dir() else ()
    return {key: path for path in found if (key := key_of(path.name))}


def misnamed(place: Path) -> list[Path]:
    """The JSON files of a folder that are ignored because of their name."""
    found = sorted(place.iterdir()) if place.is_dir() else ()
    files = [path for path in found if path.suffix.lower() == ".json" and path.is_file()]
    return [path for path in files if path.name not in ENVELOPES and not key_of(path.name)]


def read(place: Path) -> dict[Key, dict[str, Any]]:
    """The schemas of a folder by type and version."""
    return {key: at(path) for key, path in paths(place).items()}


def load(place: Path) -> list[InvalidContract]:
    """Declare the types that only a file describes. Returns the errors of files that cannot be used.

    A broken file does not affect the others. Types that are declared already stay, so it can be called again.
    """
    errors = []
    for (name, version), path in paths(place).items():
        try:
            _load(name, version, path)
        except InvalidContract as error:
            errors.append(error)
    return errors


def _load(name: str, version: int, path: Path) -> None:
    schema = at(path)
    if name.startswith("public.") or version in versions_of(name):
        return  # its class declares it, or the type that the public event is made from
    try:
        refuse_spelling(name)
        declare(type_from(name, version, schema))
    except InvalidContract as error:
        raise InvalidContract(f"{path} cannot be used: {error}") from None
    except RecursionError:
        raise InvalidContract(f"{path} cannot be used: its parts refer to each other without end.") from None


def type_from(name: str, version: int, schema: Mapping[str, Any]) -> EventType:
    """The type that a file describes."""
    options = schema.get("x-event", {})
    if not isinstance(options, dict):
        raise InvalidContract(f'x-event is {options!r}; write an object, as in {{"owner": "team money"}}.')
    for word in ("aggregate", "owner"):
        if not isinstance(options.get(word, ""), str):
            raise InvalidContract(f"x-event.{word} is {options[word]!r}; write a text.")
    public = options.get("public", [])
    if not isinstance(public, list) or not all(isinstance(field, str) for field in public):
        raise InvalidContract(f"x-event.public is {public!r}; write a list of texts, the names of fields.")
    # Checked first: an invalid schema may have lists where the code below expects objects.
    compiled({word: value for word, value in schema.items() if word not in ("$schema", "x-event")})
    body = {word: value for word, value in schema.items() if word not in ("$schema", "title", "description", "x-event")}
    return EventType(
        name=name, version=version, schema=body, aggregate=options.get("aggregate", ""),
        owner=options.get("owner", ""), purpose=schema.get("description", ""), public=frozenset(public),
        origin=f"{name}.v{version}.json", check_name=options.get("check_name", True) is not False,
    )  # fmt: skip


def path_of(place: Path, kind: EventType) -> Path:
    return place / f"{kind.name}.v{kind.version}.json"


def document(kind: EventType) -> dict[str, Any]:
    """The content of the file of a type."""
    options: dict[str, Any] = {"type": kind.name, "version": kind.version, "aggregate": kind.aggregate}
    options |= {"owner": kind.owner, "public": sorted(kind.public), "twin_of": kind.twin_of}
    found = {
        "$schema": DIALECT,
        "title": kind.name,
        "description": kind.purpose,
        "x-event": {word: value for word, value in options.items() if value}
        | ({} if kind.check_name else {"check_name": False}),
    }
    return {**{word: value for word, value in found.items() if value}, **kind.schema}


def texts(place: Path, kinds: Iterable[EventType]) -> dict[Path, str]:
    """The content of the files of the folder, without those that declare a type themselves."""
    kinds = tuple(kinds)
    # A public event is written even if the type that it is made from is declared by a file.
    found = {path_of(place, kind): document(kind) for kind in kinds if kind.twin_of or not kind.is_from_file}
    if found:
        found[place / INTERNAL] = envelope_schema()
        if any(kind.twin_of for kind in kinds):
            found[place / PUBLIC] = public_envelope_schema()
    return {path: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for path, schema in found.items()}


def differences(place: Path, kinds: Iterable[EventType]) -> list[Difference]:
    """The files of the folder that are missing, out of date or broken."""
    found = ((path, _difference(path, text)) for path, text in texts(place, kinds).items())
    return [Difference(path, what) for path, what in found if what]


def _difference(path: Path, text: str) -> str:
    if not path.exists():
        return "missing"
    try:
        return "" if at(path) == json.loads(text) else "out of date"
    except InvalidContract:
        return BROKEN


def write(place: Path, kinds: Iterable[EventType]) -> list[Difference]:
    """Write the files that differ, and return the differences."""
    wanted = texts(place, kinds := tuple(kinds))
    changed = differences(place, kinds)
    place.mkdir(parents=True, exist_ok=True)
    for difference in changed:
        difference.path.write_text(wanted[difference.path], encoding="utf-8")
    return changed
