"""A second app, with a model of the same name as one of `tests.app`."""

from __future__ import annotations

from django.db import models


class Appointment(models.Model):
    animal = models.TextField(default="cat")

    def __str__(self) -> str:
        return f"appointment of a {self.animal}"
