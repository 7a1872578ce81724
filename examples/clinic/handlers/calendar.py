"""Calendar entry by mail. People who book often change it at once, so this waits a moment and then looks again."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

import duebox
from duebox.contracts import read
from examples.clinic import outside
from examples.clinic.models import Appointment

# A clinic would rather take ten minutes; the demo has not that much time.
CALM = timedelta(seconds=2)


@duebox.on("appointment.booked", name="calendar", atomic=False)
@duebox.on("appointment.rescheduled", name="calendar.new_time", atomic=False)
def send_entry(event: duebox.Fact) -> duebox.Snooze | duebox.Discard | None:
    """Sleeps until things have calmed down, then looks whether the appointment still stands."""
    if timezone.now() < event.occurred_at + CALM:
        return duebox.Snooze(until=event.occurred_at + CALM)
    told = read(event)
    appointment = Appointment.objects.select_related("patient").get(reference=told.reference)
    if appointment.status == Appointment.Status.CANCELLED:
        return duebox.Discard("appointment was cancelled")
    if appointment.starts_at != told.starts_at:
        return duebox.Discard("appointment has another time now")
    outside.mail(event, to=appointment.patient.email, text=f"{told.doctor}, {told.starts_at}")
    return None
