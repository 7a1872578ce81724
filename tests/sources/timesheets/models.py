from __future__ import annotations

from django.db import models

from duebox import audit_log


class TimeEntry(models.Model):
    description = models.CharField(max_length=100)
    status = models.CharField(max_length=20, default="open")

    def __str__(self) -> str:
        return self.description


@audit_log.follow(mask=["phone"], drop=["password"])
class Member(models.Model):
    name = models.CharField(max_length=50)
    phone = models.CharField(max_length=30)
    password = models.CharField(max_length=30, default="")

    def __str__(self) -> str:
        return self.name


class Result(models.Model):
    """What a handler or a destination did."""

    what = models.CharField(max_length=50)
    text = models.CharField(max_length=200)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.what}: {self.text}"
