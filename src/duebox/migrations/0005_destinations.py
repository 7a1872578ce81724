"""Destinations: their deliveries are claimed apart from those of handlers, and all workers know how each one fares."""

from __future__ import annotations

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("duebox", "0004_audit"),
    ]

    operations = [
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
            },
        ),
        migrations.RemoveIndex(
            model_name="delivery",
            name="duebox_delivery_claim_due",
        ),
        migrations.AddField(
            model_name="attempt",
            name="status",
            field=models.PositiveSmallIntegerField(null=True),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status", "pending"), models.Q(("subscriber__startswith", "to:"), _negated=True)),
                fields=["due_at", "id"],
                name="duebox_delivery_claim_due",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status", "pending"), ("subscriber__startswith", "to:")),
                fields=["subscriber", "due_at", "id"],
                name="duebox_delivery_claim_outside",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status", "waiting")),
                fields=["subscriber", "stream", "id"],
                name="duebox_delivery_waiting",
            ),
        ),
        migrations.AddConstraint(
            model_name="destinationstate",
            constraint=models.CheckConstraint(
                condition=models.Q(("tokens__isnull", True), ("refilled_at__isnull", False), _connector="OR"),
                name="duebox_destination_state_tokens_have_a_time",
            ),
        ),
    ]
