from __future__ import annotations

from django.db import models


class TaskRun(models.Model):
    """How a task of django.tasks fares. Its event has the arguments; the row is there from its first run on."""

    class Status(models.TextChoices):
        READY = "READY", "Ready"
        RUNNING = "RUNNING", "Running"
        FAILED = "FAILED", "Failed"
        SUCCESSFUL = "SUCCESSFUL", "Successful"

    event_id = models.UUIDField(primary_key=True)
    status = models.TextField(choices=Status)
    started_at = models.DateTimeField()
    last_attempted_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    return_value = models.JSONField(null=True)
    errors = models.JSONField(default=list)
    worker_ids = models.JSONField(default=list)

    class Meta:
        db_table = "duebox_task"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=["READY", "RUNNING", "FAILED", "SUCCESSFUL"]),
                name="duebox_task_known_status",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_id}: {self.status}"
