"""What was found, in people's words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from duebox.contracts.compat.differences import ABSENT, Difference
from duebox.contracts.compat.document import Document
from duebox.contracts.compat.normal import normal
from duebox.contracts.compat.refusals import Refusal, Step
from duebox.contracts.compat.values import Direction
from duebox.contracts.compat.words import Schema, canonical

_SHOWN = 60
_CHOICES = ("anyOf", "oneOf")
_COMBINED = (*_CHOICES, "allOf")


def path_of(steps: Sequence[Step]) -> str:
    """`lines[].sku` for any item: where in the schema, not where in one event."""
    text = "".join("[]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def why(direction: Direction, refusal: Refusal, writer: Document) -> str:
    """Why an event of the writer is refused: what changed, and what that does."""
    path = path_of(refusal.path)
    if refusal.keyword == "required":
        return _missing(direction, path, _declared(writer, refusal.path) is not None)
    if refusal.keyword == "additionalProperties":
        return _undeclared(direction, path, _declared(writer, refusal.path) is not None)
    return f"{_change(direction, refusal, writer)}; {_consequence(direction, refusal)}"


def _missing(direction: Direction, path: str, declared: bool) -> str:
    if direction == "backward":
        fact = f"`{path}` became required" if declared else f"`{path}` is new and required"
        return f"{fact}; an old event without it is refused by the new schema"
    fact = f"`{path}` is not required any more" if declared else f"`{path}` was removed"
    return f"{fact}; a new event without it is refused by the old schema, which requires it"


def _undeclared(direction: Direction, path: str, declared: bool) -> str:
    old, new = ("an old", "new") if direction == "backward" else ("a new", "old")
    fact = f"undeclared properties such as `{path}` may be sent"
    if declared:
        fact = f"`{path}` was removed" if direction == "backward" else f"`{path}` is new"
    return f"{fact}; {old} event with it is refused by the {new} schema, which takes declared properties only"


def _change(direction: Direction, refusal: Refusal, writer: Document) -> str:
    place = f"`{path_of(refusal.path)}`" if refusal.path else "the event"
    if refusal.keyword in _CHOICES:
        return f"{place} has other variants (`{refusal.keyword}`)"
    declared = _declared(writer, refusal.path)
    theirs = refusal.limit
    ours = ABSENT if declared is None else normal(declared, writer).get(refusal.keyword, ABSENT)
    old, new = (ours, theirs) if direction == "backward" else (theirs, ours)
    return f"{place}: {went(refusal.keyword, old, new)}"


def _consequence(direction: Direction, refusal: Refusal) -> str:
    writer, reader = ("an old", "new") if direction == "backward" else ("a new", "old")
    return f"{writer} event with {shown(refusal.value)} there is refused by the {reader} schema"


def went(keyword: str, old: Any, new: Any) -> str:
    """How a word of a schema changed."""
    if old is ABSENT:
        return f"`{keyword}` {_operand(keyword, new)}was added"
    if new is ABSENT:
        return f"`{keyword}` {_operand(keyword, old)}was removed"
    if keyword == "enum":
        return _values_went(old, new)
    if isinstance(old, dict | list) and keyword != "type":
        return f"`{keyword}` changed"
    return f"`{keyword}` went from {_plain(keyword, old)} to {_plain(keyword, new)}"


def _operand(keyword: str, value: Any) -> str:
    return "" if isinstance(value, dict) or keyword in _CHOICES else f"{_plain(keyword, value)} "


def _plain(keyword: str, value: Any) -> str:
    if keyword == "type":
        return value if isinstance(value, str) else " or ".join(value)
    return shown(value)


def _values_went(old: list[Any], new: list[Any]) -> str:
    before, after = {canonical(each) for each in old}, {canonical(each) for each in new}
    added = [shown(each) for each in new if canonical(each) not in before]
    removed = [shown(each) for each in old if canonical(each) not in after]
    told = [f"{verb} {', '.join(values)}" for verb, values in (("added", added), ("removed", removed)) if values]
    return f"values were {' and '.join(told)}" if told else "`enum` changed"


def what(difference: Difference) -> str:
    """A difference between two schemas."""
    place = f"`{difference.path}`" if difference.path else "the event"
    if difference.kind == "removed":
        return f"{place} was removed"
    if difference.keyword == "required":
        return f"{place} {'became' if difference.new else 'is not'} required{'' if difference.new else ' any more'}"
    if difference.keyword in _CHOICES and ABSENT not in (difference.old, difference.new):
        verb = "more" if difference.new > difference.old else "fewer"
        return f"{place} has {verb} variants: `{difference.keyword}` went from {difference.old} to {difference.new}"
    return f"{place}: {went(difference.keyword, difference.old, difference.new)}"


def _declared(document: Document, steps: Sequence[Step]) -> Any:
    """What a schema says about the value at the end of a path; None if it declares no such place."""
    parts = [document.root]
    for step in steps:
        said = [normal(part, document) for part in parts]
        variants = [normal(each, document) for one in said for word in _COMBINED for each in one.get(word, ())]
        parts = [part for one in (*said, *variants) for part in _inside(one, step)]
    return parts[0] if parts else None


def _inside(schema: Schema, step: Step) -> list[Any]:
    if isinstance(step, int):
        first = schema.get("prefixItems", ())
        return [first[step]] if step < len(first) else [schema["items"]] if "items" in schema else []
    return [schema["properties"][step]] if step in schema.get("properties", {}) else []
