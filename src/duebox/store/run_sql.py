"""Run the statements of `sql/` on a Django connection, in the caller's transaction; transactions with a short lock or
statement timeout; the database's clock.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from django.db import OperationalError, ProgrammingError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.models import F, Lookup, Q, fields
from django.db.models.fields.composite import CompositePrimaryKey
from psycopg.errors import LockNotAvailable, QueryCanceled, UndefinedColumn, UndefinedFunction, UndefinedTable

from duebox import clock
from duebox.exceptions import NotReady

KEPT_PLANS = frozenset({"claim", "next_due", "schedule_fire", "settle_delivered"})
"""Statements that call a function whose plan the server keeps for the session."""
SLOW_SECONDS = 0.05
_NUL, _BETWEEN = "\0", '","'
DISCARD_AGAIN_SECONDS = 5.0
_discarded_at: WeakKeyDictionary[BaseDatabaseWrapper, float] = WeakKeyDictionary()


def read(name: str) -> str:
    """The text of a file in `sql/`, as "claim" or "functions/duebox_claim"."""
    return files("duebox.store").joinpath("sql", f"{name}.sql").read_text()


@cache
def statement(name: str) -> str:
    return "\n".join(line for line in read(name).splitlines() if not line.lstrip().startswith("--"))


def number_array(numbers: Iterable[float | str]) -> str:
    """An array literal. psycopg's own way through lists costs several times as much."""
    return f"{{{','.join(map(str, numbers))}}}"


def text_array(texts: Iterable[str | None]) -> str:
    """An array literal of quoted texts; None is NULL."""
    values = texts if isinstance(texts, tuple) else tuple(texts)
    if not values:
        return "{}"
    if values.count(values[0]) == len(values):  # half of the columns of a batch say the same in each row
        return f"{{{','.join([_quoted(values[0])] * len(values))}}}"
    if None not in values:
        joined = _NUL.join(values)  # type: ignore[arg-type]
        if joined.count(_NUL) == len(values) - 1:  # else one holds a NUL, and the driver refuses it
            # All at once, which takes a quarter of the time.
            return f"{{{_quoted(joined).replace(_NUL, _BETWEEN)}}}"
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
    try:
        with connections[using].cursor() as cursor:
            cursor.execute(statement(name), _with_now(params))
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            if name in KEPT_PLANS and time.perf_counter() - begun > SLOW_SECONDS:
                _discard_plans(cursor)
            return rows
    except ProgrammingError as error:  # no context manager: `emit` runs through here
        _refuse_if_not_migrated(error, using)
        raise


def _discard_plans(cursor: CursorWrapper) -> None:
    """Let the server plan again. A plan that was made while a table was empty may read a whole index for each row: with
    10,000 events a claim took 250 ms instead of 5 ms, until the next ANALYZE. Other things are slow, too, so not often.
    """
    now = time.monotonic()
    if now - _discarded_at.get(cursor.db, float("-inf")) > DISCARD_AGAIN_SECONDS:
        _discarded_at[cursor.db] = now
        cursor.execute("DISCARD PLANS")


def execute(name: str, using: str, params: dict[str, Any]) -> None:
    """A statement that returns no rows."""
    with migrated(using), connections[using].cursor() as cursor:
        cursor.execute(statement(name), _with_now(params))


def _with_now(params: dict[str, Any]) -> dict[str, Any]:
    return params if params.get("now") is not None else {**params, "now": clock.override()}


@contextmanager
def migrated(using: str) -> Iterator[None]:
    """For queries on Duebox's own tables: one that is missing is answered with the migrate command."""
    try:
        yield
    except ProgrammingError as error:
        _refuse_if_not_migrated(error, using)
        raise


def _refuse_if_not_migrated(error: ProgrammingError, using: str) -> None:
    if isinstance(error.__cause__, UndefinedTable | UndefinedColumn | UndefinedFunction):
        raise NotReady(
            f"Database {using!r} lacks the Duebox tables ({_missing(error)}); "
            f"run: manage.py migrate duebox --database {using}"
        ) from error


def _missing(error: ProgrammingError) -> str:
    """What PostgreSQL says is missing; a function without the types of its arguments."""
    return re.sub(r"\(.*\)", "", str(error).splitlines()[0])


def any_of(name: str, values: Iterable[Any]) -> AnyOf:
    """Rows whose field has one of the values. As one array they cost a tenth of what `__in` makes of two thousand."""
    return AnyOf(F(name), list(values))


PLAIN = (fields.TextField, fields.CharField, fields.AutoField, fields.BigAutoField, fields.UUIDField)
"""Of these fields, the text of a value is what the database reads."""


class AnyOf(Lookup):
    lookup_name = "any_of"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        field = self.lhs.output_field
        left, params = self.process_lhs(compiler, connection)
        values = self.rhs
        if type(field) not in PLAIN:
            values = (field.get_db_prep_value(value, connection, prepared=False) for value in values)
        return f"{left} = ANY(%s::{field.db_type(connection)}[])", (*params, text_array(map(str, values)))


def with_keys(values: Iterable[Any], model: Any) -> AnyOf | Q:
    """Rows by primary key."""
    if isinstance(model._meta.pk, CompositePrimaryKey):
        return Q(pk__in=list(values))
    return any_of("pk", values)


PATIENCE_SECONDS = 0.5


class Busy(Exception):
    """Another transaction holds the lock; nothing was done."""


@contextmanager
def lock_timeout(using: str, seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """A transaction that ends with `Busy` where it would have to wait longer than this for a lock. The transaction
    around it, if there is one, waits as long as before."""
    try:
        is_inner = connections[using].in_atomic_block
        with transaction.atomic(using=using):
            [(before, _)] = run("lock_timeout", using, {"timeout": f"{int(seconds * 1000)}ms"})
            yield
            if is_inner:
                run("lock_timeout", using, {"timeout": before})
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise Busy from error
        raise


class TooSlow(Exception):
    """A statement took longer than it may; the transaction was rolled back."""


@contextmanager
def statement_timeout(using: str, seconds: float) -> Iterator[None]:
    """A transaction that ends with `TooSlow` where one of its statements takes longer than this. Around it, if there is
    a transaction, statements may take as long as before."""
    try:
        is_inner = connections[using].in_atomic_block
        with transaction.atomic(using=using):
            [(before, _)] = run("statement_timeout", using, {"timeout": f"{int(seconds * 1000)}ms"})
            yield
            if is_inner:
                run("statement_timeout", using, {"timeout": before})
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise TooSlow from error
        raise


def database_time(using: str) -> float:
    """Seconds since 1970."""
    now: float = run("database_time", using, {})[0][0]
    return now


def now(using: str) -> datetime:
    """One round trip a minute; in between the clock of this process is used with the known difference."""
    if clock.override() is None and clock.database.is_stale():
        asked_at = time.perf_counter()
        clock.database.set(database_time(using), asked_at)
    return clock.now()
