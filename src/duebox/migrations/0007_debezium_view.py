"""The events under the names that Debezium's outbox router has for an outbox.

For copies and for connectors that ask by query. Change-data-capture reads tables, not views: `duebox sql cdc`
maps the columns of the table itself.

PostgreSQL keeps a column as it is while a view shows it. A migration that changes one drops this view first and
makes it again.
"""

from __future__ import annotations

from importlib import import_module

from django.db import migrations

PostgresOnly = import_module("duebox.migrations.0001_initial").PostgresOnly

VIEW = """
CREATE VIEW duebox_outbox AS
SELECT id,
       aggregate_type AS aggregatetype,
       aggregate_id AS aggregateid,
       type,
       data AS payload,
       recorded_at AS timestamp,
       version,
       occurred_at,
       organization,
       correlation_id,
       causation_id,
       actor,
       producer,
       metadata
FROM duebox_event;
"""


class Migration(migrations.Migration):
    dependencies = [("duebox", "0006_webhooks")]

    operations = [PostgresOnly(VIEW, "DROP VIEW duebox_outbox;")]
