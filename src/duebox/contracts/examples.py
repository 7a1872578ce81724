"""An example event made from a schema. Values are chosen by the name or the format of a field; domains and phone
numbers are reserved ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from duebox.contracts.compat import candidates
from duebox.contracts.compat.candidates import Alternative, alternatives
from duebox.contracts.compat.compare import Search
from duebox.contracts.compat.schema import Document
from duebox.contracts.json_schema import (
    NOTHING,
    Schema,
    allowed_types,
    as_schema,
    canonical,
    closed,
    listed_types,
    matches,
    schemas_of_item,
    schemas_of_property,
)
from duebox.contracts.validation import compiled

_MOMENT, _DAY, _UUID = "2026-03-29T09:00:00Z", "2026-03-29", "0195dea2-f000-7c4d-9a3b-5e6f70818293"

FORMATS = {
    "date": _DAY, "date-time": _MOMENT, "duration": "P1D", "email": "ada@example.com", "hostname": "example.com",
    "idn-email": "ada@example.com", "idn-hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
    "iri": "https://example.com/", "iri-reference": "/orders/42", "json-pointer": "/lines/0", "regex": "^[a-z]+$",
    "relative-json-pointer": "0", "time": "09:00:00Z", "uri": "https://example.com/", "uri-reference": "/orders/42",
    "uri-template": "/orders/{id}", "uuid": _UUID,
}  # fmt: skip

# Values by what the name of a field contains; the first match is used.
_TEXTS = {
    r"iban": "FR7630006000011234567890189", r"e_?mail": "ada@example.com", r"phone|mobile": "+12025550123",
    r"(^|_)url|link|website": "https://example.com/", r"time_?zone|(^|_)zone|(^|_)tz$": "Europe/Paris",
    r"currency": "EUR", r"country": "FR", r"locale": "en-GB", r"language": "en", r"first_?name|given_?name": "Ada",
    r"last_?name|family_?name|surname": "Lovelace", r"user_?name|login": "ada", r"file_?name": "report.pdf",
    r"city|town": "Paris", r"street|address": "1 Main Street", r"zip|post_?code|postal": "75001", r"_at$": _MOMENT,
    r"_on$|date|birthday|(^|_)day$": _DAY, r"_time$": "09:00", r"amount|price|total|balance|cost": "99.50",
    r"(^|_)ip(_|$)": "192.0.2.1", r"colou?r": "#3366cc", r"(^|_)(id|uuid)$": "42", r"role": "admin",
    r"status|state": "active", r"plan|tier": "basic", r"version": "1.0", r"sku|number|reference|(^|_)code$": "A-1",
    r"title|subject": "A title", r"name|author|member|user|guest|patient|doctor|person": "Ada Lovelace",
    r"reason|note|comment|message|description|text|body": "A short text",
}  # fmt: skip
_NUMBERS = {
    r"year": 2026, r"month": 3, r"(^|_)age$": 36, r"cents": 9950, r"amount|price|total|balance|cost": 99.5,
    r"percent|rate": 50, r"lat": 48.86, r"lo?ng": 2.35, r"(^|_)id$": 42, r"minutes|seconds|hours|days": 15,
    r"count|quantity|seats|size|items|members": 3,
}  # fmt: skip
# For patterns: one of these may match, and is easier to read than a constructed string.
_GUESSES = (
    "99.50", "A-1", "EUR", "FR", "en", "en-GB", "Ada", "ada", "ADA", "1", "42", "123456", "A1", "AB12", "ABC-123",
    "v1", "1.0", "1.2.3", "09:00", "09:00:00", "+12025550123", "#3366cc", "ada_lovelace", "ada-lovelace",
    "member.invited", "Ada Lovelace",
)  # fmt: skip

Parts = tuple[Schema, ...]
Above = tuple[tuple[int, ...], ...]
"""The places around a place, each by the ids of its schemas."""

_DEEPEST = 12
_MAX_TRIED = 3_000
"""Values that are tried before the search for any valid event takes over."""
_MAX_PER_PLACE = 8


def example(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Data that may be emitted under the schema, the same at every call; None if none is found.

    It has every field, with values that fit their names. If the fields depend on each other in ways that this does not
    detect, it is any valid event.
    """
    strict = closed(schema)
    accepts = compiled(strict).is_valid
    for event in Maker(Document(strict)).events():
        if isinstance(event, dict) and accepts(event):
            return event
    found = Search(Document(dict(schema)), Document(dict(schema))).events()
    return next((event for event in found if isinstance(event, dict) and accepts(event)), None)


class Maker:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.left = _MAX_TRIED
        self._known: dict[object, list[Any]] = {}

    def events(self) -> list[Any]:
        return self._best((self.document.root,), "", ())

    def _best(self, parts: Parts, name: str, above: Above) -> list[Any]:
        """A few values for a place, those with the most fields first."""
        place = tuple(map(id, parts))
        key = (place, name, place in above)
        if key not in self._known:
            values = islice(self._values(parts, name, above), _MAX_PER_PLACE)
            self._known[key] = sorted(values, key=_count, reverse=True)
        return self._known[key]

    def _values(self, parts: Parts, name: str, above: Above) -> Iterator[Any]:
        """The valid values of a place."""
        key = tuple(map(id, parts))
        if key in above or len(above) > _DEEPEST:
            return  # a schema that contains itself: one level of it is enough
        for alternative in alternatives(parts, self.document):
            # `unevaluatedProperties` depends on all schemas together, so it cannot be checked in a single one.
            alone = tuple(
                {word: value for word, value in schema.items() if word != "unevaluatedProperties"}
                for schema in alternative
            )
            for value in self._of_alternative(alone, name, (*above, key)):
                self.left -= 1
                if self.left < 0:
                    return
                if self.document.accepts(parts, value):
                    yield value

    def _of_alternative(self, schemas: Alternative, name: str, above: Above) -> Iterator[Any]:
        for schema in schemas:
            yield from schema.get("examples", ())
            yield from (schema[word] for word in ("default", "const") if word in schema)
            yield from schema.get("enum", ())
        if any("enum" in schema or "const" in schema for schema in schemas):
            return
        # In the order in which the types are declared; null last, because it shows nothing.
        order = [each for schema in schemas for each in listed_types(schema)]
        types = sorted(allowed_types(schemas), key=lambda each: order.index(each) if each in order else len(order))
        for kind in sorted(types, key="null".__eq__):
            yield from self._of_type(kind, schemas, name, above)

    def _of_type(self, kind: str, schemas: Alternative, name: str, above: Above) -> Iterator[Any]:
        match kind:
            case "object":
                yield from self._objects(schemas, above)
            case "array":
                yield from self._arrays(schemas, name, above)
            case "string":
                yield from _texts(schemas, name)
            case "integer" | "number":
                found = [number for part, number in _NUMBERS.items() if re.search(part, name.lower())]
                found += [*map(round, found), 1, 10, 0, 100, *candidates.numbers(schemas)]
                yield from (each for each in found if kind == "number" or isinstance(each, int))
            case "boolean":
                yield from (True, False)
            case "null":
                yield None

    def _objects(self, schemas: Alternative, above: Above) -> Iterator[dict[str, Any]]:
        """With everything declared, with one property left out or changed, and with required properties only."""
        required = {each for schema in schemas for each in schema.get("required", ())}
        choices = {each: self._best(schemas_of_property(schemas, each), each, above) for each in self._names(schemas)}
        if any(not choices.get(each) for each in required):
            return
        full = {each: found[0] for each, found in choices.items() if found}
        yield full
        optional = [each for each in full if each not in required]
        yield from ({each: full[each] for each in full if each != left_out} for left_out in optional)
        yield {each: value for each, value in full.items() if each in required}
        for each in full:
            yield from ({**full, each: other} for other in choices[each][1:])

    def _names(self, schemas: Alternative) -> list[str]:
        declared = [each for schema in schemas for word in ("properties", "required") for each in schema.get(word, ())]
        least = max([int(schema.get("minProperties", 0)) for schema in schemas], default=0)
        missing = max(least - len(set(declared)), 0 if declared else 1)
        others = islice((each for each in self._keys(schemas) if each not in declared), missing)
        return list(dict.fromkeys([*declared, *others]))

    def _keys(self, schemas: Alternative) -> Iterator[str]:
        """Names of undeclared properties, where a schema says what such names and values are."""
        patterns = [pattern for schema in schemas for pattern in schema.get("patternProperties", ())]
        rules = tuple(as_schema(schema["propertyNames"]) for schema in schemas if "propertyNames" in schema)
        if not (patterns or rules or any(schema.get("additionalProperties") for schema in schemas)):
            return
        fitting = [key for key in candidates.matching(tuple(patterns)) if any(matches(each, key) for each in patterns)]
        guesses = [*fitting, "key", "en", "a", "1", *(text for rule in rules for text in _texts((rule,), "key"))]
        for key in (*guesses, *(f"key{number}" for number in range(2, 100))):
            if not rules or self.document.accepts(rules, key):
                yield key

    def _arrays(self, schemas: Alternative, name: str, above: Above) -> Iterator[list[Any]]:
        """With one item, or as many as there must be; empty where no item is possible."""
        least = max([int(schema.get("minItems", 0)) for schema in schemas], default=0)
        prefix = max([len(schema.get("prefixItems", ())) for schema in schemas], default=0)
        contained = tuple(as_schema(schema["contains"]) for schema in schemas if "contains" in schema)
        found: list[Any] = []
        for index in range(max(least, prefix, 1)):
            parts = schemas_of_item(schemas, index)
            item = self._new_item(found, (*parts, *contained) if index == prefix else parts, name, above)
            if not item:
                break
            found += item
        yield found
        yield []

    def _new_item(self, items: Sequence[Any], parts: Parts, name: str, above: Above) -> list[Any]:
        """The first value that is not among the items yet, otherwise the first value."""
        if any(each is NOTHING for each in parts):
            return []
        taken = {canonical(each) for each in items}
        choice = self._best(parts, name.removesuffix("s"), above)
        return [each for each in choice if canonical(each) not in taken][:1] or choice[:1]


def _texts(schemas: Alternative, name: str) -> Iterator[str]:
    """The likeliest first: by format, by name, guesses, then those that the keywords suggest."""
    least = max([int(schema.get("minLength", 0)) for schema in schemas], default=0)
    most = min([int(schema["maxLength"]) for schema in schemas if "maxLength" in schema], default=None)
    yield from (FORMATS[schema["format"]] for schema in schemas if schema.get("format") in FORMATS)
    by_name = [text for part, text in _TEXTS.items() if re.search(part, name.lower())]
    plain = f"some {name.replace('_', ' ')}" if name else "some text"
    for text in (*by_name, plain, *_GUESSES, *FORMATS.values()):
        if len(text) < least:
            text = (f"{text} " * (least // (len(text) + 1) + 1))[:least]
            text = text[:-1] + "." if text.endswith(" ") else text
        yield text if most is None else text[:most]
    yield from candidates.strings(schemas)


def _count(value: Any) -> int:
    """How many values there are in a value, itself included."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))
