"""Triggers on the tables that plans follow, so that a change is seen whoever makes it: `QuerySet.update()`, raw SQL,
another service, a person in `psql`.

`migrate` installs them. They note the keys of changed rows in the transaction of the change, and `row_changes` plans
these rows again. A save through Django is planned at once, as before, and takes its own note away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.core.exceptions import FieldDoesNotExist
from django.db import DatabaseError, connections, models, router, transaction
from django.db.models.fields.composite import CompositePrimaryKey

from duebox.exceptions import InvalidPlan
from duebox.identities import aggregate_type
from duebox.plans import Plan, plans
from duebox.store import row_changes
from duebox.store.row_changes import Capture

logger = logging.getLogger("duebox.plans")


class Table(NamedTuple):
    """How a table that plans follow stands."""

    table: str
    sources: tuple[str, ...]
    state: str
    """installed, missing, outdated, or unused: nothing follows the table any more."""
    sql: str
    """What would make it right; empty if it is."""


def captures(using: str) -> list[Capture]:
    """The triggers that the plans of this project need in a database, by table."""
    wanted: dict[str, Capture] = {}
    for plan in plans():
        for model, watch in _models(plan):
            if isinstance(model._meta.pk, CompositePrimaryKey) or not model._meta.managed:
                continue  # their saves are followed by signals only
            for part in (model, *model._meta.all_parents):
                if router.allow_migrate_model(using, part):
                    _add(wanted, using, part, aggregate_type(model), watch)
    return sorted(wanted.values())


def tables(using: str) -> list[Table]:
    """Every table that plans follow or followed, and what has to be done about it."""
    present = {each.table: each for each in row_changes.installed(using)}
    found = []
    for capture in captures(using):
        for table in row_changes.resolved(using, capture.table):
            has = present.pop(table, None)
            state = "missing" if has is None else "installed"
            if has is not None and has.comment != row_changes.comment_of(capture):
                state = "outdated"
            sql = "" if state == "installed" else row_changes.install_sql(using, table, capture)
            found.append(Table(table, capture.sources, state, sql))
    for table, has in present.items():
        found.append(Table(table, (), "unused", row_changes.remove_sql(has.function)))
    return found


def install(using: str) -> list[Table]:
    """Make the triggers what they should be; gives what was changed. A table where that is not possible is left as it
    is, and a check says so: there, saves and deletes through Django are followed all the same."""
    changed = [each for each in tables(using) if each.sql]
    for each in changed:
        try:
            with transaction.atomic(using=using):
                row_changes.execute_sql(using, each.sql)
        except DatabaseError as error:
            logger.warning("no triggers: table=%s error=%s", each.table, str(error).strip())
    return changed


def after_migrate(*, using: str, plan: Any = (), **kwargs: Any) -> None:
    """Receives `post_migrate`. Duebox's own tables may not be there, in another database or before an older state."""
    if connections[using].vendor == "postgresql" and row_changes.resolved(using, "duebox_row_change"):
        install(using)


def _models(plan: Plan) -> Iterator[tuple[type[models.Model], tuple[str, ...]]]:
    yield plan.model, _columns(plan)
    for other in plan.follows:
        yield other, ()


def _columns(plan: Plan) -> tuple[str, ...]:
    """The columns of the fields that a plan watches; none for all of them."""
    try:
        return tuple(sorted(str(plan.model._meta.get_field(name).column) for name in plan.watch))  # type: ignore[union-attr]
    except FieldDoesNotExist as error:
        raise InvalidPlan(f"{plan.name} watches a field that there is not. {error}") from None


def _add(wanted: dict[str, Capture], using: str, part: Any, source: str, watch: tuple[str, ...]) -> None:
    """The table of a model, or of a model that it inherits from, holds rows of this type."""
    columns = {field.column for field in part._meta.local_fields}
    watch = tuple(each for each in watch if each in columns) or watch
    table = connections[using].ops.quote_name(part._meta.db_table)
    before = wanted.get(table)
    if before is not None:
        watch = tuple(sorted({*before.watch, *watch})) if before.watch and watch else ()
        source_names = tuple(sorted({*before.sources, source}))
    else:
        source_names = (source,)
    wanted[table] = Capture(table, part._meta.pk.column, source_names, tuple(e for e in watch if e in columns))
