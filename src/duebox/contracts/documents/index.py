"""The page that leads to all others, grouped by what the events are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from duebox.contracts.documents.markdown import joined, sentence, table
from duebox.contracts.documents.page import MARK, file_name
from duebox.contracts.types import EventType

Versions = Sequence[EventType]

_ENVELOPE = (
    ("`id`", "UUID", "the same at every delivery: who remembers it notices repeats"),
    ("`type`, `version`", "text, whole number", "what happened, and which version of the fields it has"),
    ("`occurred_at`", "date and time", "when it happened"),
    ("`about`", "two texts", "what it happened to: a kind of thing and its id"),
    ("`organization`", "text", "whose event it is"),
    ("`correlation_id`", "text", "the same for all that one first event caused"),
    ("`data`", "object", "the fields that the page of the event describes"),
)  # fmt: skip


def index(types: Mapping[str, Versions], others: Mapping[str, Versions]) -> str:
    """The events of the project; `others` are those that may leave it."""
    parts = ["# Events", MARK, "The events that this project emits, by what they are about."]
    parts += [*_groups(types, others)]
    if others:
        parts += [
            "## What others see",
            "Some of them have a [public event](public/index.md) beside them, which may leave.",
        ]
    return joined([*parts, *_envelope()])


def public_index(types: Mapping[str, Versions]) -> str:
    parts = ["# Public events", MARK, "The events that you can subscribe to, by what they are about."]
    return joined([*parts, *_groups(types, {}), *_envelope()])


def _groups(types: Mapping[str, Versions], others: Mapping[str, Versions]) -> Iterator[str]:
    groups: dict[str, list[EventType]] = {}
    for versions in types.values():
        groups.setdefault(_group(versions[-1]), []).append(versions[-1])
    for name in sorted(groups):
        yield f"## {name}"
        head = ("Event", "What it means", "Version", "Owner", "Public")
        yield table(head, [_row(each, f"public.{each.name}" in others) for each in groups[name]])


def _group(kind: EventType) -> str:
    """What it is about; where that is not declared, its name says it."""
    return kind.aggregate or (kind.twin_of or kind.name).rpartition(".")[0]


def _row(kind: EventType, has_twin: bool) -> tuple[str, ...]:
    link, public = f"[{kind.name}]({file_name(kind)})", f"[yes](public/{file_name(kind)})" if has_twin else ""
    owner = "" if kind.twin_of else kind.owner
    return link, sentence(kind.purpose), str(kind.version), owner, public


def _envelope() -> Iterator[str]:
    yield "## What every event has"
    yield table(("Field", "Type", "Meaning"), _ENVELOPE)
