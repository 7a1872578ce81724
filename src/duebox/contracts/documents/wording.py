"""What a schema says of one field, in people's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from duebox.contracts.compat.words import Schema
from duebox.contracts.documents.markdown import code, value
from duebox.contracts.hints import DECIMAL

_NAMES = {
    "string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null",
    "array": "list", "object": "object",
}  # fmt: skip
_FORMATS = {
    "date-time": "date and time", "date": "date", "time": "time of day", "duration": "duration", "uuid": "UUID",
    "email": "e-mail address", "idn-email": "e-mail address", "uri": "URL", "iri": "URL", "hostname": "host name",
    "ipv4": "IPv4 address", "ipv6": "IPv6 address",
}  # fmt: skip
# Words that few schemas use; they are shown as they are.
_RARE = (
    "contains", "minContains", "maxContains", "propertyNames", "patternProperties", "dependentRequired",
    "dependentSchemas", "not", "if", "then", "else", "contentEncoding", "contentMediaType",
)  # fmt: skip
_PLURALS = {
    "e-mail address": "e-mail addresses", "IPv4 address": "IPv4 addresses", "IPv6 address": "IPv6 addresses",
    "time of day": "times of day", "date and time": "dates and times", "true or false": "true or false",
    "decimal number as text": "decimal numbers as text", "null": "null", "anything": "anything",
}  # fmt: skip

Inner = Callable[[Any], Schema]


def kind(schema: Schema, inner: Inner) -> str:
    """What a value is: a text, a list of moments, one of two words. `inner` says what a part of it says."""
    if "enum" in schema:
        return _one_of(schema["enum"])
    given = schema.get("type", [])
    types = sorted([given] if isinstance(given, str) else given, key="null".__eq__)
    if not types:
        variants = schema.get("anyOf") or schema.get("oneOf") or []
        return f"one of {len(variants)} forms" if variants else "anything"
    return " or ".join(_named(each, schema, inner) for each in types)


def _named(name: str, schema: Schema, inner: Inner) -> str:
    if name == "array" and schema.get("items"):
        return f"list of {_plural(inner(schema['items']), inner)}"
    if name == "string":
        if schema.get("pattern") == DECIMAL:
            return "decimal number as text"
        return _FORMATS.get(schema.get("format", ""), "text")
    if name == "object" and not schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        return f"{_plural(inner(schema['additionalProperties']), inner)}, by name"
    return _NAMES[name]


def _plural(schema: Schema, inner: Inner) -> str:
    one = kind(schema, inner)
    if one in _PLURALS or "enum" in schema:
        return _PLURALS.get(one, one)
    return f"({one})" if " of " in one or " or " in one else f"{one}s"


def _one_of(values: list[Any]) -> str:
    shown = [value(each) for each in values]
    return f"always {shown[0]}" if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def rules(schema: Schema) -> str:
    """What a value must keep to, beyond what it is."""
    return "; ".join(_rules(schema))


def _rules(schema: Schema) -> Iterator[str]:
    yield from _between(schema, "minLength", "maxLength", "character")
    yield from _between(_with_its_end(schema), "minItems", "maxItems", "item")
    yield from _between(schema, "minProperties", "maxProperties", "field")
    yield from _range(schema)
    if "multipleOf" in schema:
        yield f"a multiple of {schema['multipleOf']}"
    if "pattern" in schema and schema["pattern"] != DECIMAL:
        yield f"matches {code(schema['pattern'])}"
    if schema.get("uniqueItems"):
        yield "nothing twice"
    if schema.get("format") and schema["format"] not in _FORMATS:
        yield f"format {code(schema['format'])}"
    if schema.get("properties") and schema.get("additionalProperties", False) is not False:
        yield "may have other fields"
    if "default" in schema:
        yield f"by default {value(schema['default'])}"
    if schema.get("deprecated"):
        yield "going away"
    for word in _RARE:
        if word in schema:
            yield f"{code(word)}: {code(json.dumps(schema[word], ensure_ascii=False))}"


def _with_its_end(schema: Schema) -> Schema:
    """A list with a place for each item ends after the last one."""
    if schema.get("items") is False and "maxItems" not in schema:
        return {**schema, "maxItems": len(schema.get("prefixItems", ()))}
    return schema


def _between(schema: Schema, least: str, most: str, thing: str) -> Iterator[str]:
    low, high = schema.get(least, 0), schema.get(most)
    if low and low == high:
        yield f"exactly {_counted(low, thing)}"
    elif low and high is not None:
        yield f"{low} to {_counted(high, thing)}"
    elif low:
        yield f"at least {_counted(low, thing)}"
    elif high is not None:
        yield f"at most {_counted(high, thing)}"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _range(schema: Schema) -> Iterator[str]:
    if "minimum" in schema and "maximum" in schema:
        yield f"from {schema['minimum']} to {schema['maximum']}"
    elif "minimum" in schema:
        yield f"{schema['minimum']} or more"
    elif "maximum" in schema:
        yield f"{schema['maximum']} or less"
    if "exclusiveMinimum" in schema:
        yield f"above {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema:
        yield f"below {schema['exclusiveMaximum']}"
