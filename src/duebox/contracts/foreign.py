"""Models of pydantic and Structs of msgspec, where installed: their schemas, their data, and the way back.

The libraries write the schemas and know nothing of what stands in `Annotated` for Duebox, as `PII`: this is added here,
in every class that the model holds.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator
from datetime import datetime, time
from decimal import Decimal
from typing import Annotated, Any, ForwardRef, Union, get_args, get_origin, get_type_hints

from duebox.contracts import words
from duebox.contracts.hints import DECIMAL, hints_of
from duebox.exceptions import InvalidContract

Schema = dict[str, Any]

_DEFINITIONS = "#/$defs/"
# How classes that have fields are known, whoever made them.
_MARKS_OF_FIELDS = ("__pydantic_fields__", "__struct_fields__", "__dataclass_fields__", "__attrs_attrs__", "__total__",
                    "_fields")  # fmt: skip
# The libraries call these `time` and `duration`. In JSON Schema a time has an offset, and a duration neither a sign
# nor a fraction, so that others would refuse what is sent.
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"^{_CLOCK}:[0-5][0-9](\.[0-9]+)?(Z|[+-]{_CLOCK})?$"
_OTHER_THAN_THEIR_FORMAT = {
    "time": _TIME,
    "duration": r"^-?P([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?$",
}
# What msgspec calls a plain text.
_OF_STRUCTS: dict[Any, Schema] = {
    datetime: {"format": "date-time"},
    time: {"pattern": _TIME},
    Decimal: {"pattern": DECIMAL},
}


def is_model(shape: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(shape, type) and issubclass(shape, pydantic.BaseModel)


def is_struct(shape: Any) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and isinstance(shape, type) and issubclass(shape, msgspec.Struct)


def schema_of(shape: type) -> Schema:
    """What the library says about a class, and what stands in its annotations for Duebox."""
    try:
        classes = _reached(shape)
        written, definitions = (_by_pydantic if is_model(shape) else _by_msgspec)(classes)
    except InvalidContract:
        raise
    except Exception as error:  # the libraries have many of them
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise InvalidContract(
            f"{shape.__qualname__} has no JSON Schema ({reason}); use annotations that JSON can carry, of classes at "
            "the top of a module."
        ) from error
    written, definitions = _with_patterns(written), _with_patterns(definitions)
    for each, schema in zip(classes, written, strict=True):
        _refuse_one_way(each)
        _add_words(each, definitions.get(schema.get("$ref", "").removeprefix(_DEFINITIONS), schema))
    return _unwrapped(written[0], definitions)


def data_of(instance: Any) -> dict[str, Any]:
    if is_model(type(instance)):
        return dict(instance.model_dump(mode="json", by_alias=True))
    return dict(sys.modules["msgspec"].to_builtins(instance))


def instance_of(shape: type, data: dict[str, Any]) -> Any:
    if is_model(shape):
        return shape.model_validate(data)  # type: ignore[attr-defined]
    return sys.modules["msgspec"].convert(data, shape)


def _by_pydantic(classes: list[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    adapter, mode = sys.modules["pydantic"].TypeAdapter, "serialization"
    inputs = [(number, mode, adapter(each)) for number, each in enumerate(classes)]
    found, document = adapter.json_schemas(inputs)
    return [found[number, mode] for number, _ in enumerate(classes)], document.get("$defs", {})


def _by_msgspec(classes: list[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    found, definitions = sys.modules["msgspec"].json.schema_components(classes, ref_template=_DEFINITIONS + "{name}")
    return list(found), definitions


def _reached(shape: type) -> list[Any]:
    """The class, and every class with fields that it holds."""
    found: list[Any] = [shape]
    for each in found:  # it grows meanwhile
        for hint in _fields_of(each).values():
            for part in words.parts_of(hint):
                if isinstance(part, str | ForwardRef):  # what it marks as personal would be missed
                    raise NameError(f"{part!r} in {each!r} is not known")
                if _has_fields(get_origin(part) or part) and part not in found:
                    found.append(part)
    return found


def _has_fields(kind: Any) -> bool:
    return isinstance(kind, type) and any(hasattr(kind, mark) for mark in _MARKS_OF_FIELDS)


def _fields_of(shape: Any) -> dict[str, Any]:
    """The annotations of a class by the names under which its fields travel."""
    kind = get_origin(shape) or shape
    if is_model(kind):
        return dict(_fields_of_model(kind))
    if is_struct(kind):
        return {field.encode_name: field.type for field in sys.modules["msgspec"].structs.fields(shape)}
    if dataclasses.is_dataclass(kind):
        return {field.name: hints_of(kind)[field.name] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return get_type_hints(kind, include_extras=True)


def _fields_of_model(model: Any) -> Iterator[tuple[str, Any]]:
    model.model_rebuild()  # names that were not known when it was written
    for name, field in model.model_fields.items():
        if not field.exclude:
            hint = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            yield field.serialization_alias or name, hint
    for name, field in model.model_computed_fields.items():
        yield field.alias or name, field.return_type


def _refuse_one_way(model: Any) -> None:
    """What is written under one name must be read under the same one."""
    for name, field in model.model_fields.items() if is_model(model) else ():
        written, read = field.serialization_alias or name, field.validation_alias or name
        known = list(getattr(read, "choices", [read]))
        if model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name"):
            known.append(name)
        if written not in known:
            raise InvalidContract(
                f"{model.__name__}.{name} is written as {written!r} and read as {read!r}, so nobody could read the "
                f"event; give it one name for both, as in Field(alias={written!r})."
            )


def _with_patterns(schema: Any) -> Any:
    """The schema in which a pattern stands for a format that means something else in JSON Schema."""
    if isinstance(schema, list):
        return [_with_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {word: _with_patterns(value) for word, value in schema.items()}
    pattern = _OTHER_THAN_THEIR_FORMAT.get(found["format"]) if isinstance(found.get("format"), str) else None
    if pattern and found.get("type") == "string":
        del found["format"]
        found.setdefault("pattern", pattern)
    return found


def _add_words(shape: Any, schema: Schema) -> None:
    properties = schema.get("properties", {})
    for name, hint in _fields_of(shape).items():
        if is_struct(get_origin(shape) or shape):
            _add_formats(properties.get(name), hint)
        words.write(properties.get(name), hint, f"{getattr(shape, '__name__', shape)}.{name}")


def _add_formats(schema: Any, hint: Any) -> None:
    """What msgspec leaves out, in every part of an annotation."""
    if not isinstance(schema, dict):
        return
    if get_origin(hint) is Annotated:
        _add_formats(schema, get_args(hint)[0])
    elif get_origin(hint) in (Union, types.UnionType):
        # In a union of msgspec there is one type at most that is a text in JSON.
        texts = [each for each in schema.get("anyOf", ()) if each.get("type") == "string"]
        for each in get_args(hint):
            for text in texts if each in _OF_STRUCTS else ():
                _add_formats(text, each)
    elif hint in _OF_STRUCTS and schema.get("type") == "string":
        for word, value in _OF_STRUCTS[hint].items():
            schema.setdefault(word, value)
    else:
        for place, each in zip(words.places_of(schema, hint), words.inner_of(hint), strict=False):
            if place is not schema:
                _add_formats(place, each)


def _unwrapped(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """The class itself, and of the definitions those that it leads to; it may be one of them."""
    name = schema.get("$ref", "").removeprefix(_DEFINITIONS)
    own = definitions.get(name, schema)
    used: dict[str, Schema] = {}
    waiting = [own]
    while waiting:
        for name in _names_in(waiting.pop()):
            if name in definitions and name not in used:
                used[name] = definitions[name]
                waiting.append(definitions[name])
    return _without_titles({**own, **({"$defs": dict(sorted(used.items()))} if used else {})})


def _names_in(value: Any) -> Iterator[str]:
    """The definitions that a schema refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].removeprefix(_DEFINITIONS)
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _names_in(each)


def _without_titles(schema: Schema) -> Schema:
    """The names of classes are nobody's contract."""
    found = {word: value for word, value in schema.items() if word != "title"}
    for word in ("properties", "$defs"):
        if word in found:
            found[word] = {name: _without_titles(part) for name, part in found[word].items()}
    return found
