from __future__ import annotations

import django.db.models.deletion
import django.db.models.fields.json
import django.db.models.functions.datetime
from django.db import migrations, models

import duebox.events.identities
import duebox.models.audit
import duebox.models.rollup
import duebox.models.schedule
from duebox.store.run_sql import read
from duebox.store.schema import RunPostgresSQL, create


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=duebox.events.identities.uuid7, editable=False, primary_key=True, serialize=False
                    ),
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
                            ("parked", "Dead letter, set aside"),
                        ],
                        db_default="pending",
                    ),
                ),
                ("due_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("lease", models.BigIntegerField(null=True)),
                ("attempt", models.PositiveSmallIntegerField(db_default=0)),
                ("rescues", models.PositiveSmallIntegerField(db_default=0)),
                ("died_at", models.DateTimeField(null=True)),
                ("fingerprint", models.TextField(null=True)),
            ],
            options={
                "verbose_name_plural": "deliveries",
                "db_table": "duebox_delivery",
                "indexes": [
                    models.Index(
                        condition=models.Q(("stream__isnull", False)),
                        fields=["subscriber", "stream", "id"],
                        name="duebox_delivery_stream_head",
                    ),
                    models.Index(
                        condition=models.Q(("status", "dead")), fields=["id"], name="duebox_delivery_list_dead"
                    ),
                    models.Index(fields=["event_id"], name="duebox_delivery_of_event"),
                    models.Index(
                        condition=models.Q(
                            ("status", "pending"), models.Q(("subscriber__startswith", "to:"), _negated=True)
                        ),
                        fields=["due_at", "id"],
                        name="duebox_delivery_claim_due",
                    ),
                    models.Index(
                        condition=models.Q(("status", "pending"), ("subscriber__startswith", "to:")),
                        fields=["subscriber", "due_at", "id"],
                        name="duebox_delivery_claim_outside",
                    ),
                    models.Index(
                        condition=models.Q(("status", "waiting")),
                        fields=["subscriber", "stream", "id"],
                        name="duebox_delivery_waiting",
                    ),
                    models.Index(
                        condition=models.Q(("status", "parked")), fields=["id"], name="duebox_delivery_list_parked"
                    ),
                    models.Index(
                        condition=models.Q(("status__in", ["dead", "parked"])),
                        fields=["id"],
                        name="duebox_delivery_list_failed",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("lease__isnull", True), ("status", "pending"), _connector="OR"),
                        name="duebox_delivery_leased_is_pending",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "waiting"), _negated=True), ("stream__isnull", False), _connector="OR"
                        ),
                        name="duebox_delivery_waiting_has_stream",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("subscriber", ""), _negated=True), name="duebox_delivery_has_subscriber"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["pending", "waiting", "dead", "parked"])),
                        name="duebox_delivery_known_status",
                    ),
                ],
            },
        ),
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
                            ("discarded", "Discarded by the handler or by a person"),
                            ("expired", "Not run, its event had expired"),
                            ("dead", "Failed for good"),
                            ("rescued", "Worker lost, given back"),
                            ("redriven", "Taken from the dead letters"),
                            ("parked", "Set aside by a person"),
                            ("replayed", "Sent again, or to a new subscriber"),
                            ("deduplicated", "Emitted again with its idempotency key; nothing was stored"),
                        ]
                    ),
                ),
                ("due_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("settled_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("took_ms", models.FloatField(null=True)),
                ("lease", models.BigIntegerField(null=True)),
                ("note", models.TextField(db_default="")),
                ("status", models.PositiveSmallIntegerField(null=True)),
            ],
            options={
                "db_table": "duebox_attempt",
                "indexes": [
                    models.Index(fields=["event_id"], name="duebox_attempt_of_event"),
                    models.Index(
                        condition=models.Q(("subscriber__contains", "/")),
                        fields=["subscriber", "id"],
                        name="duebox_attempt_of_part",
                    ),
                    models.Index(
                        condition=models.Q(("outcome__in", ["delivered", "discarded", "expired"]), _negated=True),
                        fields=["id"],
                        name="duebox_attempt_not_final",
                    ),
                ],
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
                                    "expired",
                                    "dead",
                                    "rescued",
                                    "redriven",
                                    "parked",
                                    "replayed",
                                    "deduplicated",
                                ],
                            )
                        ),
                        name="duebox_attempt_known_outcome",
                    )
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
                            ("", "Not cancelled"),
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
                        condition=models.Q(("status", "failed")), fields=["id"], name="duebox_schedule_list_failed"
                    ),
                    models.Index(
                        condition=models.Q(("opt_out", ""), ("status__in", ["completed", "cancelled"])),
                        fields=["updated_at", "id"],
                        name="duebox_schedule_ended",
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
                                ("opt_out__in", ["key", "entity"]), ("status__in", ["completed", "cancelled", "failed"])
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
        migrations.CreateModel(
            name="RowChange",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("source", models.TextField()),
                ("key", models.TextField()),
                ("keys", duebox.models.schedule.TextArrayField(null=True)),
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
        migrations.CreateModel(
            name="DestinationState",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("paused_at", models.DateTimeField(null=True)),
                ("paused_note", models.TextField(db_default="")),
                ("open_until", models.DateTimeField(null=True)),
                ("opened", models.PositiveIntegerField(db_default=0)),
                ("failing_since", models.DateTimeField(null=True)),
                ("failed_at", models.DateTimeField(null=True)),
                ("error", models.TextField(db_default="")),
                ("tokens", models.FloatField(null=True)),
                ("refilled_at", models.DateTimeField(null=True)),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "duebox_destination_state",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("tokens__isnull", True), ("refilled_at__isnull", False), _connector="OR"),
                        name="duebox_destination_state_tokens_have_a_time",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="WebhookEndpoint",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=duebox.events.identities.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("organization", models.TextField()),
                ("url", models.TextField()),
                ("types", models.JSONField(default=list)),
                ("description", models.TextField(db_default="")),
                ("secret", models.TextField()),
                ("previous_secret", models.TextField(db_default="")),
                ("previous_until", models.DateTimeField(null=True)),
                ("headers", models.TextField(db_default="")),
                ("rate", models.FloatField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("enabled_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("disabled_at", models.DateTimeField(null=True)),
                ("disabled_reason", models.TextField(db_default="")),
            ],
            options={
                "db_table": "duebox_webhook_endpoint",
                "indexes": [models.Index(fields=["organization"], name="duebox_webhook_endpoint_of_org")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("organization", ""), _negated=True),
                        name="duebox_webhook_endpoint_has_organization",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("rate__isnull", True), ("rate__gt", 0), _connector="OR"),
                        name="duebox_webhook_endpoint_rate_above_zero",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("previous_secret", ""), ("previous_until__isnull", False), _connector="OR"),
                        name="duebox_webhook_endpoint_previous_ends",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="WebhookReceipt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("source", models.TextField()),
                ("webhook_id", models.TextField()),
                ("received_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "duebox_webhook_receipt",
                "constraints": [
                    models.UniqueConstraint(fields=("source", "webhook_id"), name="duebox_webhook_receipt_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="SentTask",
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
                ("sent_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("error", models.TextField(db_default="")),
                ("permanent", models.BooleanField(db_default=False)),
                ("failure_settled", models.BooleanField(db_default=False)),
            ],
            options={
                "db_table": "duebox_sent_task",
                "indexes": [models.Index(fields=["task_id"], name="duebox_sent_task_of_task")],
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
        migrations.CreateModel(
            name="DeadMail",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "fingerprint", "subscriber", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("fingerprint", models.TextField()),
                ("subscriber", models.TextField()),
                ("mailed_at", models.DateTimeField()),
            ],
            options={
                "db_table": "duebox_dead_mail",
            },
        ),
        migrations.CreateModel(
            name="StoredAuditEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("organization", models.TextField(db_default="")),
                ("recorded_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("action", models.TextField()),
                ("entity_type", models.TextField()),
                ("entity_id", models.TextField()),
                ("actor", models.JSONField(null=True)),
                ("impersonator", models.JSONField(null=True)),
                ("correlation_id", models.TextField(db_default="")),
                ("ip", models.TextField(db_default="")),
                ("user_agent", models.TextField(db_default="")),
                ("changes", models.JSONField(default=dict)),
                ("metadata", models.JSONField(default=dict)),
                ("writer", models.BigIntegerField()),
                ("writer_number", models.BigIntegerField()),
            ],
            options={
                "db_table": "duebox_audit",
                "verbose_name_plural": "stored audit entries",
                "indexes": [
                    models.Index(fields=["entity_id", "entity_type"], name="duebox_audit_about"),
                    models.Index(
                        django.db.models.fields.json.KeyTextTransform("id", "actor"),
                        models.F("id"),
                        condition=models.Q(("actor__isnull", False)),
                        name="duebox_audit_by_actor",
                    ),
                    models.Index(
                        django.db.models.fields.json.KeyTextTransform("id", "impersonator"),
                        models.F("id"),
                        condition=models.Q(("impersonator__isnull", False)),
                        name="duebox_audit_by_impersonator",
                    ),
                    models.Index(fields=["organization", "recorded_at"], name="duebox_audit_of_organization"),
                    models.Index(
                        condition=models.Q(("correlation_id", ""), _negated=True),
                        fields=["correlation_id"],
                        name="duebox_audit_correlated",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("writer", "writer_number"), name="duebox_audit_numbered_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("action", ""), _negated=True),
                            models.Q(("entity_type", ""), _negated=True),
                            models.Q(("entity_id", ""), _negated=True),
                        ),
                        name="duebox_audit_has_names",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("organization", models.TextField(db_default="")),
                ("recorded_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("action", models.TextField()),
                ("entity_type", models.TextField()),
                ("entity_id", models.TextField()),
                ("actor", models.JSONField(null=True)),
                ("impersonator", models.JSONField(null=True)),
                ("correlation_id", models.TextField(db_default="")),
                ("ip", models.TextField(db_default="")),
                ("user_agent", models.TextField(db_default="")),
                ("changes", models.JSONField(default=dict)),
                ("metadata", models.JSONField(default=dict)),
                ("writer", models.BigIntegerField()),
                ("writer_number", models.BigIntegerField()),
            ],
            options={
                "verbose_name_plural": "audit entries",
                "db_table": "duebox_audit_entry",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="AuditBatch",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("recorded_at", models.DateTimeField()),
                ("actor", models.JSONField(null=True)),
                ("impersonator", models.JSONField(null=True)),
                ("correlation_id", models.TextField()),
                ("ip", models.TextField()),
                ("user_agent", models.TextField()),
                ("metadata", models.JSONField()),
                ("writer", models.BigIntegerField()),
                ("writer_number", models.BigIntegerField()),
                ("ids", duebox.models.audit.ArrayColumn("bigint")),
                ("organizations", duebox.models.audit.ArrayColumn("text")),
                ("actions", duebox.models.audit.ArrayColumn("text")),
                ("entity_types", duebox.models.audit.ArrayColumn("text")),
                ("entity_ids", duebox.models.audit.ArrayColumn("text")),
                ("changes", duebox.models.audit.ArrayColumn("jsonb")),
            ],
            options={
                "verbose_name_plural": "audit batches",
                "db_table": "duebox_audit_batch",
                "indexes": [models.Index(fields=["writer", "writer_number"], name="duebox_audit_batch_of_writer")],
            },
        ),
        migrations.CreateModel(
            name="AuditSeal",
            fields=[
                ("sequence", models.BigIntegerField(primary_key=True, serialize=False)),
                (
                    "entry",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="seal",
                        to="duebox.auditentry",
                    ),
                ),
                ("entry_hash", models.BinaryField()),
                ("hash", models.BinaryField()),
            ],
            options={
                "db_table": "duebox_audit_seal",
            },
        ),
        migrations.CreateModel(
            name="AuditErasure",
            fields=[
                ("entry_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("hash", models.BinaryField()),
                ("erased_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={"db_table": "duebox_audit_erasure"},
        ),
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("id", models.SmallIntegerField(db_default=1, primary_key=True, serialize=False)),
                ("sequence", models.BigIntegerField(db_default=0)),
                (
                    "hash",
                    models.BinaryField(
                        db_default=b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
                    ),
                ),
                ("pruned_sequence", models.BigIntegerField(db_default=0)),
                (
                    "pruned_hash",
                    models.BinaryField(
                        db_default=b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
                    ),
                ),
                ("sealed_at", models.DateTimeField(null=True)),
                ("signature", models.BinaryField(db_default=b"")),
            ],
            options={
                "db_table": "duebox_audit_head",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="duebox_audit_head_is_one"),
                    models.CheckConstraint(
                        condition=models.Q(("pruned_sequence__gte", 0), ("sequence__gte", models.F("pruned_sequence"))),
                        name="duebox_audit_head_ends_after_its_beginning",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditWriter",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("process_id", models.IntegerField()),
                ("number", models.BigIntegerField()),
            ],
            options={
                "db_table": "duebox_audit_writer",
                "indexes": [models.Index(fields=["process_id"], name="duebox_audit_writer_process")],
            },
        ),
        migrations.CreateModel(
            name="AuditWriterSealed",
            fields=[
                ("writer", models.BigIntegerField(primary_key=True, serialize=False)),
                ("number", models.BigIntegerField()),
            ],
            options={
                "db_table": "duebox_audit_writer_sealed",
            },
        ),
        migrations.CreateModel(
            name="AuditKey",
            fields=[
                ("purpose", models.TextField(primary_key=True, serialize=False)),
                ("inner_pad", models.BinaryField()),
                ("outer_pad", models.BinaryField()),
            ],
            options={
                "db_table": "duebox_audit_key",
            },
        ),
        migrations.CreateModel(
            name="Rollup",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "span", "kind", "name", "minute", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("span", models.PositiveSmallIntegerField()),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("event", "Events by type"),
                            ("subscriber", "Attempts by handler or destination"),
                            ("schedule", "Occurrences that fired, by event type"),
                            ("schedule_log", "Lines of the schedule log, by what happened"),
                            ("gauge", "Numbers that were read once a minute"),
                            ("progress", "Until when minutes were counted"),
                        ]
                    ),
                ),
                ("name", models.TextField()),
                ("minute", models.DateTimeField()),
                ("count", models.BigIntegerField(db_default=0)),
                ("delivered", models.PositiveIntegerField(db_default=0)),
                ("retried", models.PositiveIntegerField(db_default=0)),
                ("dead", models.PositiveIntegerField(db_default=0)),
                ("snoozed", models.PositiveIntegerField(db_default=0)),
                ("discarded", models.PositiveIntegerField(db_default=0)),
                ("expired", models.PositiveIntegerField(db_default=0)),
                ("rescued", models.PositiveIntegerField(db_default=0)),
                ("repeated", models.PositiveIntegerField(db_default=0)),
                ("lateness_ms", models.FloatField(db_default=0)),
                ("lateness", duebox.models.rollup.IntegerArrayField(null=True)),
                ("wait_ms", models.FloatField(db_default=0)),
                ("wait", duebox.models.rollup.IntegerArrayField(null=True)),
                ("duration_ms", models.FloatField(db_default=0)),
                ("duration", duebox.models.rollup.IntegerArrayField(null=True)),
            ],
            options={
                "db_table": "duebox_rollup",
                "indexes": [models.Index(fields=["span", "minute"], name="duebox_rollup_of_minute")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("span__in", [0, 1, 60])), name="duebox_rollup_known_span"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind__in", ["event", "subscriber", "schedule", "schedule_log", "gauge", "progress"])
                        ),
                        name="duebox_rollup_known_kind",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DeadLetter",
            fields=[],
            options={"verbose_name": "dead letter", "proxy": True, "indexes": [], "constraints": []},
            bases=("duebox.delivery",),
        ),
        migrations.AlterModelOptions(
            name="delivery",
            options={
                "permissions": [
                    ("retry_delivery", "Can retry and park deliveries"),
                    ("discard_delivery", "Can discard deliveries"),
                ],
                "verbose_name_plural": "deliveries",
            },
        ),
        migrations.AlterModelOptions(
            name="event", options={"permissions": [("view_payload", "Can view the payloads of events")]}
        ),
        migrations.AlterModelOptions(
            name="schedule", options={"permissions": [("cancel_schedule", "Can cancel, pause and resume schedules")]}
        ),
        *create(
            "tables",
            "duebox_attempt",
            "duebox_audit",
            "duebox_audit_batch",
            "duebox_audit_key",
            "duebox_audit_writer",
            "duebox_audit_writer_sealed",
            "duebox_delivery",
            "duebox_event",
            "duebox_row_change",
            "duebox_schedule",
            "duebox_schedule_log",
            "duebox_worker",
        ),
        *create(
            "indexes",
            "duebox_audit_between",
            "duebox_row_change_since",
        ),
        *create(
            "functions",
            "duebox_audit_cut",
            "duebox_audit_duration",
            "duebox_audit_json",
            "duebox_audit_keyed",
            "duebox_audit_masked",
            "duebox_audit_number",
            "duebox_audit_refuse",
            "duebox_audit_refuse_unpruned",
            "duebox_audit_write",
            "duebox_claim",
            "duebox_emit",
            "duebox_fan_out",
            "duebox_fire",
            "duebox_insert_event",
            "duebox_next_due",
            "duebox_refuse_update",
            "duebox_row_changes_from",
            "duebox_settle_delivered",
            "duebox_uuid7",
        ),
        *create(
            "triggers",
            "duebox_attempt_is_append_only",
            "duebox_audit_batch_is_append_only",
            "duebox_audit_batch_leaves_unpacked",
            "duebox_audit_head_stays",
            "duebox_audit_is_append_only",
            "duebox_audit_leaves_by_age",
            "duebox_audit_seal_is_append_only",
            "duebox_audit_seal_leaves_by_age",
            "duebox_event_is_immutable",
            "duebox_schedule_log_is_append_only",
        ),
        *create("views", "duebox_audit_entry", "duebox_outbox"),
        # In reverse this is first: triggers on tables of the project write to the tables of Duebox.
        RunPostgresSQL(migrations.RunSQL.noop, read("templates/remove_all")),
    ]
