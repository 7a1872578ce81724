"""A schema whose parts can each be asked on their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duebox.contracts.compat.words import ANYTHING, Schema, as_schema, rewritten, subschemas
from duebox.contracts.strict import resolved
from duebox.contracts.validation import Validator, compiled

_ROOT = "whole"


class Document:
    """Parts are known by their identity: they are the dicts of the schema itself, which it keeps alive."""

    def __init__(self, root: Schema, *, formats: bool = True) -> None:
        self.root, self.formats = root, formats
        self._validators: dict[tuple[object, ...], Validator] = {}
        self._moved: Schema | None = None

    def target(self, schema: Schema) -> Schema:
        """What the reference of a schema points to."""
        reference = schema["$ref"]
        if reference == "#" or reference.startswith("#/"):
            return as_schema(resolved(reference, self.root))
        return ANYTHING  # an anchor: the validator knows it, the search does not look inside

    def takes(self, parts: Sequence[Schema], value: Any) -> bool:
        """Whether a value is valid under all of these parts."""
        key = tuple(id(part) for part in parts)
        if key not in self._validators:
            self._validators[key] = self._compiled({"allOf": list(parts)} if parts else ANYTHING)
        return self._validators[key].is_valid(value)

    def takes_word(self, schema: Schema, words: tuple[str, ...], value: Any) -> bool:
        """Whether a value is valid under these words of a part."""
        key = (id(schema), *words)
        if key not in self._validators:
            self._validators[key] = self._compiled({word: schema[word] for word in words if word in schema})
        return self._validators[key].is_valid(value)

    def _compiled(self, part: Schema) -> Validator:
        head = {"$schema": self.root["$schema"]} if "$schema" in self.root else {}
        if not self._has_references(part):
            return compiled({**head, **part}, formats=self.formats)
        if self._moved is None:
            self._moved = rewritten(self.root, _moved)
        moved = {**head, **rewritten(part, _moved), "$defs": {_ROOT: self._moved}}
        return compiled(moved, formats=self.formats)

    def _has_references(self, schema: Any) -> bool:
        if not isinstance(schema, dict):
            return False
        if "$ref" in schema or "$dynamicRef" in schema:
            return True
        return any(self._has_references(each) for each in subschemas(schema))


def _moved(schema: Schema) -> Schema:
    """The schema as a part of a larger one: references to the root point to where it is now."""
    copy = {word: value for word, value in schema.items() if word not in ("$id", "$schema")}
    reference = schema.get("$ref", "")
    if reference == "#" or reference.startswith("#/"):
        copy["$ref"] = f"#/$defs/{_ROOT}{reference[1:]}"
    return copy
