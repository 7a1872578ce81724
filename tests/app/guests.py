"""People with birthdays and visits, for the tests of time. Their plans are in `tests/crash/time_app.py`."""

from __future__ import annotations

from datetime import time

from django.db import models


class Guest(models.Model):
    born = models.DateField()
    zone = models.TextField()
    greeted_at = models.TimeField(default=time(9))

    def __str__(self) -> str:
        return f"guest {self.pk}, born {self.born}, in {self.zone}"


class Greeting(models.Model):
    """What a guest got: the effect of one event."""

    event_id = models.UUIDField()
    guest_id = models.IntegerField()
    year = models.IntegerField()
    at = models.DateTimeField()
    zone = models.TextField()
    worker = models.IntegerField()

    def __str__(self) -> str:
        return f"guest {self.guest_id} greeted for {self.year} at {self.at} in {self.zone}"


class Visit(models.Model):
    starts_at = models.DateTimeField()
    zone = models.TextField()

    def __str__(self) -> str:
        return f"visit {self.pk} at {self.starts_at} in {self.zone}"
