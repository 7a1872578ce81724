from __future__ import annotations

import time

from django.utils import timezone
from reminders.models import Appointment, Result

import duebox
from duebox.when import every


@duebox.on("appointment.reminder_due", name="remind")
@duebox.on("appointment.follow_up_due", name="follow_up")
def remind(event: duebox.Fact) -> None:
    Appointment.objects.filter(pk=event.about[1]).update(last_reminded_at=timezone.now())
    offset = event.metadata["schedule"]["offset"]
    Result.objects.create(what=event.type, text=f"{event.data['title']} {offset} by {'+'.join(event.data['channels'])}")


@duebox.on("workflow.run_due", name="run_workflow", retry=duebox.Retry(jitter=0))
def run_workflow(event: duebox.Fact) -> None:
    if event.attempt <= event.data["failures"]:
        raise ConnectionError("the workflow engine does not answer")
    Result.objects.create(what="workflow", text=f"{event.about[1]} at attempt {event.attempt}")


@duebox.on("rule.evaluation_due", name="evaluate")
def evaluate(event: duebox.Fact) -> None:
    if event.data["rule"] == "unknown":
        raise duebox.Permanent("there is no such rule")
    Result.objects.create(what="rule", text=event.data["rule"])


@duebox.on("export.due", name="export", timeout=1, retry=0)
def export(event: duebox.Fact) -> None:
    Result.objects.create(what="export", text="begun")
    time.sleep(event.data["seconds"])


@duebox.periodic(every(seconds=1), name="pulse")
def pulse() -> None:
    Result.objects.create(what="pulse", text="beat")


@duebox.on("notification.due", name="notify", atomic=False)
async def notify(event: duebox.Fact) -> None:
    await Result.objects.acreate(what="notification", text=event.data["text"])
