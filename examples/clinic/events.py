"""What happens at the clinic, as others may rely on it. Duebox imports this when Django starts, and refuses the rest.

The classes are the contract: `manage.py duebox schemas write` brings `schemas/events` in step with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import duebox
from duebox.contracts import PII

PatientNumber = Annotated[int, "The number of the patient"]
Zone = Annotated[str, "The zone whose clock counts, such as Europe/Zurich"]
Name = Annotated[str, "What the person is called", PII]
Doctor = Annotated[str, "The name of the doctor", PII]
Email = Annotated[str, "Where mail reaches the patient", PII]

# To whom the events of appointments belong: endpoints of this organization get them as webhooks, with these fields.
CLINIC = "clinic"
PUBLIC = frozenset({"reference", "starts_at"})


# People


@dataclass(frozen=True, kw_only=True)
class OfPatient:
    patient: PatientNumber
    name: Name
    email: Email


@duebox.event("patient.invited", aggregate="patient", owner="front desk")
class PatientInvited(OfPatient):
    """Somebody is asked to register as a patient."""


@duebox.event("patient.registered", aggregate="patient", owner="front desk")
class PatientRegistered(OfPatient):
    """A patient has registered, so that intake can begin."""


@duebox.event("patient.moved", aggregate="patient", owner="front desk")
class PatientMoved(OfPatient):
    """A patient lives in another zone from now on."""


@duebox.event("intake.started", aggregate="patient", owner="nursing")
class IntakeStarted:
    """The tasks of a new patient's intake are there, and want a nurse."""

    patient: PatientNumber


@duebox.event("doctor.hired", aggregate="doctor", owner="front desk")
class DoctorHired:
    """A doctor works here from now on."""

    name: Name
    zone: Zone


@duebox.event("insurer.contracted", aggregate="insurer", owner="accounts")
class InsurerContracted:
    """An insurer pays for its patients from now on."""

    code: Annotated[str, "As it stands on insurance cards"]


# Appointments


@dataclass(frozen=True, kw_only=True)
class OfAppointment:
    reference: Annotated[str, "Fit to be read out on the phone"]
    patient: PatientNumber
    doctor: Doctor
    starts_at: Annotated[datetime, "When the doctor expects the patient"]


@dataclass(frozen=True, kw_only=True)
class WithPhone(OfAppointment):
    phone: Annotated[str, "Where text messages reach the patient", PII]


@duebox.event("appointment.booked", aggregate="appointment", owner="front desk", public=PUBLIC)
class AppointmentBooked(WithPhone):
    """A patient has a time with a doctor."""


@duebox.event("appointment.rescheduled", aggregate="appointment", owner="front desk", public=PUBLIC)
class AppointmentRescheduled(WithPhone):
    """The same appointment has another time."""


@duebox.event("appointment.cancelled", aggregate="appointment", owner="front desk", public=PUBLIC)
class AppointmentCancelled(WithPhone):
    """The patient will not come; the time is free again."""


@duebox.event("appointment.attended", aggregate="appointment", owner="front desk", public=PUBLIC)
class AppointmentAttended(WithPhone):
    """The patient came."""


# Accounts and tasks


@duebox.event("invoice.issued", aggregate="invoice", owner="accounts")
class InvoiceIssued:
    """A patient owes the clinic something."""

    amount: Annotated[Decimal, "In francs"]
    reason: Annotated[str, "What stands on the invoice"]
    email: Email


@duebox.event("invoice.paid", aggregate="invoice", owner="accounts")
class InvoicePaid:
    """A patient has paid."""

    invoice: Annotated[int, "Which one"]
    amount: Annotated[Decimal, "In francs"]
    email: Email
    insurer: Annotated[str, "Who pays it back to the patient; empty: nobody"] = ""


@duebox.event("payment.received", aggregate="appointment", owner="billing")
class PaymentReceived:
    """The billing service, another program on the same database, has taken a payment for an appointment."""

    reference: Annotated[str, "That of the appointment"]
    amount: Annotated[Decimal, "In francs"]


@duebox.event("task.added", aggregate="task", owner="nursing")
class TaskAdded:
    """Somebody at the clinic has something to do."""

    title: Annotated[str, "What is to be done"]


@duebox.event("task.finished", aggregate="task", owner="nursing")
class TaskFinished:
    """It is done."""

    title: Annotated[str, "What is to be done"]


# Moments that have come: see `plans` and `sweeps`


@dataclass(frozen=True, kw_only=True)
class ForPatient(OfAppointment):
    name: Name
    zone: Zone


@dataclass(frozen=True, kw_only=True)
class ForPerson:
    name: Name
    zone: Zone


@duebox.event("appointment.reminder_due", aggregate="appointment", owner="front desk")
class ReminderDue(ForPatient):
    """It is time to remind a patient: a day, two hours, or a quarter of an hour before."""


@duebox.event("appointment.follow_up_due", aggregate="appointment", owner="nursing")
class FollowUpDue(ForPatient):
    """A day after the visit: how does the patient feel?"""


@duebox.event("patient.birthday_came", aggregate="patient", owner="front desk")
class BirthdayCame(ForPerson):
    """It is nine in the morning of a patient's birthday."""


@duebox.event("doctor.review_due", aggregate="doctor", owner="front desk")
class ReviewDue(ForPerson):
    """A doctor wants to know what the week brings."""


@duebox.event("task.due_soon", aggregate="task", owner="nursing")
class TaskDueSoon:
    """A task is due within a day, and not finished."""

    assignee: Annotated[str, "Who is to do it"]
    title: Annotated[str, "What is to be done"]
    due_at: Annotated[datetime, "Until when"]
    zone: Zone
