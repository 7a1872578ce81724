from __future__ import annotations

from django.db import models

from duebox.fields import TimeZoneField


class Appointment(models.Model):
    title = models.CharField(max_length=100)
    starts_at = models.DateTimeField()
    zone = TimeZoneField(default="Europe/Lisbon")
    cancelled = models.BooleanField(default=False)
    last_reminded_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.title


class Workflow(models.Model):
    name = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.name


class Result(models.Model):
    """What a handler did."""

    what = models.CharField(max_length=50)
    text = models.CharField(max_length=200)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.what}: {self.text}"
