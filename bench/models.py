from __future__ import annotations

from django.db import models


class Effect(models.Model):
    """The one row that the atomic handler inserts."""

    event_id = models.UUIDField()

    class Meta:
        app_label = "bench"

    def __str__(self) -> str:
        return str(self.event_id)


class Person(models.Model):
    zone = models.TextField()
    born_on = models.DateField()

    def __str__(self) -> str:
        return f"person {self.pk}"
