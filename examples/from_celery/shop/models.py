from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models


class Order(models.Model):
    number = models.CharField(max_length=20, unique=True)
    placed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.number

    @property
    def deadline(self) -> datetime:
        return self.placed_at + timedelta(seconds=settings.PAY_WITHIN_SECONDS)


class Result(models.Model):
    """What can be seen of a task: both projects write the same rows."""

    what = models.CharField(max_length=20)
    text = models.CharField(max_length=100)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.what}: {self.text}"
