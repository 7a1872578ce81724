"""`duebox schemas`: write the schema files, and check whether a changed schema breaks consumers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.cli.events import NO_TYPES
from duebox.cli.output import DRY_RUN, Group, Verb
from duebox.cli.worker import positive
from duebox.contracts import declared, schema_files
from duebox.contracts.codegen import class_name_of, source
from duebox.contracts.compat import MODES, Finding, findings
from duebox.contracts.documents import changes
from duebox.contracts.event_types import EventType
from duebox.exceptions import InvalidContract, did_you_mean

# A git hook sets these for its own repository and folder; this command uses the folder of the schemas.
_OF_A_HOOK = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_WORK_TREE")


class Before(NamedTuple):
    where: str
    schemas: dict[schema_files.Key, dict[str, Any]]


class _GitRefused(Exception):
    """Git refused the reference; the text is git's own message."""


def before(against: str, place: Path) -> Before:
    """The schemas of a commit, if git has one of that name, otherwise of a folder."""
    if not against.strip():  # most often a variable that is not set; Path("") would be the current folder
        raise CommandError("--against is empty; name a branch, a tag or a folder.")
    try:
        return _at_commit(against, place)
    except _GitRefused as error:
        if Path(against).is_dir():
            return _of_folder(against)
        raise CommandError(
            f"--against {against!r} is neither a commit nor a folder ({error}); name a branch, a tag or a folder. "
            "A branch that is only on the server must be fetched first: git fetch origin main"
        ) from None


def _of_folder(name: str) -> Before:
    schemas = schema_files.read(Path(name))
    if not schemas:  # a commit may be older than the first schema, but an empty folder is a mistake
        raise CommandError(
            f"--against {name!r}: folder {name} has no schemas to compare with; name the folder that contains "
            "<type>.v<version>.json."
        )
    return Before(f"folder {name}", schemas)


def _at_commit(reference: str, place: Path) -> Before:
    if reference.startswith("-"):
        raise _GitRefused("it begins with a hyphen")
    there = next(each for each in (place, *place.resolve().parents) if each.is_dir())
    top = Path(_line(there, "rev-parse", "--show-toplevel"))
    commit = _line(there, "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
    inside = place.resolve().relative_to(top.resolve()).as_posix()
    listed = _line(top, "ls-tree", "-z", "--name-only", commit, "--", f"{inside}/".removeprefix("./"))
    found = {}
    for path in listed.split("\0"):
        if key := schema_files.key_of(path.rpartition("/")[2]):
            found[key] = schema_files.parsed(_git(top, "show", f"{commit}:{path}"), f"{path} at {reference}")
    return Before(f"{inside} at {reference}", found)


def _line(folder: Path, *words: str) -> str:
    return os.fsdecode(_git(folder, *words)).strip("\n")


def _git(folder: Path, *words: str) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and no word can be taken for an option
            ["git", "-C", str(folder), *words],  # noqa: S607 - whichever git is there
            capture_output=True,
            env={**environment, "LC_ALL": "C"},
            check=False,
        )
    except FileNotFoundError:
        raise _GitRefused("git is not installed") from None
    if done.returncode:
        raise _GitRefused((os.fsdecode(done.stderr).strip() or "git has no such commit").splitlines()[0])
    return done.stdout


SHOWN = 12
"""The maximum number of findings about one schema, and of outdated files, in text output."""


def add_check_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--against", required=True, metavar="REF|FOLDER", help="compare with the schemas of this commit, or folder"
    )
    parser.add_argument(
        "--mode", choices=MODES, default="full", help="what a change must not break (full: additions only)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def check(command: BaseCommand, options: dict[str, Any]) -> None:
    """Compare the schema files with those of a commit or a folder. Fails if a change breaks consumers."""
    place = schema_files.folder()
    old, new = before(options["against"], place), schema_files.read(place)
    found = findings(old.schemas, new, mode=options["mode"])
    apart = schema_files.differences(place, declared())
    refusal = " ".join(_refusal(found, apart))
    if options["json"]:
        result = {"against": old.where, "mode": options["mode"], "compared": len(old.schemas), "ok": not refusal}
        result["out_of_step"] = [{"file": each.path.name, "what": each.what} for each in apart]
        command.stdout.write(json.dumps({**result, "findings": [each.as_dict() for each in found]}, indent=2))
    else:
        command.stdout.write("\n".join(_in_words(found, old, len(new), passes=not refusal)))
    if refusal:
        raise CommandError(refusal)


def _refusal(found: Sequence[Finding], apart: Sequence[schema_files.Difference]) -> Iterator[str]:
    if breaks := sum(each.breaks for each in found):
        yield f"Not allowed: {_count(breaks, 'change')}; see the repair of each."
    if apart:  # a change that is only in the code was not compared with anything
        listed = ", ".join(f"{each.path.name} is {each.what}" for each in apart[:SHOWN])
        more = f" and {len(apart) - SHOWN} more" if len(apart) > SHOWN else ""
        yield f"The schema files are not what the code declares: {listed}{more}. Run: manage.py duebox schemas write"


def _in_words(found: Sequence[Finding], old: Before, now: int, *, passes: bool) -> Iterator[str]:
    for (type, version), group in groupby(found, key=lambda each: (each.type, each.version)):
        yield f"{type} v{version}"
        about = list(group)
        for each in about[:SHOWN]:
            yield from _finding(each)
        if len(about) > SHOWN:
            yield f"  and {len(about) - SHOWN} more; --json lists all"
    if not old.schemas:
        yield f"Nothing to compare with: {old.where} has no schemas. There are {now} now."
        return
    looks = sum(not each.breaks for each in found)
    verdict = " Nothing breaks." if passes else ""
    more = f" {_count(looks, 'thing')} to look at." if looks else ""
    yield f"{_count(len(old.schemas), 'schema')} compared with {old.where}.{verdict}{more}"


def _finding(each: Finding) -> Iterator[str]:
    kind = f"breaks {each.direction}" if each.direction else "not an addition" if each.breaks else "look"
    yield f"  {kind}: {each.what}"
    if each.witness is not None:
        yield f"    event: {json.dumps(each.witness, ensure_ascii=False)}"
    yield f"    repair: {each.repair}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


CHECK_NEXT = "Existing files changed; to see what that breaks: manage.py duebox schemas check --against main"


def _add_write_options(parser: CommandParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only print what would be written")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _write(command: BaseCommand, options: dict[str, Any]) -> None:
    """Write the schema of every event type that a class declares. Nothing is removed."""
    place, kinds, dry_run = schema_files.folder(), declared(), options["dry_run"]
    found = {each.path: _what_changed(each, place, kinds) for each in schema_files.differences(place, kinds)}
    if not dry_run and found:
        schema_files.write(place, kinds)
    if options["json"]:
        as_json = [{"path": str(path), "new": what is None, "changes": what or []} for path, what in found.items()]
        command.stdout.write(json.dumps({"written": as_json, "dry_run": dry_run}))
    else:
        command.stdout.write("\n".join(_told(found, kinds, dry_run)))


def _what_changed(difference: schema_files.Difference, place: Path, kinds: tuple[EventType, ...]) -> list[str] | None:
    """The differences of the new file from the old one; None if there is no old one."""
    if not difference.path.exists():
        return None
    new = next((kind for kind in kinds if schema_files.path_of(place, kind) == difference.path), None)
    if new is None:
        return ["the envelope changed"]
    try:
        old = schema_files.type_from(new.name, new.version, schema_files.at(difference.path))
    except InvalidContract as error:
        return [f"it could not be read before: {error}"]
    return [what for _, what in changes(old, new)]


def _told(found: dict[Path, list[str] | None], kinds: tuple[EventType, ...], dry_run: bool) -> Iterator[str]:
    for path, what in found.items():
        yield f"{'new' if what is None else 'changed'}: {path}"
        yield from (
            f"  {each}" for each in (what or ([] if what is None else ["no field, but the description of the type"]))
        )
    if any(what is not None for what in found.values()):
        yield CHECK_NEXT
    if not found:
        yield f"All {len(kinds)} schemas are up to date." if kinds else NO_TYPES
    if dry_run:
        yield DRY_RUN


def _add_code_options(parser: CommandParser) -> None:
    parser.add_argument("type", metavar="TYPE", help="of this event type, as in member.invited")
    parser.add_argument("--version", type=positive, metavar="N", dest="event_version", help="of this version (newest)")


def _code(command: BaseCommand, options: dict[str, Any]) -> None:
    """Print a class that declares an event type as its schema file does."""
    name, place = options["type"], schema_files.folder()
    there = schema_files.read(place)
    versions = {version: schema for (each, version), schema in there.items() if each == name}
    _refuse_unknown(name, options["event_version"], versions, sorted({each for each, _ in there}), place)
    newest = max(versions)
    version = options["event_version"] or newest
    kind = schema_files.type_from(name, version, versions[version])
    class_name = class_name_of(name) + ("" if version == newest else f"V{version}")
    command.stdout.write(source(kind, class_name=class_name), ending="")


def _refuse_unknown(name: str, version: int | None, versions: dict[int, Any], names: list[str], place: Path) -> None:
    if name.startswith("public."):
        raise CommandError(
            f"{name} comes from {name.removeprefix('public.')}, whose class is declared with public=...; use that name."
        )
    if not versions:
        hint = did_you_mean(name, names, cutoff=0.5) or f"there are: {', '.join(names) or 'none'}."
        raise CommandError(f"{place} has no schema of {name!r}; {hint}")
    if version is not None and version not in versions:
        raise CommandError(f"{name} has no version {version}; there are: {', '.join(map(str, sorted(versions)))}.")


SCHEMAS = Group(
    "Schemas",
    "Write the schema files, check that a change breaks no consumer, or print a class for a schema.",
    {
        "check": Verb(check, add_check_options),
        "write": Verb(_write, _add_write_options),
        "code": Verb(_code, _add_code_options),
    },
)
