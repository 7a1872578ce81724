"""Intentions with a clock, and the trail that the clock leaves."""

from __future__ import annotations

from importlib import import_module

import django.db.models.functions.datetime
from django.db import migrations, models

PostgresOnly = import_module("duebox.migrations.0001_initial").PostgresOnly

# A schedule that repeats is updated at each firing; the room on the page keeps the new version near the old one.
STORAGE = """
ALTER TABLE duebox_schedule SET (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05
);
ALTER TABLE duebox_schedule_log SET (autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE TRIGGER duebox_schedule_log_is_append_only BEFORE UPDATE ON duebox_schedule_log
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_refuse_update();
"""

UNDO = "DROP TRIGGER duebox_schedule_log_is_append_only ON duebox_schedule_log"


class Migration(migrations.Migration):
    dependencies = [
        ("duebox", "0002_emit"),
    ]

    operations = [
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.TextField()),
                ("plan", models.TextField(db_default="")),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("scheduled", "Scheduled"),
                            ("paused", "Paused"),
                            ("completed", "Completed: nothing is left to fire"),
                            ("cancelled", "Cancelled"),
                            ("failed", "Failed: its rule cannot be followed any more"),
                        ],
                        db_default="scheduled",
                    ),
                ),
                (
                    "opt_out",
                    models.TextField(
                        blank=True,
                        choices=[
                            ("", "Nobody cancelled it"),
                            ("key", "Cancelled by its key"),
                            ("entity", "Cancelled with everything about its entity"),
                        ],
                        db_default="",
                    ),
                ),
                ("due_at", models.DateTimeField(null=True)),
                ("occurrence", models.TextField(db_default="")),
                ("local_time", models.TextField(db_default="")),
                ("marks", models.TextField(db_default="")),
                ("fired", models.TextField(db_default="")),
                ("fired_at", models.DateTimeField(null=True)),
                ("remaining", models.PositiveIntegerField(null=True)),
                ("revision", models.PositiveIntegerField(db_default=1)),
                ("zone", models.TextField()),
                ("zone_rules", models.TextField(db_default="")),
                ("tz_release", models.TextField(db_default="")),
                ("intent", models.JSONField()),
                ("type", models.TextField()),
                ("version", models.PositiveSmallIntegerField(db_default=1)),
                ("aggregate_type", models.TextField(db_default="")),
                ("aggregate_id", models.TextField(db_default="")),
                ("organization", models.TextField(db_default="")),
                ("correlation_id", models.TextField(db_default="")),
                ("actor", models.JSONField(null=True)),
                ("data", models.JSONField(default=dict)),
                ("metadata", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "duebox_schedule",
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "scheduled")),
                        fields=["due_at", "id"],
                        name="duebox_schedule_fire_due",
                    ),
                    models.Index(
                        condition=models.Q(("aggregate_type", ""), _negated=True),
                        fields=["aggregate_type", "aggregate_id"],
                        name="duebox_schedule_about",
                    ),
                    models.Index(
                        condition=models.Q(("status", "failed")),
                        fields=["id"],
                        name="duebox_schedule_list_failed",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("key",), name="duebox_schedule_one_per_key"),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["scheduled", "paused", "completed", "cancelled", "failed"])),
                        name="duebox_schedule_known_status",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("opt_out", ""),
                            models.Q(
                                ("opt_out__in", ["key", "entity"]),
                                ("status__in", ["completed", "cancelled", "failed"]),
                            ),
                            _connector="OR",
                        ),
                        name="duebox_schedule_live_without_opt_out",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("due_at__isnull", False), ("status", "scheduled")),
                            models.Q(models.Q(("status", "scheduled"), _negated=True), ("due_at__isnull", True)),
                            _connector="OR",
                        ),
                        name="duebox_schedule_due_if_scheduled",
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
                        name="duebox_schedule_aggregate_is_whole",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("key", ""), _negated=True),
                            models.Q(("type", ""), _negated=True),
                            models.Q(("zone", ""), _negated=True),
                        ),
                        name="duebox_schedule_has_names",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ScheduleLog",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "what",
                    models.TextField(
                        choices=[
                            ("moved", "Moved to another instant"),
                            ("missed", "Missed: it will not fire any more"),
                            ("skipped", "Passed over: no longer valid when it came due"),
                            ("cancelled", "Cancelled"),
                            ("paused", "Paused"),
                            ("resumed", "Resumed"),
                            ("restored", "Asked for again after it was cancelled"),
                            ("failed", "Could not be followed"),
                            ("swept", "Found and stamped by a sweep"),
                        ]
                    ),
                ),
                ("source", models.TextField()),
                ("occurrence", models.TextField(db_default="")),
                ("aggregate_type", models.TextField(db_default="")),
                ("aggregate_id", models.TextField(db_default="")),
                ("due_before", models.DateTimeField(null=True)),
                ("due_after", models.DateTimeField(null=True)),
                ("run", models.TextField(db_default="")),
                ("event_id", models.UUIDField(null=True)),
                ("note", models.TextField(db_default="")),
                ("occurrences", models.PositiveIntegerField(db_default=1)),
                ("last_occurrence", models.TextField(db_default="")),
            ],
            options={
                "db_table": "duebox_schedule_log",
                "indexes": [
                    models.Index(fields=["source", "id"], name="duebox_schedule_log_of_source"),
                    models.Index(
                        condition=models.Q(("aggregate_type", ""), _negated=True),
                        fields=["aggregate_type", "aggregate_id"],
                        name="duebox_schedule_log_about",
                    ),
                    models.Index(
                        condition=models.Q(("run", ""), _negated=True),
                        fields=["run"],
                        name="duebox_schedule_log_of_run",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "what__in",
                                [
                                    "moved",
                                    "missed",
                                    "skipped",
                                    "cancelled",
                                    "paused",
                                    "resumed",
                                    "restored",
                                    "failed",
                                    "swept",
                                ],
                            )
                        ),
                        name="duebox_schedule_log_known_what",
                    )
                ],
            },
        ),
        PostgresOnly(STORAGE, UNDO),
    ]
