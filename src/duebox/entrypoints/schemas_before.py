"""The schemas to compare with: of another folder, or of the same folder at a commit of its git repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from django.core.management.base import CommandError

from duebox.contracts import files

# A git hook sets these for its own repository and folder; here the folder of the schemas decides.
_OF_A_HOOK = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_WORK_TREE")


class Before(NamedTuple):
    where: str
    schemas: dict[files.Key, dict[str, Any]]


class _GitRefused(Exception):
    """Git does not know what it was asked for; the text is its own."""


def before(against: str, place: Path) -> Before:
    """What `against` names: a commit if git knows one by that name, or else a folder."""
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
    schemas = files.read(Path(name))
    if not schemas:  # a commit may be from before the first schema, but nobody names an empty folder on purpose
        raise CommandError(
            f"--against {name!r}: folder {name} has no schemas to compare with; name the folder that holds "
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
        if key := files.key_of(path.rpartition("/")[2]):
            found[key] = files.parsed(_git(top, "show", f"{commit}:{path}"), f"{path} at {reference}")
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
        raise _GitRefused((os.fsdecode(done.stderr).strip() or "git knows no such commit").splitlines()[0])
    return done.stdout
