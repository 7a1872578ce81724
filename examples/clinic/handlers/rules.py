"""Business rules: what the clinic charges for. The invoice, its event and the settlement commit together."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import duebox
from examples.clinic.events import AppointmentCancelled, InvoiceIssued
from examples.clinic.models import Appointment, Invoice

VISIT_FEE = Decimal("80.00")
LATE_FEE = Decimal("35.00")
FREE_UNTIL = timedelta(hours=24)


@duebox.on("appointment.attended", name="rule.visit_fee")
def charge_visit(event: duebox.Fact) -> None:
    """Writes an invoice for the visit."""
    _issue(event, VISIT_FEE, "Visit")


@duebox.on(AppointmentCancelled, name="rule.late_fee")
def charge_late_cancellation(event: duebox.Fact, cancelled: AppointmentCancelled) -> duebox.Discard | None:
    """Writes an invoice, unless it was cancelled a day before."""
    if cancelled.starts_at - event.occurred_at >= FREE_UNTIL:
        return duebox.Discard("cancelled in time")
    _issue(event, LATE_FEE, "Late cancellation")
    return None


def _issue(cause: duebox.Fact, amount: Decimal, reason: str) -> None:
    appointment = Appointment.objects.select_related("patient").get(reference=cause.data["reference"])
    invoice = Invoice.objects.create(appointment=appointment, amount=amount, reason=reason)
    duebox.emit(
        InvoiceIssued(amount=amount, reason=reason, email=appointment.patient.email),
        about=invoice,
        idempotency_key=f"{reason}:{appointment.pk}",
    )
