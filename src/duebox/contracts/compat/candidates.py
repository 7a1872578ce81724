"""Candidate values for the search: numbers, strings, arrays and objects at the limits of both schemas, and the
alternatives of a schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, islice, pairwise, product
from math import floor
from typing import Any, Protocol

from duebox.contracts.compat.regex_derivatives import BEGIN, END, LAST, Term, Terms, term_of
from duebox.contracts.compat.schema import Document, Place
from duebox.contracts.json_schema import NOTHING, Schema, as_schema, canonical, schemas_of_item, schemas_of_property

Alternative = tuple[Schema, ...]
"""Schemas that a value must match together. Keywords that combine schemas, such as `anyOf`, are already resolved."""

_MAX_ALTERNATIVES = 24
_MAX_PAIRS = 10


def alternatives(parts: Sequence[Schema], document: Document) -> list[Alternative]:
    """How a value can be valid under all parts: one branch chosen for each choice. Some may be impossible."""
    return _products([_alternatives(part, document, frozenset()) for part in parts])


def probes(parts: Sequence[Schema], document: Document) -> list[Alternative]:
    """Where a reader may refuse a value: the schemas for every value, alone and together with each condition and
    branch."""
    must = tuple(each for part in parts for each in _required_schemas(part, document, frozenset()))
    found = [must]
    for schema in must:
        for branch in _branches(schema):
            found += [(*must, *each) for each in _alternatives(branch, document, frozenset(map(id, must)))]
        for one, other in islice(combinations(schema.get("oneOf", ()), 2), _MAX_PAIRS):
            # A value that two variants accept is refused.
            found += [(*must, *each) for each in alternatives([as_schema(one), as_schema(other)], document)]
    return _without_repeats(found)


def _alternatives(part: Any, document: Document, within: frozenset[int]) -> list[Alternative]:
    part = as_schema(part)
    if id(part) in within:  # it is combined with itself, which adds nothing
        return [()]
    within |= {id(part)}

    def inside(schema: Any) -> list[Alternative]:
        return _alternatives(schema, document, within)

    choices: list[list[Alternative]] = [[(part,)], *map(inside, _always(part, document))]
    for word in ("anyOf", "oneOf"):
        if word in part:
            choices.append([each for branch in part[word] for each in inside(branch)])
    if "if" in part:
        met = _products([inside(part["if"]), inside(part.get("then", {}))])
        choices.append([*inside(part.get("else", {})), *met])
    for name, inner in part.get("dependentSchemas", {}).items():
        choices.append([(), *(({"required": [name]}, *each) for each in inside(inner))])
    return _products(choices)


def _always(part: Schema, document: Document) -> Iterator[Schema]:
    if "$ref" in part:
        yield document.target(part)
    yield from map(as_schema, part.get("allOf", ()))


def _required_schemas(part: Schema, document: Document, within: frozenset[int]) -> Iterator[Schema]:
    if id(part) not in within:
        yield part
        for inner in _always(part, document):
            yield from _required_schemas(inner, document, within | {id(part)})


def _branches(schema: Schema) -> Iterator[Schema]:
    for word in ("anyOf", "oneOf"):
        yield from map(as_schema, schema.get(word, ()))
    for word in ("if", "then", "else", "not"):
        if word in schema:
            yield as_schema(schema[word])
    if "if" in schema and "then" in schema:
        yield {"allOf": [schema["if"], schema["then"]]}
    for name, inner in schema.get("dependentSchemas", {}).items():
        yield {"required": [name]}
        yield {"required": [name], "allOf": [inner]}


def _products(choices: Sequence[Sequence[Alternative]]) -> list[Alternative]:
    """One of each choice combined: every option at least once, and more combinations up to a limit."""
    if not all(choices):
        return []
    first = [options[0] for options in choices]
    each_once = ([*first[:at], option, *first[at + 1 :]] for at, options in enumerate(choices) for option in options)
    chosen = [*each_once, *islice(product(*choices), _MAX_ALTERNATIVES)]
    return _without_repeats([schema for part in each for schema in part] for each in chosen)


def _without_repeats(found: Iterable[Iterable[Schema]]) -> list[Alternative]:
    unique = [tuple({id(schema): schema for schema in each}.values()) for each in found]
    return list({tuple(map(id, each)): each for each in unique}.values())


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_PLAIN_NUMBERS = tuple(Fraction(text) for text in ("1", "0", "2", "-1", "1.5", "0.5", "-0.5", "1000"))
_MAX_MULTIPLES = 4


def numbers(schemas: Sequence[Schema]) -> Iterator[int | float]:
    """Plain numbers first, then those that the keywords of the schemas suggest."""
    bounds = sorted({each for word in _BOUNDS for each in _limits(schemas, word)})
    steps = _limits(schemas, "multipleOf")[:_MAX_MULTIPLES]
    steps += {one * other for one, other in product(steps, steps) if one != other}
    points = [*_PLAIN_NUMBERS, *_around(bounds)]
    for number in dict.fromkeys([*points, *_on_steps(points, steps)]):
        yield int(number) if number.denominator == 1 else float(number)


def _limits(schemas: Sequence[Schema], word: str) -> list[Fraction]:
    """The numbers as they are written: 0.1 is a tenth."""
    limits = [schema.get(word) for schema in schemas]
    return [Fraction(str(each)) for each in limits if isinstance(each, int | float) and not isinstance(each, bool)]


def _around(bounds: Sequence[Fraction]) -> Iterator[Fraction]:
    for bound in bounds:
        yield from (bound, bound - 1, bound + 1, bound - Fraction(1, 2), bound + Fraction(1, 2))
        yield from (Fraction(floor(bound)), Fraction(floor(bound) + 1))
    for low, high in pairwise(bounds):
        yield (low + high) / 2
        yield Fraction(floor((low + high) / 2))


def _on_steps(points: Sequence[Fraction], steps: Sequence[Fraction]) -> Iterator[Fraction]:
    for step in steps:
        yield from (step, -step, step * 2, step * 3, step / 2, step + 1)
        for point in points:
            below = floor(point / step) * step
            yield from (below, below + step, below - step)


_FORMATS = {
    "date": ("2026-01-31", "2027-12-01"), "date-time": ("2026-01-31T09:00:00Z", "2027-12-01T09:00:00.5+02:00"),
    "duration": ("P1D", "PT36H"), "email": ("ada@example.org", "a@b.co"), "hostname": ("example.org", "a.co"),
    "idn-email": ("ada@example.org", "a@b.co"), "idn-hostname": ("example.org", "a.co"),
    "ipv4": ("192.0.2.1", "198.51.100.17"), "ipv6": ("2001:db8::1", "::1"), "iri": ("https://example.org/", "urn:a"),
    "iri-reference": ("/a", "/b/c"), "json-pointer": ("/a", "/b/0"), "regex": ("a", "^b$"),
    "relative-json-pointer": ("0", "1/a"), "time": ("09:00:00Z", "17:30:00+02:00"),
    "uri": ("https://example.org/", "urn:a:b"), "uri-reference": ("/a", "/b/c"), "uri-template": ("/a", "/b/{c}"),
    "uuid": ("018f2f6a-0000-7000-8000-000000000000", "6f1e7c44-9b52-4f7f-a0c1-d11198d3a26f"),
}  # fmt: skip
# For patterns that cannot be parsed: one of these may match.
_GUESSES = ("A", "0", "1", "aa", "AA", "abc", "ABC", "123", "a1", "A1", "a-b", "a_b", "a b", "a.b", "é", " ", "+1", "-")
_LONGEST_STRING = 5_000
_MAX_STEPS = 30_000
_READABLE = [*map(ord, "a0A -_.")]
_SURROGATES = (0xD800, 0xDFFF)


def strings(schemas: Sequence[Schema]) -> Iterator[str]:
    formats = [schema["format"] for schema in schemas if schema.get("format") in _FORMATS]
    yield from (text for each in formats for text in _FORMATS[each])
    yield from ("a", "")
    patterns = tuple(dict.fromkeys(schema["pattern"] for schema in schemas if "pattern" in schema))
    lengths = tuple(_near_bounds(schemas, ("minLength", "maxLength"), 0, _LONGEST_STRING))
    if patterns:
        yield from matching(patterns, lengths)
        yield from (*_GUESSES, *(text for texts in _FORMATS.values() for text in texts))
    yield from ("a" * length for length in lengths)


def _near_bounds(schemas: Iterable[Schema], words: Iterable[str], least: int, most: int, *more: int) -> list[int]:
    """The limits that these keywords set, one less and one more; in order."""
    bounds = {*more, *(int(schema[word]) for schema in schemas for word in words if word in schema)}
    return sorted({bound + by for bound in bounds for by in (-1, 0, 1) if least <= bound + by <= most})


@lru_cache(maxsize=256)
def matching(patterns: tuple[str, ...], lengths: tuple[int, ...] = ()) -> tuple[str, ...]:
    """For each set of patterns that a string can match at once a shortest one, and one of each of the lengths."""
    return tuple(_matching(patterns, lengths))


def _matching(patterns: Sequence[str], lengths: Sequence[int]) -> Iterator[str]:
    terms = Terms()
    wanted = [term for pattern in patterns if (term := term_of(pattern, terms)) is not None]
    if not wanted:
        return
    alphabet = [*_alphabet(wanted)]
    layer = {tuple(terms.after(term, BEGIN) for term in wanted): ""}
    seen, known, steps, length = set(layer), set[tuple[object, ...]](), 0, 0
    while layer and steps < _MAX_STEPS:
        for state, text in layer.items():
            accepted = tuple(terms.after(term, END).empty for term in state)
            for mark in [accepted] + [(accepted, length)] * (length in lengths):
                if mark not in known:
                    known.add(mark)
                    yield text
        steps += len(layer) * len(alphabet)
        following = {
            tuple(terms.after(term, char) for term in state): text + chr(char)
            for state, text in layer.items()
            for char in reversed(alphabet)
        }
        length += 1
        if not following.keys() - seen and length > max(lengths, default=0):
            return
        seen |= following.keys()
        layer = following


def _alphabet(terms: Sequence[Term]) -> Iterator[int]:
    """One character for each group that no pattern distinguishes."""
    cuts = {0, LAST + 1, _SURROGATES[0], _SURROGATES[1] + 1}
    for low, high in {pair for term in terms for pair in _ranges(term, set())}:
        cuts |= {low, high + 1}
    borders = sorted(cut for cut in cuts if cut <= LAST + 1)
    groups = [range(low, high) for low, high in pairwise(borders) if low not in _SURROGATES]
    chars = []
    for group in groups:
        printable = (char for char in group[:200] if chr(char).isprintable())
        chars.append(next((char for char in _READABLE if char in group), next(printable, group[0])))
    yield from sorted(chars, key=lambda char: (not chr(char).isalnum(), not chr(char).islower(), char))


def _ranges(term: object, seen: set[int]) -> Iterator[tuple[int, int]]:
    if isinstance(term, Term) and id(term) not in seen:
        seen.add(id(term))
        if term.kind == "chars":
            yield from term.parts
        else:
            for part in term.parts:
                for each in part if isinstance(part, frozenset) else [part]:
                    yield from _ranges(each, seen)


Object = dict[str, Any]

_EXTRA = "undeclared"
_ABOUT_OTHERS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
_ABOUT_SEVERAL = (
    "oneOf", "anyOf", "not", "if", "maxProperties", "minProperties", "dependentRequired", "dependentSchemas",
)  # fmt: skip
_MAX_VARIED = 5
_MAX_OTHERS = 100
_LARGEST_OBJECT = 200
_LONGEST_ARRAY = 1_000
_MAX_PREFIX = 6


class ValueSource(Protocol):
    """Where the values of properties and items come from."""

    def values(self, place: Place) -> list[Any]: ...
    def smallest(self, place: Place) -> list[Any]: ...
    def accepts(self, place: Place, value: Any) -> bool: ...


class Objects:
    """The objects of one alternative of the writer, varied for one probe of the reader."""

    def __init__(self, writer: Sequence[Schema], reader: Sequence[Schema], source: ValueSource) -> None:
        self.writer, self.reader, self.source = writer, reader, source
        self.both = (*writer, *reader)
        self._places: dict[str, Place] = {}
        self.required = _required_names(writer)
        self.declared = [*dict.fromkeys(name for schema in writer for name in schema.get("properties", ()))]
        names = [*self.required, *self.declared, *islice(self._other_names(), _MAX_OTHERS)]
        self.names = [name for name in dict.fromkeys(names) if self._may_have(name)]

    def smallest(self) -> Iterator[Object]:
        yield from self._completed(self._with(self.required))

    def few(self) -> Iterator[Object]:
        for base in self._bases():
            yield from self._completed(base)

    def all(self) -> Iterator[Object]:
        yield from self.few()
        bases = self._bases()
        varied = [*bases[:2], *self._with_one_more()]
        for name in self.names:
            for value in self.source.values(self._place(name)):
                for base in varied:
                    yield from self._completed({**base, name: value})
        for base in bases:
            for name in base:
                if name not in self.required:
                    yield from self._completed({each: value for each, value in base.items() if each != name})
        words = ("minProperties", "maxProperties")
        for size in _near_bounds(self.both, words, len(self.required), _LARGEST_OBJECT):
            of_size = dict.fromkeys([*self.required, *self.names, *self._numbered(size)])
            possible = (name for name in of_size if self.source.smallest(self._place(name)))
            yield from self._completed(self._with(islice(possible, size)))

    def _bases(self) -> list[Object]:
        """What the writer must send, what the reader requires in addition, and everything declared."""
        wished = [*self.required, *(name for name in _required_names(self.reader) if name in self.names)]
        whole = [*wished, *(name for name in self.declared if name in self.names)]
        found: list[Object] = []
        for base in map(self._with, (self.required, wished, whole)):
            if base is not None and base not in found:
                found.append(base)
        return found

    def _with_one_more(self) -> list[Object]:
        """Where keywords look at several properties: the required ones and one of the others, if they are few."""
        mentioned = {*self.declared, *_names_in_conditions(self.both)}
        others = [name for name in self.names if name in mentioned and name not in self.required]
        if len(others) > _MAX_VARIED or not any(word in schema for schema in self.both for word in _ABOUT_SEVERAL):
            return []
        return [each for name in others if (each := self._with([*self.required, name])) is not None]

    def _with(self, names: Iterable[str]) -> Object | None:
        """The smallest object with these properties, without those that have no valid value."""
        found = self._smallest(dict.fromkeys(names))
        return found if found.keys() >= set(self.required) else None

    def _smallest(self, names: Iterable[str]) -> Object:
        return {name: values[0] for name in names if (values := self.source.smallest(self._place(name)))}

    def _completed(self, base: Object | None) -> Iterator[Object]:
        """With the properties that depend on those present, and with as many as there must be."""
        if base is None:
            return
        found = self._with_dependent(base)
        missing = max([int(schema.get("minProperties", 0)) for schema in self.writer], default=0) - len(found)
        if missing <= 0:
            yield found
            return
        others = [name for name in (*self.names, *self._numbered(missing)) if name not in found]
        for names in (others, others[::-1]):  # the reader may require the first of them
            more = self._with([*found, *names[:missing]]) or {}
            yield self._with_dependent({**more, **found})

    def _with_dependent(self, found: Object) -> Object:
        rules = [rule for schema in self.writer for rule in schema.get("dependentRequired", {}).items()]
        for _ in self.names:
            asked = [name for present, names in rules if present in found for name in names if name not in found]
            if not (new := self._smallest(asked)):
                break
            found = {**found, **new}
        return found

    def _numbered(self, count: int) -> Iterator[str]:
        if self._may_have(f"{_EXTRA}0"):
            yield from (f"{_EXTRA}{number}" for number in range(count))

    def _place(self, name: str) -> Place:
        if name not in self._places:
            self._places[name] = Place(schemas_of_property(self.writer, name), schemas_of_property(self.reader, name))
        return self._places[name]

    def _may_have(self, name: str) -> bool:
        """Whether a writer may send it: it is declared, or the schema says something about undeclared properties."""
        rules = tuple(as_schema(schema["propertyNames"]) for schema in self.writer if "propertyNames" in schema)
        if any(each is NOTHING for each in schemas_of_property(self.writer, name)):
            return False
        allowed = name in self.declared or not self.declared
        allowed = allowed or any(word in schema for schema in self.writer for word in _ABOUT_OTHERS)
        return allowed and self.source.accepts(Place(rules, ()), name)

    def _other_names(self) -> Iterator[str]:
        """Names that only the reader declares, or that neither side declares."""
        yield from (name for schema in self.reader for name in schema.get("properties", ()))
        yield from _required_names(self.reader)
        yield from _names_in_conditions(self.both)
        yield _EXTRA
        rules = [as_schema(schema["propertyNames"]) for schema in self.both if "propertyNames" in schema]
        patterns = [each for schema in self.both for each in schema.get("patternProperties", ())]
        patterns += [each["pattern"] for each in rules if "pattern" in each]
        for name in matching(tuple(dict.fromkeys(patterns))):
            yield from (name, *(name[:-1] + char for char in "abcAB01"))
        yield from (name for rule in rules for name in rule.get("enum", ()) if isinstance(name, str))
        if rules:
            yield from strings(rules)


def _required_names(schemas: Iterable[Schema]) -> list[str]:
    return [*dict.fromkeys(name for schema in schemas for name in schema.get("required", ()))]


def _names_in_conditions(schemas: Iterable[Schema]) -> Iterator[str]:
    for schema in schemas:
        for name, names in schema.get("dependentRequired", {}).items():
            yield from (name, *names)
        yield from schema.get("dependentSchemas", ())
        branches = [schema.get("if"), schema.get("not"), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
        yield from (name for branch in branches for name in as_schema(branch).get("properties", ()))


class Arrays:
    """The arrays of one alternative of the writer, varied for one probe of the reader."""

    def __init__(self, writer: Sequence[Schema], reader: Sequence[Schema], source: ValueSource) -> None:
        self.writer, self.reader, self.source = writer, reader, source
        self.both = (*writer, *reader)
        self.least = max([int(schema.get("minItems", 0)) for schema in writer], default=0)
        self.unique = any(schema.get("uniqueItems") for schema in writer)
        self.prefix = max([len(schema.get("prefixItems", ())) for schema in self.both], default=0)

    def smallest(self) -> Iterator[list[Any]]:
        yield from self._of_length(self.least)
        yield from self._with_contained()

    def few(self) -> Iterator[list[Any]]:
        yield from self.smallest()
        yield from self._of_length(max(self.least, 1))

    def all(self) -> Iterator[list[Any]]:
        yield from self.few()
        words = ("minItems", "maxItems", "minContains", "maxContains")
        for length in _near_bounds(self.both, words, self.least, _LONGEST_ARRAY, 0, 1, self.prefix):
            yield from self._of_length(length)
        for index in range(min(self.prefix, _MAX_PREFIX) + 1):
            for value in self.source.values(self._place(index)):
                for items in self._of_length(max(self.least, index + 1)):
                    yield self._without_repeats([*items[:index], value, *items[index + 1 :]], index)
        if not self.unique and any(schema.get("uniqueItems") for schema in self.reader):
            for length in sorted({max(self.least, 2), self.prefix + 2}):
                for items in self._of_length(length):
                    yield [items[-1]] * length
                    yield [*items[:-1], items[0]]

    def _place(self, index: int) -> Place:
        return Place(schemas_of_item(self.writer, index), schemas_of_item(self.reader, index))

    def _of_length(self, length: int) -> Iterator[list[Any]]:
        """Small items, all different if they have to be."""
        found: list[Any] = []
        for index in range(length):
            place = self._place(index)
            if any(each is NOTHING for each in place.writer):
                return
            values = self.source.smallest(place)
            if self.unique:
                taken = {canonical(each) for each in found}
                numbered = (each for number in range(length if length > 3 else 0) for each in (number, f"{number:03}"))
                more = [*values, *self.source.values(place), *(x for x in numbered if self.source.accepts(place, x))]
                values = [each for each in more if canonical(each) not in taken]
            if not values:
                return
            found.append(values[0])
        yield found

    def _without_repeats(self, items: list[Any], index: int) -> list[Any]:
        """Without repeats if they are forbidden; the item at `index` stays where it is."""
        if not self.unique:
            return items
        others = {canonical(each): each for at, each in enumerate(items) if at != index}
        others.pop(canonical(items[index]), None)
        rest = list(others.values())
        return [*rest[:index], items[index], *rest[index:]]

    def _with_contained(self) -> Iterator[list[Any]]:
        """Arrays with as many items that match `contains` as the limits of both sides suggest."""
        for schema in self.both:
            if "contains" not in schema:
                continue
            inner, place = as_schema(schema["contains"]), self._place(self.prefix)
            others = [[], *([each] for each in self.source.values(place)[:4])]
            of_writer = any(each is schema for each in self.writer)
            values = self.source.values(
                Place((*place.writer, inner), place.reader)
                if of_writer
                else Place(place.writer, (*place.reader, inner))
            )
            counts = {schema.get(word, 1) + by for word in ("minContains", "maxContains") for by in (-1, 0, 1)}
            for count in sorted(each for each in counts if 0 <= each <= _LONGEST_ARRAY):
                for head in self._of_length(max(self.least - count, self.prefix)):
                    yield from ([*head, *other, *[value] * count] for value in values[:4] for other in others)
                    if self.unique:
                        yield [*head, *values[:count]]
