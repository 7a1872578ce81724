"""The clinic that the pages about time talk about. They import it as `clinic.models`."""

from __future__ import annotations

from datetime import date

from django.db import models


class Patient(models.Model):
    name = models.TextField(default="Ada")
    zone = models.TextField(default="Europe/Paris")
    born_on = models.DateField(default=date(1988, 2, 29))

    class Meta:
        app_label = "clinic"

    def __str__(self) -> str:
        return self.name


class Room(models.Model):
    zone = models.TextField(default="Europe/Paris")

    class Meta:
        app_label = "clinic"

    def __str__(self) -> str:
        return f"room {self.pk}"


class Appointment(models.Model):
    patient = models.ForeignKey(Patient, models.CASCADE)
    room = models.ForeignKey(Room, models.SET_NULL, null=True)
    starts_at = models.DateTimeField()
    status = models.TextField(default="booked")

    class Meta:
        app_label = "clinic"

    def __str__(self) -> str:
        return f"appointment {self.pk}"


class Task(models.Model):
    title = models.TextField(default="call back")
    done = models.BooleanField(default=False)
    due_at = models.DateTimeField()
    reminded_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "clinic"

    def __str__(self) -> str:
        return self.title
