"""What to say about data that a schema refuses: the place, the value and the rule, and nothing that is personal.

Where the message ends in a log, as that of a worker does, the kind of the value stands for the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duebox.contracts.strict import combined_of, resolved
from duebox.contracts.validation import Wrong

_SHOWN = 80
_KINDS = {dict: "an object", list: "a list", bool: "a boolean", type(None): "null", str: "a text"}
_FORMATS = {
    "date-time": "a date and time with an offset, as in 2027-01-31T09:00:00Z",
    "date": "a date, as in 2027-01-31",
    "time": "a time with an offset, as in 09:00:00Z",
    "duration": "a duration, as in P1DT2H",
    "uuid": "a UUID",
    "email": "an e-mail address",
    "uri": "a URI",
}


def said(wrong: Wrong, schema: Mapping[str, Any], *, values: bool = True) -> str:
    """As in "is 7 and must be of type string", or "lacks 'role'". Without `values`, "is a number and ..."."""
    if wrong.keyword == "required" and isinstance(wrong.value, dict):
        missing = [name for name in wrong.limit if name not in wrong.value]
        return f"lacks {', '.join(map(repr, missing))}"
    if wrong.keyword in ("additionalProperties", "unevaluatedProperties") and isinstance(wrong.value, dict):
        known = _declared(wrong.node, schema, set())
        undeclared = [name for name in wrong.value if name not in known]
        return (
            f"has {', '.join(map(repr, undeclared))}, undeclared" if undeclared else "has what another choice declares"
        )
    shown = _shown(wrong.value, personal=_is_personal(wrong.path, schema)) if values else _kind(wrong.value)
    return f"is {shown} and {_rule(wrong)}"


def _declared(node: Any, root: Mapping[str, Any], seen: set[int]) -> set[str]:
    """The names of properties that a part of a schema speaks of, in whatever it is combined of."""
    if not isinstance(node, Mapping) or id(node) in seen:
        return set()
    seen.add(id(node))
    inner = (_declared(each, root, seen) for each in combined_of(node, root))
    return set(node.get("properties", ())).union(*inner)


def _rule(wrong: Wrong) -> str:
    match wrong.keyword:
        case "type":
            return f"must be of type {_types(wrong.limit)}"
        case "enum":
            return f"must be one of {', '.join(map(repr, wrong.limit))}"
        case "format":
            return f"must be {_of_format(wrong.limit)}"
        case "anyOf" | "oneOf":
            kinds = [_choice(each) for each in wrong.limit]
            return (
                f"must be {' or '.join(kinds)}" if all(kinds) else "fits none of the declared kinds, or more than one"
            )
    if isinstance(wrong.limit, str | int | float):
        return f"must keep to {wrong.keyword} {wrong.limit!r}"
    return f"must keep to {wrong.keyword}"


def _types(limit: Any) -> str:
    return limit if isinstance(limit, str) else " or ".join(limit)


def _of_format(name: Any) -> str:
    return _FORMATS.get(name, f"of the format {name!r}")


def _choice(schema: Any) -> str:
    """One of several declared kinds in a few words; nothing where that needs more."""
    if not isinstance(schema, Mapping) or not schema.keys() <= {"type", "format", "description", "x-pii"}:
        return ""
    if "format" in schema:
        return _of_format(schema["format"])
    kind = schema.get("type")
    return "null" if kind == "null" else f"of type {_types(kind)}" if kind else ""


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "a number")


def _shown(value: Any, *, personal: bool) -> str:
    if personal:
        return "personal data, not shown,"
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"a text of {len(value):,} characters"
    return _kind(value) if isinstance(value, dict | list) else repr(value)


def _is_personal(path: tuple[str | int, ...], schema: Mapping[str, Any]) -> bool:
    """Whether the schema marks the place, or anything that a property of its name could be, as personal."""
    marked = personal_names(schema)
    return bool(schema.get("x-pii")) or any(step in marked for step in path)


def personal_names(schema: Mapping[str, Any]) -> set[str]:
    """Every name of a property that holds personal data, wherever in the schema it is."""
    found: set[str] = set()
    _collect(schema, schema, found)
    return found


def _collect(part: Any, root: Mapping[str, Any], found: set[str]) -> None:
    if isinstance(part, list):
        for each in part:
            _collect(each, root, found)
    if not isinstance(part, Mapping):
        return
    named = part.get("properties")
    for name, each in named.items() if isinstance(named, Mapping) else ():
        if _is_marked(each, root, set()):
            found.add(name)
    for each in part.values():
        _collect(each, root, found)


def _is_marked(part: Any, root: Mapping[str, Any], seen: set[str]) -> bool:
    if isinstance(part, list):
        return any(_is_marked(each, root, seen) for each in part)
    if not isinstance(part, Mapping):
        return False
    target = part.get("$ref")
    if isinstance(target, str) and target not in seen:
        seen.add(target)
        if _is_marked(resolved(target, root), root, seen):
            return True
    return bool(part.get("x-pii")) or any(_is_marked(each, root, seen) for each in part.values())
