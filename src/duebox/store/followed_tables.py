"""What the server says about tables that plans follow: of which kind they are, and who may give them triggers."""

from __future__ import annotations

from typing import NamedTuple

from duebox.store.row_changes import PREFIX
from duebox.store.statements import execute, run


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


def rights(using: str, table: str) -> Rights:
    [row] = run("capture_rights", using, {"table": table, "prefix": PREFIX})
    return Rights(*row)


def kinds(using: str, table: str) -> set[str]:
    """The kinds of a table and of its partitions, as in `pg_class.relkind`; nothing if there is no such table."""
    return {row[0] for row in run("capture_kinds", using, {"table": table})}


def forget_changes(using: str) -> None:
    execute("row_changes_clear", using, {})
