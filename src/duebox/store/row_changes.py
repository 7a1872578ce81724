"""Row changes that triggers noted, the triggers themselves and the rights they need, and saves in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from django.db import connections

from duebox.store.run_sql import execute, read, run, text_array

CHANGES = "changes"
"""What the NOTIFY of such a trigger says."""
MOST_KEYS = 1_000
"""How many rows one note is about at most."""
PLANNED = " /* duebox:planned */"
"""At the end of a statement: who runs it plans the rows at once, and no worker has to be woken."""
WRITES = ("INSERT INTO", "UPDATE", "DELETE FROM")
"""How statements begin that a save or a deletion consists of, before the name of the table."""
PREFIX = "duebox_capture_"
TRIGGERS = ("insert", "update", "delete", "truncate", "key")


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


def take_own(using: str, sources: Iterable[str], key: str, *, is_alone: bool) -> None:
    """The changes of one row that was just saved, for the transaction that plans it. With `is_alone` it does nothing
    else."""
    run("row_changes_take_own", using, {"sources": text_array(sources), "key": key, "is_alone": is_alone})


def sources_with_changes(using: str, sources: Iterable[str]) -> set[str]:
    return {row[0] for row in run("row_changes_sources", using, {"sources": text_array(sources)})}


class Capture(NamedTuple):
    """The triggers that one table needs."""

    table: str
    """As Django quotes it."""
    key: tuple[str, ...]
    """The columns of the primary key."""
    sources: tuple[str, ...]
    """The entity types whose rows this table holds, of those that plans follow."""
    watch: tuple[str, ...] = ()
    """The columns whose changes count; none for all."""
    has_parts: bool = False
    """Whether it has partitions. An update that moves a row to another one fires no trigger of updated rows there."""


class Installed(NamedTuple):
    """A table that has triggers, and the comment on its function, which says what they were made of."""

    table: str
    function: str
    comment: str


def installed(using: str, prefix: str = PREFIX) -> list[Installed]:
    return [Installed(*row) for row in run("capture_installed", using, {"prefix": prefix})]


def resolved(using: str, table: str) -> list[str]:
    """The name of a table as the server writes it, and those of its partitions; nothing if there is no such table."""
    return [row[0] for row in run("capture_tables", using, {"table": table})]


def install_sql(using: str, table: str, capture: Capture) -> str:
    """The statements that give a table its triggers, whether it had some before or not."""
    [(schema, function)] = run("capture_names", using, {"table": table, "prefix": PREFIX})
    columns = [quoted(using, column) for column in capture.key]
    key = _as_text(columns)
    compares = bool(capture.watch or capture.has_parts)
    watched = [f"{quoted(using, column)}::text" for column in capture.watch]
    names = {"schema": schema, "function": function, "table": table, "columns": ", ".join(columns)}
    sources = f"ARRAY[{', '.join(map(literal, capture.sources))}]"
    old, new = ([f"{row}.{column}" for column in columns] for row in ("OLD", "NEW"))
    plain = f"SELECT {key} AS duebox_key FROM changed_rows"  # noqa: S608 - quoted names
    note = read("templates/capture_note").strip()
    return read("templates/capture").format(
        **names,
        key=key,
        read=", ".join(dict.fromkeys([*columns, *(quoted(using, column) for column in capture.watch)])),
        old_key=_as_text(old),
        sources=sources,
        compares=str(compares).lower(),
        note_compared=note.format(schema=schema, sources=sources, changed=_compared(key, watched)),
        note_changed=note.format(schema=schema, sources=sources, changed=plain),
        old_rows="OLD TABLE AS old_rows " if compares else "",
        key_trigger=f"DROP TRIGGER IF EXISTS {PREFIX}key ON {table};"
        if compares
        else read("templates/capture_key").format(**names, old=", ".join(old), new=", ".join(new)).strip(),
        planned=literal(PLANNED),
        planned_length=len(PLANNED),
        comment=literal(comment_of(capture)),
    )


def _as_text(columns: Sequence[str]) -> str:
    """A primary key as `text_of_key` writes it."""
    return f"{columns[0]}::text" if len(columns) == 1 else f"jsonb_build_array({', '.join(columns)})::text"


def _compared(key: str, watched: Sequence[str]) -> str:
    """The keys of rows that an update has changed. As text, since not every type can be compared."""
    names = ", ".join([f"{key} AS duebox_key", *(f"{column} AS watched_{n}" for n, column in enumerate(watched))])
    new, old = (f"SELECT {names} FROM {rows}" for rows in ("changed_rows", "old_rows"))  # noqa: S608 - quoted names
    if not watched:
        return f"{new} UNION {old}"
    both = f"({new} EXCEPT {old}) UNION ALL ({old} EXCEPT {new})"
    return f"SELECT DISTINCT duebox_key FROM ({both}) AS different"  # noqa: S608 - quoted names


def remove_sql(table: str, function: str, prefix: str = PREFIX) -> str:
    """The statements that take the triggers of a table away, with their function unless another table uses it."""
    drops = "".join(f"DROP TRIGGER IF EXISTS {prefix}{event} ON {table};\n" for event in TRIGGERS)
    unused = f"DROP FUNCTION {function}(); EXCEPTION WHEN dependent_objects_still_exist THEN NULL;"
    return f"{drops}DO $$ BEGIN {unused} END $$;\n"


def comment_of(capture: Capture) -> str:
    """What the triggers of a table are made of. Triggers with another comment are outdated."""
    watch = f" watch={','.join(capture.watch)}" if capture.watch else ""
    parts = " parts" if capture.has_parts else ""
    return f"duebox 8 key={','.join(capture.key)} sources={','.join(capture.sources)}{watch}{parts}"


def execute_sql(using: str, text: str) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute(text)


def quoted(using: str, name: str) -> str:
    return str(connections[using].ops.quote_name(name))


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Rights(NamedTuple):
    """Whether the role of this session may give a table its triggers."""

    role: str
    schema: str
    """Of Duebox's own tables, where the function of the triggers is made."""
    on_table: bool
    in_schema: bool
    on_function: bool

    @property
    def are_enough(self) -> bool:
        return self.on_table and self.in_schema and self.on_function


def rights(using: str, table: str, prefix: str = PREFIX) -> Rights:
    [row] = run("capture_rights", using, {"table": table, "prefix": prefix})
    return Rights(*row)


def kinds(using: str, table: str) -> set[str]:
    """The kinds of a table and of its partitions, as in `pg_class.relkind`; nothing if there is no such table."""
    return {row[0] for row in run("capture_kinds", using, {"table": table})}
