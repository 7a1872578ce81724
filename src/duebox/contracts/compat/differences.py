"""What two schemas say otherwise, place by place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from duebox.contracts.compat.document import Document
from duebox.contracts.compat.normal import normal
from duebox.contracts.compat.words import CONSTRAINTS, SILENT, Schema, as_schema, canonical

Kind = Literal["added", "removed", "changed", "annotation"]

# Here an addition can turn a yes into a no, so anything other counts as a change of the word itself.
_WHOLE = ("not", "if", "contains", "propertyNames")
_INTO = ("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "then", "else")
_CHOICES = ("allOf", "anyOf", "oneOf")
_STEP = {"items": "[]", "additionalProperties": ".*", "unevaluatedProperties": ".*", "unevaluatedItems": "[]"}


class Difference(NamedTuple):
    kind: Kind
    path: str
    keyword: str
    old: Any = None
    new: Any = None


class _Absent:
    """Stands for a word that is not there, so that an explicit null is something else."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Any = _Absent()


def differences(old: Document, new: Document, *, defaults: bool = False) -> list[Difference]:
    """All that is different after references are followed and spelling is taken away.

    With `defaults`, that a field with a default became required is an addition: readers fill it in.
    """
    return list(_Walk(old, new, defaults).between(old.root, new.root, ""))


def same(old: Document, old_part: Schema, new: Document, new_part: Schema) -> bool:
    """Whether two parts take the same values, as far as one can see."""
    found = _Walk(old, new).between(old_part, new_part, "")
    return all(each.kind == "annotation" for each in found)


class _Walk:
    def __init__(self, old: Document, new: Document, defaults: bool = False) -> None:
        self.old, self.new, self.defaults = old, new, defaults
        self.seen: set[tuple[int, int]] = set()

    def between(self, old_part: Any, new_part: Any, path: str) -> Iterator[Difference]:
        old_part, new_part = as_schema(old_part), as_schema(new_part)
        # A pair that was met before is the same if everything else is: that is how recursive schemas end.
        if (id(old_part), id(new_part)) in self.seen:
            return
        self.seen.add((id(old_part), id(new_part)))
        old, new = normal(old_part, self.old), normal(new_part, self.new)
        yield from self._properties(old, new, path)
        yield from self._required(old, new, path)
        for word in dict.fromkeys([*old, *new]):
            if word not in ("properties", "required") and word not in SILENT:
                yield from self._word(word, old.get(word, ABSENT), new.get(word, ABSENT), path)

    def _properties(self, old: Schema, new: Schema, path: str) -> Iterator[Difference]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in before:
            if name in after:
                yield from self.between(before[name], after[name], _join(path, name))
            else:
                yield Difference("removed", _join(path, name), "properties", before[name])
        for name in after.keys() - before.keys():
            yield Difference("added", _join(path, name), "properties", new=after[name])

    def _required(self, old: Schema, new: Schema, path: str) -> Iterator[Difference]:
        before, after = set(old.get("required", ())), set(new.get("required", ()))
        gone = old.get("properties", {}).keys() - new.get("properties", {}).keys()
        for name in sorted((before ^ after) - gone):
            filled = self.defaults and name in after and "default" in as_schema(new.get("properties", {}).get(name))
            kind: Kind = "added" if filled else "changed"
            yield Difference(kind, _join(path, name), "required", name in before, name in after)

    def _word(self, word: str, old: Any, new: Any, path: str) -> Iterator[Difference]:
        both = old is not ABSENT and new is not ABSENT
        if word not in CONSTRAINTS:
            if old is ABSENT or new is ABSENT or canonical(old) != canonical(new):
                yield Difference("annotation", path, word, old, new)
        elif both and word in _INTO and not (isinstance(old, bool) or isinstance(new, bool)):
            yield from self.between(old, new, path + _STEP.get(word, ""))
        elif both and word in _WHOLE:
            if any(each.kind != "annotation" for each in self.between(old, new, path)):
                yield Difference("changed", path, word, old, new)
        elif both and word in _CHOICES:
            yield from self._choices(word, old, new, path)
        elif both and word in ("patternProperties", "dependentSchemas"):
            yield from self._named(word, old, new, path)
        elif both and word == "prefixItems" and len(old) == len(new):
            for index, (before, after) in enumerate(zip(old, new, strict=True)):
                yield from self.between(before, after, f"{path}[{index}]")
        elif not both or _unordered(word, old) != _unordered(word, new):
            yield Difference("changed", path, word, old, new)

    def _named(self, word: str, old: Schema, new: Schema, path: str) -> Iterator[Difference]:
        if old.keys() != new.keys():
            yield Difference("changed", path, word, sorted(old), sorted(new))
        for name in old.keys() & new.keys():
            yield from self.between(old[name], new[name], f"{path}.*" if word == "patternProperties" else path)

    def _choices(self, word: str, old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
        """Variants in any order: those that are the same are paired first, the others as they stand."""
        before, after = list(old), list(new)
        for variant in old:
            twin = next((each for each in after if self._is_same(variant, each)), ABSENT)
            if twin is not ABSENT:
                before.remove(variant)
                after.remove(twin)
        for one, other in zip(before, after, strict=False):
            yield from self.between(one, other, path)
        if len(before) != len(after):
            yield Difference("changed", path, word, len(old), len(new))

    def _is_same(self, old: Any, new: Any) -> bool:
        other = _Walk(self.old, self.new)
        other.seen = set(self.seen)
        return all(each.kind == "annotation" for each in other.between(old, new, ""))


def _unordered(word: str, value: Any) -> Any:
    if word == "enum":
        return {canonical(each) for each in value}
    if word == "dependentRequired":
        return {name: sorted(each) for name, each in value.items()}
    return canonical(value)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
