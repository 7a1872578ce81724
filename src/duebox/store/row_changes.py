"""Changes of rows that plans follow, as triggers note them; and these triggers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple

from django.db import connections

from duebox.store.statements import execute, run, text_array

CHANGES = "changes"
"""What the NOTIFY of such a trigger says."""
MOST_KEYS = 1_000
"""How many rows one note is about at most."""
ALL_ROWS = ""
"""The key that stands for every row, after a TRUNCATE."""
PREFIX = "duebox_capture_"
EVENTS = ("insert", "update", "delete", "truncate")


class Change(NamedTuple):
    """Rows of one type that a statement has changed."""

    id: int
    source: str
    keys: list[str]


def any_changes(using: str) -> bool:
    [(found,)] = run("row_changes_any", using, {})
    return bool(found)


def take(using: str, limit: int, *, many: bool, sources: Iterable[str], busy: Collection[int] = ()) -> list[Change]:
    """Some changes of rows of these types, oldest first, for the transaction that plans them; not those that are
    `busy`. Either of statements that changed one row, or of those that changed many."""
    params = {"limit": limit, "many": many, "sources": text_array(sources), "busy": list(busy)}
    return [Change(*row) for row in run("row_changes_take", using, params)]


def of_all_rows(using: str, sources: Iterable[str]) -> list[Change]:
    """Those that are about every row of a type. They stay until they are removed."""
    return [Change(*row) for row in run("row_changes_of_all", using, {"sources": text_array(sources)})]


def remove(using: str, changes: Iterable[Change]) -> None:
    execute("row_changes_remove", using, {"ids": [change.id for change in changes]})


def add(using: str, source: str, keys: Sequence[str]) -> None:
    """Note changes of rows, as a trigger does."""
    parts = [keys[begin : begin + MOST_KEYS] for begin in range(0, len(keys), MOST_KEYS)]
    for part in parts:
        execute("row_changes_add", using, {"source": source, "keys": text_array(part)})


def changed_of(using: str, rows: Sequence[tuple[int, str, str]]) -> set[int]:
    """Of schedules, each with its id and the type and id of its row: the ids of those whose row has a change that is
    not planned yet. Ask it in a statement of its own, after the schedules were locked."""
    params = {
        "ids": [id for id, _, _ in rows],
        "sources": text_array(source for _, source, _ in rows),
        "keys": text_array(key for _, _, key in rows),
    }
    return {row[0] for row in run("row_changes_of", using, params)}


def split(using: str, change: Change) -> None:
    """Let each row of a change be taken for itself."""
    execute("row_changes_split", using, {"id": change.id})


def take_of(using: str, source: str, keys: Iterable[str]) -> None:
    """The changes of these rows, for the transaction that plans them."""
    execute("row_changes_take_of", using, {"source": source, "keys": text_array(keys)})


def sources_with_changes(using: str, sources: Iterable[str]) -> set[str]:
    return {row[0] for row in run("row_changes_sources", using, {"sources": text_array(sources)})}


class Capture(NamedTuple):
    """The triggers that one table needs."""

    table: str
    """As Django quotes it."""
    key: str
    """The column of the primary key."""
    sources: tuple[str, ...]
    """The entity types whose rows this table holds, of those that plans follow."""
    watch: tuple[str, ...] = ()
    """The columns whose changes count; none for all."""


class Installed(NamedTuple):
    """A table that has triggers, and the comment on its function, which says what they were made of."""

    table: str
    function: str
    comment: str


def installed(using: str) -> list[Installed]:
    return [Installed(*row) for row in run("capture_installed", using, {"prefix": PREFIX})]


def resolved(using: str, table: str) -> list[str]:
    """The name of a table as the server writes it, and those of its partitions; nothing if there is no such table."""
    return [row[0] for row in run("capture_tables", using, {"table": table})]


def install_sql(using: str, table: str, capture: Capture) -> str:
    """The statements that give a table its triggers, whether it had some before or not."""
    [(schema, function)] = run("capture_names", using, {"table": table, "prefix": PREFIX})
    template = files("duebox.store").joinpath("sql", "triggers", "capture.sql").read_text()
    key = _quoted(using, capture.key)
    watched = [f"{_quoted(using, column)}::text" for column in capture.watch]
    return template.format(
        schema=schema,
        function=function,
        table=table,
        key=key,
        sources=f"ARRAY[{', '.join(map(_literal, capture.sources))}]",
        changed=_changed(f"{key}::text", watched),
        comment=_literal(comment_of(capture)),
    )


def _changed(key: str, watched: Sequence[str]) -> str:
    """The keys of rows that an update has changed. As text, since not every type can be compared."""
    names = ", ".join([f"{key} AS duebox_key", *(f"{column} AS watched_{n}" for n, column in enumerate(watched))])
    new, old = (f"SELECT {names} FROM {rows}" for rows in ("new_rows", "old_rows"))  # noqa: S608 - quoted names
    if not watched:
        return f"{new} UNION {old}"
    both = f"({new} EXCEPT {old}) UNION ALL ({old} EXCEPT {new})"
    return f"SELECT DISTINCT duebox_key FROM ({both}) AS different"  # noqa: S608 - quoted names


def remove_sql(table: str, function: str) -> str:
    """The statements that take the triggers of a table away, with their function unless another table uses it."""
    drops = "".join(f"DROP TRIGGER IF EXISTS duebox_capture_{event} ON {table};\n" for event in EVENTS)
    unused = f"DROP FUNCTION {function}(); EXCEPTION WHEN dependent_objects_still_exist THEN NULL;"
    return f"{drops}DO $$ BEGIN {unused} END $$;\n"


def comment_of(capture: Capture) -> str:
    """What the triggers of a table are made of. Triggers with another comment are outdated."""
    watch = f" watch={','.join(capture.watch)}" if capture.watch else ""
    return f"duebox 6 key={capture.key} sources={','.join(capture.sources)}{watch}"


def execute_sql(using: str, text: str) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute(text)


def _quoted(using: str, name: str) -> str:
    return str(connections[using].ops.quote_name(name))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
