"""What Duebox has in the database besides the tables of its models: functions, triggers, views, indexes, and what a
model cannot say about a table. Each is a file in a folder of `sql/`, named as the object. A migration creates them.
"""

from __future__ import annotations

import re
from typing import Any

from django.db import migrations

from duebox.store.run_sql import read

DROP = {
    "functions": "DROP FUNCTION {name};",
    "indexes": "DROP INDEX {name};",
    "tables": migrations.RunSQL.noop,  # what was set goes with the table
    "triggers": "DROP TRIGGER {name} ON {table};",
    "views": "DROP VIEW {name};",
}
"""How the objects of a folder are dropped."""
_TRIGGER_TABLE = re.compile(r"^CREATE OR REPLACE TRIGGER \w+ [A-Z ]+ ON (?P<table>\w+)", re.MULTILINE)


class RunPostgresSQL(migrations.RunSQL):
    """For PostgreSQL only. Another database of the project may be migrated along; there is nothing to do for it."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)


class CreateObject(RunPostgresSQL):
    """Runs the file of one object; in reverse, drops the object."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = folder, name
        text = read(f"{folder}/{name}")
        found = _TRIGGER_TABLE.search(text) if folder == "triggers" else None
        super().__init__(text, DROP[folder].format(name=name, table=found["table"] if found else ""))

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.folder, self.name], {}

    def describe(self) -> str:
        return f"Create {self.name} of {self.folder}"


def create(folder: str, *names: str) -> list[CreateObject]:
    return [CreateObject(folder, name) for name in names]
