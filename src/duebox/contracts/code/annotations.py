"""A schema as an annotation: the type that says most of it, and the remaining words beside it."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from duebox.contracts.code.literal import literal, text, wrapped
from duebox.contracts.compat.words import Schema, as_schema, canonical, rewritten
from duebox.contracts.hints import DECIMAL
from duebox.contracts.strict import resolved
from duebox.exceptions import InvalidContract

_PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict",
    "array": "list",
}
_FORMATS = {"uuid": "UUID", "date-time": "datetime", "date": "date"}
_HASHABLE = ("description", "x-pii")
_OF_A_CLASS = {"type", "properties", "required"}
_TAKEN = {
    "Annotated", "Any", "Decimal", "Literal", "PII", "UUID", "dataclass", "dataclasses", "date", "datetime", "duebox",
    *_PLAIN.values(), "tuple",
}  # fmt: skip


class Hint(NamedTuple):
    """A type as source, and the schema that it stands for."""

    source: str
    says: Schema


class Annotations:
    """The annotations of one schema. `classes` are the definitions that became classes on the way."""

    def __init__(self, root: Mapping[str, Any], class_name: str) -> None:
        self.root = root
        self.classes: dict[str, Schema] = {}
        self._taken = {*_TAKEN, class_name}

    def annotation(self, schema: Any, indent: int = 4) -> str:
        """The type with all that it does not say itself."""
        schema = as_schema(schema)
        hint = self.hint(schema)
        rest = {word: value for word, value in schema.items() if not _same(hint.says.get(word, _ABSENT), value)}
        beside = []
        if isinstance(rest.get("description"), str):
            beside.append(text(rest.pop("description")))
        if rest.get("x-pii") is True:
            beside.append("PII")
            del rest["x-pii"]
        if rest:
            beside.append(literal(inlined(rest, self.root), indent + 4))
        return wrapped("Annotated[", [hint.source, *beside], "]", indent) if beside else hint.source

    def hint(self, schema: Schema) -> Hint:
        """The first type that says nothing beyond the schema: words can be added to a type, not taken away."""
        fitting = (hint for hint in self._hints(schema) if hint.says.keys() <= schema.keys())
        return next(fitting, Hint("Any", {}))

    def _hints(self, schema: Schema) -> Iterator[Hint]:
        if "$ref" in schema:
            yield from self._referred(schema["$ref"])
        if "enum" in schema and all(isinstance(each, str | int | None) for each in schema["enum"]):
            yield Hint(f"Literal[{', '.join(map(literal, schema['enum']))}]", {"enum": schema["enum"]})
        if "anyOf" in schema:
            yield from self._union(schema["anyOf"])
        kind = schema.get("type", [])
        kind = kind[0] if isinstance(kind, list) and len(kind) == 1 else kind
        if isinstance(kind, list):
            yield Hint(" | ".join(_PLAIN[each] for each in kind), {"type": kind}) if kind else Hint("Any", {})
        else:
            yield from self._of_type(kind, schema)

    def _of_type(self, kind: str, schema: Schema) -> Iterator[Hint]:
        says = {"type": kind}
        if kind == "string" and schema.get("format") in _FORMATS:
            yield Hint(_FORMATS[schema["format"]], {**says, "format": schema["format"]})
        if kind == "string" and schema.get("pattern") == DECIMAL:
            yield Hint("Decimal", {**says, "pattern": DECIMAL})
        if kind == "array" and isinstance(schema.get("items"), dict) and "prefixItems" not in schema:
            inner = self.hint(schema["items"])
            yield Hint(f"list[{inner.source}]", {**says, "items": inner.says})
        if kind == "array" and schema.get("prefixItems") and schema.get("items") is False:
            inner_hints = [self.hint(as_schema(each)) for each in schema["prefixItems"]]
            parts = {"prefixItems": [each.says for each in inner_hints], "items": False, "minItems": len(inner_hints)}
            yield Hint(f"tuple[{', '.join(each.source for each in inner_hints)}]", {**says, **parts})
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict) and "properties" not in schema:
            inner = self.hint(schema["additionalProperties"])
            yield Hint(f"dict[str, {inner.source}]", {**says, "additionalProperties": inner.says})
        yield Hint(_PLAIN[kind], says)

    def _union(self, choices: list[Any]) -> Iterator[Hint]:
        """What stands in a union is hashed, so texts and marks may be beside its types, other words may not."""
        found = [self._choice(as_schema(each)) for each in choices]
        exact = all(_same(hint.says, choice) for hint, choice in zip(found, choices, strict=True))
        plain = all(set(hint.says) == {"type"} for hint in found)  # those would become one list of types
        if exact and not plain and len({hint.source for hint in found}) == len(found) > 1:
            yield Hint(" | ".join(hint.source for hint in found), {"anyOf": [hint.says for hint in found]})

    def _choice(self, schema: Schema) -> Hint:
        beside = {word: schema[word] for word in _HASHABLE if word in schema}
        hint = self.hint({word: value for word, value in schema.items() if word not in beside})
        marks = [literal(beside["description"])] if "description" in beside else []
        marks += ["PII"] if beside.get("x-pii") is True else []
        source = f"Annotated[{', '.join([hint.source, *marks])}]" if marks else hint.source
        return Hint(source, {**hint.says, **beside})

    def _referred(self, reference: str) -> Iterator[Hint]:
        """A definition that a class can say becomes one, under its own name."""
        name = reference.removeprefix("#/$defs/")
        target = resolved(reference, self.root)
        if not name.isidentifier() or name in self._taken or not _is_class_like(target):
            return
        self.classes.setdefault(name, target)
        yield Hint(name, {"$ref": reference})


class _Absent:
    pass


_ABSENT = _Absent()


def _same(one: Any, other: Any) -> bool:
    return not isinstance(one, _Absent) and canonical(one) == canonical(other)


def _is_class_like(target: Any) -> bool:
    if not isinstance(target, dict) or not {"type", "properties"} <= target.keys() <= _OF_A_CLASS:
        return False
    names = target["properties"]
    return (
        target["type"] == "object" and set(target.get("required", ())) <= names.keys() and all(map(is_attribute, names))
    )


def is_attribute(name: str) -> bool:
    """Whether a field of a class can be called so."""
    plain = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")
    return plain and unicodedata.normalize("NFKC", name) == name


def inlined(schema: Any, root: Mapping[str, Any], above: tuple[str, ...] = ()) -> Any:
    """The schema without references: what they point to stands in their place."""

    def followed(part: Schema) -> Schema:
        if "$ref" not in part:
            return part
        reference = part["$ref"]
        if reference in above or not reference.startswith("#/"):
            raise InvalidContract(
                f"{reference!r} holds itself in a way that a class cannot say; keep the file, which declares the type."
            )
        target = inlined(as_schema(resolved(reference, root)), root, (*above, reference))
        beside = {word: value for word, value in part.items() if word != "$ref"}
        return {"allOf": [target], **beside} if target.keys() & beside.keys() else {**target, **beside}

    return rewritten(schema, followed)
