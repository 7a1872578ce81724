"""Schemas as files of the repository: `schemas/events/member.invited.v1.json`, one for each type and version.

A class writes its file, and a file without a class declares its type. The words that JSON Schema has no place for
(version, owner, what is public) are under `x-event`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings as django_settings

from duebox.conf import conf
from duebox.contracts.types import EventType, declare, versions_of
from duebox.contracts.validation import DIALECT
from duebox.exceptions import InvalidContract

Key = tuple[str, int]

FILE = re.compile(r"(?P<name>[a-z0-9_.]+)\.v(?P<version>[1-9][0-9]*)\.json")


class Difference(NamedTuple):
    """A file that is not what the code says."""

    path: Path
    what: str


def folder() -> Path:
    """Where the files are: the setting SCHEMAS, or schemas/events beside manage.py."""
    base = Path(getattr(django_settings, "BASE_DIR", "."))
    return base / (conf().SCHEMAS or "schemas/events")


def key_of(file_name: str) -> Key | None:
    """`member.invited.v1.json` → ("member.invited", 1); None for other names."""
    match = FILE.fullmatch(file_name)
    return (match["name"], int(match["version"])) if match else None


def parsed(text: str, name: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise InvalidContract(
            f"{name} is not JSON ({error}); repair it, or run: manage.py duebox schemas write"
        ) from None
    if not isinstance(schema, dict):
        raise InvalidContract(f"{name} holds a {type(schema).__name__}; a schema is an object.")
    return schema


def read(place: Path) -> dict[Key, dict[str, Any]]:
    """The schemas of a folder by type and version; none when there is no folder."""
    found = {}
    for path in sorted(place.glob("*.json")) if place.is_dir() else ():
        if key := key_of(path.name):
            found[key] = parsed(path.read_text(encoding="utf-8"), str(path))
    return found


def load(place: Path) -> None:
    """Declare the types that only a file describes."""
    for (name, version), schema in read(place).items():
        if not name.startswith("public.") and version not in versions_of(name):
            declare(type_from(name, version, schema))


def type_from(name: str, version: int, schema: Mapping[str, Any]) -> EventType:
    words = schema.get("x-event", {})
    body = {word: value for word, value in schema.items() if word not in ("$schema", "title", "description", "x-event")}
    return EventType(
        name=name, version=version, schema=body, aggregate=words.get("aggregate", ""), owner=words.get("owner", ""),
        purpose=schema.get("description", ""), public=frozenset(words.get("public", ())),
        origin=f"{name}.v{version}.json", named_as_is=bool(words.get("named_as_is")),
    )  # fmt: skip


def path_of(place: Path, kind: EventType) -> Path:
    return place / f"{kind.name}.v{kind.version}.json"


def document(kind: EventType) -> dict[str, Any]:
    """The whole file of a type, as it is published."""
    words: dict[str, Any] = {"aggregate": kind.aggregate, "owner": kind.owner, "public": sorted(kind.public)}
    words |= {"twin_of": kind.twin_of, "named_as_is": kind.named_as_is}
    head: dict[str, Any] = {"$schema": DIALECT, "title": kind.name}
    if kind.purpose:
        head["description"] = kind.purpose
    head["x-event"] = {
        "type": kind.name,
        "version": kind.version,
        **{word: value for word, value in words.items() if value},
    }
    return {**head, **kind.schema}


def text_of(kind: EventType) -> str:
    return json.dumps(document(kind), indent=2, ensure_ascii=False) + "\n"


def differences(place: Path, kinds: Iterable[EventType]) -> list[Difference]:
    """What is missing in the folder, and what is not up to date."""
    wanted = {path_of(place, kind): kind for kind in kinds if not _is_a_file(kind)}
    found = []
    for path, kind in wanted.items():
        if not path.exists():
            found.append(Difference(path, "missing"))
        elif parsed(path.read_text(encoding="utf-8"), str(path)) != json.loads(text_of(kind)):
            found.append(Difference(path, "out of date"))
    return found


def write(place: Path, kinds: Iterable[EventType]) -> list[Difference]:
    """Bring the folder in step with the code; gives what was changed."""
    kinds = tuple(kinds)
    changed = differences(place, kinds)
    texts = {path_of(place, kind): text_of(kind) for kind in kinds}
    place.mkdir(parents=True, exist_ok=True)
    for difference in changed:
        difference.path.write_text(texts[difference.path], encoding="utf-8")
    return changed


def _is_a_file(kind: EventType) -> bool:
    """Whether the file is where the type comes from; its public twin is written all the same."""
    return kind.origin.endswith(".json") and not kind.twin_of
