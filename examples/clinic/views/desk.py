"""What is done at the front desk: invoices and tasks."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

import duebox
from examples.clinic import events, forms
from examples.clinic.models import Invoice, Patient, Task
from examples.clinic.refusals import Refused


@require_POST
def pay_invoice(request: HttpRequest, pk: int) -> HttpResponse:
    invoice = get_object_or_404(Invoice.objects.select_for_update(), pk=pk)
    if invoice.status == Invoice.Status.PAID:
        raise Refused("this invoice is paid already")
    invoice.status = Invoice.Status.PAID
    invoice.save(update_fields=["status"])
    patient = invoice.appointment.patient
    paid = events.InvoicePaid(
        invoice=invoice.pk, amount=invoice.amount, email=patient.email, insurer=patient.insurer_code
    )
    duebox.emit(paid, about=invoice, idempotency_key=forms.key(request))
    return forms.answer(request, {"invoice": invoice.pk})


@require_POST
def add_task(request: HttpRequest) -> HttpResponse:
    patient = get_object_or_404(Patient, pk=forms.number(request, "patient"))
    due_at = forms.moment(forms.field(request, "due_at"), patient.zone)
    task = Task.objects.create(patient=patient, title=forms.field(request, "title"), due_at=due_at)
    return _tell(request, events.TaskAdded(title=task.title), task)


@require_POST
def finish_task(request: HttpRequest, pk: int) -> HttpResponse:
    task = get_object_or_404(Task.objects.select_for_update(), pk=pk)
    task.done = True
    task.save(update_fields=["done"])
    return _tell(request, events.TaskFinished(title=task.title), task)


def _tell(request: HttpRequest, fact: object, task: Task) -> HttpResponse:
    duebox.emit(fact, about=task, idempotency_key=forms.key(request))
    return forms.answer(request, {"task": task.pk})
