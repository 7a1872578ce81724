"""Loads the statements and runs them on a Django connection, in whatever transaction the caller is in."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from django.db import ProgrammingError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from psycopg.errors import UndefinedColumn, UndefinedFunction, UndefinedTable

from duebox import clock
from duebox.exceptions import NotReady

KEPT_PLANS = frozenset({"claim", "next_due", "schedule_fire", "settle_delivered"})
"""Statements that call a function whose plan the server keeps for the session."""
SLOW_SECONDS = 0.05
DISCARD_AGAIN_SECONDS = 5.0
_discarded_at: WeakKeyDictionary[BaseDatabaseWrapper, float] = WeakKeyDictionary()


@cache
def statement(name: str) -> str:
    text = files("duebox.store").joinpath("sql", f"{name}.sql").read_text()
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


def number_array(numbers: Iterable[float | str]) -> str:
    """An array literal. psycopg's own way through lists costs several times as much."""
    return f"{{{','.join(map(str, numbers))}}}"


def text_array(texts: Iterable[str | None]) -> str:
    """An array literal of quoted texts; None is NULL."""
    values = texts if isinstance(texts, tuple) else tuple(texts)
    if values and values.count(values[0]) == len(values):  # half of the columns of a batch say the same in each row
        return f"{{{','.join([_quoted(values[0])] * len(values))}}}"
    return f"{{{','.join(map(_quoted, values))}}}"


def _quoted(text: str | None) -> str:
    if text is None:
        return "NULL"
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def run(name: str, using: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The rows that one statement returns. `now`, where it asks for it, is the clock's unless given."""
    begun = time.perf_counter()
    with _cursor(using) as cursor:
        cursor.execute(statement(name), _with_now(params))
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        if name in KEPT_PLANS and time.perf_counter() - begun > SLOW_SECONDS:
            _discard_plans(cursor)
        return rows


def _discard_plans(cursor: CursorWrapper) -> None:
    """Let the server plan anew. A plan that was made while a table was empty may read a whole index for each row: with
    10,000 events a claim took 250 ms instead of 5 ms, until the next ANALYZE. Other things are slow, too, so not often.
    """
    now = time.monotonic()
    if now - _discarded_at.get(cursor.db, float("-inf")) > DISCARD_AGAIN_SECONDS:
        _discarded_at[cursor.db] = now
        cursor.execute("DISCARD PLANS")


def execute(name: str, using: str, params: dict[str, Any]) -> None:
    """A statement that returns no rows."""
    with _cursor(using) as cursor:
        cursor.execute(statement(name), _with_now(params))


def _with_now(params: dict[str, Any]) -> dict[str, Any]:
    return params if params.get("now") is not None else {**params, "now": clock.override()}


@contextmanager
def _cursor(using: str) -> Iterator[CursorWrapper]:
    with migrated(using), connections[using].cursor() as cursor:
        yield cursor


@contextmanager
def migrated(using: str) -> Iterator[None]:
    """For queries on Duebox's own tables: one that is missing is answered with the migrate command."""
    try:
        yield
    except ProgrammingError as error:
        if isinstance(error.__cause__, UndefinedTable | UndefinedColumn | UndefinedFunction):
            raise NotReady(
                f"Database {using!r} lacks the Duebox tables ({_missing(error)}); "
                f"run: manage.py migrate duebox --database {using}"
            ) from error
        raise


def _missing(error: ProgrammingError) -> str:
    """What PostgreSQL says is missing; a function without the types of its arguments."""
    return re.sub(r"\(.*\)", "", str(error).splitlines()[0])
