"""The search for a witness: events that a writer may send, small ones first, tried on the reader.

It goes through the places of both schemas at the same time. Where they say the same, few values are enough. Where they
differ, it tries what the words of both sides point to, one place at a time, the rest of the event as small as can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from duebox.contracts.compat.alternatives import Way, corners, ways
from duebox.contracts.compat.arrays import Arrays
from duebox.contracts.compat.differences import same
from duebox.contracts.compat.document import Document
from duebox.contracts.compat.numbers import numbers
from duebox.contracts.compat.objects import Objects
from duebox.contracts.compat.place import Place
from duebox.contracts.compat.strings import strings
from duebox.contracts.compat.types import allowed_types, types_of
from duebox.contracts.compat.words import Schema, canonical

_MOST_IN_ALL = 15_000
_MOST_EVENTS = 10_000
_MOST_TRIED = 2_000
_MOST_SMALL = 500
_MOST_REFUSED = 150
_MOST_TAKEN = 25
_FEW = 6
_LAST_FAILURE = 3


class Search:
    def __init__(self, writer: Document, reader: Document) -> None:
        self.writer, self.reader = writer, reader
        self._values: dict[object, list[Any]] = {}
        self._smallest: dict[object, list[Any]] = {}
        self._under_way: set[object] = set()
        self._left = _MOST_IN_ALL
        self._cut_short = 0
        self._failures: Counter[object] = Counter()

    def events(self) -> Iterator[Any]:
        """Whole events to try. Not all of them may be sent, and some come again."""
        place = Place((self.writer.root,), (self.reader.root,))
        self._under_way.add(place.key)
        return islice(self._tried(place, differs=True), _MOST_EVENTS)

    def takes(self, place: Place, value: Any) -> bool:
        return self.writer.takes(place.writer, value)

    def values(self, place: Place) -> list[Any]:
        """Values for a place: those that the reader refuses there, and some that it takes."""
        key = place.key
        if key in self._values:
            return self._values[key]
        if key in self._under_way or self._left <= 0:
            # Inside itself a place need not be varied: from the outside that is done already.
            return self.smallest(place)
        self._under_way.add(key)
        tried = self._tried(place, differs=not self._is_same(place))
        self._values[key] = self._chosen(place, islice(tried, _MOST_TRIED))
        self._under_way.discard(key)
        return self._values[key]

    def smallest(self, place: Place) -> list[Any]:
        """One small value for a place, if there is any: one that both sides take, or else the writer alone."""
        key = ("smallest", place.key)
        if key in self._smallest:
            return self._smallest[key]
        if key in self._under_way:
            self._cut_short += 1
            return []
        self._under_way.add(key)
        before = self._cut_short
        # The least may not be enough, as for a variant that only its optional properties tell apart.
        found = self._best(place, self._small(place)) or self._best(
            place, self._tried(Place(place.writer, ()), differs=True)
        )
        self._under_way.discard(key)
        self._failures[key] += not found
        # A failure may be due to where it was asked: inside of a place that holds itself. Seldom more than once.
        if found or self._cut_short == before or self._failures[key] == _LAST_FAILURE:
            self._smallest[key] = found
        return found

    def _best(self, place: Place, tried: Iterable[Any]) -> list[Any]:
        found: list[Any] = []
        for value in self._counted(islice(tried, _MOST_SMALL)):
            if self.takes(place, value):
                if self.reader.takes(place.reader, value):
                    return [value]
                found = found or [value]
        return found

    def _counted(self, tried: Iterable[Any]) -> Iterator[Any]:
        for value in tried:
            self._left -= 1
            yield value

    def _small(self, place: Place) -> Iterator[Any]:
        for way, corner in self._pairs(place):
            yield from self._scalars(way, corner)
            types = allowed_types(way)
            if "array" in types:
                yield from Arrays(way, corner, self).smallest()
            if "object" in types:
                yield from Objects(way, corner, self).smallest()

    def _tried(self, place: Place, *, differs: bool) -> Iterator[Any]:
        for way, corner in self._pairs(place if differs else Place(place.writer, ())):
            scalars = self._scalars(way, corner)
            yield from scalars if differs else _one_of_each_type(scalars)
            types = allowed_types(way)
            for name, kind in (("array", Arrays), ("object", Objects)):
                if name in types:
                    there = kind(way, corner, self)
                    yield from there.all() if differs else there.few()

    def _pairs(self, place: Place) -> Iterator[tuple[Way, Way]]:
        edges = corners(place.reader, self.reader)
        for way in ways(place.writer, self.writer):
            yield from ((way, edge) for edge in edges)

    def _scalars(self, way: Way, corner: Way) -> Iterator[Any]:
        both = (*way, *corner)
        yield from _listed(both)
        if any("enum" in schema or "const" in schema for schema in way):
            return
        types = allowed_types(way)
        if "string" in types:
            yield from strings(both)
        if "integer" in types:
            yield from numbers(both)
        if "boolean" in types:
            yield from (True, False)
        if "null" in types:
            yield None

    def _is_same(self, place: Place) -> bool:
        return len(place.writer) == len(place.reader) and all(
            same(self.writer, own, self.reader, other) for own, other in zip(place.writer, place.reader, strict=True)
        )

    def _chosen(self, place: Place, tried: Iterable[Any]) -> list[Any]:
        """Without repeats and without what the writer may not send; the smallest of each kind."""
        possible = {canonical(each): each for each in self._counted(tried) if self.takes(place, each)}
        taken = [each for each in possible.values() if self.reader.takes(place.reader, each)]
        refused = [each for each in possible.values() if not self.reader.takes(place.reader, each)]
        return [*sorted(refused, key=size)[:_MOST_REFUSED], *taken[:_MOST_TAKEN]]


def size(value: Any) -> int:
    """How much there is to read; an empty text is no easier to read than a short one."""
    text = canonical(value)
    return len(text) + 2 * text.count('""')


def _listed(schemas: Sequence[Schema]) -> Iterator[Any]:
    for schema in schemas:
        yield from schema.get("enum", ())
        if "const" in schema:
            yield schema["const"]


def _one_of_each_type(values: Iterable[Any]) -> Iterator[Any]:
    seen: dict[tuple[str, ...], int] = {}
    for value in values:
        types = types_of(value)
        seen[types] = seen.get(types, 0) + 1
        if seen[types] <= _FEW:
            yield value
