"""The source of a class that declares an event type as its schema does."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from duebox.contracts.code.annotations import Annotations, is_attribute
from duebox.contracts.code.literal import WIDTH, literal, text, wrapped
from duebox.contracts.compat.words import as_schema
from duebox.contracts.types import EventType
from duebox.exceptions import InvalidContract

_SAID_BY_A_CLASS = {"type", "properties", "required", "$defs"}
# Absent and null are two things in JSON; the class has None for both.
_ABSENT = "None  # type: ignore[assignment]"
_FROM = {
    "datetime": ("date", "datetime"),
    "decimal": ("Decimal",),
    "typing": ("Annotated", "Any", "Literal"),
    "uuid": ("UUID",),
}


def source(kind: EventType, *, class_name: str = "") -> str:
    """A module with the class. What no class can say is named in a comment."""
    name = class_name or class_name_of(kind.name)
    annotations = Annotations(kind.schema, name)
    main = [*_comment(kind), _decorator(kind), f"class {name}:"]
    main += [*_docstring(kind.purpose), *_fields(kind.schema, annotations, kind)]
    blocks = [*_inner_classes(annotations, kind), "\n".join(main)]
    code = "\n\n\n".join(blocks)
    return f"{_imports(code)}\n\n\n{code}\n"


def class_name_of(event: str) -> str:
    """`member.role_changed` → `MemberRoleChanged`."""
    return "".join(word.capitalize() for word in re.split(r"[._]", event))


def lost_words(kind: EventType) -> list[str]:
    """The words of the schema that a class has no place for."""
    undeclared = set(kind.schema.get("required", ())) - kind.schema.get("properties", {}).keys()
    return sorted(kind.schema.keys() - _SAID_BY_A_CLASS) + [f"required {name}" for name in sorted(undeclared)]


def _comment(kind: EventType) -> Iterator[str]:
    if lost := lost_words(kind):
        yield f"# A class cannot say these words of the schema: {', '.join(lost)}."
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
    if not purpose:
        return
    escaped = purpose.replace("\\", "\\\\").replace('"', '\\"') if '"' in purpose or "\\" in purpose else purpose
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
                f"{kind.name} v{kind.version} has a field {name!r}, which no attribute of a class can be called; "
                "keep the file, which declares the type by itself."
            )
        yield f"    {name}: {_field(part, name in schema.get('required', ()), annotations)}"


def _field(part: Any, required: bool, annotations: Annotations) -> str:
    part = as_schema(part)
    if required:
        return annotations.annotation(part)
    default = part.get("default")
    if isinstance(default, str | int | float):
        rest = {word: value for word, value in part.items() if word != "default"}
        return f"{annotations.annotation(rest)} = {literal(default)}"
    annotation = annotations.annotation(part)
    if isinstance(default, list | dict):
        return f"{annotation} = dataclasses.field(default_factory=lambda: {literal(default, 4)})"
    takes_none = re.search(r"\bNone\b|^Any$|^Annotated\[\s*Any\b", annotation)
    return f"{annotation} = {'None' if takes_none else _ABSENT}"


def _inner_classes(annotations: Annotations, kind: EventType) -> Iterator[str]:
    """Those that the class refers to, and those that they refer to."""
    done: list[str] = []
    while new := [name for name in annotations.classes if name not in done]:
        for name in new:
            done.append(name)
            fields = _fields(annotations.classes[name], annotations, kind)
            yield "\n".join(["@dataclasses.dataclass(frozen=True, kw_only=True)", f"class {name}:", *fields])


def _imports(code: str) -> str:
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    standard = ["import dataclasses"] if "dataclasses" in used else []
    for module, names in _FROM.items():
        if found := [name for name in names if name in used]:
            standard.append(f"from {module} import {', '.join(found)}")
    own = ["import duebox", *(["from duebox.contracts import PII"] if "PII" in used else [])]
    return "\n\n".join("\n".join(group) for group in (["from __future__ import annotations"], standard, own) if group)
