"""People, rooms and appointments: what the tests of plans hang reminders and greetings on."""

from __future__ import annotations

import uuid
from datetime import date

from django.db import models


class Person(models.Model):
    name = models.TextField(default="Ann")
    zone = models.TextField(default="Europe/London")
    born_on = models.DateField(default=date(1990, 6, 15))

    def __str__(self) -> str:
        return self.name


class Room(models.Model):
    zone = models.TextField(default="Asia/Tokyo")

    def __str__(self) -> str:
        return f"room {self.pk}"


class Appointment(models.Model):
    """Starts at an instant, or where `local_start` is given by the clock on some wall."""

    person = models.ForeignKey(Person, null=True, on_delete=models.CASCADE)
    room = models.ForeignKey(Room, null=True, on_delete=models.SET_NULL)
    starts_at = models.DateTimeField(null=True)
    local_start = models.TextField(default="")
    status = models.TextField(default="booked")

    def __str__(self) -> str:
        return f"appointment {self.pk}"


class Emergency(Appointment):
    """The same rows under another name."""

    class Meta:
        proxy = True


class Surgery(Appointment):
    """A row of its own beside that of the appointment."""

    theatre = models.TextField(default="A")

    def __str__(self) -> str:
        return f"surgery {self.pk}"


class Device(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    serviced_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"device {self.pk}"
