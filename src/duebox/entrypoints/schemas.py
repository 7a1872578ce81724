"""`duebox schemas`: the schema files of the repository, kept in step with the code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.contracts import files
from duebox.contracts.code import class_name_of, source
from duebox.contracts.documents.changes import changes
from duebox.contracts.types import EventType, declared
from duebox.entrypoints.documents import NO_TYPES
from duebox.entrypoints.schemas_check import add_check_options, check
from duebox.entrypoints.terminal import DRY_RUN
from duebox.entrypoints.verbs import Group, Verb
from duebox.entrypoints.worker import positive
from duebox.exceptions import InvalidContract

CHECK_NEXT = (
    "Files changed that were there before; to see whom that breaks: manage.py duebox schemas check --against main"
)


def _add_write_options(parser: CommandParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be written")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _write(command: BaseCommand, options: dict[str, Any]) -> None:
    """Write the schema of every event type that a class declares. Nothing is removed."""
    place, kinds, dry_run = files.folder(), declared(), options["dry_run"]
    found = {each.path: _what_changed(each, place, kinds) for each in files.differences(place, kinds)}
    if not dry_run and found:
        files.write(place, kinds)
    if options["json"]:
        as_json = [{"path": str(path), "new": what is None, "changes": what or []} for path, what in found.items()]
        command.stdout.write(json.dumps({"written": as_json, "dry_run": dry_run}))
    else:
        command.stdout.write("\n".join(_told(found, kinds, dry_run)))


def _what_changed(difference: files.Difference, place: Path, kinds: tuple[EventType, ...]) -> list[str] | None:
    """What the new file says otherwise than the old one; None if there is no old one."""
    if not difference.path.exists():
        return None
    new = next((kind for kind in kinds if files.path_of(place, kind) == difference.path), None)
    if new is None:
        return ["the envelope is another one"]
    try:
        old = files.type_from(new.name, new.version, files.at(difference.path))
    except InvalidContract as error:
        return [f"it could not be read before: {error}"]
    return [what for _, what in changes(old, new)]


def _told(found: dict[Path, list[str] | None], kinds: tuple[EventType, ...], dry_run: bool) -> Iterator[str]:
    for path, what in found.items():
        yield f"{'new' if what is None else 'changed'}: {path}"
        yield from (
            f"  {each}" for each in (what or ([] if what is None else ["no field: what is said about the type"]))
        )
    if any(what is not None for what in found.values()):
        yield CHECK_NEXT
    if not found:
        yield f"All {len(kinds)} schemas are in step." if kinds else NO_TYPES
    if dry_run:
        yield DRY_RUN


def _add_code_options(parser: CommandParser) -> None:
    parser.add_argument("type", metavar="TYPE", help="of this event type, as in member.invited")
    parser.add_argument("--version", type=positive, metavar="N", dest="event_version", help="of this version (newest)")


def _code(command: BaseCommand, options: dict[str, Any]) -> None:
    """Print a class that declares an event type as its schema file does."""
    name, place = options["type"], files.folder()
    there = files.read(place)
    versions = {version: schema for (each, version), schema in there.items() if each == name}
    _refuse_unknown(name, options["event_version"], versions, sorted({each for each, _ in there}), place)
    newest = max(versions)
    version = options["event_version"] or newest
    kind = files.type_from(name, version, versions[version])
    class_name = class_name_of(name) + ("" if version == newest else f"V{version}")
    command.stdout.write(source(kind, class_name=class_name), ending="")


def _refuse_unknown(name: str, version: int | None, versions: dict[int, Any], names: list[str], place: Path) -> None:
    if name.startswith("public."):
        raise CommandError(
            f"{name} comes from {name.removeprefix('public.')}, whose class says public=...; ask for that."
        )
    if not versions:
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names) or 'none'}."
        raise CommandError(f"{place} has no schema of {name!r}; {hint}")
    if version is not None and version not in versions:
        raise CommandError(f"{name} has no version {version}; there are: {', '.join(map(str, sorted(versions)))}.")


SCHEMAS = Group(
    "Schemas",
    "Keep the schema files in step with the code, check that a change breaks nobody, or print a class for one.",
    {
        "check": Verb(check, add_check_options),
        "write": Verb(_write, _add_write_options),
        "code": Verb(_code, _add_code_options),
    },
)
