"""Appointments: booked, moved, cancelled, attended. Their reminders are nobody's concern here: see `plans`."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

import duebox
from examples.clinic import events, forms
from examples.clinic.models import Appointment, Doctor, Patient
from examples.clinic.refusals import Refused


@require_POST
def book(request: HttpRequest) -> HttpResponse:
    """One or several at once: if one cannot be had, none is booked, and no event of the others is left."""
    patient = get_object_or_404(Patient, pk=forms.number(request, "patient"))
    doctor = get_object_or_404(Doctor, pk=forms.field(request, "doctor"))
    moments = [forms.moment(text, doctor.zone) for text in request.POST.getlist("starts_at") or [""]]
    wanted = [Appointment(patient=patient, doctor=doctor, starts_at=moment) for moment in moments]
    references = [book_one(each, key=f"{forms.key(request)}/{number}") for number, each in enumerate(wanted, start=1)]
    return forms.answer(request, {"appointments": references}, f"Booked: {patient} with {doctor}.")


def book_one(wanted: Appointment, *, key: str) -> str:
    fact = _fact(events.AppointmentBooked, wanted)
    booked = duebox.emit(fact, about=wanted, organization=events.CLINIC, idempotency_key=key, on_conflict="first")
    if not booked.created:
        return str(booked.data["reference"])  # the second click: answer what the first one got
    _save(wanted, force_insert=True)
    return wanted.reference


def _save(appointment: Appointment, **how: Any) -> None:
    try:
        appointment.save(**how)
    except IntegrityError:
        raise Refused(f"{appointment.doctor} is not free at {appointment.starts_at:%H:%M:%S}") from None


@require_POST
def reschedule(request: HttpRequest, reference: str) -> HttpResponse:
    appointment = _booked(reference)
    appointment.starts_at = forms.moment(forms.field(request, "starts_at"), appointment.doctor.zone)
    _save(appointment, update_fields=["starts_at"])
    return _tell(request, events.AppointmentRescheduled, appointment, "Moved.")


@require_POST
def cancel(request: HttpRequest, reference: str) -> HttpResponse:
    appointment = _booked(reference)
    appointment.status = Appointment.Status.CANCELLED
    appointment.save(update_fields=["status"])
    return _tell(request, events.AppointmentCancelled, appointment, "Cancelled.")


@require_POST
def attend(request: HttpRequest, reference: str) -> HttpResponse:
    appointment = _booked(reference)
    appointment.status = Appointment.Status.ATTENDED
    appointment.save(update_fields=["status"])
    return _tell(request, events.AppointmentAttended, appointment, "The patient came.")


def _booked(reference: str) -> Appointment:
    rows = Appointment.objects.select_for_update(of=["self"]).select_related("patient", "doctor")
    appointment = get_object_or_404(rows, pk=reference)
    if appointment.status != Appointment.Status.BOOKED:
        raise Refused(f"appointment {reference} was {appointment.status} already")
    return appointment


def _tell(request: HttpRequest, kind: type[events.WithPhone], appointment: Appointment, told: str) -> HttpResponse:
    fact = _fact(kind, appointment)
    duebox.emit(fact, about=appointment, organization=events.CLINIC, idempotency_key=forms.key(request))
    return forms.answer(request, {"appointment": appointment.reference}, told)


def _fact(kind: type[events.WithPhone], appointment: Appointment) -> events.WithPhone:
    return kind(
        reference=appointment.reference,
        patient=appointment.patient_id,
        doctor=appointment.doctor_id,
        starts_at=appointment.starts_at,
        phone=appointment.patient.phone,
    )
