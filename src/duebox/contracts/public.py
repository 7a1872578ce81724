"""Public events: an allow-list of fields, applied to the schema and to the data.

Only fields that are declared and allowed are published. Personal data (`x-pii`) never is, wherever it is nested. An
allowed field may use plain keywords of JSON Schema only; others could publish private data, so they are refused when
the event is declared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from duebox.contracts.json_schema import NULL, Schema, listed_types, resolved
from duebox.contracts.validation import compiled
from duebox.exceptions import InvalidContract

Tree = dict[str, "Tree"]

_ALWAYS_PUBLISHED = {"description", "title", "deprecated"}
# These may contain whole values, including private parts. Keywords with x- are dropped too.
_ALWAYS_DROPPED = {"default", "examples", "$comment", "readOnly", "writeOnly", "$defs", "definitions"}


class _Keywords(NamedTuple):
    """The keywords of one kind of schema: those of the public schema, and those that would not be true there."""

    published: set[str]
    dropped: set[str] = set()


_OBJECT = _Keywords(
    {"type", "properties", "required"},
    {"additionalProperties", "unevaluatedProperties", "minProperties", "maxProperties", "dependentRequired"},
)
_MAPPING = _Keywords({"type", "additionalProperties", "minProperties", "maxProperties"})
# Items that differ in private fields may be equal without them.
_LIST = _Keywords({"type", "items", "minItems", "maxItems"}, {"uniqueItems"})
_PLAIN = _Keywords({
    "type", "enum", "const", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "contentEncoding", "contentMediaType",
})  # fmt: skip


def schema_of(schema: Mapping[str, Any], allowed: Collection[str]) -> Schema:
    """The schema of the public event: the allowed fields, without references and without personal data inside."""
    if isinstance(allowed, str):
        raise InvalidContract(f"public={allowed!r} is a text; pass the names of fields, as in public={{{allowed!r}}}.")
    tree: Tree = {}
    for path in sorted(allowed):
        branch = tree
        for name in path.split("."):
            branch = branch.setdefault(name, {})
    compiled(schema)  # so that the code below can rely on a valid schema
    if schema.get("x-pii"):
        raise InvalidContract(
            "public names fields, but the whole event is personal data (x-pii); mark the fields that are, or leave "
            "public out."
        )
    body = {word: value for word, value in schema.items() if word not in ("$schema", "$id", "title")}
    return _PublicSchema(schema).of_object(body, tree, "", ("#",))


class _PublicSchema:
    """The public form of each part of a schema, or None for personal data.

    `tree` holds the allowed fields below the part, `place` is its path, `above` are the references that led to it.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def of_part(self, schema: Any, tree: Tree, place: str, above: tuple[str, ...]) -> Schema | None:
        if not isinstance(schema, Mapping):
            raise _unclear(place)
        if schema.get("x-pii"):
            return None
        if "$ref" in schema:
            return self.of_reference(schema, tree, place, above)
        if "anyOf" in schema or "oneOf" in schema:
            return self.of_choice(schema, tree, place, above)
        types = set(listed_types(schema))
        if types - {"null"} == {"object"} and "properties" in schema:
            return self.of_object(schema, tree, place, above)
        if tree:
            raise InvalidContract(f"public names {place}.{next(iter(tree))!r}, but {place!r} has no declared fields.")
        if types - {"null"} in ({"object"}, {"array"}):
            is_list = "array" in types
            word, step, keywords = ("items", "[]", _LIST) if is_list else ("additionalProperties", ".*", _MAPPING)
            own = _published(schema, keywords, place)
            found = self.of_part(schema.get(word), {}, f"{place}{step}", above)
            return found and {**own, word: found}
        values = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
        if types & {"object", "array"} or not (types or values):
            raise _unclear(place)
        for value in values:
            if isinstance(value, dict | list):
                raise InvalidContract(
                    f"The public field {place!r} lists the value {value!r}, which is an object or array; declare its "
                    f"parts instead."
                )
        return _published(schema, _PLAIN, place)

    def of_reference(self, schema: Mapping[str, Any], tree: Tree, place: str, above: tuple[str, ...]) -> Schema | None:
        own, reference = _published(schema, _Keywords(set(), {"$ref"}), place), schema["$ref"]
        if reference in above:
            raise InvalidContract(
                f"The public field {place!r} refers to {reference!r}, which contains itself; name the parts of it that "
                "are public, or leave it out of public."
            )
        found = self.of_part(resolved(reference, self.root), tree, place, (*above, reference))
        return found and {**found, **own}

    def of_choice(self, schema: Mapping[str, Any], tree: Tree, place: str, above: tuple[str, ...]) -> Schema | None:
        """A choice between one schema and null; others are refused."""
        word = "anyOf" if "anyOf" in schema else "oneOf"
        own = _published(schema, _Keywords(set(), {word}), place)
        values = [choice for choice in schema[word] if choice != NULL]
        if len(values) != 1 or len(schema[word]) != 2:
            raise _unclear(place)
        found = self.of_part(values[0], tree, place, above)
        return found and {"anyOf": [found, NULL], **own}

    def of_object(self, schema: Mapping[str, Any], tree: Tree, place: str, above: tuple[str, ...]) -> Schema:
        """An object with the fields of the tree; an empty tree means all declared fields."""
        own, properties, found = _published(schema, _OBJECT, place), schema.get("properties", {}), {}
        prefix = f"{place}." if place else ""
        for name in tree.keys() - properties.keys():
            known = ", ".join(sorted(properties)) or "none"
            raise InvalidContract(f"public names {prefix + name!r}, which is not declared; there are: {known}.")
        for name in [name for name in properties if name in tree or not tree]:
            part = self.of_part(properties[name], tree.get(name, {}), prefix + name, above)
            if part is not None:
                found[name] = part
            elif tree:
                raise InvalidContract(f"public names {prefix + name!r}, which is personal data (x-pii); leave it out.")
        required = [name for name in own.pop("required", ()) if name in found]
        return {**own, "properties": found, **({"required": required} if required else {})}


def _published(schema: Mapping[str, Any], keywords: _Keywords, place: str) -> Schema:
    """The keywords of the public schema. Unknown ones are refused: they could publish private data."""
    known = keywords.published | keywords.dropped | _ALWAYS_PUBLISHED | _ALWAYS_DROPPED
    for word in schema:
        if word not in known and not word.startswith("x-"):
            uses = f"The public field {place!r} uses" if place else "The schema uses"
            beside, rest = ("", "the field out of public") if place else (" beside its properties", "public out")
            raise InvalidContract(
                f"{uses} {word!r}{beside}, which could publish private data; leave {word!r} out and use "
                f"plain types and properties, or leave {rest}."
            )
    return {word: value for word, value in schema.items() if word in keywords.published | _ALWAYS_PUBLISHED}


def _unclear(place: str) -> InvalidContract:
    return InvalidContract(
        f"The public field {place!r} has no exact type, so it could publish private data; give "
        "it a plain type, a list or mapping of one, or the type object with declared properties."
    )


def projected(data: Any, schema: Mapping[str, Any]) -> Any:
    """The data without anything that the public schema does not declare."""
    choices = (schema, *schema.get("anyOf", ()))
    if isinstance(data, list):
        items = next((choice["items"] for choice in choices if "items" in choice), None)
        return [projected(each, items) for each in data] if items is not None else []
    if not isinstance(data, dict):
        return data
    for choice in choices:
        named, others = choice.get("properties"), choice.get("additionalProperties")
        if named is not None:
            return {name: projected(value, named[name]) for name, value in data.items() if name in named}
        if isinstance(others, Mapping):
            return {name: projected(value, others) for name, value in data.items()}
    return {}
