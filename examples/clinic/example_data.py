"""People to start with, and an appointment whose first reminder falls into the hour that clocks skip."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone

import duebox
from duebox.when import resolve
from examples.clinic import events
from examples.clinic.models import Appointment, Doctor, Patient
from examples.clinic.views.appointments import book_one

PATIENTS = {
    "Ada": "Europe/Berlin",
    "Keiko": "Asia/Tokyo",
    "Luís": "America/Sao_Paulo",
    "Matilda": "Australia/Sydney",
}
DOCTORS = {"Dr. Rivera": "America/New_York", "Dr. Okafor": "Africa/Lagos", "Dr. Lindqvist": "Europe/Stockholm"}
ZONES = sorted(
    {*PATIENTS.values(), *DOCTORS.values(), "America/Los_Angeles", "Asia/Kolkata", "Europe/London", "Pacific/Auckland"}
)


def add() -> Appointment:
    """In the transaction of the caller."""
    doctors = [Doctor.objects.get_or_create(name=name, defaults={"zone": zone})[0] for name, zone in DOCTORS.items()]
    patients = [_invite(name, zone) for name, zone in PATIENTS.items()]
    # At 02:30 in Berlin on the Monday after clocks change; a day before, 02:30 does not exist there.
    return _book(patients[0], doctors[0], datetime(2027, 3, 28, 20, 30))


def _invite(name: str, zone: str) -> Patient:
    mail = f"{name.lower().replace('í', 'i')}@example.org"
    patient = Patient.objects.create(name=name, email=mail, phone="+41 79 555 0104", zone=zone)
    duebox.emit(events.PatientInvited(patient=patient.pk, name=name, email=mail), about=patient)
    return patient


def _book(patient: Patient, doctor: Doctor, local: datetime) -> Appointment:
    starts_at = resolve(local, doctor.zone)[0].instant
    if starts_at <= timezone.now():  # by hand, without the clock of the demo
        starts_at = timezone.now().replace(second=0, microsecond=0) + timedelta(days=2)
    wanted = Appointment(patient=patient, doctor=doctor, starts_at=starts_at)
    book_one(wanted, key=f"example:{wanted.reference}")
    return wanted
