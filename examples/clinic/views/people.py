"""Patients, doctors and insurers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

import duebox
from examples.clinic import events, forms
from examples.clinic.models import Doctor, Insurer, Patient
from examples.clinic.refusals import Refused


@require_POST
def invite_patient(request: HttpRequest) -> HttpResponse:
    fields = {name: forms.field(request, name) for name in ("name", "email", "phone")}
    patient = Patient.objects.create(
        **fields,
        insurer_code=request.POST.get("insurer_code", ""),
        zone=forms.zone(request),
        born_on=forms.day(request, "born_on"),
    )
    return _tell(request, events.PatientInvited, patient)


@require_POST
def register_patient(request: HttpRequest, pk: int) -> HttpResponse:
    patient = get_object_or_404(Patient.objects.select_for_update(), pk=pk)
    patient.status = Patient.Status.REGISTERED
    patient.save(update_fields=["status"])
    return _tell(request, events.PatientRegistered, patient)


@require_POST
def move_patient(request: HttpRequest, pk: int) -> HttpResponse:
    """To another zone: birthdays and reminders that are still to come follow in the same transaction."""
    patient = get_object_or_404(Patient.objects.select_for_update(), pk=pk)
    patient.zone = forms.zone(request)
    patient.save(update_fields=["zone"])
    return _tell(request, events.PatientMoved, patient, f"{patient} is in {patient.zone} now.")


@require_POST
def hire_doctor(request: HttpRequest) -> HttpResponse:
    name, zone = forms.field(request, "name"), forms.zone(request)
    doctor, created = Doctor.objects.get_or_create(name=name, defaults={"zone": zone})
    if not created:
        raise Refused(f"{doctor} works here already")
    duebox.emit(events.DoctorHired(name=name, zone=zone), about=doctor, idempotency_key=forms.key(request))
    return forms.answer(request, {"doctor": doctor.pk})


@require_POST
def contract_insurer(request: HttpRequest) -> HttpResponse:
    insurer, created = Insurer.objects.get_or_create(code=forms.field(request, "code"))
    if not created:
        raise Refused(f"there is a contract with {insurer} already")
    duebox.emit(events.InsurerContracted(code=insurer.code), about=insurer, idempotency_key=forms.key(request))
    return forms.answer(request, {"insurer": insurer.pk})


def _tell(request: HttpRequest, kind: type[events.OfPatient], patient: Patient, told: str = "") -> HttpResponse:
    fact = kind(patient=patient.pk, name=patient.name, email=patient.email)
    duebox.emit(fact, about=patient, idempotency_key=forms.key(request))
    return forms.answer(request, {"patient": patient.pk}, told)
