"""The rows of a sweep: find those that are due and not stamped lately, stamp them, give some back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connections
from django.db.models import Field, Model, Q, QuerySet
from django.db.models.functions import Now

from duebox import clock
from duebox.store.statements import statement


class Found(NamedTuple):
    """A row that was stamped, and its stamp from before."""

    pk: Any
    stamp: datetime | None


@dataclass(frozen=True, slots=True)
class Window:
    """Which field holds the stamp, and how long a stamp counts; None: for ever."""

    stamp: Field[Any, Any]
    again_after: timedelta | None

    @property
    def owner(self) -> type[Model]:
        """The model whose table has the stamp: with inherited models, not always the one that is swept."""
        model: type[Model] = self.stamp.model
        return model


def waiting(due: QuerySet[Any], window: Window, using: str, *, beyond: Any = None) -> QuerySet[Any]:
    """The due rows that bear no stamp of this window, by primary key; with `beyond`, those after that key."""
    # As a question inside a question `due` may join, group and repeat rows; none of that could be locked.
    rows = window.owner._base_manager.using(using).filter(_unstamped(window), pk__in=due.values("pk")).order_by("pk")
    return rows if beyond is None else rows.filter(pk__gt=beyond)


def stamp(due: QuerySet[Any], window: Window, using: str, *, limit: int, beyond: Any = None) -> list[Found]:
    """Stamp at most `limit` waiting rows that nobody else holds; gives them in the order of their keys."""
    # NO KEY: a row is not passed over because somebody adds another that refers to it.
    locked = waiting(due, window, using, beyond=beyond).select_for_update(skip_locked=True, no_key=True)
    try:
        found, params = _compiled(locked.values_list("pk", window.stamp.name)[:limit], using)
    except EmptyResultSet:  # Django knows without asking: `due` gave queryset.none()
        return []
    key = window.owner._meta.pk
    names = {"table": window.owner._meta.db_table, "stamp": window.stamp.column, "pk": key.column}
    text = statement("sweep_stamp").format(found=found, **{word: _quoted(name, using) for word, name in names.items()})
    params |= {"now": clock.override(), "again_after": window.again_after}
    with connections[using].cursor() as cursor:
        cursor.execute(text, params)
        return [Found(key.to_python(pk), stamp) for pk, stamp in cursor.fetchall()]


def give_back(rows: Iterable[Found], window: Window, using: str) -> None:
    """Let rows have the stamps from before."""
    for each in rows:
        window.owner._base_manager.using(using).filter(pk=each.pk).update(**{window.stamp.name: each.stamp})


def _unstamped(window: Window) -> Q:
    never = Q((f"{window.stamp.name}__isnull", True))
    if window.again_after is None:
        return never
    now = clock.override()
    before = Now() - window.again_after if now is None else now - window.again_after
    return never | Q((f"{window.stamp.name}__lte", before))


def _compiled(rows: QuerySet[Any], using: str) -> tuple[str, dict[str, Any]]:
    """The SQL of a queryset with names for its parameters, to be put into a statement that has named ones itself."""
    text, values = rows.query.get_compiler(using).as_sql()
    numbers = count()
    named = re.sub(r"%[%s]", lambda mark: "%%" if mark[0] == "%%" else f"%(found_{next(numbers)})s", text)
    return named, {f"found_{number}": value for number, value in enumerate(values)}


def _quoted(name: Any, using: str) -> str:
    return connections[using].ops.quote_name(name).replace("%", "%%")
