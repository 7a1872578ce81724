from __future__ import annotations

from django.db import models


class Task(models.Model):
    title = models.CharField(max_length=100)
    due_at = models.DateTimeField(db_index=True)
    reminded_at = models.DateTimeField(null=True, db_index=True)

    def __str__(self) -> str:
        return self.title


class Result(models.Model):
    """What a handler did."""

    what = models.CharField(max_length=50)
    text = models.CharField(max_length=200)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.what}: {self.text}"
