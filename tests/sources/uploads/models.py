from __future__ import annotations

from django.db import models


class Upload(models.Model):
    name = models.CharField(max_length=100)
    status = models.CharField(max_length=20, default="pending")

    def __str__(self) -> str:
        return self.name


class Result(models.Model):
    """What a handler or a task did."""

    what = models.CharField(max_length=50)
    text = models.CharField(max_length=200)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.what}: {self.text}"
