"""A class as a JSON Schema, an instance as plain data, and back: dataclasses, and pydantic and msgspec where installed.

email: Annotated[str, "Where the invitation went", PII]     # a text describes, a dict adds words of JSON Schema
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from duebox.contracts import hints
from duebox.exceptions import InvalidContract

Schema = dict[str, Any]


def schema_of(shape: type) -> Schema:
    """The schema of the data that instances of a class carry."""
    if _is_pydantic(shape):
        return _without_titles(shape.model_json_schema(mode="serialization"))  # type: ignore[attr-defined]
    if _is_msgspec(shape):
        return _unwrapped(sys.modules["msgspec"].json.schema(shape))
    if dataclasses.is_dataclass(shape):
        definitions: dict[str, Schema] = {}
        found = hints.object_schema(shape, definitions)
        return {**found, **({"$defs": definitions} if definitions else {})}
    raise InvalidContract(
        f"{shape!r} is not a class that describes data; use a plain class with annotations, a dataclass, a pydantic "
        "model or a msgspec Struct."
    )


def data_of(instance: Any) -> dict[str, Any]:
    """The data that an instance carries, ready for the checks of a payload."""
    if _is_pydantic(type(instance)):
        return dict(instance.model_dump(mode="json"))
    if _is_msgspec(type(instance)):
        return dict(sys.modules["msgspec"].to_builtins(instance))
    return hints.carried(instance)


def instance_of(shape: type, data: dict[str, Any]) -> Any:
    """The instance that carries the data: the way back from `data_of`."""
    if _is_pydantic(shape):
        return shape.model_validate(data)  # type: ignore[attr-defined]
    if _is_msgspec(shape):
        return sys.modules["msgspec"].convert(data, shape)
    return hints.filled(shape, data)


def prepared(shape: type) -> type:
    """The class, made a frozen dataclass if it is a plain one."""
    # A class below a dataclass is none itself: its own fields would be lost.
    if _is_pydantic(shape) or _is_msgspec(shape) or "__dataclass_fields__" in shape.__dict__:
        return shape
    return dataclasses.dataclass(frozen=True, kw_only=True)(shape)


def _is_pydantic(shape: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(shape, type) and issubclass(shape, pydantic.BaseModel)


def _is_msgspec(shape: type) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and isinstance(shape, type) and issubclass(shape, msgspec.Struct)


def _unwrapped(schema: Schema) -> Schema:
    """msgspec puts the class itself among the definitions."""
    definitions = dict(schema.get("$defs", {}))
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    if name not in definitions:
        return schema
    own = definitions[name]
    if f'"#/$defs/{name}"' not in repr(own).replace("'", '"'):
        del definitions[name]
    return {**_without_titles(own), **({"$defs": definitions} if definitions else {})}


def _without_titles(schema: Schema) -> Schema:
    """The names of classes are nobody's contract."""
    found = {word: value for word, value in schema.items() if word != "title"}
    for word in ("properties", "$defs"):
        if word in found:
            found[word] = {name: _without_titles(part) for name, part in found[word].items()}
    return found
