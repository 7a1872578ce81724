"""Classes that declare event types (dataclasses, pydantic models, msgspec structs): their schema, their data, and back.

pydantic and msgspec write their own schemas and ignore what Duebox puts into `Annotated`, such as `PII`. It is added
here, in every class that the model contains:

email: Annotated[str, "Where the invitation went", PII]     # a text is the description, a dict adds JSON Schema
keywords
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator, Mapping
from datetime import datetime, time
from decimal import Decimal
from typing import Annotated, Any, ForwardRef, Literal, Union, get_args, get_origin, get_type_hints

from duebox.contracts import python_types
from duebox.contracts.json_schema import NULL, Schema, all_schemas
from duebox.contracts.python_types import DECIMAL, LISTS, MAPPINGS, described, hints_of
from duebox.exceptions import InvalidContract

_DEFINITIONS = "#/$defs/"
# Attributes of classes that have fields, by any library.
_MARKS_OF_FIELDS = ("__pydantic_fields__", "__struct_fields__", "__dataclass_fields__", "__attrs_attrs__", "__total__",
                    "_fields")  # fmt: skip
# The libraries call these `time` and `duration`. In JSON Schema a time has an offset, and a duration has neither a sign
# nor a fraction, so other validators would refuse what is sent.
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"^{_CLOCK}:[0-5][0-9](\.[0-9]+)?(Z|[+-]{_CLOCK})?$"
_PATTERNS_FOR_FORMATS = {"time": _TIME, "duration": r"^-?P([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?$"}
# Types that msgspec describes as a plain string.
_MSGSPEC_TEXTS: dict[Any, Schema] = {
    datetime: {"format": "date-time"},
    time: {"pattern": _TIME},
    Decimal: {"pattern": DECIMAL},
}


def schema_of(shape: type) -> Schema:
    """The schema of the data of a class."""
    if is_model(shape) or is_struct(shape):
        return _library_schema(shape)
    if dataclasses.is_dataclass(shape):
        definitions = python_types.Definitions()
        found = python_types.object_schema(shape, definitions)
        return {**found, **({"$defs": definitions.schemas} if definitions.schemas else {})}
    raise InvalidContract(
        f"{shape!r} is not a class that describes data; use a plain class with annotations, a dataclass, a pydantic "
        "model or a msgspec Struct."
    )


def data_of(instance: Any) -> dict[str, Any]:
    """The data of an instance, ready for validation as a payload."""
    if is_model(type(instance)):
        return dict(instance.model_dump(mode="json", by_alias=True))
    if is_struct(type(instance)):
        return dict(sys.modules["msgspec"].to_builtins(instance))
    return python_types.data_of(instance)


def instance_of(shape: Any, data: dict[str, Any]) -> Any:
    """An instance with the data: the inverse of `data_of`."""
    if is_model(shape):
        return shape.model_validate(data)
    return sys.modules["msgspec"].convert(data, shape) if is_struct(shape) else python_types.instance_of(shape, data)


def prepared(shape: type) -> type:
    """The class; a plain one is made a frozen dataclass."""
    # A class that inherits from a dataclass is not one itself: its own fields would be lost.
    if is_model(shape) or is_struct(shape) or "__dataclass_fields__" in shape.__dict__:
        return shape
    for base in shape.__mro__[1:]:
        parameters = base.__dict__.get("__dataclass_params__")
        if parameters is not None and not parameters.frozen:
            raise InvalidContract(
                f"{shape.__name__} inherits from {base.__name__}, a dataclass that is not frozen; write "
                f"@dataclass(frozen=True) above {base.__name__}, or @dataclass above {shape.__name__}."
            )
    return dataclasses.dataclass(frozen=True, kw_only=True)(shape)


def is_model(shape: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(shape, type) and issubclass(shape, pydantic.BaseModel)


def is_struct(shape: Any) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and isinstance(shape, type) and issubclass(shape, msgspec.Struct)


def _library_schema(shape: type) -> Schema:
    """The schema that the library generates, with the keywords that Duebox finds in the annotations."""
    try:
        classes = _classes_inside(shape)
        schemas, definitions = (_by_pydantic if is_model(shape) else _by_msgspec)(classes)
    except InvalidContract:
        raise
    except Exception as error:  # the libraries raise many types
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise InvalidContract(
            f"{shape.__qualname__} has no JSON Schema ({reason}); use annotations that JSON can represent, with "
            f"classes at "
            "the top of a module."
        ) from error
    schemas, definitions = _with_patterns(schemas), _with_patterns(definitions)
    own = [definitions.get(schema.get("$ref", "").removeprefix(_DEFINITIONS), schema) for schema in schemas]
    for each, schema in zip(classes, own, strict=True):
        _refuse_two_names(each)
        properties = schema.get("properties", {})
        for name, hint in _fields_of(each).items():
            if is_struct(get_origin(each) or each):
                _add_formats(properties.get(name), hint)
            add_annotated(properties.get(name), hint, f"{getattr(each, '__name__', each)}.{name}")
    references = {each.get("$ref") for each in all_schemas(own[0], {"$defs": definitions})}
    used = {name: definitions[name] for name in sorted(definitions) if _DEFINITIONS + name in references}
    return _without_titles({**own[0], **({"$defs": used} if used else {})})


def _by_pydantic(classes: list[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    adapter, mode = sys.modules["pydantic"].TypeAdapter, "serialization"
    inputs = [(number, mode, adapter(each)) for number, each in enumerate(classes)]
    found, document = adapter.json_schemas(inputs)
    return [found[number, mode] for number, _ in enumerate(classes)], document.get("$defs", {})


def _by_msgspec(classes: list[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    found, definitions = sys.modules["msgspec"].json.schema_components(classes, ref_template=_DEFINITIONS + "{name}")
    return list(found), definitions


def _classes_inside(shape: type) -> list[Any]:
    """The class, and every class with fields that it contains."""
    found: list[Any] = [shape]
    for each in found:  # grows during the loop
        for hint in _fields_of(each).values():
            for part in _parts(hint):
                if isinstance(part, str | ForwardRef):  # its PII marks would be missed
                    raise NameError(f"{part!r} in {each!r} is not known")
                kind = get_origin(part) or part
                has_fields = isinstance(kind, type) and any(hasattr(kind, mark) for mark in _MARKS_OF_FIELDS)
                if has_fields and part not in found:
                    found.append(part)
    return found


def _fields_of(shape: Any) -> dict[str, Any]:
    """The annotations of a class by the names that its fields have in the data."""
    kind = get_origin(shape) or shape
    if is_model(kind):
        return dict(_fields_of_model(kind))
    if is_struct(kind):
        return {field.encode_name: field.type for field in sys.modules["msgspec"].structs.fields(shape)}
    if dataclasses.is_dataclass(kind):
        return {field.name: hints_of(kind)[field.name] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return get_type_hints(kind, include_extras=True)


def _fields_of_model(model: Any) -> Iterator[tuple[str, Any]]:
    model.model_rebuild()  # resolves names that were not known when the class was defined
    for name, field in model.model_fields.items():
        if not field.exclude:
            hint = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            yield field.serialization_alias or name, hint
    for name, field in model.model_computed_fields.items():
        yield field.alias or name, field.return_type


def _refuse_two_names(model: Any) -> None:
    """A field must be read under the name that it is written with."""
    for name, field in model.model_fields.items() if is_model(model) else ():
        written, read = field.serialization_alias or name, field.validation_alias or name
        known = list(getattr(read, "choices", [read]))
        if model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name"):
            known.append(name)
        if written not in known:
            raise InvalidContract(
                f"{model.__name__}.{name} is written as {written!r} and read as {read!r}, so the event could not be "
                f"read; give it one name for both, as in Field(alias={written!r})."
            )


def _with_patterns(schema: Any) -> Any:
    """The schema with a pattern for each format that means something else in JSON Schema."""
    if isinstance(schema, list):
        return [_with_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {word: _with_patterns(value) for word, value in schema.items()}
    pattern = _PATTERNS_FOR_FORMATS.get(found["format"]) if isinstance(found.get("format"), str) else None
    if pattern and found.get("type") == "string":
        del found["format"]
        found.setdefault("pattern", pattern)
    return found


def _without_titles(schema: Schema) -> Schema:
    """Remove the names of classes, which are not part of the contract."""
    found = {word: value for word, value in schema.items() if word != "title"}
    for word in ("properties", "$defs"):
        if word in found:
            found[word] = {name: _without_titles(part) for name, part in found[word].items()}
    return found


def add_annotated(schema: Any, hint: Any, place: str) -> None:
    """Add the keywords from `Annotated`, at any depth of the annotation, to the matching part of the schema."""
    if get_origin(hint) is Annotated and isinstance(schema, dict):
        add_annotated(schema, get_args(hint)[0], place)
        described(schema, hint.__metadata__)
    elif _has_keywords(hint):
        inner = _inner(hint)
        places = _places(schema, hint) if isinstance(schema, dict) else []
        if len(places) != len(inner):
            raise InvalidContract(
                f"{place} is annotated with {hint!r}, and the JSON Schema keywords inside of it do not fit into its "
                "schema; put them around the whole annotation, as in Annotated[..., PII]."
            )
        for part, each in zip(places, inner, strict=True):
            add_annotated(part, each, place)


def _add_formats(schema: Any, hint: Any) -> None:
    """Add the formats that msgspec leaves out, in every part of an annotation."""
    if not isinstance(schema, dict):
        return
    if get_origin(hint) is Annotated:
        _add_formats(schema, get_args(hint)[0])
    elif get_origin(hint) in (Union, types.UnionType):
        # In a union of msgspec at most one type is a text in JSON.
        texts = [each for each in schema.get("anyOf", ()) if each.get("type") == "string"]
        for each in get_args(hint):
            for text in texts if each in _MSGSPEC_TEXTS else ():
                _add_formats(text, each)
    elif hint in _MSGSPEC_TEXTS and schema.get("type") == "string":
        for word, value in _MSGSPEC_TEXTS[hint].items():
            schema.setdefault(word, value)
    else:
        for part, each in zip(_places(schema, hint), _inner(hint), strict=False):
            if part is not schema:
                _add_formats(part, each)


def _parts(hint: Any) -> list[Any]:
    """The annotation and everything inside of it."""
    found = [hint]
    for each in found:  # grows during the loop; an alias may contain itself
        found += [part for part in _inner(each) if not any(part is known for known in found)]
    return found


def _inner(hint: Any) -> tuple[Any, ...]:
    for name in ("__value__", "__supertype__"):  # an alias, a NewType
        if hasattr(hint, name):
            return (getattr(hint, name),)
    if get_origin(hint) is Annotated:
        return get_args(hint)[:1]
    return () if get_origin(hint) is Literal else get_args(hint)


def _has_keywords(hint: Any) -> bool:
    extras = (extra for part in _parts(hint) if get_origin(part) is Annotated for extra in part.__metadata__)
    return any(isinstance(extra, Mapping) for extra in extras)


def _places(schema: dict[str, Any], hint: Any) -> list[Any]:
    """The parts of the schema that belong to the parts of the annotation; empty where that is not clear."""
    origin, inner = get_origin(hint), _inner(hint)
    if origin is None:
        return [schema]
    if origin in (Union, types.UnionType):
        values = [choice for choice in schema.get("anyOf", ()) if choice != NULL]
        if len(values) != 1 or len(inner) != 2 or type(None) not in inner:
            return []
        return [NULL if each is type(None) else values[0] for each in inner]
    if origin in MAPPINGS:
        names = schema.setdefault("propertyNames", {}) if _has_keywords(inner[0]) else None
        return [names, schema.get("additionalProperties")]
    if origin is tuple and Ellipsis not in inner:
        return list(schema.get("prefixItems", ()))
    return [schema.get("items"), None][: len(inner)] if origin in LISTS else []
