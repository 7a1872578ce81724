"""Dead letters know their cause and can be set aside; what was sent again is told in the history."""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models

PostgresOnly = import_module("duebox.migrations.0001_initial").PostgresOnly

# Their errors are in the history as text alone, from which no fingerprint can be made.
OLDER = "UPDATE duebox_delivery SET died_at = due_at, fingerprint = 'unknown' WHERE status = 'dead';"

# Backwards: before this nobody could be set aside, and nothing was told of it.
AS_BEFORE = """
UPDATE duebox_delivery SET status = 'dead' WHERE status = 'parked';
DELETE FROM duebox_attempt WHERE outcome IN ('parked', 'replayed');
"""


class Migration(migrations.Migration):
    dependencies = [("duebox", "0008_tasks")]

    operations = [
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
        migrations.RemoveConstraint(
            model_name="attempt",
            name="duebox_attempt_known_outcome",
        ),
        migrations.RemoveConstraint(
            model_name="delivery",
            name="duebox_delivery_known_status",
        ),
        migrations.AddField(
            model_name="delivery",
            name="died_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="delivery",
            name="fingerprint",
            field=models.TextField(null=True),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="outcome",
            field=models.TextField(
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
                    ("replayed", "Sent again, or to somebody new"),
                ]
            ),
        ),
        migrations.AlterField(
            model_name="delivery",
            name="status",
            field=models.TextField(
                choices=[
                    ("pending", "Pending"),
                    ("waiting", "Waiting behind an earlier event"),
                    ("dead", "Dead letter"),
                    ("parked", "Dead letter, set aside"),
                ],
                db_default="pending",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status", "parked")), fields=["id"], name="duebox_delivery_list_parked"
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
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
                        ],
                    )
                ),
                name="duebox_attempt_known_outcome",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ["pending", "waiting", "dead", "parked"])),
                name="duebox_delivery_known_status",
            ),
        ),
        PostgresOnly(OLDER, AS_BEFORE),
    ]
