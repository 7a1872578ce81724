"""The result of a comparison: breaks and changes, and the sentences that describe them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from duebox.contracts.compat.schema import ABSENT, Difference, Document, normalized
from duebox.contracts.json_schema import Schema, canonical
from duebox.contracts.validation import Violation

Direction = Literal["backward", "forward"]
Step = str | int

_CHOICES = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class Break:
    """An event that may be emitted and is then refused, and the reason."""

    direction: Direction
    path: str
    keyword: str
    what: str
    witness: Any
    """The event: valid under the writer's schema, refused by the reader's."""


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two schemas, whether or not it breaks anything."""

    path: str
    keyword: str
    what: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the new schema may replace the old one."""

    backward: tuple[Break, ...] = ()
    """Old events that the new schema refuses: stored events that new code will handle, and replays."""
    forward: tuple[Break, ...] = ()
    """New events that the old schema refuses: consumers that are not upgraded yet receive them."""
    changes: tuple[Change, ...] = ()
    """Removed properties, and changes of existing properties."""
    warnings: tuple[Change, ...] = ()
    """Changes that a program cannot judge: of defaults and descriptions."""

    @property
    def backward_compatible(self) -> bool:
        return not self.backward

    @property
    def forward_compatible(self) -> bool:
        return not self.forward

    @property
    def additive_only(self) -> bool:
        """Only additions, which break nothing in either direction."""
        return not (self.backward or self.forward or self.changes)


def path_of(steps: Sequence[Step]) -> str:
    """`lines[].sku` for any item: a place in the schema, not in one event."""
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def why(direction: Direction, violation: Violation, writer: Document) -> str:
    """Why an event of the writer is refused: what changed, and the consequence."""
    path, declared = path_of(violation.path), _declared(writer, violation.path)
    backward = direction == "backward"
    event, schema = ("an old event", "the new schema") if backward else ("a new event", "the old schema")
    if violation.keyword == "required":
        if backward:
            change = f"`{path}` is new and required" if declared is None else f"`{path}` became required"
            return f"{change}; {event} without it is refused by {schema}"
        change = f"`{path}` was removed" if declared is None else f"`{path}` is not required any more"
        return f"{change}; {event} without it is refused by {schema}, which requires it"
    if violation.keyword == "additionalProperties":
        change = f"undeclared properties such as `{path}` may be sent"
        if declared is not None:
            change = f"`{path}` was removed" if backward else f"`{path}` is new"
        return f"{change}; {event} with it is refused by {schema}, which allows declared properties only"
    place = f"`{path}`" if path else "the event"
    if violation.keyword in _CHOICES:
        change = f"{place} has other variants (`{violation.keyword}`)"
    else:
        own = ABSENT if declared is None else normalized(declared, writer).get(violation.keyword, ABSENT)
        old, new = (own, violation.limit) if backward else (violation.limit, own)
        change = f"{place}: {_keyword_change(violation.keyword, old, new)}"
    return f"{change}; {event} with {_shown(violation.value)} there is refused by {schema}"


def what(difference: Difference) -> str:
    """A difference between two schemas as a sentence."""
    _, path, keyword, old, new = difference
    place = f"`{path}`" if path else "the event"
    if difference.kind == "removed":
        return f"{place} was removed"
    if keyword == "required":
        return f"{place} {'became required' if new else 'is not required any more'}"
    if keyword in _CHOICES and ABSENT not in (old, new):
        return f"{place} has {'more' if new > old else 'fewer'} variants: `{keyword}` went from {old} to {new}"
    return f"{place}: {_keyword_change(keyword, old, new)}"


def _keyword_change(keyword: str, old: Any, new: Any) -> str:
    if old is ABSENT or new is ABSENT:
        value, verb = (new, "added") if old is ABSENT else (old, "removed")
        shown = "" if isinstance(value, dict) or keyword in _CHOICES else f"{_shown(value, keyword)} "
        return f"`{keyword}` {shown}was {verb}"
    if keyword == "enum":
        before, after = ({canonical(each) for each in values} for values in (old, new))
        added = [_shown(each) for each in new if canonical(each) not in before]
        removed = [_shown(each) for each in old if canonical(each) not in after]
        parts = [f"{verb} {', '.join(values)}" for verb, values in (("added", added), ("removed", removed)) if values]
        return f"values were {' and '.join(parts)}" if parts else "`enum` changed"
    if isinstance(old, dict | list) and keyword != "type":
        return f"`{keyword}` changed"
    return f"`{keyword}` went from {_shown(old, keyword)} to {_shown(new, keyword)}"


def _shown(value: Any, keyword: str = "") -> str:
    if keyword == "type":
        return value if isinstance(value, str) else " or ".join(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _declared(document: Document, steps: Sequence[Step]) -> Any:
    """What a schema says about the value at the end of a path; None if it declares no such place."""
    parts: list[Any] = [document.root]
    for step in steps:
        own = [normalized(part, document) for part in parts]
        choices = [each for schema in own for word in (*_CHOICES, "allOf") for each in schema.get(word, ())]
        parts = [
            part
            for schema in (*own, *(normalized(each, document) for each in choices))
            for part in _inside(schema, step)
        ]
    return parts[0] if parts else None


def _inside(schema: Schema, step: Step) -> list[Any]:
    if isinstance(step, int):
        first = schema.get("prefixItems", ())
        return [first[step]] if step < len(first) else [schema["items"]] if "items" in schema else []
    return [schema["properties"][step]] if step in schema.get("properties", {}) else []
