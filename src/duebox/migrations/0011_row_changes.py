"""Changes of rows that plans follow, noted by triggers until they are planned."""

from __future__ import annotations

from importlib import import_module

import django.db.models.functions.datetime
from django.db import migrations, models

import duebox.models.row_change

PostgresOnly = import_module("duebox.migrations.0001_initial").PostgresOnly

# Rows live for milliseconds: without frequent vacuuming the table would consist of dead ones.
STORAGE = """
ALTER TABLE duebox_row_change SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_limit = 2000,
    autovacuum_vacuum_cost_delay = 1
);
"""


# Without the table, each statement on a table that still has triggers would fail.
UNCAPTURE = """
DO $$
DECLARE
    each regprocedure;
BEGIN
    FOR each IN
        SELECT p.oid FROM pg_proc p
        WHERE starts_with(p.proname, 'duebox_capture_')
          AND p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('duebox_row_change'))
    LOOP
        EXECUTE format('DROP FUNCTION %s CASCADE', each);
    END LOOP;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("duebox", "0010_worker_functions")]

    operations = [
        migrations.CreateModel(
            name="RowChange",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("source", models.TextField()),
                ("key", models.TextField()),
                ("keys", duebox.models.row_change.TextArrayField(null=True)),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "duebox_row_change",
                "indexes": [
                    models.Index(fields=["source", "key"], name="duebox_row_change_of_row"),
                    models.Index(
                        condition=models.Q(("keys__isnull", False)), fields=["source"], name="duebox_row_change_of_rows"
                    ),
                ],
            },
        ),
        PostgresOnly(STORAGE, migrations.RunSQL.noop),
        PostgresOnly(migrations.RunSQL.noop, UNCAPTURE),
    ]
