from __future__ import annotations

from django.db import models


class Appointment(models.Model):
    starts_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"vet {self.pk}"
