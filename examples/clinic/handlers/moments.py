"""What is sent when a moment has come. The message and the settlement commit together: each goes out once."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone

import duebox
from duebox.when import local_time
from examples.clinic.models import Appointment, Doctor, Message

LEADS = {"-P1D": "tomorrow", "-PT2H": "in 2 hours", "-PT15M": "in 15 minutes"}


@duebox.on("appointment.reminder", name="sms.reminder")
def remind(event: duebox.Fact) -> None:
    lead = LEADS[event.metadata["schedule"]["occurrence"].rpartition("/")[2]]
    starts_at = local_time(datetime.fromisoformat(event.data["starts_at"]), event.data["zone"])
    _send(event, to=event.data["name"], text=f"{event.data['doctor']} {lead}, {starts_at:%H:%M}")


@duebox.on("appointment.follow_up", name="mail.follow_up")
def ask_how_it_goes(event: duebox.Fact) -> None:
    _send(event, to=event.data["name"], text=f"how do you feel after {event.data['doctor']}?")


@duebox.on("patient.birthday", name="mail.birthday")
def congratulate(event: duebox.Fact) -> None:
    _send(event, to=event.data["name"], text="happy birthday!")


@duebox.on("doctor.review", name="mail.review")
def list_the_week(event: duebox.Fact) -> None:
    doctor = Doctor.objects.get(pk=event.data["name"])
    week = (event.occurred_at, event.occurred_at + timedelta(days=7))
    booked = doctor.appointments.filter(status=Appointment.Status.BOOKED, starts_at__range=week).count()
    _send(event, to=doctor.name, text=f"{booked} booked this week")


@duebox.on("task.due_soon", name="mail.task")
def urge(event: duebox.Fact) -> None:
    due_at = local_time(datetime.fromisoformat(event.data["due_at"]), event.data["zone"])
    _send(event, to=event.data["assignee"], text=f"{event.data['title']}, until {due_at:%a %H:%M}")


def _send(event: duebox.Fact, *, to: str, text: str) -> None:
    zone = event.data["zone"]
    Message.objects.create(event_id=event.id, recipient=to, zone=zone, text=text, sent_at=timezone.now())
