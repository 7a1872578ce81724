"""Clubs and their members: what the tests of the audit log change and look at."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from django.db import models

from duebox import audit_log


class Club(models.Model):
    """Followed by nobody."""

    name = models.TextField(default="chess")

    def __str__(self) -> str:
        return self.name


@audit_log.follow(organization="club", drop=["password"], mask=["phone"], hash=["email"])
class Member(models.Model):
    club = models.ForeignKey(Club, null=True, on_delete=models.CASCADE)
    name = models.TextField(default="Ann")
    role = models.TextField(default="guest")
    email = models.TextField(null=True)  # noqa: DJ001 - nothing, and not an empty text, is what it was before
    phone = models.TextField(null=True)  # noqa: DJ001
    password = models.TextField(default="")
    balance = models.DecimalField(max_digits=8, decimal_places=2, default=Decimal(0))
    joined_at = models.DateTimeField(null=True)
    practice_at = models.TimeField(null=True)
    practice_for = models.DurationField(default=timedelta)
    picture = models.BinaryField(null=True)
    wishes = models.JSONField(default=dict)
    saved_at = models.DateTimeField(auto_now=True)
    friends = models.ManyToManyField("self", symmetrical=False)

    def __str__(self) -> str:
        return self.name


class Captain(Member):
    """The same rows under another name."""

    class Meta:
        proxy = True

    def __str__(self) -> str:
        return f"captain {self.name}"


class Coach(Member):
    """Members with a table of their own beside that of all members."""

    licence = models.TextField(default="B")

    def __str__(self) -> str:
        return f"coach {self.name}"


@audit_log.follow(organization="member__club", fields=["number", "member"])
class Furniture(models.Model):
    """Belongs to a club by way of a member. Followed whatever it is."""

    member = models.ForeignKey(Member, null=True, on_delete=models.CASCADE)
    number = models.IntegerField(default=1)

    class Meta:
        abstract = True


class Locker(Furniture):
    note = models.TextField(default="")

    def __str__(self) -> str:
        return f"locker {self.number}"


@audit_log.follow(organization="club")
class Chair(models.Model):
    """Has a composite primary key."""

    pk = models.CompositePrimaryKey("club_id", "place")
    club = models.ForeignKey(Club, on_delete=models.CASCADE)
    place = models.CharField(max_length=20)
    holder = models.TextField(default="")

    def __str__(self) -> str:
        return f"chair {self.place}"
