"""Schemas as files of the repository: `schemas/events/member.invited.v1.json`, one for each type and version, and
beside them those of the envelope.

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
from duebox.contracts import envelopes
from duebox.contracts.types import EventType, declare, versions_of
from duebox.contracts.validation import DIALECT, compiled
from duebox.exceptions import InvalidContract

Key = tuple[str, int]

FILE = re.compile(r"(?P<name>[a-z0-9_.]+)\.v(?P<version>[1-9][0-9]*)\.json")
ENVELOPES = (envelopes.INTERNAL, envelopes.PUBLIC)
BROKEN = "broken"


class Difference(NamedTuple):
    """A file that is not what the code says."""

    path: Path
    what: str


def folder() -> Path:
    """Where the files are: the setting SCHEMAS, or schemas/events beside manage.py."""
    base = Path(getattr(django_settings, "BASE_DIR", "."))
    return base / str(conf().SCHEMAS or "schemas/events")  # the check E001 tells of what is no text


def key_of(file_name: str) -> Key | None:
    """`member.invited.v1.json` → ("member.invited", 1); None for other names."""
    match = FILE.fullmatch(file_name) if file_name not in ENVELOPES else None
    return (match["name"], int(match["version"])) if match else None


def parsed(content: bytes, name: str) -> dict[str, Any]:
    """The schema in a file; Windows editors put a byte order mark before it, which is taken."""
    try:
        schema = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidContract(
            f"{name} is not JSON ({error}); repair it, or run: manage.py duebox schemas write"
        ) from None
    if not isinstance(schema, dict):
        raise InvalidContract(f"{name} holds a {type(schema).__name__}; a schema is an object.")
    return schema


def at(path: Path) -> dict[str, Any]:
    """The schema of one file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidContract(f"{path} cannot be read ({error.strerror}); restore it or take it away.") from None
    return parsed(content, str(path))


def paths(place: Path) -> dict[Key, Path]:
    """The schema files of a folder by type and version; none when there is no folder."""
    found = sorted(place.iterdir()) if place.is_dir() else ()
    return {key: path for path in found if (key := key_of(path.name))}


def misnamed(place: Path) -> list[Path]:
    """The files of a folder that end like schema files and are none by their name, so that nobody reads them."""
    found = sorted(place.iterdir()) if place.is_dir() else ()
    named = [path for path in found if path.suffix.lower() == ".json" and path.is_file()]
    return [path for path in named if path.name not in ENVELOPES and not key_of(path.name)]


def read(place: Path) -> dict[Key, dict[str, Any]]:
    """The schemas of a folder by type and version."""
    return {key: at(path) for key, path in paths(place).items()}


def load(place: Path) -> list[InvalidContract]:
    """Declare the types that only a file describes. Gives what is wrong with files that cannot be used.

    One broken file takes no other with it. What is declared already stays as it is, so it may be asked again.
    """
    wrong = []
    for (name, version), path in paths(place).items():
        try:
            _load(name, version, path)
        except InvalidContract as error:
            wrong.append(error)
    return wrong


def _load(name: str, version: int, path: Path) -> None:
    schema = at(path)
    if name.startswith("public.") or version in versions_of(name):
        return  # its class or its inner type says what it is
    try:
        declare(type_from(name, version, schema))
    except InvalidContract as error:
        raise InvalidContract(f"{path} cannot be used: {error}") from None
    except RecursionError:
        raise InvalidContract(f"{path} cannot be used: its parts hold or refer to each other without end.") from None


def type_from(name: str, version: int, schema: Mapping[str, Any]) -> EventType:
    """The type that a file describes, if it is a schema at all."""
    words = _words(schema.get("x-event", {}))
    # Before anything else looks into it: what is no schema has lists where everybody expects objects.
    compiled({word: value for word, value in schema.items() if word not in ("$schema", "x-event")})
    body = {word: value for word, value in schema.items() if word not in ("$schema", "title", "description", "x-event")}
    return EventType(
        name=name, version=version, schema=body, aggregate=words.get("aggregate", ""), owner=words.get("owner", ""),
        purpose=schema.get("description", ""), public=frozenset(words.get("public", ())),
        origin=f"{name}.v{version}.json", check_name=words.get("check_name", True) is not False,
    )  # fmt: skip


def _words(words: Any) -> dict[str, Any]:
    """What is under `x-event`, which no validator of schemas looks at."""
    if not isinstance(words, dict):
        raise InvalidContract(f'x-event is {words!r}; write an object, as in {{"owner": "team money"}}.')
    for word in ("aggregate", "owner"):
        if not isinstance(words.get(word, ""), str):
            raise InvalidContract(f"x-event.{word} is {words[word]!r}; write a text.")
    fields = words.get("public", [])
    if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
        raise InvalidContract(f"x-event.public is {fields!r}; write a list of texts, the names of fields.")
    return words


def path_of(place: Path, kind: EventType) -> Path:
    return place / f"{kind.name}.v{kind.version}.json"


def document(kind: EventType) -> dict[str, Any]:
    """The whole file of a type, as it is published."""
    words: dict[str, Any] = {"aggregate": kind.aggregate, "owner": kind.owner, "public": sorted(kind.public)}
    words["twin_of"] = kind.twin_of
    head: dict[str, Any] = {"$schema": DIALECT, "title": kind.name}
    if kind.purpose:
        head["description"] = kind.purpose
    head["x-event"] = {
        "type": kind.name,
        "version": kind.version,
        **{word: value for word, value in words.items() if value},
        **({} if kind.check_name else {"check_name": False}),
    }
    return {**head, **kind.schema}


def text_of(kind: EventType) -> str:
    return _text(document(kind))


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def texts(place: Path, kinds: Iterable[EventType]) -> dict[Path, str]:
    """What the files of the folder should hold, but for those that declare a type themselves."""
    kinds = tuple(kinds)
    found = {path_of(place, kind): text_of(kind) for kind in kinds if not _is_a_file(kind)}
    if not found:
        return {}
    return found | {place / name: _text(schema) for name, schema in envelopes.wanted(kinds).items()}


def differences(place: Path, kinds: Iterable[EventType]) -> list[Difference]:
    """What is missing in the folder, and what is not up to date."""
    told = ((path, _difference(path, text)) for path, text in texts(place, kinds).items())
    return [Difference(path, what) for path, what in told if what]


def _difference(path: Path, text: str) -> str:
    if not path.exists():
        return "missing"
    try:
        return "" if at(path) == json.loads(text) else "out of date"
    except InvalidContract:
        return BROKEN


def write(place: Path, kinds: Iterable[EventType]) -> list[Difference]:
    """Bring the folder in step with the code; gives what was changed."""
    wanted = texts(place, kinds := tuple(kinds))
    changed = differences(place, kinds)
    place.mkdir(parents=True, exist_ok=True)
    for difference in changed:
        difference.path.write_text(wanted[difference.path], encoding="utf-8")
    return changed


def _is_a_file(kind: EventType) -> bool:
    """Whether the file is where the type comes from; its public twin is written all the same."""
    return kind.origin.endswith(".json") and not kind.twin_of
