"""Objects worth trying: with as little as possible, with everything, and with one property at a time as it may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from duebox.contracts.compat.place import Place, of_name
from duebox.contracts.compat.strings import matching, strings
from duebox.contracts.compat.words import NOTHING, Schema, as_schema

Object = dict[str, Any]

_EXTRA = "undeclared"
_LAST_CHARS = "abcAB01"
_ABOUT_OTHERS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
_TOGETHER = ("oneOf", "anyOf", "not", "if", "maxProperties", "minProperties", "dependentRequired", "dependentSchemas")
_FEW = 5
_MOST_OTHERS = 100
_LARGEST = 200


class Sought(Protocol):
    """Where the values of the parts come from."""

    def values(self, place: Place) -> list[Any]: ...
    def smallest(self, place: Place) -> list[Any]: ...
    def takes(self, place: Place, value: Any) -> bool: ...


class Objects:
    """The objects of one way that a writer has, with an eye on one corner of the reader's schema."""

    def __init__(self, writer: Sequence[Schema], reader: Sequence[Schema], search: Sought) -> None:
        self.writer, self.reader, self.search = writer, reader, search
        self._places: dict[str, Place] = {}
        self.required = _required(writer)
        self.declared = [*dict.fromkeys(name for schema in writer for name in schema.get("properties", ()))]
        self.speaks_of_others = any(word in schema for schema in writer for word in _ABOUT_OTHERS)
        names = [*self.required, *self.declared, *islice(self._others(), _MOST_OTHERS)]
        self.names = [name for name in dict.fromkeys(names) if self._may_have(name)]

    def smallest(self) -> Iterator[Object]:
        yield from self._finished(self._with(self.required))

    def few(self) -> Iterator[Object]:
        for base in self._bases():
            yield from self._finished(base)

    def all(self) -> Iterator[Object]:
        yield from self.few()
        bases = self._bases()
        varied = [*bases[:2], *self._with_one_more()]
        for name in self.names:
            for value in self.search.values(self._place(name)):
                for base in varied:
                    yield from self._finished({**base, name: value})
        for base in bases:
            for name in base:
                if name not in self.required:
                    yield from self._finished({each: value for each, value in base.items() if each != name})
        yield from self._by_size()

    def _bases(self) -> list[Object]:
        """What the writer must send, what the reader would like to get, and all there is."""
        wished = [*dict.fromkeys([*self.required, *(name for name in _required(self.reader) if name in self.names)])]
        whole = [*dict.fromkeys([*wished, *(name for name in self.declared if name in self.names)])]
        found: list[Object] = []
        for base in map(self._with, (self.required, wished, whole)):
            if base is not None and base not in found:
                found.append(base)
        return found

    def _with_one_more(self) -> list[Object]:
        """Where words look at several properties at once: the least and one of the others, if they are few."""
        spoken_of = {*self.declared, *_named_by_rules((*self.writer, *self.reader))}
        others = [name for name in self.names if name in spoken_of and name not in self.required]
        together = any(word in schema for schema in (*self.writer, *self.reader) for word in _TOGETHER)
        if not together or len(others) > _FEW:
            return []
        return [each for name in others if (each := self._with([*self.required, name])) is not None]

    def _with(self, names: Iterable[str]) -> Object | None:
        """An object with these properties, as small as can be; without those that no value fits."""
        found = {name: values[0] for name in names if (values := self.search.smallest(self._place(name)))}
        return found if found.keys() >= set(self.required) else None

    def _finished(self, base: Object | None) -> Iterator[Object]:
        """With what the properties that are there ask for, and with as many as there must be."""
        if base is None:
            return
        found = self._completed(base)
        missing = max([int(schema.get("minProperties", 0)) for schema in self.writer], default=0) - len(found)
        if missing <= 0:
            yield found
            return
        others = [name for name in (*self.names, *self._numbered(missing)) if name not in found]
        for names in (others, others[::-1]):  # the reader may ask for the first of them
            more = self._with([*found, *names[:missing]]) or {}
            yield self._completed({**more, **found})

    def _completed(self, found: Object) -> Object:
        for _ in range(len(self.names)):
            asked = [
                name
                for schema in self.writer
                for present, names in schema.get("dependentRequired", {}).items()
                if present in found
                for name in names
                if name not in found
            ]
            new = {name: value[0] for name in asked if (value := self.search.smallest(self._place(name)))}
            if not new:
                break
            found = {**found, **new}
        return found

    def _by_size(self) -> Iterator[Object]:
        words = ("minProperties", "maxProperties")
        bounds = {int(schema[word]) for schema in (*self.writer, *self.reader) for word in words if word in schema}
        for size in sorted({bound + by for bound in bounds for by in (-1, 0, 1)}):
            if len(self.required) <= size <= _LARGEST:
                names = dict.fromkeys([*self.required, *self.names, *self._numbered(size)])
                possible = (name for name in names if self.search.smallest(self._place(name)))
                yield from self._finished(self._with(islice(possible, size)))

    def _numbered(self, count: int) -> Iterator[str]:
        if self._may_have(f"{_EXTRA}0"):
            yield from (f"{_EXTRA}{number}" for number in range(count))

    def _place(self, name: str) -> Place:
        if name not in self._places:
            self._places[name] = Place(of_name(self.writer, name), of_name(self.reader, name))
        return self._places[name]

    def _may_have(self, name: str) -> bool:
        """Declared, or undeclared where the schema speaks of such: a writer says nothing else of its own accord."""
        rules = tuple(as_schema(schema["propertyNames"]) for schema in self.writer if "propertyNames" in schema)
        if any(each is NOTHING for each in of_name(self.writer, name)) or not self.search.takes(Place(rules, ()), name):
            return False
        return name in self.declared or not self.declared or self.speaks_of_others

    def _others(self) -> Iterator[str]:
        """Names that nobody declares, or only the reader."""
        both = (*self.writer, *self.reader)
        yield from (name for schema in self.reader for name in schema.get("properties", ()))
        yield from _required(self.reader)
        yield from _named_by_rules(both)
        patterns = [*dict.fromkeys(each for schema in both for each in schema.get("patternProperties", ()))]
        rules = [as_schema(schema["propertyNames"]) for schema in both if "propertyNames" in schema]
        yield _EXTRA
        patterns += [each["pattern"] for each in rules if "pattern" in each]
        for name in matching(tuple(patterns)):
            yield from (name, *(name[:-1] + char for char in _LAST_CHARS))
        yield from _names(rules)


def _required(schemas: Iterable[Schema]) -> list[str]:
    return [*dict.fromkeys(name for schema in schemas for name in schema.get("required", ()))]


def _named_by_rules(schemas: Iterable[Schema]) -> Iterator[str]:
    for schema in schemas:
        for name, names in schema.get("dependentRequired", {}).items():
            yield from (name, *names)
        yield from schema.get("dependentSchemas", ())
        for word in ("if", "not"):
            yield from as_schema(schema.get(word)).get("properties", ())
        for word in ("anyOf", "oneOf"):  # what tells a variant from the others
            yield from (name for branch in schema.get(word, ()) for name in as_schema(branch).get("properties", ()))


def _names(rules: Iterable[Schema]) -> Iterator[str]:
    rules = [*rules]
    if rules:
        yield from (name for rule in rules for name in rule.get("enum", ()) if isinstance(name, str))
        yield from strings(rules)
