from __future__ import annotations

from django.db import models


class Handover(models.Model):
    """A delivery whose event is with a task of another system, until that task says how it ended."""

    pk = models.CompositePrimaryKey("subscriber", "event_id")
    subscriber = models.TextField()
    event_id = models.UUIDField()
    task_id = models.TextField()
    task = models.TextField()
    handed_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    error = models.TextField(db_default="")
    permanent = models.BooleanField(db_default=False)
    told = models.BooleanField(db_default=False)

    class Meta:
        db_table = "duebox_handover"
        indexes = [models.Index(fields=["task_id"], name="duebox_handover_of_task")]

    def __str__(self) -> str:
        return f"{self.event_id} to {self.subscriber}, task {self.task_id}"
