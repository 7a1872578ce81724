from __future__ import annotations

from django.db import models
from django.db.models import Q

from duebox.audit_log import follow


@follow(fields=["phone"], mask=["phone"])
class User(models.Model):
    """A person, who may be a member of several organizations. Whoever changes the number is on record, wherever it is
    done; of the number itself the record shows the last four digits."""

    name = models.TextField()
    email = models.EmailField(unique=True)
    phone = models.TextField()

    def __str__(self) -> str:
        return self.name


class Organization(models.Model):
    name = models.TextField(unique=True)
    zone = models.TextField(default="UTC")
    billing_email = models.EmailField()
    billing_address = models.TextField(blank=True)
    tax_number = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.name


class Member(models.Model):
    class Role(models.TextChoices):
        OWNER = "owner"
        DOCTOR = "doctor"
        ASSISTANT = "assistant"

    class Status(models.TextChoices):
        INVITED = "invited"
        JOINED = "joined"
        REMOVED = "removed"

    organization = models.ForeignKey(Organization, models.CASCADE, related_name="members")
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    role = models.TextField(choices=Role)
    status = models.TextField(choices=Status, default=Status.INVITED)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "user"], condition=~Q(status="removed"), name="organizations_member_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.pk}"


class Subscription(models.Model):
    class Plan(models.TextChoices):
        SOLO = "solo"
        TEAM = "team"
        CLINIC = "clinic"

    organization = models.OneToOneField(Organization, models.CASCADE, related_name="subscription")
    plan = models.TextField(choices=Plan)
    seats = models.PositiveIntegerField()
    price = models.DecimalField(max_digits=8, decimal_places=2)
    currency = models.CharField(max_length=3, default="EUR")
    ends_on = models.DateField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.plan}: {self.seats} seats"


class FeedEntry(models.Model):
    """What the members of an organization read about it; nothing personal in it."""

    organization = models.ForeignKey(Organization, models.CASCADE, related_name="feed")
    event_id = models.UUIDField(unique=True)
    text = models.TextField()

    def __str__(self) -> str:
        return self.text
