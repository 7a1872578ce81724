"""The gate: may this catalogue of schemas take the place of that one?

A schema belongs to a type and a version, and stays what it is. Who needs another one makes another version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from duebox.contracts.compat.compare import compare
from duebox.contracts.compat.values import Break, Change, Verdict
from duebox.contracts.compat.words import canonical
from duebox.contracts.strict import closed
from duebox.contracts.validation import compiled
from duebox.exceptions import InvalidContract

Key = tuple[str, int]
Catalogue = Mapping[Key, Mapping[str, Any]]
Mode = Literal["backward", "forward", "full"]

MODES: tuple[Mode, ...] = ("backward", "forward", "full")
PUBLIC = "public."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about one schema that somebody should know."""

    type: str
    version: int
    breaks: bool
    """Whether it must not pass. What does not break is worth a look."""
    path: str = ""
    direction: str = ""
    """`backward`, `forward`, or nothing when no event is refused."""
    what: str
    witness: Any = None
    """An event that the writer's schema allows and the reader's refuses."""
    repair: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def findings(old: Catalogue, new: Catalogue, *, mode: Mode = "full") -> list[Finding]:
    """What is wrong with `new`, or worth a look, for those who hold events and code of `old`."""
    found = [each for key in sorted(old) for each in _about(key, old[key], new, mode)]
    return found + [each for key in sorted(new.keys() - old.keys()) for each in _numbering(key, new)]


def _about(key: Key, old: Mapping[str, Any], new: Catalogue, mode: Mode) -> Iterator[Finding]:
    type, version = key
    if key not in new:
        yield Finding(
            type=type,
            version=version,
            breaks=True,
            what="the version is gone; stored events of it may still come due, and nothing could read them",
            repair=f"bring {type}.v{version}.json back, and mark it deprecated if nobody is to write it any more",
        )
    elif canonical(old) != canonical(new[key]):
        problem = _cannot_be_used(key, old, new[key])
        yield from [problem] if problem else _judged(key, old, new, "full" if type.startswith(PUBLIC) else mode)


def _cannot_be_used(key: Key, old: Mapping[str, Any], new: Mapping[str, Any]) -> Finding | None:
    type, version = key
    for schema, is_new in ((new, True), (old, False)):
        try:
            compiled(closed(schema))
        except InvalidContract as error:
            repair = "repair it" if is_new else "nothing: no event can have been written by the one before"
            return Finding(type=type, version=version, breaks=is_new, what=str(error), repair=repair)
    return None


def _judged(key: Key, old: Mapping[str, Any], new: Catalogue, mode: Mode) -> Iterator[Finding]:
    type, version = key
    # Those who get public events are outside of Duebox, which fills in defaults for its own handlers only.
    fills = not type.startswith(PUBLIC)
    verdict = compare(old, new[key], formats=True, defaults=fills)
    way_out = _another_version(key, new)
    for each in _that_count(verdict, mode):
        proven = each if isinstance(each, Break) else None
        yield Finding(
            type=type,
            version=version,
            breaks=True,
            path=each.path,
            direction=proven.direction if proven else "",
            what=each.what,
            witness=proven.witness if proven else None,
            repair=_repair(each, way_out, fills),
        )
    for change in verdict.warnings:
        yield Finding(
            type=type,
            version=version,
            breaks=False,
            path=change.path,
            what=change.what,
            repair="no machine can see whether it means something else now; if it does, take a new property or version",
        )


def _that_count(verdict: Verdict, mode: Mode) -> list[Break | Change]:
    if mode != "full":
        return [*(verdict.backward if mode == "backward" else verdict.forward)]
    breaks = [*verdict.backward, *verdict.forward]
    told = {(each.path, each.keyword) for each in breaks}
    quiet = [each for each in verdict.changes if (each.path, each.keyword) not in told and not _is_told(each, told)]
    return [*breaks, *quiet]


def _is_told(change: Change, told: set[tuple[str, str]]) -> bool:
    """A property that was removed and required is in the breaks already."""
    return change.keyword == "properties" and (change.path, "required") in told


def _another_version(key: Key, new: Catalogue) -> str:
    type, version = key
    following = max(each for name, each in new if name == type) + 1
    return f"leave version {version} as it was; make this version {following} and give it an upcaster"


_MILDER = {
    "required": "or leave it optional",
    "properties": "or keep it, marked deprecated",
    "format": "or say it in the description",
    "enum": "or take an open text with `x-known-values`",
    "additionalProperties": "or leave `additionalProperties` as it was; what is written is strict anyway",
}


def _repair(each: Break | Change, way_out: str, fills: bool) -> str:
    milder = _MILDER.get(each.keyword)
    if each.keyword == "required" and fills and isinstance(each, Break) and each.direction == "backward":
        milder = "or leave it optional or give it a default"
    return f"{way_out}, {milder}" if milder else way_out


def _numbering(key: Key, new: Catalogue) -> Iterator[Finding]:
    """A new version that leaves a gap: the upcasters go from one to the next."""
    type, version = key
    before = max((each for name, each in new if name == type and each < version), default=0)
    if version != before + 1:
        gap = f"version {version} follows on version {before}" if before else f"the first version is {version}"
        yield Finding(type=type, version=version, breaks=False, what=gap, repair=f"make it version {before + 1}")
