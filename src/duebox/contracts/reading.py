"""An event as an instance of the class that declares it."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from duebox.contracts import shapes, types
from duebox.contracts.upcasting import at_version, current
from duebox.exceptions import InvalidContract, UnsupportedVersion
from duebox.fact import Fact

T = TypeVar("T")


@overload
def read(fact: Fact, shape: type[T]) -> T: ...
@overload
def read(fact: Fact, shape: None = None) -> Any: ...
def read(fact: Fact, shape: type[T] | None = None) -> Any:
    """`read(event, MemberInvited)`: the data as an instance of the class, in the version that the class declares.

    Without a class it is the one that declares the newest version. Data that the schema of the class refuses raises
    `InvalidPayload`; fields that the schema does not know are left out.
    """
    kind = types.type_of(shape) if shape is not None else None
    fact = current(fact) if kind is None else as_declared(fact, kind)
    if shape is not None and kind is None:
        return shapes.instance_of(shape, fact.data)
    kind = kind or types.versions_of(fact.type).get(fact.version)
    if kind is None or kind.shape is None:
        raise UnsupportedVersion(fact.type, fact.version, " as a class")
    kind.refuse_unreadable(fact.data)
    return shapes.instance_of(kind.shape, fact.data)


def as_declared(fact: Fact, kind: types.EventType) -> Fact:
    """The event in the version that a type declares."""
    name = kind.shape.__name__ if kind.shape else kind.name
    if fact.type != kind.name:
        raise InvalidContract(
            f"{name} declares {kind.name!r}, and the event is {fact.type!r}; read it as the class that declares that."
        )
    return at_version(fact, kind.version, name)
