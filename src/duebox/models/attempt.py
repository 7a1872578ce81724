from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Attempt(models.Model):
    """History, append-only: one line for every time a delivery changed its fate."""

    class Outcome(models.TextChoices):
        DELIVERED = "delivered", "Delivered"
        RETRIED = "retried", "Failed, to be retried"
        SNOOZED = "snoozed", "Snoozed by the handler"
        DISCARDED = "discarded", "Discarded by the handler or by a person"
        EXPIRED = "expired", "Not run, its event had expired"
        DEAD = "dead", "Failed for good"
        RESCUED = "rescued", "Worker lost, given back"
        REDRIVEN = "redriven", "Taken from the dead letters"
        PARKED = "parked", "Set aside by a person"
        REPLAYED = "replayed", "Sent again, or to somebody new"

    id = models.BigAutoField(primary_key=True)
    event_id = models.UUIDField()
    delivery_id = models.BigIntegerField()
    subscriber = models.TextField()
    number = models.PositiveSmallIntegerField()
    outcome = models.TextField(choices=Outcome)
    due_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(db_default=Now())
    took_ms = models.FloatField(null=True)
    lease = models.BigIntegerField(null=True)
    note = models.TextField(db_default="")
    status = models.PositiveSmallIntegerField(null=True)

    class Meta:
        db_table = "duebox_attempt"
        indexes = [
            models.Index(fields=["event_id"], name="duebox_attempt_of_event"),
            # What became of the events for one endpoint; no handler has a slash in its name.
            models.Index(
                fields=["subscriber", "id"], condition=Q(subscriber__contains="/"), name="duebox_attempt_of_part"
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    outcome__in=[
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
                    ]
                ),
                name="duebox_attempt_known_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_id} to {self.subscriber}, attempt {self.number}: {self.outcome}"
