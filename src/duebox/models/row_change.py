from __future__ import annotations

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q
from django.db.models.functions import Now


class TextArrayField(models.Field):  # type: ignore[type-arg]
    """A column of texts. Django's own ArrayField needs `django.contrib.postgres` in INSTALLED_APPS."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "text[]"


class RowChange(models.Model):
    """Rows that a plan follows were changed by one statement, and their schedules were not planned again yet.

    Written by triggers on the followed tables, in the transaction of the change; removed by the transaction that plans
    the row again. Most of the time this table is empty.
    """

    id = models.BigAutoField(primary_key=True)
    source = models.TextField()
    """The entity type of the followed model, such as `clinic.appointment`."""
    key = models.TextField()
    """The primary key as text, of a statement that changed one row; empty for all rows, after a TRUNCATE."""
    keys = TextArrayField(null=True)
    """Those of a statement that changed several rows, at most 1,000 of them; `key` is the first."""
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "duebox_row_change"
        indexes = [
            models.Index(fields=["source", "key"], name="duebox_row_change_of_row"),
            models.Index(fields=["source"], condition=Q(keys__isnull=False), name="duebox_row_change_of_rows"),
        ]

    def __str__(self) -> str:
        return f"{self.source}:{self.key or '*'}" if self.keys is None else f"{self.source}: {len(self.keys)} rows"
