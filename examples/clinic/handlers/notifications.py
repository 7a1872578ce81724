"""Notifications: effects outside the database, so `atomic=False`, and everything they need travels in the event."""

from __future__ import annotations

import duebox
from examples.clinic import outside
from examples.clinic.models import Patient

# A gateway that is busy has room again soon; the default of 1, 2, 4 minutes would be too patient.
SOON = duebox.Retry(limit=4, first=0.5, cap=30)


@duebox.on("patient.invited", name="mail.invitation", atomic=False)
def invite(event: duebox.Fact) -> None:
    """Asks the patient to register."""
    outside.mail(event, to=event.data["email"], text=f"Dear {event.data['name']}, please register.")


@duebox.on("patient.registered", name="mail.welcome", atomic=False)
def welcome(event: duebox.Fact) -> None:
    """Greets the patient."""
    outside.mail(event, to=event.data["email"], text=f"Welcome, {event.data['name']}.")


@duebox.on("appointment.booked", name="sms.confirmation", atomic=False, retry=SOON)
def confirm(event: duebox.Fact) -> None:
    """Confirms the time; the gateway may be busy."""
    outside.sms(event, to=event.data["phone"], text=f"{event.data['doctor']} sees you at {event.data['starts_at']}.")


@duebox.on("appointment.rescheduled", name="sms.new_time", atomic=False, retry=SOON)
def tell_new_time(event: duebox.Fact) -> None:
    """Tells the new time; the gateway may be busy."""
    outside.sms(event, to=event.data["phone"], text=f"Your appointment moved to {event.data['starts_at']}.")


@duebox.on("invoice.issued", name="mail.invoice", atomic=False)
def send_invoice(event: duebox.Fact) -> None:
    """Asks for the money."""
    outside.mail(event, to=event.data["email"], text=f"{event.data['reason']}: please pay {event.data['amount']}.")


@duebox.on("invoice.paid", name="mail.receipt", atomic=False)
async def send_receipt(event: duebox.Fact) -> None:
    """Thanks for it."""
    outside.mail(event, to=event.data["email"], text=f"Thank you for {event.data['amount']}.")


@duebox.on("payment.received", name="mail.payment", atomic=False)
def confirm_payment(event: duebox.Fact) -> None:
    """Says that it has arrived."""
    patient = Patient.objects.get(appointments=event.data["reference"])
    outside.mail(event, to=patient.email, text=f"We have received {event.data['amount']}.")


@duebox.on("insurer.contracted", name="mail.insurer", atomic=False)
def greet_insurer(event: duebox.Fact) -> None:
    """Greets the insurer."""
    outside.mail(event, to=f"contracts@{event.data['code'].lower()}.example", text="We look forward to your patients.")
