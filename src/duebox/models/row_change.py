from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class RowChange(models.Model):
    """A row that a plan follows was changed, and its schedules were not planned again yet.

    Written by triggers on the followed tables, in the transaction of the change; removed by the transaction that plans
    the row again. Most of the time this table is empty.
    """

    id = models.BigAutoField(primary_key=True)
    source = models.TextField()
    """The entity type of the followed model, such as `clinic.appointment`."""
    key = models.TextField()
    """The primary key as text; empty for all rows, after a TRUNCATE."""
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "duebox_row_change"
        indexes = [models.Index(fields=["source", "key"], name="duebox_row_change_of_row")]

    def __str__(self) -> str:
        return f"{self.source}:{self.key or '*'}"
