"""A class as a JSON Schema, an instance as plain data, and back: dataclasses, and pydantic and msgspec where installed.

email: Annotated[str, "Where the invitation went", PII]     # a text describes, a dict adds words of JSON Schema
"""

from __future__ import annotations

import dataclasses
from typing import Any

from duebox.contracts import foreign, hints, instances
from duebox.exceptions import InvalidContract

Schema = dict[str, Any]


def schema_of(shape: type) -> Schema:
    """The schema of the data that instances of a class carry."""
    if _is_foreign(shape):
        return foreign.schema_of(shape)
    if dataclasses.is_dataclass(shape):
        definitions = hints.Definitions()
        found = hints.object_schema(shape, definitions)
        return {**found, **({"$defs": definitions.schemas} if definitions.schemas else {})}
    raise InvalidContract(
        f"{shape!r} is not a class that describes data; use a plain class with annotations, a dataclass, a pydantic "
        "model or a msgspec Struct."
    )


def data_of(instance: Any) -> dict[str, Any]:
    """The data that an instance carries, ready for the checks of a payload."""
    return foreign.data_of(instance) if _is_foreign(type(instance)) else instances.carried(instance)


def instance_of(shape: type, data: dict[str, Any]) -> Any:
    """The instance that carries the data: the way back from `data_of`."""
    return foreign.instance_of(shape, data) if _is_foreign(shape) else instances.filled(shape, data)


def prepared(shape: type) -> type:
    """The class, made a frozen dataclass if it is a plain one."""
    # A class below a dataclass is none itself: its own fields would be lost.
    if _is_foreign(shape) or "__dataclass_fields__" in shape.__dict__:
        return shape
    for base in shape.__mro__[1:]:
        settings = base.__dict__.get("__dataclass_params__")
        if settings is not None and not settings.frozen:
            raise InvalidContract(
                f"{shape.__name__} stands below {base.__name__}, a dataclass that is not frozen; write "
                f"@dataclass(frozen=True) above {base.__name__}, or @dataclass above {shape.__name__}."
            )
    return dataclasses.dataclass(frozen=True, kw_only=True)(shape)


def _is_foreign(shape: type) -> bool:
    return foreign.is_model(shape) or foreign.is_struct(shape)
