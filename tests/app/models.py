"""What the tests' handlers write, so that effects can be counted."""

from __future__ import annotations

import uuid

from django.db import models


class Effect(models.Model):
    event_id = models.UUIDField()
    subscriber = models.TextField()
    sequence = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.subscriber}: {self.event_id}"


class Account(models.Model):
    """An aggregate: writers lock it and count up."""

    counter = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"account {self.pk}"


class Seat(models.Model):
    """Taken twice, it fails only at the commit."""

    number = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["number"], deferrable=models.Deferrable.DEFERRED, name="app_seat_once")
        ]

    def __str__(self) -> str:
        return f"seat {self.number}"


class Project(models.Model):
    name = models.TextField(default="garden")

    def __str__(self) -> str:
        return self.name


class Task(models.Model):
    """Reminded of before it is due."""

    title = models.TextField(default="water the plants")
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE)
    done = models.BooleanField(default=False)
    due_at = models.DateTimeField()
    reminded_at = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(null=True, auto_now=True)

    class Meta:
        ordering = ["-due_at"]

    def __str__(self) -> str:
        return self.title


class Errand(Task):
    """A task with a table of its own beside that of all tasks."""

    place = models.TextField(default="market")

    def __str__(self) -> str:
        return f"{self.title} at {self.place}"


class Parcel(models.Model):
    """Keys and columns that have to be quoted."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    told_at = models.DateTimeField(null=True, db_column="Told At")

    class Meta:
        db_table = "app Parcel"

    def __str__(self) -> str:
        return f"parcel {self.pk}"


from tests.app.guests import Greeting, Guest, Visit  # noqa: E402, F401 - a file of their own
from tests.app.members import Captain, Chair, Club, Coach, Locker, Member  # noqa: E402, F401 - of the audit log
from tests.app.people import Appointment, Device, Emergency, Person, Room, Surgery  # noqa: E402, F401 - models of this app too
