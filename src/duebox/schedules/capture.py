"""Triggers on the tables that plans and the audit log follow, and planning of the rows whose changes they noted.

`migrate` installs the triggers. Those of plans note the keys of changed rows in the transaction of the change, and
`plan_changes` plans these rows again. A save through Django is planned at once and removes its own note. Those of the
audit log write its entries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError, OperationalError, connections, models, router

from duebox.audit_log import triggers
from duebox.context.current import detached
from duebox.events.identities import aggregate_type, key_from_text, text_of_key
from duebox.schedules.plan_signals import lookups_to
from duebox.schedules.plan_sync import reconcile_rows, sync_rows
from duebox.schedules.plans import Plan, plans, watch_mistakes, watched_columns
from duebox.store import audit_triggers, row_changes
from duebox.store.row_changes import Capture, Change
from duebox.store.run_sql import Busy, lock_timeout

logger = logging.getLogger("duebox.plans")

PLANS, AUDIT = "plans", "audit"
"""What triggers are for."""
PREFIXES = {PLANS: row_changes.PREFIX, AUDIT: audit_triggers.PREFIX}
TRIGGER_LOCK_SECONDS = 2.0
"""How long to wait for a table that somebody uses. All who want to write to it wait behind us meanwhile."""
_KEYS = (models.IntegerField, models.AutoField, models.UUIDField, models.CharField, models.TextField)
"""Fields whose values are written by PostgreSQL as Python writes them."""


class Table(NamedTuple):
    """How the triggers of a table stand, those of plans or those of the audit log."""

    table: str
    purpose: str
    sources: tuple[str, ...]
    state: str
    """installed, missing, outdated, or unused: nothing follows the table any more."""
    sql: str
    """What would make it right; empty if it is."""
    error: str = ""
    """Why that was not possible."""


class _Wanted(NamedTuple):
    """The triggers that a table should have."""

    sources: tuple[str, ...]
    comment: str
    """On their function."""
    sql: str


class Unfollowed(NamedTuple):
    """A followed model that cannot have triggers: only saves and deletions through Django are seen."""

    model: type[models.Model]
    plans: tuple[str, ...]
    why: str


def captures(using: str) -> list[Capture]:
    """The triggers that the plans of this project need in a database, by table."""
    wanted: dict[str, Capture] = {}
    for plan in plans():
        for model, watch in _models(plan):
            if _why_not(model):
                continue  # their saves are followed by signals only
            for part in _parts(model):
                if router.allow_migrate_model(using, part):
                    _add(wanted, using, part, aggregate_type(model), watch)
    return sorted(wanted.values())


def tables(using: str) -> list[Table]:
    """Every table that plans or the audit log follow or followed, and what has to be done about it."""
    return sorted([*_tables_of_plans(using), *_tables_of_audit(using)], key=lambda each: each.state == "unused")


def _tables_of_plans(using: str) -> Iterator[Table]:
    wanted = {}
    for each in captures(using):
        tables = row_changes.resolved(using, each.table)
        capture = each._replace(has_parts=len(tables) > 1 or "p" in row_changes.kinds(using, each.table))
        for table in tables:
            sql = row_changes.install_sql(using, table, capture)
            wanted[table] = _Wanted(capture.sources, row_changes.comment_of(capture), sql)
    return _compared(using, PLANS, wanted)


def _tables_of_audit(using: str) -> Iterator[Table]:
    wanted = {}
    for name, records in triggers.recordings(using).items() if triggers.can_record(using) else ():
        sources = tuple(sorted({each.kind for each in records}))
        for table in row_changes.resolved(using, name):
            sql = audit_triggers.install_sql(using, table, records)
            wanted[table] = _Wanted(sources, audit_triggers.comment_in(sql), sql)
    return _compared(using, AUDIT, wanted)


def _compared(using: str, purpose: str, wanted: dict[str, _Wanted]) -> Iterator[Table]:
    prefix = PREFIXES[purpose]
    present = {each.table: each for each in row_changes.installed(using, prefix)}
    for table, each in wanted.items():
        has = present.pop(table, None)
        state = "missing" if has is None else "installed" if has.comment == each.comment else "outdated"
        yield Table(table, purpose, each.sources, state, "" if state == "installed" else each.sql)
    for table, has in present.items():
        yield Table(table, purpose, (), "unused", row_changes.remove_sql(table, has.function, prefix))


def install(using: str) -> list[Table]:
    """Make the triggers what they should be; gives what was changed, and what could not be. Such a table is left as it
    is, and a check says so: there, saves and deletions through Django are followed all the same."""
    changed = [each._replace(error=_execute(using, each)) for each in tables(using) if each.sql]
    triggers.write_key(using)
    return changed


def unfollowed(using: str) -> list[Unfollowed]:
    """The models that plans follow and that cannot have triggers in a database."""
    names: dict[type[models.Model], list[str]] = {}
    for plan in plans():
        for model, _ in _models(plan):
            if router.allow_migrate_model(using, model):
                names.setdefault(model, []).append(plan.name)
    found = [(model, _why_not(model) or _why_not_here(using, model)) for model in names]
    return [Unfollowed(model, tuple(names[model]), why) for model, why in found if why]


def is_ready(using: str) -> bool:
    """Whether a database has the table that the triggers write to. It may be another one, or in an older state."""
    return connections[using].vendor == "postgresql" and bool(row_changes.resolved(using, "duebox_row_change"))


def after_migrate(*, using: str, **kwargs: Any) -> None:
    """Receives `post_migrate`, which must go on whatever is wrong here. `flush` sends it too, without a plan."""
    try:
        if not is_ready(using):
            return
        if "plan" not in kwargs:
            triggers.write_key(using)
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
        with lock_timeout(using, TRIGGER_LOCK_SECONDS):
            row_changes.execute_sql(using, table.sql)
    except (DatabaseError, Busy) as error:
        why = str(error).strip() or f"the table was locked for {TRIGGER_LOCK_SECONDS:g} s"
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
    options: Any = model._meta
    for key in options.pk_fields:
        chain = {model}
        while key.remote_field is not None:
            key = key.target_field
            chain.add(key.model)
        if not isinstance(key, _KEYS) or hasattr(key, "from_db_value"):
            return f"its primary key is a {type(key).__name__}"
    if not chain.issuperset(_parts(model)):
        return "it inherits from several models with keys of their own"
    return "" if all(part._meta.managed for part in _parts(model)) else "Django does not manage its table"


def _why_not_here(using: str, model: type[models.Model]) -> str:
    quoted = connections[using].ops.quote_name
    kinds = set().union(*(row_changes.kinds(using, quoted(part._meta.db_table)) for part in _parts(model)))
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
    key = tuple(field.column for field in part._meta.pk_fields)
    wanted[table] = Capture(table, key, source_names, tuple(e for e in watch if e in columns))


BATCH = 500
"""So many rows are planned in one transaction, or those of one note, which may be 1,000."""
ROW_LOCK_SECONDS = 0.05
"""How long to wait for a row that another transaction holds. Less than the server's deadlock_timeout, so that the other
transaction is never the one that is ended."""
Until = Callable[[], bool]


def plan_changes(using: str, *, until: Until = lambda: False) -> int:
    """Plan what was noted, in batches, each in a transaction of its own; gives how many rows that were. What is locked
    by somebody else, or cannot be planned, is left for later."""
    sources = _sources()
    if not sources or not row_changes.any_changes(using):
        return 0
    skipped: set[int] = set()
    done = _plan_all_rows(using, sources)
    while not until():
        count = _plan_some(using, sources, skipped, until, many=False)
        count += _plan_some(using, sources, skipped, until, many=True)
        if not count:
            break
        done += count
    return done


def _sources() -> set[str]:
    """The types of rows that plans follow."""
    return {aggregate_type(model) for plan in plans() for model in (plan.model, *plan.follows)}


def _plan_all_rows(using: str, sources: Collection[str]) -> int:
    """After a TRUNCATE, or while a column is being renamed. A whole table is not planned in one transaction, so the
    notes stay until it is done."""
    notes = row_changes.of_all_rows(using, sources)
    named = {note.source for note in notes}
    for plan in plans():
        if plan.aggregate_type in named or any(lookups_to(plan, source) for source in named):
            reconcile_rows(plan, using=using)
    if notes:
        row_changes.remove(using, notes)
    return len(notes)


def _plan_some(using: str, sources: Collection[str], skipped: set[int], until: Until, *, many: bool) -> int:
    """All notes that can be planned now, of one row each; or one note of many."""
    done, most = 0, 1 if many else BATCH
    limit = most
    while not until():
        taken: list[Change] = []
        try:
            with lock_timeout(using, ROW_LOCK_SECONDS), detached():
                taken = row_changes.take(using, limit, many=many, sources=sources, busy=skipped)
                _plan(using, taken)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            if not taken:
                return done  # the notes themselves are locked
            if many and isinstance(error, Busy):
                row_changes.split(using, taken[0])
                return done + _plan_some(using, sources, skipped, until, many=False)
            if len(taken) == 1:
                skipped.add(taken[0].id)
                if not isinstance(error, Busy):
                    logger.exception("changed rows not planned: source=%s keys=%s", taken[0].source, taken[0].keys[:5])
            limit = 1
            continue
        done += sum(len(change.keys) for change in taken)
        if many or not taken:
            return done
        limit = min(most, limit * 2)
    return done


def _plan(using: str, changes: Collection[Change]) -> None:
    """Rows that follow a changed one are noted in their turn: there may be very many of them."""
    by_source: dict[str, set[str]] = {}
    for change in changes:
        by_source.setdefault(change.source, set()).update(change.keys)
    for source, keys in by_source.items():
        for plan in plans():
            if plan.aggregate_type == source:
                sync_rows(plan, _primary_keys(plan.model, keys), using=using, why="its row was changed")
            for model, lookup in lookups_to(plan, source):
                rows = plan.queryset().using(using).filter(**{f"{lookup}__pk__in": _primary_keys(model, keys)})
                found = [text_of_key(pk) for pk in rows.order_by("pk").values_list("pk", flat=True).distinct()]
                row_changes.add(using, plan.aggregate_type, found)


def _primary_keys(model: Any, keys: Iterable[str]) -> list[Any]:
    return sorted(key_from_text(model, key) for key in keys)
