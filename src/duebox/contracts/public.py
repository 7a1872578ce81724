"""What others may see: an allow-list of fields, applied to the schema and to the data.

Only what is declared and allowed passes. Personal data (`x-pii`) never does, wherever it is nested. So that nothing can
hide, an allowed part may use plain words of JSON Schema only; others are refused when the event is declared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, NamedTuple

from duebox.contracts.strict import resolved
from duebox.contracts.validation import compiled
from duebox.exceptions import InvalidContract

Schema = dict[str, Any]
Tree = dict[str, "Tree"]

_SAID_OF_ALL = {"description", "title", "deprecated"}
# Values in annotations are whole, private parts included; nothing is lost without them. Words with x- are the same.
_LEFT_OUT = {"default", "examples", "$comment", "readOnly", "writeOnly", "$defs", "definitions"}
_OF_THE_FILE = {"$schema", "$id", "title"}


class Form(NamedTuple):
    """The words of one kind of part: those that the public schema says too, and those that would not hold there."""

    said: Set[str]
    left_out: Set[str] = frozenset()


_REFERENCE = Form(set(), {"$ref"})
_OBJECT = Form(
    {"type", "properties", "required"},
    {"additionalProperties", "unevaluatedProperties", "minProperties", "maxProperties", "dependentRequired"},
)
_MAPPING = Form({"type", "additionalProperties", "minProperties", "maxProperties"})
# Items that differ in what is private may be equal in what is left.
_LIST = Form({"type", "items", "minItems", "maxItems"}, {"uniqueItems"})
_PLAIN = Form({
    "type", "enum", "const", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "contentEncoding", "contentMediaType",
})  # fmt: skip


def schema_of(schema: Mapping[str, Any], allowed: Collection[str]) -> Schema:
    """The schema of the public twin: the allowed fields, without references, and without personal data inside."""
    tree = _tree(allowed)
    compiled(schema)  # whatever comes now may trust that it is well-formed
    if schema.get("x-pii"):
        raise InvalidContract(
            "public names fields, but the whole event is personal data (x-pii); mark the fields that are, or leave "
            "public out."
        )
    body = {word: value for word, value in schema.items() if word not in _OF_THE_FILE}
    return _Twin(schema).of_object(body, tree, "", ("#",))


def _tree(allowed: Collection[str]) -> Tree:
    if isinstance(allowed, str):
        raise InvalidContract(f"public={allowed!r} is a text; pass the names of fields, as in public={{{allowed!r}}}.")
    root: Tree = {}
    for path in sorted(allowed):
        branch = root
        for name in path.split("."):
            branch = branch.setdefault(name, {})
    return root


class _Twin:
    """The parts of a schema as the public may know them, or None for those that are personal."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def part(self, schema: Any, tree: Tree, where: str, above: tuple[str, ...]) -> Schema | None:
        """`above` are the references that led here."""
        if not isinstance(schema, Mapping):
            raise _shapeless(where)
        if schema.get("x-pii"):
            return None
        if "$ref" in schema:
            return self.of_reference(schema, tree, where, above)
        if "anyOf" in schema or "oneOf" in schema:
            return self.of_choice(schema, tree, where, above)
        kinds = _kinds(schema)
        if kinds - {"null"} == {"object"} and "properties" in schema:
            return self.of_object(schema, tree, where, above)
        if tree:
            raise InvalidContract(f"public names {where}.{next(iter(tree))!r}, but {where!r} has no declared fields.")
        if kinds - {"null"} == {"object"}:
            return self.of_parts(schema, _MAPPING, "additionalProperties", where, above)
        if kinds - {"null"} == {"array"}:
            return self.of_parts(schema, _LIST, "items", where, above)
        return _of_values(schema, kinds, where)

    def of_reference(self, schema: Mapping[str, Any], tree: Tree, where: str, above: tuple[str, ...]) -> Schema | None:
        said, reference = _said(schema, _REFERENCE, where), schema["$ref"]
        if reference in above:
            raise InvalidContract(
                f"The public field {where!r} refers to {reference!r}, which holds itself; name the parts of it that "
                "others may see, or leave it out of public."
            )
        found = self.part(resolved(reference, self.root), tree, where, (*above, reference))
        return found and {**found, **said}

    def of_choice(self, schema: Mapping[str, Any], tree: Tree, where: str, above: tuple[str, ...]) -> Schema | None:
        """One of two, of which the other is null."""
        word = "anyOf" if "anyOf" in schema else "oneOf"
        said, null = _said(schema, Form(set(), {word}), where), {"type": "null"}
        values = [choice for choice in schema[word] if choice != null]
        if len(values) != 1 or len(schema[word]) != 2:
            raise _shapeless(where)
        found = self.part(values[0], tree, where, above)
        return found and {"anyOf": [found, null], **said}

    def of_object(self, schema: Mapping[str, Any], tree: Tree, where: str, above: tuple[str, ...]) -> Schema:
        """An object with the branches of the tree; an empty tree means all that is declared."""
        said, properties, kept = _said(schema, _OBJECT, where), schema.get("properties", {}), {}
        for name in tree.keys() - properties.keys():
            known = ", ".join(sorted(properties)) or "none"
            raise InvalidContract(f"public names {_below(where, name)!r}, which is not declared; there are: {known}.")
        for name in [name for name in properties if name in tree or not tree]:
            place = _below(where, name)
            found = self.part(properties[name], tree.get(name, {}), place, above)
            if found is not None:
                kept[name] = found
            elif tree:
                raise InvalidContract(f"public names {place!r}, which is personal data (x-pii); leave it out.")
        required = [name for name in said.pop("required", ()) if name in kept]
        return {**said, "properties": kept, **({"required": required} if required else {})}

    def of_parts(
        self, schema: Mapping[str, Any], form: Form, word: str, where: str, above: tuple[str, ...]
    ) -> Schema | None:
        """A list or a mapping, whose parts are all of one kind."""
        said = _said(schema, form, where)
        found = self.part(schema.get(word), {}, f"{where}[]" if word == "items" else f"{where}.*", above)
        return found and {**said, word: found}


def _of_values(schema: Mapping[str, Any], kinds: set[str], where: str) -> Schema:
    values = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    if kinds & {"object", "array"} or not (kinds or values):
        raise _shapeless(where)
    for value in values:
        if isinstance(value, dict | list):
            raise InvalidContract(
                f"The public field {where!r} lists the value {value!r}, which has parts; declare its parts instead."
            )
    return _said(schema, _PLAIN, where)


def _said(schema: Mapping[str, Any], form: Form, where: str) -> Schema:
    """What of a part the public schema says too; words that could carry something private are refused."""
    known = form.said | form.left_out | _SAID_OF_ALL | _LEFT_OUT
    for word in schema:
        if word not in known and not word.startswith("x-"):
            place = (
                f"The public field {where!r} uses {word!r}"
                if where
                else f"The schema uses {word!r} beside its properties"
            )
            rest = "the field out of public" if where else "public out"
            raise InvalidContract(
                f"{place}, in which something private could leave; leave {word!r} out and say it with plain types and "
                f"properties, or leave {rest}."
            )
    return {word: value for word, value in schema.items() if word in form.said | _SAID_OF_ALL}


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    kinds = schema.get("type", [])
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _shapeless(where: str) -> InvalidContract:
    return InvalidContract(
        f"The public field {where!r} does not say exactly what it holds, so something private could leave in it; give "
        "it a plain type, a list or mapping of one, or the type object with declared properties."
    )


def projected(data: Any, schema: Mapping[str, Any]) -> Any:
    """The data without anything that the public schema does not name."""
    if isinstance(data, dict):
        return _projected_object(data, _object_of(schema))
    if isinstance(data, list):
        items = _first(schema, "items")
        return [projected(each, items) for each in data] if items is not None else []
    return data


def _projected_object(data: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    if "properties" in schema:
        named = schema["properties"]
        return {name: projected(value, named[name]) for name, value in data.items() if name in named}
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        return {name: projected(value, values) for name, value in data.items()}
    return {}


def _object_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    for choice in _choices(schema):
        if "properties" in choice or isinstance(choice.get("additionalProperties"), Mapping):
            return choice
    return {}


def _first(schema: Mapping[str, Any], word: str) -> Any:
    return next((choice[word] for choice in _choices(schema) if word in choice), None)


def _choices(schema: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (schema, *schema.get("anyOf", ()))
