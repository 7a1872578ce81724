from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class DestinationState(models.Model):
    """What all workers must know about a destination, or a part of one: paused, failing, how much it may be sent.

    A row is made when there is something to say; most destinations have none.
    """

    name = models.TextField(primary_key=True)
    paused_at = models.DateTimeField(null=True)
    paused_note = models.TextField(db_default="")
    open_until = models.DateTimeField(null=True)
    opened = models.PositiveIntegerField(db_default=0)
    failing_since = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error = models.TextField(db_default="")
    tokens = models.FloatField(null=True)
    refilled_at = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "duebox_destination_state"
        constraints = [
            models.CheckConstraint(
                condition=Q(tokens__isnull=True) | Q(refilled_at__isnull=False),
                name="duebox_destination_state_tokens_have_a_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {'paused' if self.paused_at else 'open' if self.open_until else 'closed'}"
