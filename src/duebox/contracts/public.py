"""What others may see: an allow-list of fields, applied to the schema and to the data.

Only what is declared and allowed passes. Personal data (`x-pii`) never does, wherever it is nested.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from duebox.contracts.strict import resolved
from duebox.exceptions import InvalidContract

Schema = dict[str, Any]
Tree = dict[str, "Tree"]

_COMBINED = ("allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas", "patternProperties", "unevaluatedProperties")
_DEEPEST = 16


def schema_of(schema: Mapping[str, Any], allowed: Collection[str]) -> Schema:
    """The schema of the public twin: the allowed fields, without references, and without personal data inside."""
    return _kept(schema, _tree(allowed), schema, "", _DEEPEST)


def _tree(allowed: Collection[str]) -> Tree:
    if isinstance(allowed, str):
        raise InvalidContract(f"public={allowed!r} is a text; pass the names of fields, as in public={{{allowed!r}}}.")
    root: Tree = {}
    for path in sorted(allowed):
        branch = root
        for name in path.split("."):
            branch = branch.setdefault(name, {})
    return root


def _kept(schema: Mapping[str, Any], tree: Tree, root: Mapping[str, Any], where: str, depth: int) -> Schema:
    """An object with the branches of the tree; an empty tree means all that is declared."""
    properties = schema.get("properties", {})
    for name in tree:
        if name not in properties:
            known = ", ".join(sorted(properties)) or "none"
            raise InvalidContract(f"public names {where + name!r}, which is not declared; there are: {known}.")
    kept = {}
    for name, part in properties.items():
        if tree and name not in tree:
            continue
        found = _part(part, tree.get(name, {}), root, f"{where}{name}", depth)
        if found is not None:
            kept[name] = found
        elif tree:
            raise InvalidContract(f"public names {where + name!r}, which is personal data (x-pii); leave it out.")
    required = [name for name in schema.get("required", ()) if name in kept]
    rest = {word: value for word, value in schema.items() if word in ("type", "description")}
    return {**rest, "properties": kept, **({"required": required} if required else {})}


def _part(schema: Any, tree: Tree, root: Mapping[str, Any], where: str, depth: int) -> Schema | None:
    """The schema of one allowed value, or None when it is personal."""
    if not isinstance(schema, Mapping) or depth == 0:
        raise _shapeless(where)
    if schema.get("x-pii"):
        return None
    if "$ref" in schema:
        target = resolved(schema["$ref"], root)
        beside = {word: value for word, value in schema.items() if word != "$ref"}
        return _part({**target, **beside} if isinstance(target, Mapping) else {}, tree, root, where, depth)
    nullable = _nullable(schema)
    if nullable is not None:
        found = _part(nullable, tree, root, where, depth - 1)
        return found and {"anyOf": [found, {"type": "null"}]}
    if any(word in schema for word in _COMBINED):
        raise _shapeless(where)
    if "properties" in schema:
        return _kept(schema, tree, root, f"{where}.", depth - 1)
    if tree:
        raise InvalidContract(f"public names {where}.{next(iter(tree))!r}, but {where!r} has no declared fields.")
    return _leaf(schema, root, where, depth)


def _leaf(schema: Mapping[str, Any], root: Mapping[str, Any], where: str, depth: int) -> Schema | None:
    kinds = {schema["type"]} if isinstance(schema.get("type"), str) else set(schema.get("type", ()))
    if "enum" in schema or "const" in schema or (kinds and not kinds & {"object", "array"}):
        return dict(schema)
    if kinds == {"array"} and isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
        items = _part(schema["items"], {}, root, f"{where}[]", depth - 1)
        # Items that differ in what is private may be equal in what is left.
        rest = {word: value for word, value in schema.items() if word != "uniqueItems"}
        return items and {**rest, "items": items}
    if kinds == {"object"} and isinstance(schema.get("additionalProperties"), Mapping):
        values = _part(schema["additionalProperties"], {}, root, f"{where}.*", depth - 1)
        return values and {**schema, "additionalProperties": values}
    raise _shapeless(where)


def _nullable(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The other one of two choices of which one is null."""
    for word in ("anyOf", "oneOf"):
        choices = schema.get(word)
        if isinstance(choices, list) and len(choices) == 2 and {"type": "null"} in choices:
            return next(choice for choice in choices if choice != {"type": "null"})  # type: ignore[no-any-return]
    return None


def _shapeless(where: str) -> InvalidContract:
    return InvalidContract(
        f"The public field {where!r} does not say exactly what it holds, so something private could leave in it; give "
        "it a plain type, a list or mapping of one, or an object with declared properties."
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
