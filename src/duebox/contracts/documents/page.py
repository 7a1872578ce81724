"""The page of one type of event."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence

from duebox.contracts.documents.changes import change_log
from duebox.contracts.documents.fields import field_table, fields
from duebox.contracts.documents.markdown import block, code, joined, listed, sentence, table
from duebox.contracts.examples import example
from duebox.contracts.types import EventType
from duebox.subscribers import Subscriber, receivers_of

MARK = "<!-- Written by `manage.py duebox events docs`. Do not edit: change the event type and run it again. -->"


def page(versions: Sequence[EventType]) -> str:
    """All that is known about a type, from its versions, the oldest first.

    The page of a public event is read by others: who receives it, who owns it and where it comes from stay inside.
    """
    newest, is_public = versions[-1], bool(versions[-1].twin_of)
    parts = [f"# {newest.name}", MARK, newest.purpose or "What it means is not written down yet."]
    parts += [listed([*(_public_facts(versions) if is_public else _facts(versions))])]
    parts += [*_version(newest, versions)]
    if not is_public:
        parts += ["## Who receives it", _receivers(newest)]
    if twins := [each.twin for each in versions if each.twin]:
        parts += ["## What others see", _twin(twins[-1])]
    return joined([*parts, *_history(versions)])


def file_name(kind: EventType) -> str:
    """Relative to the pages of its own kind: public ones have a folder to themselves."""
    return f"{kind.twin_of or kind.name}.md"


def _facts(versions: Sequence[EventType]) -> Iterator[str]:
    newest = versions[-1]
    yield from _public_facts(versions)
    if newest.owner:
        yield f"**Owner:** {newest.owner}"
    yield f"**Declared in:** {code(newest.origin)}"
    if any(field.personal for each in versions for field in fields(each.schema)):
        yield "**Personal data:** yes, in the fields that are marked. It never leaves in a public event."


def _public_facts(versions: Sequence[EventType]) -> Iterator[str]:
    newest = versions[-1]
    if newest.aggregate:
        yield f"**About:** {code(newest.aggregate)}"
    others = ", ".join(f"[{each.version}](#version-{each.version})" for each in reversed(versions[:-1]))
    yield f"**Version:** {newest.version}{f', and before it {others}' if others else ''}"


def _receivers(kind: EventType) -> str:
    rows = [
        (code(each.name), ", ".join(map(code, each.asks_for(kind.name))), _about(each))
        for each in receivers_of(kind.name)
    ]
    return table(("Handler", "Asks for", "What it does"), rows) if rows else "No handler of this project."


def _about(receiver: Subscriber) -> str:
    """The first sentence that the handler says about itself."""
    text = inspect.getdoc(receiver.handler) if inspect.isroutine(receiver.handler) else None
    return sentence(text or "")


def _twin(twin: EventType) -> str:
    shown = ", ".join(code(each.path) for each in fields(twin.schema))
    return (
        f"Together with it goes [{twin.name}](public/{file_name(twin)}), which webhooks of the same organization may "
        f"receive. Of the data of version {twin.version} it carries {shown}, and nothing else."
    )


def _version(kind: EventType, versions: Sequence[EventType]) -> Iterator[str]:
    yield f"## Version {kind.version}"
    yield _lineage(kind, versions)
    yield field_table(kind.schema)
    yield from _example(kind)


def _history(versions: Sequence[EventType]) -> Iterator[str]:
    for each in reversed(versions[:-1]):
        yield from _version(each, versions)
    if len(versions) > 1:
        yield "## Changes"
        yield from change_log(list(versions))


def _lineage(kind: EventType, versions: Sequence[EventType]) -> str:
    """How it hangs together with the version before and the one after."""
    if kind.twin_of or len(versions) == 1:
        return ""
    if kind is versions[-1]:
        before = f"version {kind.version - 1}"
        if kind.upcast:
            return f"Stored events of {before} are brought up to it before a handler sees them."
        return f"Nothing leads here from {before}: a handler sees earlier events in an earlier version."
    following = f"version {kind.version + 1}"
    if any(each.version == kind.version + 1 and each.upcast for each in versions):
        return f"Brought up to {following} before a handler sees it."
    return f"Nothing leads from it to {following}: a handler has to look at `event.version`."


def _example(kind: EventType) -> Iterator[str]:
    made = example(kind.schema)
    if made is None:
        yield "No example could be made: the schema seems to take nothing."
    elif made:
        yield "For example:"
        yield block(json.dumps(made, indent=2, ensure_ascii=False), "json")
