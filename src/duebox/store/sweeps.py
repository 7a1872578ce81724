"""The rows of a sweep: find those that are due and not stamped lately, stamp them, restore a stamp; and find the rows
whose event ended as a dead letter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

from django.core.exceptions import EmptyResultSet, ValidationError
from django.db import connections
from django.db.models import DateTimeField, Field, Model, Q, QuerySet, Value
from django.db.models.functions import Cast
from django.utils import timezone

from duebox import clock
from duebox.store.run_sql import database_time, run, statement


class Found(NamedTuple):
    """A row that was stamped, its stamp from before as Django reads it, and the new one."""

    pk: Any
    before: datetime | None
    stamp: datetime


class DeadRow(NamedTuple):
    """A row whose event has dead letters."""

    pk: Any
    stamp: datetime
    """The stamp that the row got with this event."""
    letters: Mapping[int, str]
    """The subscriber of each, by delivery id."""
    before: datetime | None = None
    """The stamp as Django reads it, once it was taken away."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which field holds the stamp, and how long a stamp counts; None: for ever. `since` is when the run began: a row
    that is stamped in the run does not come due again in it, however short the window is."""

    stamp: Field[Any, Any]
    again_after: timedelta | None
    since: datetime

    @property
    def owner(self) -> type[Model]:
        """The model whose table has the stamp: with inherited models, not always the one that is swept."""
        model: type[Model] = self.stamp.model
        return model

    @property
    def expired(self) -> datetime | None:
        """A stamp of this moment or earlier does not count any more."""
        return None if self.again_after is None else self.since - self.again_after

    def counts(self, stamp: datetime | None) -> bool:
        return stamp is not None and (self.expired is None or _aware(stamp) > self.expired)

    def unstamped(self) -> Q:
        never = Q((f"{self.stamp.name}__isnull", True))
        if self.expired is None:
            return never
        # As a text with its offset, which means the same whether USE_TZ is on or off.
        expired = Cast(Value(self.expired.isoformat()), DateTimeField())
        return never | Q((f"{self.stamp.name}__lte", expired))


def now(using: str) -> datetime:
    """The time on the database's clock, or on the clock of a test."""
    return clock.override() or datetime.fromtimestamp(database_time(using), UTC)


def narrowed(due: QuerySet[Any], keys: Sequence[Any]) -> QuerySet[Any]:
    """The query about these rows alone, where it has the same answer for each of them as the query about all."""
    return due.filter(pk__in=keys) if may_narrow(due) else due


def may_narrow(due: QuerySet[Any]) -> bool:
    query = due.query
    across = any(getattr(each, "contains_over_clause", False) for each in query.annotations.values())
    return not (query.combinator or query.distinct_fields or across)


def waiting(due: QuerySet[Any], window: Window, using: str) -> QuerySet[Any]:
    """The due rows without a stamp that counts."""
    # As a subquery, `due` may join, group and repeat rows; none of that could be locked.
    return window.owner._base_manager.using(using).filter(window.unstamped(), pk__in=due.values("pk")).order_by("pk")


def waiting_keys(due: QuerySet[Any], window: Window, using: str, *, limit: int) -> list[Any]:
    """Keys of waiting rows as `due` orders them; a key may come twice. At most `limit` of them, unless `due` chooses
    among all rows, so that it has to be read as a whole."""
    if may_narrow(due):
        return list(_ordered(due).filter(window.unstamped()).values_list("pk", flat=True)[:limit])
    keys = list(waiting(due, window, using).values_list("pk", flat=True))
    if not due.query.order_by:
        return keys
    wanted = set(keys)
    return [key for key in due.values_list("pk", flat=True) if key in wanted]


def _ordered(due: QuerySet[Any]) -> QuerySet[Any]:
    """By `order_by` of `due`, else by primary key. The ordering of the model is for display and is not followed: newest
    first would leave the oldest rows behind whenever there is a limit."""
    return due if due.query.extra_order_by else due.order_by(*due.query.order_by, "pk")


def stamp(due: QuerySet[Any], window: Window, using: str, keys: Sequence[Any]) -> list[Found]:
    """Stamp the waiting rows that no other transaction has locked. Returns them in the order of the keys."""
    rows = waiting(narrowed(due, keys), window, using).filter(pk__in=keys)
    # NO KEY: a row is not skipped because another row that refers to it is inserted.
    locked = rows.select_for_update(skip_locked=True, no_key=True)
    try:
        found, params = _compiled(locked.values_list("pk", window.stamp.name), using)
    except EmptyResultSet:  # Django knows without asking: `due` gave queryset.none()
        return []
    key = window.owner._meta.pk
    names = {"table": window.owner._meta.db_table, "stamp": window.stamp.column, "pk": key.column}
    text = statement("sweep_stamp").format(found=found, **{word: _quoted(name, using) for word, name in names.items()})
    params |= {"now": clock.override(), "expired": window.expired}
    with connections[using].cursor() as cursor:
        cursor.execute(text, params)
        stamped = {key.to_python(pk): (before, _aware(after)) for pk, before, after in cursor.fetchall()}
    return [Found(pk, *stamped[pk]) for pk in keys if pk in stamped]


def restore(stamps: Mapping[Any, datetime | None], window: Window, using: str) -> None:
    """Restore these stamps."""
    for pk, before in stamps.items():
        window.owner._base_manager.using(using).filter(pk=pk).update(**{window.stamp.name: before})


def dead_rows(using: str, window: Window, sweep: str, subscribers: Iterable[str], *, limit: int) -> Iterator[DeadRow]:
    """The rows of a sweep with dead letters to one of these subscribers. A letter that holds up an order is left out:
    its handler asked that a person decides."""
    params = {"sweep": sweep, "subscribers": list(subscribers), "limit": limit}
    after = UUID(int=0)
    while rows := run("sweep_dead", using, {**params, "after": after}):
        for event, key, stamped_at, ids, names in rows:
            after = event
            with suppress(ValueError, ValidationError):  # somebody else has put that into the metadata
                pk = window.owner._meta.pk.to_python(key)
                yield DeadRow(pk, datetime.fromisoformat(stamped_at), dict(zip(ids, names, strict=True)))


def hold_dead(using: str, rows: Sequence[DeadRow]) -> list[DeadRow]:
    """Lock the dead letters of these rows. Returns the rows with those that are still dead and not locked elsewhere."""
    held = {row[0] for row in run("sweep_lock", using, {"id": [id for each in rows for id in each.letters]})}
    mine = (each._replace(letters={id: name for id, name in each.letters.items() if id in held}) for each in rows)
    return [each for each in mine if each.letters]


def release(rows: Sequence[DeadRow], window: Window, using: str) -> tuple[list[DeadRow], set[Any]]:
    """Take the stamp away from those rows that still have the one of their event, and give these rows. Also the keys
    of the others whose stamp does not count any more in any case."""
    table = window.owner._base_manager.using(using)
    locked = table.filter(pk__in={each.pk for each in rows}).order_by("pk")
    stamps = dict(locked.select_for_update(skip_locked=True, no_key=True).values_list("pk", window.stamp.name))
    counting = {pk: stamp for pk, stamp in stamps.items() if window.counts(stamp)}
    here = (each._replace(before=counting[each.pk]) for each in rows if each.pk in counting)
    released = [each for each in here if each.before and _aware(each.before) == each.stamp]
    if released:
        table.filter(pk__in=[each.pk for each in released]).update(**{window.stamp.name: None})
    return released, set(stamps) - set(counting)


def give_up_dead(using: str, ids: Sequence[int], note: str) -> None:
    """Discard the dead letters, with a reason in the history."""
    if ids:
        run("delivery_discard", using, {"id": ids, "note": note, "now": None})


def _aware(stamp: datetime) -> datetime:
    """If USE_TZ is off, Django reads naive times in the zone of the server."""
    return timezone.make_aware(stamp) if timezone.is_naive(stamp) else stamp


def _compiled(rows: QuerySet[Any], using: str) -> tuple[str, dict[str, Any]]:
    """The SQL of a queryset with names for its parameters, to be put into a statement that has named ones itself."""
    text, values = rows.query.get_compiler(using).as_sql()
    numbers = count()
    named = re.sub(r"%[%s]", lambda mark: "%%" if mark[0] == "%%" else f"%(found_{next(numbers)})s", text)
    return named, {f"found_{number}": value for number, value in enumerate(values)}


def _quoted(name: Any, using: str) -> str:
    return connections[using].ops.quote_name(name).replace("%", "%%")
