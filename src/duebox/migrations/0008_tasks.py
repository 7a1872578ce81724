"""Tasks: those that report how they end, and how those of django.tasks fare."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("duebox", "0007_debezium_view")]

    operations = [
        migrations.CreateModel(
            name="Handover",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "subscriber", "event_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("subscriber", models.TextField()),
                ("event_id", models.UUIDField()),
                ("task_id", models.TextField()),
                ("task", models.TextField()),
                ("handed_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("error", models.TextField(db_default="")),
                ("permanent", models.BooleanField(db_default=False)),
                ("told", models.BooleanField(db_default=False)),
            ],
            options={
                "db_table": "duebox_handover",
                "indexes": [models.Index(fields=["task_id"], name="duebox_handover_of_task")],
            },
        ),
        migrations.CreateModel(
            name="TaskRun",
            fields=[
                ("event_id", models.UUIDField(primary_key=True, serialize=False)),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("READY", "Ready"),
                            ("RUNNING", "Running"),
                            ("FAILED", "Failed"),
                            ("SUCCESSFUL", "Successful"),
                        ]
                    ),
                ),
                ("started_at", models.DateTimeField()),
                ("last_attempted_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                ("return_value", models.JSONField(null=True)),
                ("errors", models.JSONField(default=list)),
                ("worker_ids", models.JSONField(default=list)),
            ],
            options={
                "db_table": "duebox_task",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["READY", "RUNNING", "FAILED", "SUCCESSFUL"])),
                        name="duebox_task_known_status",
                    )
                ],
            },
        ),
    ]
