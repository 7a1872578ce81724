"""Words of JSON Schema in annotations, brought into a schema that somebody else made of the same annotations."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from duebox.contracts.hints import LISTS, MAPPINGS, described
from duebox.exceptions import InvalidContract


def write(schema: Any, hint: Any, where: str) -> None:
    """Add what stands in `Annotated`, wherever in the annotation, to the part of the schema that it speaks of."""
    if get_origin(hint) is Annotated and isinstance(schema, dict):
        write(schema, get_args(hint)[0], where)
        described(schema, hint.__metadata__)
    elif _has_words(hint):
        inside = inner_of(hint)
        places = places_of(schema, hint) if isinstance(schema, dict) else []
        if len(places) != len(inside):
            raise InvalidContract(
                f"{where} is annotated with {hint!r}, and the words of JSON Schema inside of it have no place in its "
                "schema; put them around the whole annotation, as in Annotated[..., PII]."
            )
        for place, each in zip(places, inside, strict=True):
            write(place, each, where)


def parts_of(hint: Any) -> list[Any]:
    """The annotation and everything that it is made of."""
    found = [hint]
    for each in found:  # it grows meanwhile, and an alias may hold itself
        found += [part for part in inner_of(each) if not any(part is known for known in found)]
    return found


def inner_of(hint: Any) -> tuple[Any, ...]:
    for name in ("__value__", "__supertype__"):  # an alias, a NewType
        if hasattr(hint, name):
            return (getattr(hint, name),)
    if get_origin(hint) is Annotated:
        return get_args(hint)[:1]
    return () if get_origin(hint) is Literal else get_args(hint)


def _has_words(hint: Any) -> bool:
    extras = (extra for part in parts_of(hint) if get_origin(part) is Annotated for extra in part.__metadata__)
    return any(isinstance(extra, Mapping) for extra in extras)


def places_of(schema: dict[str, Any], hint: Any) -> list[Any]:
    """The parts of the schema that the parts of the annotation became; none where that is not plain."""
    origin, inside = get_origin(hint), inner_of(hint)
    if origin is None:
        return [schema]
    if origin in (Union, types.UnionType):
        return _of_choices(schema, inside)
    if origin in MAPPINGS:
        names = schema.setdefault("propertyNames", {}) if _has_words(inside[0]) else None
        return [names, schema.get("additionalProperties")]
    if origin is tuple and Ellipsis not in inside:
        return list(schema.get("prefixItems", ()))
    return [schema.get("items"), None][: len(inside)] if origin in LISTS else []


def _of_choices(schema: dict[str, Any], inside: tuple[Any, ...]) -> list[Any]:
    """Of a value that may be null: which of the two choices is the value is beyond doubt."""
    null = {"type": "null"}
    values = [choice for choice in schema.get("anyOf", ()) if choice != null]
    if len(values) != 1 or len(inside) != 2 or type(None) not in inside:
        return []
    return [null if each is type(None) else values[0] for each in inside]
