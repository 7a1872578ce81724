"""The triggers that write audit entries: what they record of a table, as SQL."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from duebox.store.row_changes import literal
from duebox.store.run_sql import execute, read, run

PREFIX = "duebox_record_"
MADE = "duebox 1 "
"""Begins the comment on a function, before a hash of its text."""
MOST_ARGUMENTS = 90
"""Of a function; PostgreSQL takes 100."""
MANY = 1_000
"""Rows of a statement from which on its entries are written as batches, and the most entries of a batch."""
BATCH_BYTES = 10_000_000
"""Of changes, after which another batch begins: an array has at most 1 GB."""
_EMPTY = "''"
_JSON = "('{{' || {}.changes || '}}')::jsonb"
VERBS = {"insert": "created", "update": "updated", "delete": "deleted"}


class Column(NamedTuple):
    """A column as it is recorded. Names of tables and columns are quoted here and below."""

    name: str
    """In the changes of an entry."""
    column: str
    kind: str
    """number, float, moment, date, decimal, duration, bytes, jsonb, json, array, text or other."""
    hidden: str = ""
    """mask or hash."""
    above: tuple[str, str] | None = None
    """The table of a model above that has the column, and its key. Such columns are read when a row is made or goes."""


class KeyColumn(NamedTuple):
    """A column of the primary key."""

    column: str
    is_number: bool = True


class Organization(NamedTuple):
    """The way to the organization of a row: a column of the table, and how to get on from there."""

    column: str
    steps: tuple[tuple[str, str, str], ...] = ()
    """Each a table, the column to find its row by, and the column to take."""


class Recording(NamedTuple):
    """What is recorded of the rows of one table under the name of one model."""

    noun: str
    kind: str
    """The type of the entities."""
    label: str
    """What stands before the name of a column when its values are hashed."""
    key: tuple[KeyColumn, ...]
    columns: tuple[Column, ...]
    organization: Organization | None
    below: tuple[str, str] | None = None
    """Where the rows are parts of rows of a model below: its table and its key. Only updates are recorded here."""


def install_sql(using: str, table: str, recordings: Sequence[Recording]) -> str:
    """The statements that give a table its triggers, whether it had some before or not."""
    [(schema, function)] = run("capture_names", using, {"table": table, "prefix": PREFIX})
    template = read("templates/audit")
    whole = [each for each in recordings if each.below is None]
    parts = {
        "schema": schema,
        "function": function,
        "table": table,
        "kinds": _array(each.kind for each in recordings),
        "nouns": _array(each.noun for each in recordings),
        "row_key": _id(recordings[0], "one"),
        "inserted": _recorded(schema, "new_rows", [_one_side(each, schema, "insert") for each in whole]),
        "updated": _recorded(schema, "new_rows", [_both_sides(each, schema) for each in recordings]),
        "deleted": _recorded(schema, "old_rows", [_one_side(each, schema, "delete") for each in whole]),
        "insert": _insert(schema, "coalesce(entry.changes, '{}')", "last_number - entries + entry.position"),
    }
    text = template.format(**parts, comment="''")
    return template.format(**parts, comment=literal(MADE + hashlib.sha256(text.encode()).hexdigest()[:32]))


def comment_in(sql: str) -> str:
    """The comment that these statements put on the function. With another one, triggers are outdated."""
    return MADE + sql.partition(f" IS '{MADE}")[2].partition("'")[0]


def qualified(using: str, table: str) -> str:
    """The name of a table with its schema; as it is, if there is no such table."""
    return next((row[0] for row in run("capture_qualified", using, {"table": table})), table)


def write_key(using: str, purpose: str, inner: bytes, outer: bytes) -> None:
    execute("audit_key_write", using, {"purpose": purpose, "inner": inner.hex(), "outer": outer.hex()})


def has_key(using: str, purpose: str, inner: bytes) -> bool:
    """Whether the triggers have this key; also where this session may not know."""
    [(readable,)] = run("audit_key_readable", using, {})
    if not readable:
        return True
    [(found,)] = run("audit_key_is", using, {"purpose": purpose, "inner": inner.hex()})
    return bool(found)


def _pads(schema: str) -> str:
    """The key of hashed values. The server reads it once for a statement, and only if it hashes something."""
    key = f"FROM {schema}.duebox_audit_key AS hashing WHERE hashing.purpose = 'value'"
    return f"(SELECT hashing.inner_pad {key}), (SELECT hashing.outer_pad {key})"


def _recorded(schema: str, rows: str, selects: Sequence[str]) -> str:
    """Records what some queries find: many rows are written as batches, a few are collected as arrays."""
    if not selects:
        return "NULL;"
    found = "\n            UNION ALL ".join(selects)
    return (
        f"is_large := EXISTS (SELECT FROM {rows} OFFSET {MANY - 1});\n"  # noqa: S608
        "            IF is_large THEN\n"
        "            SELECT numbered.writer, numbered.last INTO session_writer, last_number\n"
        f"            FROM {schema}.duebox_audit_number(0) AS numbered;\n"
        f"            id_sequence := pg_get_serial_sequence({literal(f'{schema}.duebox_audit')}, 'id');\n"
        f"            {_pack(schema, found)}"
        "            ELSE\n"
        "            SELECT array_agg(found.type), array_agg(found.action), array_agg(found.id),\n"
        f"                   array_agg(found.organization), array_agg({_JSON.format('found')})\n"
        f"            INTO types, actions, ids, organizations, changed FROM (\n            {found}) AS found;\n"
        "            END IF;"
    )


def _pack(schema: str, found: str) -> str:
    return read("templates/audit_pack").format(schema=schema, found=found, many=MANY, bytes=BATCH_BYTES)


def _insert(schema: str, changes: str, number: str) -> str:
    return read("templates/audit_insert").format(schema=schema, changes=changes, number=number)


def _id(each: Recording, row: str) -> str:
    """The primary key of a row as text, as `identities.text_of_key` writes it."""
    if len(each.key) == 1:
        return f"{row}.{each.key[0].column}::text"
    parts = [f"{row}.{column}{'' if is_number else '::text'}" for column, is_number in each.key]
    return f"jsonb_build_array({', '.join(parts)})::text"


def _one_side(each: Recording, schema: str, event: str) -> str:
    """Of rows that were made, or that are gone: all that they have or had."""
    pairs = []
    for column in each.columns:
        value = _value(column, "one", each)
        shown = _shown(column, value, each.label, schema)
        old, new = ("null, ", shown) if event == "insert" else ("", shown)
        text = f"'{_name(column)}: [{old}' || {new} || '{']' if event == 'insert' else ', null]'}'"
        pairs.append(f"CASE WHEN {value} IS NOT NULL THEN {text} END")
    start = f"one.{each.organization.column}" if each.organization else ""
    return (
        f"SELECT {literal(each.kind)} AS type, {literal(f'{each.noun}.{VERBS[event]}')} AS action,\n"  # noqa: S608
        f"                   {_id(each, 'one')} AS id, {_organization(each.organization, start)} AS organization,\n"
        f"                   {_joined(pairs)} AS changes\n"
        f"            FROM {'new' if event == 'insert' else 'old'}_rows AS one"
    )


def _both_sides(each: Recording, schema: str) -> str:
    """Of rows that were updated, what differs. A row whose key was changed is gone under the old, and new under the
    other one."""
    pairs = []
    for column in each.columns:
        if column.above is None:
            old, new = (_value(column, side, each) for side in ("before", "after"))
            shown = [f"coalesce({_shown(column, value, each.label, schema)}, 'null')" for value in (old, new)]
            text = f"'{_name(column)}: [' || {shown[0]} || ', ' || {shown[1]} || ']'"
            pairs.append(f"CASE WHEN {_differ(column, old, new)} THEN {text} END")
    key = each.key[0].column
    made, gone = f"before.{key} IS NULL", f"after.{key} IS NULL"
    start = "NULL"
    if each.organization:
        column_name = each.organization.column
        start = f"CASE WHEN {gone} THEN before.{column_name} ELSE after.{column_name} END"
    verb = f"CASE WHEN {made} THEN 'created' WHEN {gone} THEN 'deleted' ELSE 'updated' END"
    only = ""
    if each.below:
        only = f" AND EXISTS (SELECT FROM {each.below[0]} AS part WHERE part.{each.below[1]} = pair.key)"
    on = " AND ".join(f"before.{column} = after.{column}" for column, _ in each.key)
    # OFFSET 0 lets the server compute the changes once, and the rest for changed rows only.
    return (
        f"SELECT {literal(each.kind)} AS type, {literal(each.noun + '.')} || pair.verb AS action, pair.id,\n"  # noqa: S608
        f"                   {_organization(each.organization, 'pair.start')} AS organization, pair.changes\n"
        f"            FROM (SELECT CASE WHEN {gone} THEN {_id(each, 'before')} ELSE {_id(each, 'after')} END AS id,\n"
        f"                         {verb} AS verb, coalesce(after.{key}, before.{key}) AS key,\n"
        f"                         {start} AS start,\n"
        f"                         {_joined(pairs)} AS changes\n"
        "                  FROM old_rows AS before FULL JOIN new_rows AS after\n"
        f"                  ON {on} OFFSET 0) AS pair\n"
        f"            WHERE (pair.changes <> '' OR pair.verb <> 'updated'){only}"
    )


def _value(column: Column, row: str, each: Recording) -> str:
    if column.above is None:
        return f"{row}.{column.column}"
    table, its_key = column.above
    return f"(SELECT up.{column.column} FROM {table} AS up WHERE up.{its_key} = {row}.{each.key[0].column})"  # noqa: S608


def _organization(way: Organization | None, start: str) -> str:
    if way is None:
        return "NULL::text"
    for number, (table, by, take) in enumerate(way.steps):
        start = f"(SELECT step{number}.{take} FROM {table} AS step{number} WHERE step{number}.{by} = {start})"  # noqa: S608
    return f"{start}::text"


def _differ(column: Column, old: str, new: str) -> str:
    if column.kind in ("text", "json", "array", "other"):  # not by rules of a language, and not every type has them
        old, new = (f'{value}::text COLLATE "C"' for value in (old, new))
    return f"{old} IS DISTINCT FROM {new}"


def _shown(column: Column, value: str, label: str, schema: str) -> str:
    """A value as the text of JSON; NULL of NULL."""
    pads = _pads(schema)
    if column.hidden == "hash":
        name = literal(f"{label}.{column.name}")
        return f"to_json({schema}.duebox_audit_keyed({name}, {_hashed(column, value)}, {pads}))::text"
    if column.hidden == "mask":
        text = f"{value}::text" if column.kind in ("text", "number") else f"left({value}::text, 0)"
        return f"to_json({schema}.duebox_audit_masked({text}))::text"
    match column.kind:
        case "number":
            return f"{value}::text"
        case "float" | "moment" | "date":
            return f"to_json({value})::text"
        case "duration":
            return f"to_json({schema}.duebox_audit_duration({value}))::text"
        case "bytes":
            size = f"to_char(length({value}), 'FM999,999,999,990') || ' bytes, '"
            return f"to_json({size} || {schema}.duebox_audit_keyed('bytes', encode({value}, 'hex'), {pads}))::text"
        case "jsonb" | "json":
            return f"{schema}.duebox_audit_json({value}::text)"
        case "array":
            return f"{schema}.duebox_audit_json(to_json({value})::text)"
        case "decimal":
            return f"to_json({value}::text)::text"
    return f"to_json({schema}.duebox_audit_cut({value}::text))::text"


def _hashed(column: Column, value: str) -> str:
    """The text that is hashed: of most types what Python's `str` gives."""
    match column.kind:
        case "bytes":
            return f"encode({value}, 'hex')"
        case "number":
            return f"CASE {value}::text WHEN 'true' THEN 'True' WHEN 'false' THEN 'False' ELSE {value}::text END"
        case "moment":
            return (
                f"to_char({value}, 'YYYY-MM-DD HH24:MI:SS') || CASE WHEN date_trunc('second', {value}) <> {value} "
                f"THEN to_char({value}, '.US') ELSE '' END || CASE WHEN pg_typeof({value}) = 'timestamptz'::regtype "
                "THEN '+00:00' ELSE '' END"
            )
    return f"{value}::text"


def _joined(pairs: Sequence[str]) -> str:
    """One text of those that are not NULL."""
    parts = [pairs[begin : begin + MOST_ARGUMENTS] for begin in range(0, len(pairs), MOST_ARGUMENTS)]
    texts = [f"concat_ws(', ', {(',' + chr(10) + ' ' * 29).join(part)})" for part in parts]
    return f"concat_ws(', ', {', '.join(f'nullif({each}, {_EMPTY})' for each in texts)})" if texts else _EMPTY


def _name(column: Column) -> str:
    """As JSON, within a literal. A field is named by a Python name, which has no quotes."""
    return f'"{column.name}"'


def _array(texts: Iterable[str]) -> str:
    return f"ARRAY[{', '.join(map(literal, texts))}]"
