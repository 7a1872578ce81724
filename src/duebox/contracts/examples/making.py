"""Making an example from the leaves up: each part is chosen to be read, and tried on its own schema at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from duebox.contracts.compat import numbers, strings
from duebox.contracts.compat.alternatives import Way, ways
from duebox.contracts.compat.document import Document
from duebox.contracts.compat.place import matches, of_item, of_name
from duebox.contracts.compat.types import allowed_types
from duebox.contracts.compat.words import NOTHING, Schema, as_schema, canonical
from duebox.contracts.examples import values

Parts = tuple[Schema, ...]
Above = tuple[tuple[int, ...], ...]
"""The places around a place, each by its schemas."""

_DEEPEST = 12
_MOST = 3_000
"""Values that are tried before the search takes over."""
_FEW = 8
_KEYS = ("key", "en", "a", "1")


class Maker:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.left = _MOST
        self._known: dict[object, list[Any]] = {}

    def events(self) -> list[Any]:
        return self._best((self.document.root,), "", ())

    def _best(self, parts: Parts, name: str, above: Above) -> list[Any]:
        """A few values for a place, those that show most first."""
        place = tuple(map(id, parts))
        key = (place, name, place in above)
        if key not in self._known:
            self._known[key] = sorted(islice(self._values(parts, name, above), _FEW), key=_shows, reverse=True)
        return self._known[key]

    def _values(self, parts: Parts, name: str, above: Above) -> Iterator[Any]:
        """What a place may hold, without what its schemas refuse."""
        key = tuple(map(id, parts))
        if key in above or len(above) > _DEEPEST:
            return  # a thing that holds itself: one inside of it is enough to see how
        for way in map(_without_the_rest, ways(parts, self.document)):
            for value in self._of_way(way, name, (*above, key)):
                self.left -= 1
                if self.left < 0:
                    return
                if self.document.takes(parts, value):
                    yield value

    def _of_way(self, way: Way, name: str, above: Above) -> Iterator[Any]:
        for schema in way:
            yield from schema.get("examples", ())
            yield from (schema[word] for word in ("default", "const") if word in schema)
            yield from schema.get("enum", ())
        if any("enum" in schema or "const" in schema for schema in way):
            return
        for kind in _types(way):
            yield from self._of_type(kind, way, name, above)

    def _of_type(self, kind: str, way: Way, name: str, above: Above) -> Iterator[Any]:
        match kind:
            case "object":
                yield from self._objects(way, name, above)
            case "array":
                yield from self._arrays(way, name, above)
            case "string":
                yield from _texts(way, name)
            case "integer" | "number":
                found = (*values.numbers(name), *numbers.numbers(way))
                yield from (each for each in found if kind == "number" or isinstance(each, int))
            case "boolean":
                yield from (True, False)
            case "null":
                yield None

    def _objects(self, way: Way, name: str, above: Above) -> Iterator[dict[str, Any]]:
        """With all that is declared, with one less or one other than all, and with what is required only."""
        required = {each for schema in way for each in schema.get("required", ())}
        choices = {each: self._best(of_name(way, each), each, above) for each in self._names(way)}
        if any(not choices.get(each) for each in required):
            return
        full = {each: found[0] for each, found in choices.items() if found}
        yield full
        optional = [each for each in full if each not in required]
        yield from ({each: full[each] for each in full if each != left_out} for left_out in optional)
        yield {each: value for each, value in full.items() if each in required}
        for each in full:
            yield from ({**full, each: other} for other in choices[each][1:])

    def _names(self, way: Way) -> list[str]:
        declared = [each for schema in way for word in ("properties", "required") for each in schema.get(word, ())]
        least = max([int(schema.get("minProperties", 0)) for schema in way], default=0)
        missing = max(least - len(set(declared)), 0 if declared else 1)
        others = islice((each for each in self._keys(way) if each not in declared), missing)
        return list(dict.fromkeys([*declared, *others]))

    def _keys(self, way: Way) -> Iterator[str]:
        """Names for what is not declared, where a schema says what such names and values are."""
        patterns = [pattern for schema in way for pattern in schema.get("patternProperties", ())]
        rules = tuple(as_schema(schema["propertyNames"]) for schema in way if "propertyNames" in schema)
        if not (patterns or rules or any(schema.get("additionalProperties") for schema in way)):
            return
        fitting = [key for key in strings.matching(tuple(patterns)) if any(matches(each, key) for each in patterns)]
        guesses = [*fitting, *_KEYS, *(text for rule in rules for text in _texts((rule,), "key"))]
        for key in (*guesses, *(f"key{number}" for number in range(2, 100))):
            if not rules or self.document.takes(rules, key):
                yield key

    def _arrays(self, way: Way, name: str, above: Above) -> Iterator[list[Any]]:
        """With one item, or as many as there must be; empty where nothing can be in it."""
        least = max([int(schema.get("minItems", 0)) for schema in way], default=0)
        fixed = max([len(schema.get("prefixItems", ())) for schema in way], default=0)
        contained = tuple(as_schema(schema["contains"]) for schema in way if "contains" in schema)
        found: list[Any] = []
        for index in range(max(least, fixed, 1)):
            parts = of_item(way, index)
            item = self._unlike(found, (*parts, *contained) if index == fixed else parts, _singular(name), above)
            if not item:
                break
            found += item
        yield found
        yield []

    def _unlike(self, found: Sequence[Any], parts: Parts, name: str, above: Above) -> list[Any]:
        """The first value that is not there yet; the first one if all are."""
        if any(each is NOTHING for each in parts):
            return []
        taken = {canonical(each) for each in found}
        choice = self._best(parts, name, above)
        return [each for each in choice if canonical(each) not in taken][:1] or choice[:1]


def _without_the_rest(way: Way) -> Way:
    """What is said about undeclared properties is said of all schemas together: no single one can be asked."""
    return tuple({word: value for word, value in schema.items() if word != "unevaluatedProperties"} for schema in way)


def _types(way: Way) -> list[str]:
    """In the order in which they are declared, nothing last: an example should show something."""
    given = [schema["type"] for schema in way if "type" in schema]
    order = [each for types in given for each in ([types] if isinstance(types, str) else types)]
    allowed = allowed_types(way)
    known = sorted(allowed, key=lambda each: order.index(each) if each in order else len(order))
    return sorted(known, key="null".__eq__)


def _texts(way: Way, name: str) -> Iterator[str]:
    least = max([int(schema.get("minLength", 0)) for schema in way], default=0)
    most = min([int(schema["maxLength"]) for schema in way if "maxLength" in schema], default=None)
    formats = [values.FORMATS[schema["format"]] for schema in way if schema.get("format") in values.FORMATS]
    yield from (values.fitted(text, 0, None) for text in formats)
    yield from (values.fitted(text, least, most) for text in values.texts(name))
    yield from strings.strings(way)


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _shows(value: Any) -> int:
    """How many things there are to see in a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_shows, inner))
