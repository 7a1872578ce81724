"""Validate data against a JSON Schema, formats included, and explain what is wrong with it. The only module that calls
the validator library.

Messages that may be logged, as those of a worker are, name the type of a value instead of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import date, datetime
from typing import Any, NamedTuple, Protocol

from duebox.contracts.json_schema import NOTHING, Schema, all_schemas, combined_with, has_references
from duebox.exceptions import InvalidContract

try:
    import jsonschema_rs as engine
except ImportError:  # no wheel for this platform: `pip install jsonschema` does the same, a hundred times slower
    engine = None  # type: ignore[assignment]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

FORMATS = frozenset({
    "date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri",
    "iri-reference", "json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template",
    "uuid",
})  # fmt: skip
"""The formats of JSON Schema 2020-12. Any other name is an annotation and asserts nothing."""

# RFC 3339 also allows lower-case letters, leap seconds and the year 0, which Python's datetime cannot read: what passes
# here can be read by a handler. The libraries accept a name before an e-mail address, which the format does not allow.
_YEAR = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_STRICTER_FORMATS = {
    "date-time": f"^{_YEAR}-.{{5}}T.{{6}}[0-5][^z]*$",
    "date": f"^{_YEAR}-",
    "time": "^.{6}[0-5][^z]*$",
    "email": "^[^<>]*$",
}
_FORBIDDING = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems", "items")


class Violation(NamedTuple):
    """One violation of a schema."""

    path: tuple[str | int, ...]
    value: Any
    keyword: str
    schema: Mapping[str, Any]
    """The part of the schema that refuses it."""
    choices: tuple[Sequence[Violation], ...] = ()
    """For `anyOf` and `oneOf`: the violations of each choice."""

    @property
    def limit(self) -> Any:
        """The value of the keyword."""
        return self.schema.get(self.keyword)

    @property
    def place(self) -> str:
        """As in `data.lines[0].sku`."""
        return "data" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)


class Validator(Protocol):
    def is_valid(self, instance: Any, /) -> bool: ...
    def errors(self, instance: Any, /) -> Iterator[Violation]: ...


def compiled(schema: Mapping[str, Any], *, formats: bool = True) -> Validator:
    """A validator of plain JSON values. It follows local references only and never uses the network.

    Formats are asserted. With `formats=False` they are annotations, as they are for some readers.
    """
    refuse_odd_references(schema)
    schema = {"$schema": DIALECT, **schema}
    try:
        if formats:
            schema = _with_stricter_formats(schema)
        return _RustValidator(schema, formats) if engine else _PythonValidator(schema, formats)
    except InvalidContract:
        raise
    except Exception as error:
        raise InvalidContract(f"The schema cannot be used: {str(error).splitlines()[0]}") from error


class _RustValidator:
    def __init__(self, schema: Schema, formats: bool) -> None:
        self._schema = schema
        self._validator = engine.validator_for(schema, validate_formats=formats)
        self.is_valid = self._validator.is_valid

    def errors(self, instance: Any, /) -> Iterator[Violation]:
        return (self._violation(error, instance) for error in self._validator.iter_errors(instance))

    def _violation(self, error: Any, instance: Any) -> Violation:
        steps = error.schema_path
        if "propertyNames" in steps[:-1]:  # the library reports the object, and not the name that is wrong
            steps = steps[: steps.index("propertyNames") + 1]
        *above, keyword = steps
        schema = _at(self._schema, above)
        if schema[keyword] is False and keyword not in _FORBIDDING:
            keyword, schema = "not", NOTHING
        choices = [
            [self._violation(each, instance) for each in choice] for choice in getattr(error.kind, "context", ())
        ]
        return _violation(error.instance_path, _at(instance, error.instance_path), str(keyword), schema, choices)


class _PythonValidator:
    def __init__(self, schema: Schema, formats: bool) -> None:
        try:
            from jsonschema import Draft202012Validator, FormatChecker
        except ImportError:
            raise InvalidContract("Schemas need a validator; run: pip install jsonschema-rs") from None
        Draft202012Validator.check_schema(schema)
        checker = FormatChecker(formats=())
        checker.checkers = {**Draft202012Validator.FORMAT_CHECKER.checkers, **_CHECKERS}
        for part in all_schemas(schema, schema) if formats else ():
            name = part.get("format")
            if name in FORMATS and name not in checker.checkers:
                raise InvalidContract(
                    f"The format {name!r} cannot be checked here: the jsonschema package needs others for it; run: "
                    "pip install jsonschema-rs, or: pip install 'jsonschema[format-nongpl]'"
                )
        self._validator = Draft202012Validator(schema, format_checker=checker if formats else None)

    def is_valid(self, instance: Any, /) -> bool:
        return bool(self._validator.is_valid(instance))

    def errors(self, instance: Any, /) -> Iterator[Violation]:
        return map(self._violation, self._validator.iter_errors(instance))

    def _violation(self, error: Any) -> Violation:
        keyword, schema = (error.validator, error.schema) if error.validator else ("not", NOTHING)
        choices: dict[object, list[Violation]] = {}
        for each in error.context:
            choices.setdefault(each.schema_path[0], []).append(self._violation(each))
        return _violation(error.absolute_path, error.instance, keyword, schema, choices.values())


def _at(whole: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        whole = whole[step]
    return whole


def _violation(path: Any, value: Any, keyword: str, schema: Schema, choices: Iterable[list[Violation]]) -> Violation:
    """A pattern that was added for a format is reported as the format."""
    name = schema.get("format")
    if keyword == "pattern" and isinstance(name, str) and schema["pattern"] == _STRICTER_FORMATS.get(name):
        keyword = "format"
    return Violation(tuple(path), value, keyword, schema, tuple(choices))


def _with_stricter_formats(schema: Mapping[str, Any]) -> Schema:
    copied = deepcopy(dict(schema))
    for part in [*all_schemas(copied, copied)]:
        name = part.get("format")
        pattern = _STRICTER_FORMATS.get(name) if isinstance(name, str) else None
        if pattern and part.setdefault("pattern", pattern) != pattern:
            part["allOf"] = [*part.get("allOf", ()), {"format": name, "pattern": pattern}]
    return copied


def _checker(pattern: str, read: Any = str) -> tuple[Any, type[ValueError]]:
    regex = re.compile(pattern)
    return lambda value: not isinstance(value, str) or (regex.fullmatch(value) and read(value)), ValueError


_MINUTES = "([01][0-9]|2[0-3]):[0-5][0-9]"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = f"{_MINUTES}:[0-5][0-9]([.][0-9]+)?(Z|[+-]{_MINUTES})"
# Those of the jsonschema package are less strict than those of jsonschema-rs, or need optional packages.
_CHECKERS: dict[str, Any] = {
    "date-time": _checker(f"{_DATE}T{_TIME}", datetime.fromisoformat),
    "date": _checker(_DATE, date.fromisoformat),
    "time": _checker(_TIME),
    "uuid": _checker("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
}


def refuse_odd_references(root: Mapping[str, Any]) -> None:
    """Allow only references that are paths inside of the schema: every tool follows those in the same way."""
    for schema in all_schemas(root, root):
        target = schema.get("$ref")
        # A reference to another document would make the program fetch untrusted content.
        if isinstance(target, str) and target != "#" and not target.startswith("#/"):
            raise InvalidContract(
                f"The schema refers to {target!r}; only local references like '#/$defs/address' are followed, "
                "so copy it into $defs."
            )
        for word in ("$dynamicRef", "$recursiveRef", "$id"):
            if word in schema and not (word == "$id" and (schema is root or not has_references(schema))):
                raise InvalidContract(
                    f"The schema uses {word!r} ({schema[word]!r}), which gives references another meaning; leave it "
                    "out, and refer with '$ref' to a path like '#/$defs/address'."
                )


_KINDS = {
    dict: "an object", list: "a list", bool: "a boolean", type(None): "null", str: "a text", int: "a number",
    float: "a number",
}  # fmt: skip
_FORMATS_IN_WORDS = {
    "date-time": "a date and time with an offset, as in 2027-01-31T09:00:00Z",
    "date": "a date, as in 2027-01-31",
    "time": "a time with an offset, as in 09:00:00Z",
    "duration": "a duration, as in P1DT2H",
    "uuid": "a UUID",
    "email": "an e-mail address",
    "uri": "a URI",
}


def explain(error: Violation, schema: Mapping[str, Any], *, values: bool = True) -> str:
    """As in "is 7 and must be of type string", or "lacks 'role'". Without `values`, "is a number and ..."."""
    if error.keyword == "required" and isinstance(error.value, dict):
        return f"lacks {', '.join(repr(name) for name in error.limit if name not in error.value)}"
    if error.keyword in ("additionalProperties", "unevaluatedProperties") and isinstance(error.value, dict):
        known = _declared_names(error.schema, schema, set())
        undeclared = ", ".join(repr(name) for name in error.value if name not in known)
        return f"has {undeclared}, undeclared" if undeclared else "has properties of another choice"
    shown = _shown(error.value, _is_personal(error.path, schema)) if values else kind_of(error.value)
    return f"is {shown} and {_rule(error)}"


def _declared_names(part: Any, root: Mapping[str, Any], seen: set[int]) -> set[str]:
    """The properties that a schema names, itself or in what it is combined with."""
    if not isinstance(part, Mapping) or id(part) in seen:
        return set()
    seen.add(id(part))
    inner = (_declared_names(each, root, seen) for each in combined_with(part, root))
    return set(part.get("properties", ())).union(*inner)


def _rule(error: Violation) -> str:
    match error.keyword:
        case "type" | "format":
            return f"must be {_type_or_format(error.keyword, error.limit)}"
        case "enum":
            return f"must be one of {', '.join(map(repr, error.limit))}"
        case "anyOf" | "oneOf":
            kinds = [_choice(each) for each in error.limit]
            some = " or ".join(kinds)
            return f"must be {some}" if all(kinds) else "fits none of the declared kinds, or more than one"
    limit = f" {error.limit!r}" if isinstance(error.limit, str | int | float) else ""
    return f"violates {error.keyword}{limit}"


def _type_or_format(keyword: str, limit: Any) -> str:
    if keyword == "format":
        return _FORMATS_IN_WORDS.get(limit, f"of the format {limit!r}")
    return f"of type {limit if isinstance(limit, str) else ' or '.join(limit)}"


def _choice(schema: Any) -> str:
    """One of several declared kinds in a few words; empty where a few words are not enough."""
    if not isinstance(schema, Mapping) or not schema.keys() <= {"type", "format", "description", "x-pii"}:
        return ""
    if schema.get("type") == "null":
        return "null"
    return next((_type_or_format(word, schema[word]) for word in ("format", "type") if word in schema), "")


def kind_of(value: Any) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def _shown(value: Any, personal: bool) -> str:
    if personal:
        return "personal data, not shown,"
    if isinstance(value, str) and len(value) > 80:
        return f"a text of {len(value):,} characters"
    return kind_of(value) if isinstance(value, dict | list) else repr(value)


def _is_personal(path: tuple[str | int, ...], schema: Mapping[str, Any]) -> bool:
    """Whether the schema marks the value, or any property with one of the names in its path, as personal."""
    marked = personal_names(schema)
    return bool(schema.get("x-pii")) or any(step in marked for step in path)


def personal_names(schema: Mapping[str, Any]) -> set[str]:
    """Every name of a property that holds personal data, wherever in the schema it is."""
    return {
        name
        for part in all_schemas(schema, schema)
        if isinstance(part.get("properties"), Mapping)
        for name, each in part["properties"].items()
        if any(inner.get("x-pii") for inner in all_schemas(each, schema))
    }
