"""Arrays worth trying: of each interesting length, with one item at a time as it may be, and with repeats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from duebox.contracts.compat.objects import Sought
from duebox.contracts.compat.place import Place, of_item
from duebox.contracts.compat.words import NOTHING, Schema, as_schema, canonical

_LONGEST = 1_000
_MOST_PLACES = 6


class Arrays:
    def __init__(self, writer: Sequence[Schema], reader: Sequence[Schema], search: Sought) -> None:
        self.writer, self.reader, self.search = writer, reader, search
        self.both = (*writer, *reader)
        self.least = max([int(schema.get("minItems", 0)) for schema in writer], default=0)
        self.unique = any(schema.get("uniqueItems") for schema in writer)
        self.fixed = max([len(schema.get("prefixItems", ())) for schema in self.both], default=0)

    def smallest(self) -> Iterator[list[Any]]:
        yield from self._of_length(self.least)
        yield from self._with_contained()

    def few(self) -> Iterator[list[Any]]:
        yield from self.smallest()
        yield from self._of_length(max(self.least, 1))

    def all(self) -> Iterator[list[Any]]:
        yield from self.few()
        for length in self._lengths():
            yield from self._of_length(length)
        for index in range(min(self.fixed, _MOST_PLACES) + 1):
            for value in self.search.values(self._place(index)):
                for items in self._of_length(max(self.least, index + 1)):
                    yield self._without_repeats([*items[:index], value, *items[index + 1 :]], index)
        yield from self._with_repeats()

    def _place(self, index: int) -> Place:
        return Place(of_item(self.writer, index), of_item(self.reader, index))

    def _lengths(self) -> list[int]:
        words = ("minItems", "maxItems", "minContains", "maxContains")
        bounds = {int(schema[word]) for schema in self.both for word in words if word in schema}
        found = {bound + by for bound in {0, 1, self.fixed, *bounds} for by in (-1, 0, 1)}
        return sorted(length for length in found if self.least <= length <= _LONGEST)

    def _of_length(self, length: int) -> Iterator[list[Any]]:
        """Small items, all different if they have to be."""
        found: list[Any] = []
        for index in range(length):
            place = self._place(index)
            if any(each is NOTHING for each in place.writer):
                return
            values = self.search.smallest(place)
            if self.unique:
                taken = {canonical(each) for each in found}
                more = [*values, *self.search.values(place), *self._counted(place, length)]
                values = [each for each in more if canonical(each) not in taken]
            if not values:
                return
            found.append(values[0])
        yield found

    def _counted(self, place: Place, length: int) -> Iterator[Any]:
        """As many different values as it takes, numbers and strings."""
        if length > 3:
            for number in range(length):
                yield from (each for each in (number, f"{number:03}") if self.search.takes(place, each))

    def _without_repeats(self, items: list[Any], kept: int) -> list[Any]:
        if not self.unique:
            return items
        others = {canonical(each): each for index, each in enumerate(items) if index != kept}
        others.pop(canonical(items[kept]), None)
        return [*list(others.values())[:kept], items[kept], *list(others.values())[kept:]]

    def _with_repeats(self) -> Iterator[list[Any]]:
        if self.unique or not any(schema.get("uniqueItems") for schema in self.reader):
            return
        for length in sorted({max(self.least, 2), self.fixed + 2}):
            for items in self._of_length(length):
                yield [items[-1]] * length
                yield [*items[:-1], items[0]]

    def _with_contained(self) -> Iterator[list[Any]]:
        """Arrays with as many of what must be in them as the bounds of both sides point to."""
        for schema in self.both:
            if "contains" not in schema:
                continue
            inner = as_schema(schema["contains"])
            place = self._place(self.fixed)
            own = any(each is schema for each in self.writer)
            place = Place((*place.writer, inner), place.reader) if own else Place(place.writer, (*place.reader, inner))
            others = [[], *([each] for each in self.search.values(self._place(self.fixed))[:4])]
            values = self.search.values(place)
            counts = {schema.get(word, 1) + by for word in ("minContains", "maxContains") for by in (-1, 0, 1)}
            for count in sorted(each for each in counts if 0 <= each <= _LONGEST):
                for head in self._of_length(max(self.least - count, self.fixed)):
                    yield from ([*head, *other, *[value] * count] for value in values[:4] for other in others)
                    if self.unique:
                        yield [*head, *values[:count]]
