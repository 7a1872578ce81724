from __future__ import annotations

from django.db import models

from duebox import audit_log


class Effect(models.Model):
    """The one row that the atomic handler inserts."""

    event_id = models.UUIDField()

    class Meta:
        app_label = "bench"

    def __str__(self) -> str:
        return str(self.event_id)


class Person(models.Model):
    zone = models.TextField()
    born_on = models.DateField()

    def __str__(self) -> str:
        return f"person {self.pk}"


class Contact(models.Model):
    name = models.TextField()
    email = models.TextField()
    city = models.TextField()
    points = models.IntegerField(default=0)

    class Meta:
        abstract = True


class Unfollowed(Contact):
    def __str__(self) -> str:
        return f"contact {self.pk}"


@audit_log.follow(organization="city", hash=["email"])
class Followed(Contact):
    """The same columns, and the audit log follows them."""

    def __str__(self) -> str:
        return f"contact {self.pk}"
