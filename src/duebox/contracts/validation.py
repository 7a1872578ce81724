"""Validation of data against a JSON Schema, formats included. Nothing else in Duebox calls the validator library."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from datetime import date, datetime
from typing import Any, NamedTuple, Protocol

from duebox.contracts.strict import resolved
from duebox.exceptions import InvalidContract

try:
    import jsonschema_rs as engine
except ImportError:  # no wheel for this platform: `pip install jsonschema` does the same, a hundred times slower
    engine = None  # type: ignore[assignment]

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

FORMATS = frozenset({
    "date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri",
    "iri-reference", "json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template",
    "uuid",
})  # fmt: skip
"""The formats of JSON Schema 2020-12. Any other name is an annotation and asserts nothing."""

# RFC 3339 also has lower-case letters, leap seconds and the year 0, which Python's datetime cannot read: what passes
# here can be read by the handler. The libraries take a name in front of an e-mail address, which the format does not.
_YEAR = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_NARROWED = {
    "date-time": f"^{_YEAR}-.{{5}}T.{{6}}[0-5][^z]*$",
    "date": f"^{_YEAR}-",
    "time": "^.{6}[0-5][^z]*$",
    "email": "^[^<>]*$",
}

_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_VALUES = ("const", "enum", "default", "examples")


class Wrong(NamedTuple):
    """The first thing that a schema refuses."""

    path: tuple[str | int, ...]
    value: Any
    keyword: str
    node: Mapping[str, Any]
    """The part of the schema that refuses it."""

    @property
    def limit(self) -> Any:
        """What the keyword says."""
        return self.node.get(self.keyword)

    @property
    def place(self) -> str:
        """As in `data.lines[0].sku`."""
        return "data" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)


class Validator(Protocol):
    def is_valid(self, instance: Any, /) -> bool: ...
    def first_error(self, instance: Any, /) -> Wrong | None: ...


def compiled(schema: Mapping[str, Any], *, formats: bool = True) -> Validator:
    """A validator of plain JSON values. Only local references are followed, never a network.

    Formats are asserted. `formats=False` takes them as annotations, as readers elsewhere may do.
    """
    refuse_odd_references(schema)
    schema = {"$schema": DIALECT, **schema}
    try:
        if formats:
            schema = _with_narrowed_formats(schema)
        return _Fast(schema, formats) if engine else _Slow(schema, formats)
    except InvalidContract:
        raise
    except Exception as error:
        raise InvalidContract(f"The schema cannot be used: {str(error).splitlines()[0]}") from error


class _Fast:
    def __init__(self, schema: Schema, formats: bool) -> None:
        self._schema = schema
        self._validator = engine.validator_for(schema, validate_formats=formats)
        self.is_valid = self._validator.is_valid

    def first_error(self, instance: Any, /) -> Wrong | None:
        for error in self._validator.iter_errors(instance):
            *above, keyword = error.schema_path
            node = _at(self._schema, above)
            return _wrong(error.instance_path, _at(instance, error.instance_path), str(keyword), node)
        return None


class _Slow:
    def __init__(self, schema: Schema, formats: bool) -> None:
        try:
            from jsonschema import Draft202012Validator, FormatChecker
        except ImportError:
            raise InvalidContract("Schemas need a validator; run: pip install jsonschema-rs") from None
        Draft202012Validator.check_schema(schema)
        checker = FormatChecker(formats=())
        checker.checkers = {**Draft202012Validator.FORMAT_CHECKER.checkers, **_CHECKERS}
        if formats:
            _refuse_unchecked_formats(schema, checker.checkers)
        self._validator = Draft202012Validator(schema, format_checker=checker if formats else None)

    def is_valid(self, instance: Any, /) -> bool:
        return bool(self._validator.is_valid(instance))

    def first_error(self, instance: Any, /) -> Wrong | None:
        for error in self._validator.iter_errors(instance):
            return _wrong(error.absolute_path, error.instance, str(error.validator), error.schema)
        return None


def _wrong(path: Any, value: Any, keyword: str, node: Mapping[str, Any]) -> Wrong:
    """A pattern that was added for a format is told as the format."""
    named = node.get("format")
    if keyword == "pattern" and isinstance(named, str) and node["pattern"] == _NARROWED.get(named):
        keyword = "format"
    return Wrong(tuple(path), value, keyword, node)


def _with_narrowed_formats(schema: Mapping[str, Any]) -> Schema:
    copied = deepcopy(dict(schema))
    for part in [*_schemas(copied, copied, set())]:
        named = part.get("format")
        if isinstance(named, str) and named in _NARROWED:
            pattern = _NARROWED[named]
            if part.setdefault("pattern", pattern) != pattern:
                narrower = {"format": named, "pattern": pattern}
                part["allOf"] = [*part.get("allOf", ()), narrower]
    return copied


def _is_moment(value: object) -> bool:
    return not isinstance(value, str) or (
        _MOMENT.fullmatch(value) is not None and _reads(datetime.fromisoformat, value)
    )


def _is_date(value: object) -> bool:
    return not isinstance(value, str) or (bool(_DATE.fullmatch(value)) and _reads(date.fromisoformat, value))


def _is_time(value: object) -> bool:
    return not isinstance(value, str) or _TIME.fullmatch(value) is not None


def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or _UUID.fullmatch(value) is not None


def _reads(read: Callable[[str], object], value: str) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


_MINUTES = "([01][0-9]|2[0-3]):[0-5][0-9]"
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(f"{_MINUTES}:[0-5][0-9]([.][0-9]+)?(Z|[+-]{_MINUTES})")
_MOMENT = re.compile(f"{_DATE.pattern}T{_TIME.pattern}")
_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# Those of the jsonschema package are laxer than those of jsonschema-rs, or missing without optional packages.
_CHECKERS: dict[str, tuple[Callable[[object], bool], tuple[()]]] = {
    "date-time": (_is_moment, ()),
    "date": (_is_date, ()),
    "time": (_is_time, ()),
    "uuid": (_is_uuid, ()),
}


def _refuse_unchecked_formats(schema: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for part in _schemas(schema, schema, set()):
        named = part.get("format")
        if named in FORMATS and named not in known:
            raise InvalidContract(
                f"The format {named!r} cannot be checked here: the jsonschema package needs others for it; run: "
                "pip install jsonschema-rs, or: pip install 'jsonschema[format-nongpl]'"
            )


def _at(whole: Any, path: list[str | int]) -> Any:
    for step in path:
        whole = whole[step]
    return whole


def refuse_odd_references(root: Mapping[str, Any]) -> None:
    """Every reference is a path inside of the schema, which means the same to everybody who follows it."""
    for schema in _schemas(root, root, set()):
        target = schema.get("$ref")
        # A schema that points elsewhere would make the program fetch what a stranger wrote.
        if isinstance(target, str) and target != "#" and not target.startswith("#/"):
            raise InvalidContract(
                f"The schema refers to {target!r}; only local references like '#/$defs/address' are followed, "
                "so copy it into $defs."
            )
        for word in ("$dynamicRef", "$recursiveRef", "$id"):
            if word in schema and not (word == "$id" and (schema is root or _has_no_references(schema))):
                raise InvalidContract(
                    f"The schema uses {word!r} ({schema[word]!r}), which gives references another meaning; leave it "
                    "out, and refer with '$ref' to a path like '#/$defs/address'."
                )


def _schemas(value: Any, root: Mapping[str, Any], seen: set[int]) -> Iterator[Any]:
    """Every schema in a value, and what it refers to; values that a schema only mentions are none."""
    if isinstance(value, list):
        for part in value:
            yield from _schemas(part, root, seen)
    elif isinstance(value, Mapping) and id(value) not in seen:
        seen.add(id(value))
        yield value
        if isinstance(value.get("$ref"), str):
            yield from _schemas(resolved(value["$ref"], root), root, seen)
        for word, part in value.items():
            if word in _NAMED and isinstance(part, Mapping):
                yield from _schemas([*part.values()], root, seen)
            elif word not in _VALUES:
                yield from _schemas(part, root, seen)


def _has_no_references(schema: Mapping[str, Any]) -> bool:
    return not any("$ref" in each for each in _schemas(schema, schema, set()))
