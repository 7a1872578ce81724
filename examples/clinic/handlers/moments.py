"""What is sent when a moment has come. The message and the settlement commit together: each goes out once."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

import duebox
from duebox.when import local_time
from examples.clinic import outside
from examples.clinic.events import ReminderDue, TaskDueSoon
from examples.clinic.handlers.notifications import SOON
from examples.clinic.models import Appointment, Doctor, Message

LEADS = {"-P1D": "tomorrow", "-PT2H": "in 2 hours", "-PT15M": "in 15 minutes"}


@duebox.on(ReminderDue, name="sms.reminder", retry=SOON)
def remind(event: duebox.Fact, due: ReminderDue) -> None:
    """Says when and with whom, on the clock of the patient."""
    outside.must_be_up()
    lead = LEADS[event.metadata["schedule"]["occurrence"].rpartition("/")[2]]
    _send(event, to=due.name, text=f"{due.doctor} {lead}, {local_time(due.starts_at, due.zone):%H:%M}")


@duebox.on("appointment.follow_up_due", name="mail.follow_up")
def ask_how_it_goes(event: duebox.Fact) -> None:
    """Asks the patient."""
    _send(event, to=event.data["name"], text=f"how do you feel after {event.data['doctor']}?")


@duebox.on("patient.birthday_came", name="mail.birthday")
def congratulate(event: duebox.Fact) -> None:
    """Wishes a happy birthday."""
    _send(event, to=event.data["name"], text="happy birthday!")


@duebox.on("doctor.review_due", name="mail.review")
def list_the_week(event: duebox.Fact) -> None:
    """Counts what is booked for the seven days to come."""
    doctor = Doctor.objects.get(pk=event.data["name"])
    week = (event.occurred_at, event.occurred_at + timedelta(days=7))
    booked = doctor.appointments.filter(status=Appointment.Status.BOOKED, starts_at__range=week).count()
    _send(event, to=doctor.name, text=f"{booked} booked this week")


@duebox.on(TaskDueSoon, name="mail.task")
def urge(event: duebox.Fact, task: TaskDueSoon) -> None:
    """Tells whoever has to do it."""
    _send(event, to=task.assignee, text=f"{task.title}, until {local_time(task.due_at, task.zone):%a %H:%M}")


def _send(event: duebox.Fact, *, to: str, text: str) -> None:
    zone = event.data["zone"]
    Message.objects.create(event_id=event.id, recipient=to, zone=zone, text=text, sent_at=timezone.now())
