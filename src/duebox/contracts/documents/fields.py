"""The fields of an event, one by one, as a table shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from duebox.contracts.compat.document import Document
from duebox.contracts.compat.normal import normal
from duebox.contracts.compat.words import Schema, as_schema
from duebox.contracts.documents import wording
from duebox.contracts.documents.markdown import code, table

_CHOICES = ("anyOf", "oneOf", "allOf")
_DEEPEST = 12


class Field(NamedTuple):
    path: str
    """`lines[].sku`; `prices.*` for each value of an object whose names are free."""
    kind: str
    required: bool | None
    """None for what is in a list: it is there or not."""
    meaning: str
    rules: str
    personal: bool


class _Around(NamedTuple):
    """Where a field is: inside of what, and of which definitions, by the path where each was met."""

    path: str = ""
    personal: bool = False
    definitions: Mapping[str, str] = {}
    depth: int = 0

    def inside(self, path: str, personal: bool, references: list[str]) -> _Around:
        return _Around(path, personal, {**self.definitions, **dict.fromkeys(references, path)}, self.depth + 1)


def fields(schema: Mapping[str, Any]) -> list[Field]:
    """Every field, outer ones before what is in them."""
    document = Document(dict(schema))
    return list(_Walk(document).inside(document.root, _Around()))


def field_table(schema: Mapping[str, Any]) -> str:
    found = fields(schema)
    if not found:
        return "It carries no data."
    whole = wording.rules(normal(schema, Document(dict(schema))))
    said = {True: "yes", False: "no", None: ""}
    rows = [
        (code(each.path), each.kind, said[each.required], each.meaning, each.rules, "yes" if each.personal else "")
        for each in found
    ]
    lines = table(("Field", "Type", "Required", "Meaning", "Rules", "Personal data"), rows)
    return f"{lines}\n\nThe data as a whole: {whole}." if whole else lines


class _Walk:
    def __init__(self, document: Document) -> None:
        self.document = document

    def inside(self, schema: Any, around: _Around) -> Iterator[Field]:
        """The fields of an object, of the items of a list, of each value of an object with free names."""
        said, path = self._says(schema), around.path
        required = set(said.get("required", ()))
        for name, part in said.get("properties", {}).items():
            yield from self._field(part, f"{path}.{name}" if path else name, name in required, around)
        for at, part in enumerate(said.get("prefixItems", ())):
            yield from self._field(part, f"{path}[{at}]", None, around)
        for word, step in (("items", "[]"), ("additionalProperties", ".*")):
            if isinstance(said.get(word), dict) and said[word]:
                own, *rest = self._field(said[word], path + step, None, around)
                # What a list holds is said where the list is; more than that needs a line of its own.
                more = own.rules or own.meaning or own.personal != around.personal or "like" in own.kind
                yield from (own, *rest) if more else rest
        yield from self._variants(said, around)

    def _variants(self, said: Schema, around: _Around) -> Iterator[Field]:
        for word in _CHOICES:
            forms = said.get(word, ())
            for number, form in enumerate(forms, start=1):
                note = "" if word == "allOf" else f"in form {number} of {len(forms)}"
                for each in self.inside(form, around):
                    yield each._replace(rules="; ".join(filter(None, (note, each.rules))))

    def _field(self, part: Any, path: str, required: bool | None, around: _Around) -> Iterator[Field]:
        said = self._says(part)
        personal = around.personal or self._is_personal(said)
        references = list(self._references(as_schema(part)))
        again = next((around.definitions[each] for each in references if each in around.definitions), None)
        like = "" if again is None else f", like {code(again)}"
        kind = wording.kind(said, self._says) + like
        yield Field(path, kind, required, str(said.get("description", "")), wording.rules(said), personal)
        if again is None and around.depth < _DEEPEST:
            yield from self.inside(part, around.inside(path, personal, references))

    def _says(self, part: Any) -> Schema:
        return normal(part, self.document)

    def _is_personal(self, said: Schema) -> bool:
        """Whether it is marked, in any of its forms."""
        forms = [each for word in _CHOICES for each in said.get(word, ())]
        return bool(said.get("x-pii")) or any(self._is_personal(self._says(form)) for form in forms)

    def _references(self, part: Schema) -> Iterator[str]:
        """What it refers to, itself or as one of its choices."""
        if "$ref" in part:
            yield part["$ref"]
        for word in _CHOICES:
            for each in part.get(word, ()):
                yield from self._references(as_schema(each))
