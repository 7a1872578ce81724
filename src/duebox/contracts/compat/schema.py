"""Schemas prepared for comparison: documents whose parts can be validated alone, a normal form, and differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

from duebox.contracts.json_schema import (
    ANYTHING,
    CONSTRAINTS,
    IGNORED,
    Schema,
    as_schema,
    canonical,
    has_references,
    listed_types,
    matches,
    resolved,
    rewritten,
    types_of,
)
from duebox.contracts.validation import Validator, Violation, compiled

_ROOT = "whole"


class Document:
    """A schema whose parts can be validated alone. A part is identified by `id()`: it is a dict inside of `root`."""

    def __init__(self, root: Schema, *, formats: bool = True) -> None:
        self.root, self.formats = root, formats
        self._validators: dict[tuple[int, ...], Validator] = {}
        self._moved_root: Schema | None = None

    def target(self, schema: Schema) -> Schema:
        """What the reference of a schema points to."""
        return as_schema(resolved(schema["$ref"], self.root))

    def accepts(self, parts: Sequence[Schema], value: Any) -> bool:
        """Whether a value is valid under all of these parts."""
        key = tuple(id(part) for part in parts)
        if key not in self._validators:
            self._validators[key] = self._compiled({"allOf": list(parts)} if parts else ANYTHING)
        return self._validators[key].is_valid(value)

    def violations(self, value: Any) -> Iterator[Violation]:
        """The violations of a value, one for each place and keyword."""
        for error in self._validator.errors(value):
            yield from _split(error)

    @cached_property
    def _validator(self) -> Validator:
        return compiled(self.root, formats=self.formats)

    def _compiled(self, part: Schema) -> Validator:
        head = {"$schema": self.root["$schema"]} if "$schema" in self.root else {}
        if has_references(part):
            self._moved_root = self._moved_root or rewritten(self.root, _moved)
            part = {**rewritten(part, _moved), "$defs": {_ROOT: self._moved_root}}
        return compiled({**head, **part}, formats=self.formats)


def _moved(schema: Schema) -> Schema:
    """The schema as a part of a larger one: references to the root point to the root's new place."""
    copy = {word: value for word, value in schema.items() if word not in ("$id", "$schema")}
    if "$ref" in schema:
        copy["$ref"] = f"#/$defs/{_ROOT}{schema['$ref'][1:]}"
    return copy


def _split(error: Violation) -> Iterator[Violation]:
    """One violation for each property that is missing or forbidden. For a choice, the errors of the only branch that
    is for values of this type."""
    if error.keyword == "required":
        missing = [name for name in error.limit if name not in error.value]
        yield from (error._replace(path=(*error.path, name)) for name in missing)
    elif error.keyword == "additionalProperties" and error.limit is False:
        patterns = error.schema.get("patternProperties", {})
        known = {*error.schema.get("properties", ())}
        others = [
            name for name in error.value if name not in known and not any(matches(each, name) for each in patterns)
        ]
        yield from (error._replace(path=(*error.path, name), value=error.value[name]) for name in others)
    else:
        fitting = [
            branch
            for branch in error.choices
            if not any(each.keyword == "type" and each.path == error.path for each in branch)
        ]
        if len(fitting) == 1 < len(error.choices):
            for each in fitting[0]:
                yield from _split(each)
        else:
            yield error


_WITHOUT_EFFECT: dict[str, Any] = {
    "allOf": [], "dependentRequired": {}, "dependentSchemas": {}, "items": {}, "minContains": 1, "minItems": 0,
    "minLength": 0, "minProperties": 0, "patternProperties": {}, "prefixItems": [], "properties": {},
    "propertyNames": {}, "required": [], "unevaluatedItems": {}, "uniqueItems": False,
}  # fmt: skip
"""Keywords without effect at this value. `additionalProperties: true` has one: it keeps a schema open for writers
(see `json_schema.closed`)."""

_LOOKS_AT = {
    "additionalProperties": ("properties", "patternProperties"),
    "unevaluatedProperties": ("properties", "patternProperties"),
    "items": ("prefixItems",),
    "unevaluatedItems": ("items", "prefixItems"),
    "contains": ("minContains", "maxContains"),
    "if": ("then", "else"),
}
"""Keywords that depend on others beside them: merged into another schema they would mean something else."""
_OF_TYPE = {
    "string": {"maxLength", "minLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"},
    "number": {"maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"},
    "object": {
        "properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties",
        "propertyNames", "dependentRequired",
    },
}  # fmt: skip
_OF_TYPE["integer"] = _OF_TYPE["number"]


def normalized(schema: Any, document: Document, within: frozenset[int] = frozenset()) -> Schema:
    """The schema with references and `allOf` merged into it, at its own level; subschemas stay as they are."""
    schema = as_schema(schema)
    if id(schema) in within:  # it is combined with itself, which adds nothing
        return {}
    found, within = dict(schema), within | {id(schema)}
    for word in ("$ref", "allOf"):
        if word in found:
            value = found.pop(word)
            for part in [document.target(schema)] if word == "$ref" else value:
                merged = _merged(found, normalized(part, document, within))
                found = {**found, "allOf": [*found.get("allOf", ()), part]} if merged is None else merged
    found = _with_merged_types(found, document, within)
    if "const" in found and "enum" not in found:
        found["enum"] = [found.pop("const")]
    if "type" in found:
        found["type"] = _types(found)
        if "enum" in found and all(set(types_of(each)) & set(found["type"]) for each in found["enum"]):
            del found["type"]
    return {word: value for word, value in found.items() if not _has_no_effect(word, value)}


def _has_no_effect(word: str, value: Any) -> bool:
    value = {} if value is True and word in ("items", "propertyNames", "unevaluatedItems") else value
    return word in _WITHOUT_EFFECT and type(value) is type(_WITHOUT_EFFECT[word]) and value == _WITHOUT_EFFECT[word]


def _types(schema: Schema) -> list[str]:
    types = set(listed_types(schema))
    return sorted(types - {"integer"} if "number" in types else types)


def _merged(one: Schema, other: Schema) -> Schema | None:
    """Two schemas as one; None where keywords of both would affect each other."""
    merged = {**other, **one}
    for word in one.keys() & other.keys() & CONSTRAINTS:
        if word == "required":
            merged[word] = [*one[word], *other[word]]
        elif word == "properties":
            shared = one[word].keys() & other[word].keys()
            if any(canonical(one[word][name]) != canonical(other[word][name]) for name in shared):
                return None
            merged[word] = {**one[word], **other[word]}
        elif (_types(one) != _types(other)) if word == "type" else canonical(one[word]) != canonical(other[word]):
            return None
    for word, companions in _LOOKS_AT.items():
        if any((word in one and each in other) or (word in other and each in one) for each in companions):
            return None
    return merged


def _with_merged_types(schema: Schema, document: Document, within: frozenset[int]) -> Schema:
    """`anyOf` over different types as one schema: each type has keywords of its own, which do not affect the others."""
    parts = [normalized(part, document, within) for part in schema.get("anyOf", ())]
    if not parts or any("type" not in part for part in parts) or "type" in schema:
        return schema
    merged: Schema = {"type": []}
    for part in parts:
        allowed = {"type", *(word for each in part["type"] for word in _OF_TYPE.get(each, ()))}
        words = part.keys() & CONSTRAINTS
        if set(part["type"]) & set(merged["type"]) or not words <= allowed or words & merged.keys() - {"type"}:
            return schema
        merged = {**part, **merged, "type": [*merged["type"], *part["type"]]}
    if {"integer", "number"} <= set(merged["type"]) or merged.keys() & schema.keys() & CONSTRAINTS:
        return schema
    rest = {word: value for word, value in schema.items() if word != "anyOf"}
    return rest | {word: value for word, value in merged.items() if word not in rest}


Kind = Literal["added", "removed", "changed", "annotation"]

# Here an addition can make a valid value invalid, so any difference inside counts as a change of the keyword itself.
_AS_A_WHOLE = ("not", "if", "contains", "propertyNames")
_STEPS = {
    "items": "[]", "additionalProperties": ".*", "unevaluatedProperties": ".*", "unevaluatedItems": "[]", "then": "",
    "else": "",
}  # fmt: skip


class Difference(NamedTuple):
    kind: Kind
    path: str
    keyword: str
    old: Any = None
    new: Any = None


class _Absent:
    """A keyword that is not there, unlike one whose value is null."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Any = _Absent()


def differences(old: Document, new: Document, *, defaults: bool = False) -> list[Difference]:
    """What differs between the normal forms.

    With `defaults`, a field with a default that became required is an addition: readers fill it in.
    """
    return list(_Comparison(old, new, defaults).between(old.root, new.root, ""))


def same(old: Document, old_part: Schema, new: Document, new_part: Schema) -> bool:
    """Whether two parts accept the same values, as far as this can be determined."""
    return _Comparison(old, new).is_same(old_part, new_part)


class _Comparison:
    def __init__(self, old: Document, new: Document, defaults: bool = False) -> None:
        self.old, self.new, self.defaults = old, new, defaults
        self.seen: set[tuple[int, int]] = set()

    def between(self, old_part: Any, new_part: Any, path: str) -> Iterator[Difference]:
        old_part, new_part = as_schema(old_part), as_schema(new_part)
        # A pair that was met before counts as the same; this ends the walk through recursive schemas.
        if (id(old_part), id(new_part)) in self.seen:
            return
        self.seen.add((id(old_part), id(new_part)))
        old, new = normalized(old_part, self.old), normalized(new_part, self.new)
        yield from self._properties(old, new, path)
        for word in dict.fromkeys([*old, *new]):
            if word not in ("properties", "required") and word not in IGNORED:
                yield from self._keyword(word, old.get(word, ABSENT), new.get(word, ABSENT), path)

    def is_same(self, old: Any, new: Any) -> bool:
        other = _Comparison(self.old, self.new)
        other.seen = set(self.seen)
        return all(each.kind == "annotation" for each in other.between(old, new, ""))

    def _properties(self, old: Schema, new: Schema, path: str) -> Iterator[Difference]:
        def place(name: str) -> str:
            return f"{path}.{name}" if path else name

        before, after = old.get("properties", {}), new.get("properties", {})
        for name in before:
            if name in after:
                yield from self.between(before[name], after[name], place(name))
            else:
                yield Difference("removed", place(name), "properties", before[name])
        for name in after.keys() - before.keys():
            yield Difference("added", place(name), "properties", new=after[name])
        was_required, is_required = set(old.get("required", ())), set(new.get("required", ()))
        for name in sorted((was_required ^ is_required) - (before.keys() - after.keys())):
            filled = self.defaults and name in is_required and "default" in as_schema(after.get(name))
            kind: Kind = "added" if filled else "changed"
            yield Difference(kind, place(name), "required", name in was_required, name in is_required)

    def _keyword(self, word: str, old: Any, new: Any, path: str) -> Iterator[Difference]:
        both = old is not ABSENT and new is not ABSENT
        if word not in CONSTRAINTS:
            if not both or canonical(old) != canonical(new):
                yield Difference("annotation", path, word, old, new)
        elif both and word in _STEPS and not (isinstance(old, bool) or isinstance(new, bool)):
            yield from self.between(old, new, path + _STEPS[word])
        elif both and word in _AS_A_WHOLE:
            if any(each.kind != "annotation" for each in self.between(old, new, path)):
                yield Difference("changed", path, word, old, new)
        elif both and word in ("allOf", "anyOf", "oneOf"):
            yield from self._choices(word, old, new, path)
        elif both and word in ("patternProperties", "dependentSchemas"):
            if old.keys() != new.keys():
                yield Difference("changed", path, word, sorted(old), sorted(new))
            for name in old.keys() & new.keys():
                yield from self.between(old[name], new[name], f"{path}.*" if word == "patternProperties" else path)
        elif both and word == "prefixItems" and len(old) == len(new):
            for index, (before, after) in enumerate(zip(old, new, strict=True)):
                yield from self.between(before, after, f"{path}[{index}]")
        elif not both or _unordered(word, old) != _unordered(word, new):
            yield Difference("changed", path, word, old, new)

    def _choices(self, word: str, old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
        """Variants in any order: equal ones are paired first, the others by position."""
        before, after = list(old), list(new)
        for variant in old:
            equal = next((each for each in after if self.is_same(variant, each)), ABSENT)
            if equal is not ABSENT:
                before.remove(variant)
                after.remove(equal)
        for one, other in zip(before, after, strict=False):
            yield from self.between(one, other, path)
        if len(before) != len(after):
            yield Difference("changed", path, word, len(old), len(new))


def _unordered(word: str, value: Any) -> Any:
    if word == "enum":
        return {canonical(each) for each in value}
    if word == "dependentRequired":
        return {name: sorted(each) for name, each in value.items()}
    return canonical(value)


class Place(NamedTuple):
    """The schemas that apply to one value: the writer's (it meets all of them) and the reader's."""

    writer: tuple[Schema, ...]
    reader: tuple[Schema, ...]

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(map(id, self.writer)), tuple(map(id, self.reader))
