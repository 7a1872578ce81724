from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Worker(models.Model):
    """A lease: one row per worker process and start, kept alive by its heartbeat on the database's clock.

    The id is the fencing token: it is never used twice, every claim carries it, and a worker that lost its lease
    must take a new one before it claims again.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.TextField()
    mode = models.TextField(db_default="poll")
    listening = models.BooleanField(db_default=False)
    started_at = models.DateTimeField(db_default=Now())
    beat_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    suspect = models.BigIntegerField(null=True)

    class Meta:
        db_table = "duebox_worker"
        constraints = [
            models.CheckConstraint(condition=Q(mode__in=["listen", "poll"]), name="duebox_worker_known_mode"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.mode}), alive until {self.expires_at:%H:%M:%S}"
