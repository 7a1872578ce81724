"""Workflow triggers: one event starts a piece of work, whose own event moves it on."""

from __future__ import annotations

from datetime import timedelta

import duebox
from examples.clinic.events import IntakeStarted
from examples.clinic.models import Task

INTAKE = ("Check identity", "Ask for allergies", "Scan insurance card")
NURSES = ("Amara", "Bo", "Chidi")
CALL_AFTER = timedelta(days=7)


@duebox.on("patient.registered", name="workflow.intake")
def start_intake(event: duebox.Fact) -> None:
    """Adds the tasks of an intake."""
    patient, due_at = event.data["patient"], event.occurred_at + timedelta(days=1)
    Task.objects.bulk_create(Task(patient_id=patient, title=title, due_at=due_at) for title in INTAKE)
    duebox.emit(IntakeStarted(patient=patient), about=("patient", patient))


@duebox.on("intake.started", name="workflow.assign")
def assign_nurse(event: duebox.Fact) -> None:
    """Gives them to a nurse."""
    patient = event.data["patient"]
    Task.objects.filter(patient_id=patient, assignee="").update(assignee=NURSES[patient % len(NURSES)])


@duebox.on("appointment.cancelled", name="workflow.waitlist")
def offer_slot(event: duebox.Fact) -> None:
    """Adds a task: offer the time to somebody else."""
    Task.objects.create(
        patient_id=event.data["patient"],
        title=f"Offer {event.data['doctor']} at {event.data['starts_at']} to the waiting list",
        due_at=event.occurred_at,
    )


@duebox.on("appointment.attended", name="follow_up")
def plan_call(event: duebox.Fact) -> None:
    """Adds a task: call in a week."""
    Task.objects.create(
        patient_id=event.data["patient"],
        title="Call and ask how it goes",
        due_at=event.occurred_at + CALL_AFTER,
    )
