"""What happens when: moments that follow patients, doctors and appointments, each on the right wall clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

import duebox
from duebox.when import Rule, anniversary, days, hours, minutes, rrule
from examples.clinic import timelapse
from examples.clinic.models import Appointment, Doctor, Patient

BOOKED, ATTENDED, CANCELLED = Appointment.Status.BOOKED, Appointment.Status.ATTENDED, Appointment.Status.CANCELLED


class ForPatients(duebox.Plan):
    """Moments of an appointment, on the clock of the patient, who may move to another zone meanwhile."""

    follows = {Patient: "patient"}

    def queryset(self) -> QuerySet[Any]:
        return Appointment.objects.select_related("patient")

    def anchor(self, row: Appointment) -> datetime:
        return row.starts_at

    def zone(self, row: Appointment) -> str:
        return row.patient.zone

    def data(self, row: Appointment) -> dict[str, Any]:
        patient = {"patient": row.patient_id, "name": row.patient.name, "zone": row.patient.zone}
        return {**patient, "reference": row.pk, "doctor": row.doctor_id, "starts_at": row.starts_at}


class AppointmentReminders(ForPatients):
    """A day before is the same time of day, however long that day is; two hours before are two hours."""

    model = Appointment
    event = "appointment.reminder_due"
    offsets = (days(-1), hours(-2), minutes(-15))
    catch_up = timelapse.patience()

    def when(self, row: Appointment) -> bool:
        return row.status == BOOKED

    def still_valid(self, rows: QuerySet[Appointment]) -> QuerySet[Appointment]:
        return rows.filter(status=BOOKED)


class FollowUps(ForPatients):
    """A day after, if the patient came."""

    model = Appointment
    event = "appointment.follow_up_due"
    offsets = (days(1),)

    def when(self, row: Appointment) -> bool:
        return row.status != CANCELLED

    def still_valid(self, rows: QuerySet[Appointment]) -> QuerySet[Appointment]:
        return rows.filter(status=ATTENDED)


class Birthdays(duebox.Plan):
    """At nine in the morning where the patient lives. Born on 29 February: on the 28th, in years without a 29th."""

    model = Patient
    event = "patient.birthday_came"

    def rule(self, row: Patient) -> Rule | None:
        return anniversary(row.born_on, at="09:00", leap="backward") if row.born_on else None

    def zone(self, row: Patient) -> str:
        return row.zone

    def data(self, row: Patient) -> dict[str, Any]:
        return {"name": row.name, "zone": row.zone}


class WeeklyReviews(duebox.Plan):
    """Each Monday at eight every doctor gets the list of the week."""

    model = Doctor
    event = "doctor.review_due"

    def rule(self, row: Doctor) -> Rule:
        return rrule("FREQ=WEEKLY;BYDAY=MO", start=datetime(2026, 1, 5, 8))

    def zone(self, row: Doctor) -> str:
        return row.zone

    def data(self, row: Doctor) -> dict[str, Any]:
        return {"name": row.name, "zone": row.zone}
