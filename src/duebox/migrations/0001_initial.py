from __future__ import annotations

from typing import Any

import django.db.models.functions.datetime
from django.db import migrations, models

import duebox.ids

# Claims are heap-only updates: they need room on the page. Dead rows must go before the claim has to walk over
# them, so the hot tables are vacuumed early and at full speed, and the append-only ones are vacuumed by inserts.
STORAGE = """
ALTER TABLE duebox_delivery SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_limit = 2000, autovacuum_vacuum_cost_delay = 1,
    autovacuum_analyze_scale_factor = 0.05
);
ALTER TABLE duebox_worker SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100
);
ALTER TABLE duebox_attempt SET (autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE duebox_event SET (autovacuum_vacuum_insert_scale_factor = 0.05);
"""

IMMUTABLE = """
CREATE FUNCTION duebox_refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only; emit a new event instead of changing an old one.', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER duebox_event_is_immutable BEFORE UPDATE ON duebox_event
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_refuse_update();
CREATE TRIGGER duebox_attempt_is_append_only BEFORE UPDATE ON duebox_attempt
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_refuse_update();
"""

MUTABLE = """
DROP TRIGGER duebox_event_is_immutable ON duebox_event;
DROP TRIGGER duebox_attempt_is_append_only ON duebox_attempt;
DROP FUNCTION duebox_refuse_update();
"""


class PostgresOnly(migrations.RunSQL):
    """Another database of the project may be migrated along; there is nothing to do for it."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("event_id", models.UUIDField()),
                ("delivery_id", models.BigIntegerField()),
                ("subscriber", models.TextField()),
                ("number", models.PositiveSmallIntegerField()),
                (
                    "outcome",
                    models.TextField(
                        choices=[
                            ("delivered", "Delivered"),
                            ("retried", "Failed, to be retried"),
                            ("snoozed", "Snoozed by the handler"),
                            ("discarded", "Discarded by the handler"),
                            ("dead", "Failed for good"),
                            ("rescued", "Worker lost, given back"),
                            ("redriven", "Taken from the dead letters"),
                        ]
                    ),
                ),
                ("due_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("settled_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("took_ms", models.FloatField(null=True)),
                ("lease", models.BigIntegerField(null=True)),
                ("note", models.TextField(db_default="")),
            ],
            options={
                "db_table": "duebox_attempt",
                "indexes": [models.Index(fields=["event_id"], name="duebox_attempt_of_event")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "outcome__in",
                                [
                                    "delivered",
                                    "retried",
                                    "snoozed",
                                    "discarded",
                                    "dead",
                                    "rescued",
                                    "redriven",
                                ],
                            )
                        ),
                        name="duebox_attempt_known_outcome",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("event_id", models.UUIDField()),
                ("subscriber", models.TextField()),
                ("stream", models.TextField(null=True)),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("pending", "Pending"),
                            ("waiting", "Waiting behind an earlier event"),
                            ("dead", "Dead letter"),
                        ],
                        db_default="pending",
                    ),
                ),
                ("due_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("lease", models.BigIntegerField(null=True)),
                ("attempt", models.PositiveSmallIntegerField(db_default=0)),
                ("rescues", models.PositiveSmallIntegerField(db_default=0)),
            ],
            options={
                "verbose_name_plural": "deliveries",
                "db_table": "duebox_delivery",
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "pending")),
                        fields=["due_at", "id"],
                        name="duebox_delivery_claim_due",
                    ),
                    models.Index(
                        condition=models.Q(("stream__isnull", False)),
                        fields=["subscriber", "stream", "id"],
                        name="duebox_delivery_stream_head",
                    ),
                    models.Index(
                        condition=models.Q(("status", "dead")),
                        fields=["id"],
                        name="duebox_delivery_list_dead",
                    ),
                    models.Index(fields=["event_id"], name="duebox_delivery_of_event"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["pending", "waiting", "dead"])),
                        name="duebox_delivery_known_status",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("lease__isnull", True), ("status", "pending"), _connector="OR"),
                        name="duebox_delivery_leased_is_pending",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "waiting"), _negated=True),
                            ("stream__isnull", False),
                            _connector="OR",
                        ),
                        name="duebox_delivery_waiting_has_stream",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("subscriber", ""), _negated=True),
                        name="duebox_delivery_has_subscriber",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "id",
                    models.UUIDField(default=duebox.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("type", models.TextField()),
                ("version", models.PositiveSmallIntegerField(db_default=1)),
                ("occurred_at", models.DateTimeField()),
                ("recorded_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("aggregate_type", models.TextField(db_default="")),
                ("aggregate_id", models.TextField(db_default="")),
                ("organization", models.TextField(db_default="")),
                ("correlation_id", models.TextField(db_default="")),
                ("causation_id", models.UUIDField(null=True)),
                ("actor", models.JSONField(null=True)),
                ("producer", models.TextField(db_default="")),
                ("idempotency_key", models.TextField(null=True)),
                ("data", models.JSONField(default=dict)),
                ("metadata", models.JSONField(default=dict)),
            ],
            options={
                "db_table": "duebox_event",
                "indexes": [
                    models.Index(
                        condition=models.Q(("aggregate_type", ""), _negated=True),
                        fields=["aggregate_type", "aggregate_id"],
                        name="duebox_event_about",
                        opclasses=["text_pattern_ops", "text_pattern_ops"],
                    ),
                    models.Index(
                        fields=["correlation_id"], name="duebox_event_correlation", opclasses=["text_pattern_ops"]
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("idempotency_key__isnull", False)),
                        fields=("type", "idempotency_key"),
                        name="duebox_event_once_per_key",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("type", ""), _negated=True), name="duebox_event_has_type"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("type__startswith", "public."), _negated=True),
                            models.Q(("organization", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="duebox_event_public_has_organization",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("aggregate_id", ""), ("aggregate_type", "")),
                            models.Q(
                                models.Q(("aggregate_type", ""), _negated=True),
                                models.Q(("aggregate_id", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="duebox_event_aggregate_is_whole",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.TextField()),
                ("mode", models.TextField(db_default="poll")),
                ("listening", models.BooleanField(db_default=False)),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("beat_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("expires_at", models.DateTimeField()),
                ("suspect", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": "duebox_worker",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("mode__in", ["listen", "poll"])), name="duebox_worker_known_mode"
                    )
                ],
            },
        ),
        PostgresOnly(STORAGE, migrations.RunSQL.noop),
        PostgresOnly(IMMUTABLE, MUTABLE),
    ]
