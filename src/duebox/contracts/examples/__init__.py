"""An example of an event, made from its schema: for documents, and for whoever wants to see one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from duebox.contracts.compat.document import Document
from duebox.contracts.compat.search import Search
from duebox.contracts.examples.making import Maker
from duebox.contracts.strict import closed
from duebox.contracts.validation import compiled

__all__ = ["example"]


def example(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Data that may be emitted under the schema, the same at every call; None if there seems to be none.

    It is written to be read: with every field, and values that look like what their names say. Where the fields of a
    schema depend on each other in ways that no reading order finds, any valid event will do.
    """
    takes = compiled(closed(schema)).is_valid
    return next((each for each in _tried(schema) if isinstance(each, dict) and takes(each)), None)


def _tried(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield from Maker(Document(closed(schema))).events()
    yield from Search(Document(dict(schema)), Document(dict(schema))).events()
