from __future__ import annotations

import secrets

from django.db import models
from django.db.models import Q

_UNMISTAKABLE = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"


def booking_reference() -> str:
    """Known before the row is saved, so that an event may be emitted first; and fit to be read out on the phone."""
    return "".join(secrets.choice(_UNMISTAKABLE) for _ in range(6))


class Doctor(models.Model):
    """Has a list of appointments, and a clock on the wall of the surgery."""

    name = models.TextField(primary_key=True)
    zone = models.TextField(default="UTC")

    def __str__(self) -> str:
        return self.name


class Patient(models.Model):
    class Status(models.TextChoices):
        INVITED = "invited"
        REGISTERED = "registered"

    name = models.TextField()
    email = models.EmailField()
    phone = models.TextField()
    insurer_code = models.TextField(blank=True)
    zone = models.TextField(default="UTC")
    born_on = models.DateField(null=True, blank=True)
    status = models.TextField(choices=Status, default=Status.INVITED)

    def __str__(self) -> str:
        return self.name


class Appointment(models.Model):
    class Status(models.TextChoices):
        BOOKED = "booked"
        CANCELLED = "cancelled"
        ATTENDED = "attended"

    reference = models.CharField(primary_key=True, max_length=6, default=booking_reference, editable=False)
    patient = models.ForeignKey(Patient, models.CASCADE, related_name="appointments")
    doctor = models.ForeignKey(Doctor, models.PROTECT, related_name="appointments")
    starts_at = models.DateTimeField()
    status = models.TextField(choices=Status, default=Status.BOOKED)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["doctor", "starts_at"], condition=Q(status="booked"), name="clinic_doctor_is_free"
            )
        ]

    def __str__(self) -> str:
        return f"{self.reference}: {self.doctor_id} at {self.starts_at:%Y-%m-%d %H:%M}"


class Invoice(models.Model):
    class Status(models.TextChoices):
        OPEN = "open"
        PAID = "paid"

    appointment = models.ForeignKey(Appointment, models.CASCADE, related_name="invoices")
    amount = models.DecimalField(max_digits=8, decimal_places=2)
    reason = models.TextField()
    status = models.TextField(choices=Status, default=Status.OPEN)

    def __str__(self) -> str:
        return f"{self.reason}: {self.amount}"


class Insurer(models.Model):
    """An insurer that the clinic has a contract with."""

    code = models.TextField(unique=True)

    def __str__(self) -> str:
        return self.code


class InsuranceClaim(models.Model):
    insurer = models.ForeignKey(Insurer, models.CASCADE)
    invoice = models.OneToOneField(Invoice, models.CASCADE)

    def __str__(self) -> str:
        return f"{self.invoice} claimed from {self.insurer}"


class Task(models.Model):
    """Something that a person at the clinic has to do."""

    patient = models.ForeignKey(Patient, models.CASCADE)
    title = models.TextField()
    assignee = models.TextField(blank=True)
    due_at = models.DateTimeField()
    done = models.BooleanField(default=False)
    reminded_at = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return self.title


class Message(models.Model):
    """What was sent because a moment had come. Committed together with its delivery, so there is one for each event."""

    event_id = models.UUIDField(unique=True)
    recipient = models.TextField()
    zone = models.TextField()
    text = models.TextField()
    sent_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.recipient}: {self.text}"


class TimelineEntry(models.Model):
    """What happened to an appointment, in the order in which it happened."""

    appointment = models.ForeignKey(Appointment, models.CASCADE, related_name="timeline")
    event_id = models.UUIDField(unique=True)
    text = models.TextField()

    def __str__(self) -> str:
        return self.text
