from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    """Questions a person asks about what is to come."""

    def scheduled(self) -> ScheduleQuerySet:
        return self.filter(status="scheduled")

    def about(self, aggregate_type: str, aggregate_id: object) -> ScheduleQuerySet:
        return self.filter(aggregate_type=aggregate_type, aggregate_id=str(aggregate_id))


class Schedule(models.Model):
    """An intention: at this local time in this zone, by this rule, emit that event. One row however often it repeats.

    `intent` is the truth; `due_at` is derived from it, by the release of the zone database named in `tz_release`.
    """

    class Status(models.TextChoices):
        SCHEDULED = "scheduled", "Scheduled"
        PAUSED = "paused", "Paused"
        COMPLETED = "completed", "Completed: nothing is left to fire"
        CANCELLED = "cancelled", "Cancelled"
        FAILED = "failed", "Failed: its rule cannot be followed any more"

    id = models.BigAutoField(primary_key=True)
    key = models.TextField()
    plan = models.TextField(db_default="")
    status = models.TextField(choices=Status, db_default=Status.SCHEDULED)
    due_at = models.DateTimeField(null=True)
    occurrence = models.TextField(db_default="")
    local_time = models.TextField(db_default="")
    marks = models.TextField(db_default="")
    fired = models.TextField(db_default="")
    fired_at = models.DateTimeField(null=True)
    remaining = models.PositiveIntegerField(null=True)
    revision = models.PositiveIntegerField(db_default=1)
    zone = models.TextField()
    zone_rules = models.TextField(db_default="")
    tz_release = models.TextField(db_default="")
    intent = models.JSONField()
    type = models.TextField()
    version = models.PositiveSmallIntegerField(db_default=1)
    aggregate_type = models.TextField(db_default="")
    aggregate_id = models.TextField(db_default="")
    organization = models.TextField(db_default="")
    correlation_id = models.TextField(db_default="")
    actor = models.TextField(db_default="")
    data = models.JSONField(default=dict)
    metadata = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        db_table = "duebox_schedule"
        indexes = [
            models.Index(fields=["due_at", "id"], condition=Q(status="scheduled"), name="duebox_schedule_fire_due"),
            models.Index(
                fields=["aggregate_type", "aggregate_id"],
                condition=~Q(aggregate_type=""),
                name="duebox_schedule_about",
            ),
        ]
        constraints = [
            # Not unique=True: Django would add a second index, for LIKE, that nobody needs.
            models.UniqueConstraint(fields=["key"], name="duebox_schedule_one_per_key"),
            models.CheckConstraint(
                condition=Q(status__in=["scheduled", "paused", "completed", "cancelled", "failed"]),
                name="duebox_schedule_known_status",
            ),
            models.CheckConstraint(
                condition=Q(status="scheduled", due_at__isnull=False) | ~Q(status="scheduled") & Q(due_at__isnull=True),
                name="duebox_schedule_due_if_scheduled",
            ),
            models.CheckConstraint(
                condition=Q(aggregate_type="", aggregate_id="") | ~Q(aggregate_type="") & ~Q(aggregate_id=""),
                name="duebox_schedule_aggregate_is_whole",
            ),
            models.CheckConstraint(condition=~Q(key="") & ~Q(type="") & ~Q(zone=""), name="duebox_schedule_has_names"),
        ]

    def __str__(self) -> str:
        if self.status != "scheduled":
            return f"{self.key}: {self.status}"
        marks = f" ({self.marks})" if self.marks else ""
        return f"{self.key}: {self.type} at {self.local_time} {self.zone}{marks}"
