"""An event as an instance of the class that declares it."""

from __future__ import annotations

from typing import Any, TypeVar

from duebox.contracts import shapes, types
from duebox.contracts.upcasting import current
from duebox.exceptions import UnsupportedVersion
from duebox.fact import Fact

T = TypeVar("T")


def read(fact: Fact, shape: type[T] | None = None) -> Any:
    """`read(event, MemberInvited)` in a handler: the data as the class that was emitted, in the newest version."""
    fact = current(fact)
    if shape is not None:
        return shapes.instance_of(shape, fact.data)
    kind = types.versions_of(fact.type).get(fact.version)
    if kind is None or kind.shape is None:
        raise UnsupportedVersion(fact.type, fact.version, " as a class")
    return shapes.instance_of(kind.shape, fact.data)
