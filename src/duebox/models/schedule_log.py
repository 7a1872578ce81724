from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class ScheduleLog(models.Model):
    """The trail that the clock leaves, append-only: what was moved, missed, passed over, cancelled; what a sweep found.

    What fires as planned needs no line here: its event says when it was due.
    """

    class What(models.TextChoices):
        MOVED = "moved", "Moved to another instant"
        MISSED = "missed", "Missed: it will not fire any more"
        SKIPPED = "skipped", "Passed over: no longer valid when it came due"
        CANCELLED = "cancelled", "Cancelled"
        PAUSED = "paused", "Paused"
        RESUMED = "resumed", "Resumed"
        RESTORED = "restored", "Asked for again after it was cancelled"
        FAILED = "failed", "Could not be followed"
        SWEPT = "swept", "Found and stamped by a sweep"

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    what = models.TextField(choices=What)
    source = models.TextField()
    occurrence = models.TextField(db_default="")
    aggregate_type = models.TextField(db_default="")
    aggregate_id = models.TextField(db_default="")
    due_before = models.DateTimeField(null=True)
    due_after = models.DateTimeField(null=True)
    run = models.TextField(db_default="")
    event_id = models.UUIDField(null=True)
    note = models.TextField(db_default="")
    occurrences = models.PositiveIntegerField(db_default=1)
    last_occurrence = models.TextField(db_default="")

    class Meta:
        db_table = "duebox_schedule_log"
        indexes = [
            models.Index(fields=["source", "id"], name="duebox_schedule_log_of_source"),
            models.Index(
                fields=["aggregate_type", "aggregate_id"],
                condition=~Q(aggregate_type=""),
                name="duebox_schedule_log_about",
            ),
            models.Index(fields=["run"], condition=~Q(run=""), name="duebox_schedule_log_of_run"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    what__in=[
                        "moved", "missed", "skipped", "cancelled", "paused", "resumed", "restored", "failed", "swept",
                    ]
                ),
                name="duebox_schedule_log_known_what",
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        occurrence = f"/{self.occurrence}" if self.occurrence else ""
        return f"{self.source}{occurrence}: {self.what}"
