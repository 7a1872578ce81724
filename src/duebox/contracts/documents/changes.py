"""What changed from one version to the next, in people's words, and whom it would have broken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from duebox.contracts.compat import Verdict, compare
from duebox.contracts.documents.fields import Field, fields
from duebox.contracts.documents.markdown import code, table
from duebox.contracts.types import EventType

Said = tuple[str, str]
"""A path and a sentence about it."""


def change_log(versions: list[EventType]) -> list[str]:
    """The steps from version to version, the newest first, as parts of a page."""
    return [part for old, new in reversed([*pairwise(versions)]) for part in _step(old, new)]


def _step(old: EventType, new: EventType) -> Iterator[str]:
    yield f"### From version {old.version} to version {new.version}"
    verdict = compare(old.schema, new.schema)
    told = [*changes(old, new)]
    # What is said of the event as a whole belongs to no field.
    others = {each.path: each.what for each in (*verdict.backward, *verdict.forward)}
    told += [(path, why) for path, why in others.items() if path not in dict(told)]
    rows = [(what, _broken(path, verdict, old, new)) for path, what in told]
    yield table(("What changed", "What it breaks"), rows) if rows else "The fields are the same."


def _broken(path: str, verdict: Verdict, old: EventType, new: EventType) -> str:
    """New events break those who read the old version; stored ones may not pass as new ones."""
    found = []
    if any(each.path == path for each in verdict.forward):
        found.append(f"readers of version {old.version}")
    if any(each.path == path for each in verdict.backward) and not new.twin_of:
        repaired = ", which are upcast" if new.upcast else ""
        found.append(f"stored events of version {old.version}{repaired}")
    return "; ".join(found)


def changes(old: EventType, new: EventType) -> Iterator[Said]:
    """One sentence for each field that came, went or is not what it was."""
    before, after = ({each.path: each for each in fields(kind.schema)} for kind in (old, new))
    for path, field in before.items():
        if path in after:
            yield from ((path, what) for what in _changed(field, after[path]))
        elif not _within_new(path, before, after):
            yield path, f"{code(path)} was removed"
    for path, field in after.items():
        if path not in before and not _within_new(path, after, before):
            yield path, f"{code(path)} is new{', and required' if field.required else ''}: {field.kind}"


def _within_new(path: str, own: Mapping[str, Field], other: Mapping[str, Field]) -> bool:
    """Whether something around it came or went as well, which says enough."""
    return any(path.startswith((f"{each}.", f"{each}[")) for each in own.keys() - other.keys())


def _changed(old: Field, new: Field) -> Iterator[str]:
    name = code(new.path)
    if old.kind != new.kind:
        yield f"{name} was {old.kind}, and is {new.kind} now"
    if old.required != new.required:
        yield f"{name} {'became required' if new.required else 'is not required any more'}"
    if old.rules != new.rules:
        yield f"{name} has other rules: {new.rules or 'none'}, where it had {old.rules or 'none'}"
    if old.personal != new.personal:
        yield f"{name} is {'now' if new.personal else 'no longer'} marked as personal data"
