from __future__ import annotations

from django.db import models

from duebox.fields import TimeZoneField


class Person(models.Model):
    name = models.CharField(max_length=50)
    born_on = models.DateField(null=True)
    zone = TimeZoneField(default="UTC")

    def __str__(self) -> str:
        return self.name


class Greeting(models.Model):
    """What a handler did."""

    name = models.CharField(max_length=50)
    year = models.IntegerField()
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.name} {self.year}"
