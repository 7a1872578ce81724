"""Two schemas of one event, compared: who breaks, by which event, and what is not a mere addition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from duebox.contracts.compat import wording
from duebox.contracts.compat.differences import ABSENT, Difference, differences
from duebox.contracts.compat.document import Document
from duebox.contracts.compat.refusals import refusals
from duebox.contracts.compat.search import Search, size
from duebox.contracts.compat.values import Break, Change, Direction, Verdict
from duebox.contracts.compat.words import canonical
from duebox.contracts.defaults import filled, relaxed
from duebox.contracts.strict import closed
from duebox.contracts.validation import compiled

_EXPLAINED = 400


def compare(
    old: Mapping[str, Any], new: Mapping[str, Any], *, formats: bool = False, defaults: bool = False
) -> Verdict:
    """May `new` take the place of `old`? Writers are strict, readers take a schema as it is published.

    A break comes with a witness: an event that the writer's schema allows and the reader's refuses. Schemas that
    cannot be used raise `InvalidContract`. What JSON Schema leaves open about readers is said here: with `formats` they
    assert formats, with `defaults` the new one fills in required fields that have a default. Duebox does both.
    """
    before, after = Document(dict(old), formats=formats), Document(dict(new), formats=formats)
    if canonical(old) == canonical(new):
        return Verdict()
    found = differences(before, after, defaults=defaults)
    # Where defaults are filled in, old events may lack such fields: they came while events were stored already.
    stored = relaxed(dict(old)) if defaults else before.root
    return Verdict(
        backward=tuple(_breaks("backward", Document(stored), after, defaults=defaults)),
        forward=tuple(_breaks("forward", Document(after.root), before)),
        changes=tuple(_change(each) for each in found if each.kind in ("removed", "changed")),
        warnings=tuple(_change(each) for each in found if each.kind == "annotation" and _matters(each)),
    )


def _breaks(direction: Direction, writer: Document, reader: Document, *, defaults: bool = False) -> Iterator[Break]:
    """One for each place and word that refuses, with the smallest event that shows it."""
    known = set()
    for event in _witnesses(writer, reader, defaults):
        for refusal in refusals(reader, filled(event, reader.root) if defaults else event):
            path = wording.path_of(refusal.path)
            if (path, refusal.keyword) not in known:
                known.add((path, refusal.keyword))
                yield Break(direction, path, refusal.keyword, wording.why(direction, refusal, writer), event)


def _witnesses(writer: Document, reader: Document, defaults: bool) -> list[Any]:
    """Events that may be sent and are refused, the smallest first."""
    may_send, takes = compiled(closed(writer.root)), compiled(reader.root, formats=reader.formats)
    found = {
        canonical(event): event
        for event in Search(writer, reader).events()
        if may_send.is_valid(event) and not takes.is_valid(filled(event, reader.root) if defaults else event)
    }
    return sorted(found.values(), key=size)[:_EXPLAINED]


def _change(difference: Difference) -> Change:
    return Change(difference.path, difference.keyword, wording.what(difference))


def _matters(difference: Difference) -> bool:
    """A description that was added explains; one that was changed may mean something else."""
    if difference.keyword == "description":
        return difference.old is not ABSENT
    if difference.keyword == "x-known-values":
        new = [] if difference.new is ABSENT else difference.new
        return difference.old is not ABSENT and any(each not in new for each in difference.old)
    return True
