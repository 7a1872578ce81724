"""Triggers on the tables that plans follow, so that every change is seen: by `QuerySet.update()`, by raw SQL, by
another service, by a person in `psql`.

`migrate` installs them. They note the keys of changed rows in the transaction of the change, and `row_changes` plans
these rows again. A save through Django is planned at once and takes its own note away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.db import DatabaseError, connections, models, router
from django.db.models.fields.composite import CompositePrimaryKey

from duebox.conf import conf
from duebox.identities import aggregate_type
from duebox.plans import Plan, plans, watch_mistakes, watched_columns
from duebox.store import followed_tables, row_changes
from duebox.store.brief import Busy, brief
from duebox.store.row_changes import Capture

logger = logging.getLogger("duebox.plans")

LOCK_SECONDS = 2.0
"""How long to wait for a table that somebody uses. All who want to write to it wait behind us meanwhile."""
_KEYS = (models.IntegerField, models.AutoField, models.UUIDField, models.CharField, models.TextField)
"""Fields whose values are written by PostgreSQL as Python writes them."""


class Table(NamedTuple):
    """How a table that plans follow stands."""

    table: str
    sources: tuple[str, ...]
    state: str
    """installed, missing, outdated, or unused: nothing follows the table any more."""
    sql: str
    """What would make it right; empty if it is."""
    error: str = ""
    """Why that was not possible."""


class Unfollowed(NamedTuple):
    """A model that plans follow and that cannot have triggers: only saves and deletions through Django are seen."""

    model: type[models.Model]
    plans: tuple[str, ...]
    why: str


def captures(using: str) -> list[Capture]:
    """The triggers that the plans of this project need in a database, by table. Without the CAPTURE setting, none."""
    wanted: dict[str, Capture] = {}
    if not conf().CAPTURE:
        return []
    for plan in plans():
        for model, watch in _models(plan):
            if _why_not(model):
                continue  # their saves are followed by signals only
            for part in _parts(model):
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
        found.append(Table(table, (), "unused", row_changes.remove_sql(table, has.function)))
    return found


def install(using: str) -> list[Table]:
    """Make the triggers what they should be; gives what was changed, and what could not be. Such a table is left as it
    is, and a check says so: there, saves and deletions through Django are followed all the same."""
    return [each._replace(error=_execute(using, each)) for each in tables(using) if each.sql]


def unfollowed(using: str) -> list[Unfollowed]:
    """The models that plans follow and that cannot have triggers in a database."""
    names: dict[type[models.Model], list[str]] = {}
    for plan in plans() if conf().CAPTURE else ():
        for model, _ in _models(plan):
            if router.allow_migrate_model(using, model):
                names.setdefault(model, []).append(plan.name)
    found = [(model, _why_not(model) or _why_not_here(using, model)) for model in names]
    return [Unfollowed(model, tuple(names[model]), why) for model, why in found if why]


def is_ready(using: str) -> bool:
    """Whether a database has the table that the triggers write to. It may be another one, or in an older state."""
    return connections[using].vendor == "postgresql" and bool(row_changes.resolved(using, "duebox_row_change"))


def after_migrate(*, using: str, **kwargs: Any) -> None:
    """Receives `post_migrate`, which must go on whatever is wrong here. `flush` sends it too, without a plan: it has
    truncated all tables, and the triggers have noted that of those that plans follow."""
    try:
        if not is_ready(using):
            return
        if "plan" not in kwargs:
            followed_tables.forget_changes(using)
            return
        for plan in plans():
            for mistake in watch_mistakes(plan):
                logger.warning("watch is not used, changes of all fields count: %s", mistake)
        install(using)
    except DatabaseError as error:
        logger.warning("no triggers: database=%s error=%s", using, str(error).strip())


def _execute(using: str, table: Table) -> str:
    """Why it was not possible; empty if it was."""
    try:
        with brief(using, LOCK_SECONDS):
            row_changes.execute_sql(using, table.sql)
    except (DatabaseError, Busy) as error:
        why = str(error).strip() or f"the table was locked for {LOCK_SECONDS:g} s"
        logger.warning("no triggers: table=%s error=%s", table.table, why)
        return why
    return ""


def _models(plan: Plan) -> Iterator[tuple[type[models.Model], tuple[str, ...]]]:
    yield plan.model, watched_columns(plan)
    for other in plan.follows:
        yield other, ()


def _parts(model: type[models.Model]) -> list[type[models.Model]]:
    """The models in whose tables the rows of a model are."""
    return [each for each in (model, *model._meta.all_parents) if not each._meta.proxy]


def _why_not(model: type[models.Model]) -> str:
    key: Any = model._meta.pk
    if isinstance(key, CompositePrimaryKey):
        return "it has a composite primary key"
    chain = {model}
    while key.remote_field is not None:
        key = key.target_field
        chain.add(key.model)
    if not chain.issuperset(_parts(model)):
        return "it inherits from several models with keys of their own"
    if not isinstance(key, _KEYS) or hasattr(key, "from_db_value"):
        return f"its primary key is a {type(key).__name__}"
    return "" if all(part._meta.managed for part in _parts(model)) else "Django does not manage its table"


def _why_not_here(using: str, model: type[models.Model]) -> str:
    quoted = connections[using].ops.quote_name
    kinds = set().union(*(followed_tables.kinds(using, quoted(part._meta.db_table)) for part in _parts(model)))
    if "f" in kinds:
        return "it has a foreign table" if len(kinds) == 1 else "a partition of its table is a foreign table"
    return "it has a view in the place of a table" if kinds & {"v", "m"} else ""


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
