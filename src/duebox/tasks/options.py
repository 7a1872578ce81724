"""OPTIONS of a backend in TASKS: a mistake in them would show when the first task fails, and be blamed on others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db import connections

from duebox.destinations.given import only_known
from duebox.destinations.terms import Terms, read_terms
from duebox.exceptions import InvalidDestination
from duebox.outcome import Retry

KNOWN = ("database", "retry")


class Options(NamedTuple):
    database: str = ""
    """The one that is being served, where none is said."""
    retry: Retry = Retry(limit=0)


def read_options(given: Any) -> Options:
    """Raises InvalidDestination with what is wrong."""
    if not isinstance(given, Mapping):
        raise InvalidDestination(f"OPTIONS is a {type(given).__name__}; it must be a dict.")
    only_known("OPTIONS", given, KNOWN)
    return Options(_database(given.get("database", "")), _retry(given.get("retry", {})))


def _database(given: Any) -> str:
    if given and given not in list(connections):
        raise InvalidDestination(
            f"OPTIONS['database'] is {given!r}, which DATABASES does not have; use one of {', '.join(connections)}."
        )
    return str(given or "")


def _retry(given: Any) -> Retry:
    try:
        return read_terms({"RETRY": given}, Terms(retry=Options().retry)).retry
    except InvalidDestination as error:  # there it has another name
        raise InvalidDestination(str(error).replace("RETRY", "OPTIONS['retry']", 1)) from error
