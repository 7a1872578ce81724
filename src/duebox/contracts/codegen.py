"""`duebox schemas code`: generate the Python source of a class that declares the same event type as a schema file."""

from __future__ import annotations

import ast
import json
import keyword
import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from duebox.contracts.event_types import EventType
from duebox.contracts.json_schema import Schema, as_schema, canonical, listed_types, resolved, rewritten
from duebox.contracts.python_types import DECIMAL
from duebox.exceptions import InvalidContract

WIDTH = 110

_TYPES = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict",
    "array": "list",
}  # fmt: skip
_FORMATS = {"uuid": "UUID", "date-time": "datetime", "date": "date"}
_RESERVED_NAMES = {
    "Annotated", "Any", "Decimal", "Literal", "PII", "UUID", "dataclass", "dataclasses", "date", "datetime", "duebox",
    *_TYPES.values(), "tuple",
}  # fmt: skip
_IMPORTS = {
    "datetime": ("date", "datetime"),
    "decimal": ("Decimal",),
    "typing": ("Annotated", "Any", "Literal"),
    "uuid": ("UUID",),
}


def source(kind: EventType, *, class_name: str = "") -> str:
    """A module with the class. A comment names the keywords that a class cannot express."""
    name = class_name or class_name_of(kind.name)
    annotations = Annotations(kind.schema, name)
    main = [*_comment(kind), _decorator(kind), f"class {name}:"]
    main += [*_docstring(kind.purpose), *_fields(kind.schema, annotations, kind)]
    inner: dict[str, str] = {}
    while new := [each for each in annotations.classes if each not in inner]:  # they may refer to others
        for each in new:
            fields = _fields(annotations.classes[each], annotations, kind)
            inner[each] = "\n".join(["@dataclasses.dataclass(frozen=True, kw_only=True)", f"class {each}:", *fields])
    code = "\n\n\n".join([*inner.values(), "\n".join(main)])
    return f"{_imports(code)}\n\n\n{code}\n"


def class_name_of(event: str) -> str:
    """`member.role_changed` → `MemberRoleChanged`."""
    return "".join(word.capitalize() for word in re.split(r"[._]", event))


def _comment(kind: EventType) -> Iterator[str]:
    undeclared = set(kind.schema.get("required", ())) - kind.schema.get("properties", {}).keys()
    lost = sorted(kind.schema.keys() - {"type", "properties", "required", "$defs"})
    lost += [f"required {name}" for name in sorted(undeclared)]
    if lost:
        yield f"# A class cannot express these keywords of the schema: {', '.join(lost)}."
        yield "# If they matter, keep the file: it declares the type by itself."


def _decorator(kind: EventType) -> str:
    options = {"version": str(kind.version)} if kind.version > 1 else {}
    options |= {word: text(value) for word in ("aggregate", "owner") if (value := getattr(kind, word))}
    if kind.public:
        options["public"] = f"{{{', '.join(map(text, sorted(kind.public)))}}}"
    if not kind.check_name:
        options["check_name"] = "False"
    return wrapped("@duebox.event(", [text(kind.name), *(f"{word}={value}" for word, value in options.items())], ")", 0)


def _docstring(purpose: str) -> Iterator[str]:
    if purpose:
        escaped = purpose.replace("\\", "\\\\").replace('"', '\\"')
        lines = textwrap.wrap(f'"""{escaped}', WIDTH - 8, break_long_words=False, break_on_hyphens=False)
        yield from (f"    {line}" for line in [*lines[:-1], f'{lines[-1]}"""'])
        yield ""


def _fields(schema: Mapping[str, Any], annotations: Annotations, kind: EventType) -> Iterator[str]:
    properties = schema.get("properties", {})
    if not properties:
        yield "    pass"
    for name, part in properties.items():
        if not is_attribute(name):
            raise InvalidContract(
                f"{kind.name} v{kind.version} has a field {name!r}, which cannot be the name of an attribute; "
                "keep the file, which declares the type by itself."
            )
        yield f"    {name}: {_field(as_schema(part), name in schema.get('required', ()), annotations)}"


def _field(part: Schema, required: bool, annotations: Annotations) -> str:
    default = part.get("default")
    if not required and isinstance(default, str | int | float):
        rest = {word: value for word, value in part.items() if word != "default"}
        return f"{annotations.annotation(rest)} = {literal(default)}"
    annotation = annotations.annotation(part)
    if required:
        return annotation
    if isinstance(default, list | dict):
        return f"{annotation} = dataclasses.field(default_factory=lambda: {literal(default, 4)})"
    # A field that is absent in JSON is None in the class, also where null is not allowed.
    takes_none = re.search(r"\bNone\b|^Any$|^Annotated\[\s*Any\b", annotation)
    return f"{annotation} = None" + ("" if takes_none else "  # type: ignore[assignment]")


def _imports(code: str) -> str:
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    standard = ["import dataclasses"] if "dataclasses" in used else []
    for module, names in _IMPORTS.items():
        if found := [name for name in names if name in used]:
            standard.append(f"from {module} import {', '.join(found)}")
    own = ["import duebox", *(["from duebox.contracts import PII"] if "PII" in used else [])]
    return "\n\n".join("\n".join(group) for group in (["from __future__ import annotations"], standard, own) if group)


def is_attribute(name: str) -> bool:
    """Whether a field of a class can have this name."""
    plain = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")
    return plain and unicodedata.normalize("NFKC", name) == name


def literal(value: Any, indent: int = 0) -> str:
    """A JSON value as Python source, as a formatter would write it."""
    if isinstance(value, dict):
        return wrapped("{", [f"{text(name)}: {literal(each, indent + 4)}" for name, each in value.items()], "}", indent)
    if isinstance(value, list):
        return wrapped("[", [literal(each, indent + 4) for each in value], "]", indent)
    return text(value) if isinstance(value, str) else repr(value)


def text(value: str) -> str:
    """In double quotes; unprintable characters are escaped."""
    if not value.isprintable():
        return json.dumps(value)  # its escapes are valid in Python
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def wrapped(begin: str, parts: Sequence[str], end: str, indent: int) -> str:
    """One line, or one for each part when that is too long."""
    line = f"{begin}{', '.join(parts)}{end}"
    if indent + len(line) <= WIDTH and "\n" not in line:
        return line
    inner = "".join(f"{' ' * (indent + 4)}{part},\n" for part in parts)
    return f"{begin}\n{inner}{' ' * indent}{end}"


class Hint(NamedTuple):
    """A type as source, and the schema that it stands for."""

    source: str
    schema: Schema


class Annotations:
    """The annotations of one schema. `classes` are the definitions that became classes."""

    def __init__(self, root: Mapping[str, Any], class_name: str) -> None:
        self.root = root
        self.classes: dict[str, Schema] = {}
        self._reserved = {*_RESERVED_NAMES, class_name}

    def annotation(self, schema: Schema) -> str:
        """The type, with the keywords that it does not express in `Annotated`."""
        hint = self.hint(schema)
        rest = {
            word: value
            for word, value in schema.items()
            if word not in hint.schema or canonical(hint.schema[word]) != canonical(value)
        }
        extras = _marks(rest)
        rest = {word: value for word, value in rest.items() if not _is_mark(word, value)}
        if rest:
            extras.append(literal(inlined(rest, self.root), 8))
        return wrapped("Annotated[", [hint.source, *extras], "]", 4) if extras else hint.source

    def hint(self, schema: Schema) -> Hint:
        """The first type that is not stricter than the schema: keywords can be added to a type, but not removed."""
        fitting = (hint for hint in self._hints(schema) if hint.schema.keys() <= schema.keys())
        return next(fitting, Hint("Any", {}))

    def _hints(self, schema: Schema) -> Iterator[Hint]:
        if "$ref" in schema:
            name, target = schema["$ref"].removeprefix("#/$defs/"), resolved(schema["$ref"], self.root)
            if name.isidentifier() and name not in self._reserved and _is_class_like(target):
                self.classes.setdefault(name, target)
                yield Hint(name, {"$ref": schema["$ref"]})
        if "enum" in schema and all(isinstance(each, str | int | None) for each in schema["enum"]):
            yield Hint(f"Literal[{', '.join(map(literal, schema['enum']))}]", {"enum": schema["enum"]})
        if "anyOf" in schema:
            yield from self._union(schema["anyOf"])
        types = listed_types(schema)
        if len(types) == 1:
            yield from self._of_type(types[0], schema)
        elif types:
            yield Hint(" | ".join(_TYPES[each] for each in types), {"type": types})

    def _of_type(self, kind: str, schema: Schema) -> Iterator[Hint]:
        base = {"type": kind}
        if kind == "string" and schema.get("format") in _FORMATS:
            yield Hint(_FORMATS[schema["format"]], {**base, "format": schema["format"]})
        if kind == "string" and schema.get("pattern") == DECIMAL:
            yield Hint("Decimal", {**base, "pattern": DECIMAL})
        if kind == "array" and isinstance(schema.get("items"), dict) and "prefixItems" not in schema:
            inner = self.hint(schema["items"])
            yield Hint(f"list[{inner.source}]", {**base, "items": inner.schema})
        if kind == "array" and schema.get("prefixItems") and schema.get("items") is False:
            hints = [self.hint(as_schema(each)) for each in schema["prefixItems"]]
            parts = {"prefixItems": [each.schema for each in hints], "items": False, "minItems": len(hints)}
            yield Hint(f"tuple[{', '.join(each.source for each in hints)}]", {**base, **parts})
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict) and "properties" not in schema:
            inner = self.hint(schema["additionalProperties"])
            yield Hint(f"dict[str, {inner.source}]", {**base, "additionalProperties": inner.schema})
        yield Hint(_TYPES[kind], base)

    def _union(self, choices: list[Any]) -> Iterator[Hint]:
        """The members of a union are hashed, so texts and PII may stand beside its types, other keywords may not."""
        found = [self._choice(as_schema(each)) for each in choices]
        exact = all(canonical(hint.schema) == canonical(choice) for hint, choice in zip(found, choices, strict=True))
        plain = all(set(hint.schema) == {"type"} for hint in found)  # those would become one list of types
        if exact and not plain and len({hint.source for hint in found}) == len(found) > 1:
            yield Hint(" | ".join(hint.source for hint in found), {"anyOf": [hint.schema for hint in found]})

    def _choice(self, schema: Schema) -> Hint:
        marks = {word: value for word, value in schema.items() if word in ("description", "x-pii")}
        hint = self.hint({word: value for word, value in schema.items() if word not in marks})
        extras = _marks(marks)
        annotated = f"Annotated[{', '.join([hint.source, *extras])}]" if extras else hint.source
        return Hint(annotated, {**hint.schema, **marks})


def _is_mark(word: str, value: Any) -> bool:
    return (word == "description" and isinstance(value, str)) or (word == "x-pii" and value is True)


def _marks(schema: Schema) -> list[str]:
    """The keywords that have a short form in `Annotated`: a text is the description, `PII` marks personal data."""
    marks = {word: value for word, value in schema.items() if _is_mark(word, value)}
    return [text(value) if word == "description" else "PII" for word, value in sorted(marks.items())]


def _is_class_like(target: Any) -> bool:
    if not isinstance(target, dict) or not {"type", "properties"} <= target.keys() <= {
        "type",
        "properties",
        "required",
    }:
        return False
    names = target["properties"]
    required = set(target.get("required", ()))
    return target["type"] == "object" and required <= names.keys() and all(map(is_attribute, names))


def inlined(schema: Any, root: Mapping[str, Any], above: tuple[str, ...] = ()) -> Any:
    """The schema with each reference replaced by what it refers to."""

    def followed(part: Schema) -> Schema:
        if "$ref" not in part:
            return part
        reference = part["$ref"]
        if reference in above or not reference.startswith("#/"):
            raise InvalidContract(
                f"{reference!r} contains itself in a way that a class cannot express; keep the file, which declares "
                f"the type."
            )
        target = inlined(as_schema(resolved(reference, root)), root, (*above, reference))
        beside = {word: value for word, value in part.items() if word != "$ref"}
        return {"allOf": [target], **beside} if target.keys() & beside.keys() else {**target, **beside}

    return rewritten(schema, followed)
