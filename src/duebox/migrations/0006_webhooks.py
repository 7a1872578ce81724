"""Webhooks: the endpoints of organizations, and what was received from others."""

from __future__ import annotations

from importlib import import_module

import django.db.models.functions.datetime
from django.db import migrations, models

import duebox.ids

PostgresOnly = import_module("duebox.migrations.0001_initial").PostgresOnly

# One public event becomes a delivery for each endpoint of its organization that wants it. An endpoint that is disabled
# gets a line in the history instead, so that what it missed can be found and sent later. What is public, and whose it
# is, is read from the event itself: nobody can pass another organization here. A function, because the server keeps its
# plan, which takes as long to make as to run; one statement in it, because each one sees the endpoints of its own moment.
FAN_OUT = r"""
CREATE OR REPLACE FUNCTION duebox_fan_out(
    given uuid[], prefix text, moment timestamptz, OUT routed bigint, OUT missed bigint
) LANGUAGE plpgsql AS $$
BEGIN
    WITH wanted AS MATERIALIZED (
        SELECT endpoint.id, endpoint.disabled_at, endpoint.disabled_reason, event.id AS event_id, place
        FROM unnest(given) WITH ORDINALITY AS asked (event_id, place)
        JOIN duebox_event event ON event.id = asked.event_id
        JOIN duebox_webhook_endpoint endpoint ON endpoint.organization = event.organization
        WHERE starts_with(event.type, 'public.')
          AND event.organization <> ''
          AND EXISTS (
              SELECT FROM jsonb_array_elements_text(endpoint.types) pattern
              WHERE substr(event.type, 8) LIKE replace(replace(pattern, '_', '\_'), '*', '%')
          )
    ), delivery AS (
        INSERT INTO duebox_delivery (event_id, subscriber, due_at)
        SELECT event_id, prefix || id::text, coalesce(moment, statement_timestamp())
        FROM wanted WHERE disabled_at IS NULL
        ORDER BY place
        RETURNING 1
    ), attempt AS (
        INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at, note)
        SELECT event_id, nextval(pg_get_serial_sequence('duebox_delivery', 'id')), prefix || id::text, 0, 'discarded',
               coalesce(moment, statement_timestamp()), coalesce(moment, statement_timestamp()),
               'the endpoint is disabled' || coalesce(': ' || nullif(disabled_reason, ''), '')
        FROM wanted WHERE disabled_at IS NOT NULL
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM delivery), (SELECT count(*) FROM attempt) INTO routed, missed;
    -- NOTIFY in every commit halves concurrent inserts, so it is sent only while a worker sleeps by it.
    IF routed > 0 AND EXISTS (
        SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp()
    ) THEN
        PERFORM pg_notify('duebox', '');
    END IF;
END $$;
"""

UNFAN_OUT = "DROP FUNCTION duebox_fan_out(uuid[], text, timestamptz);"


class Migration(migrations.Migration):
    dependencies = [
        ("duebox", "0005_destinations"),
    ]

    operations = [
        migrations.CreateModel(
            name="WebhookEndpoint",
            fields=[
                ("id", models.UUIDField(default=duebox.ids.uuid7, editable=False, primary_key=True, serialize=False)),
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
                "indexes": [models.Index(fields=["received_at"], name="duebox_webhook_receipt_by_age")],
                "constraints": [
                    models.UniqueConstraint(fields=("source", "webhook_id"), name="duebox_webhook_receipt_once")
                ],
            },
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("subscriber__contains", "/")),
                fields=["subscriber", "id"],
                name="duebox_attempt_of_part",
            ),
        ),
        PostgresOnly(FAN_OUT, UNFAN_OUT),
    ]
