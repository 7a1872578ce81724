"""An appointment's own history: it must be written in order, so `ordered=True`, one stream per appointment."""

from __future__ import annotations

import duebox
from examples.clinic.models import TimelineEntry


@duebox.on("appointment.*", name="timeline", ordered=True)
def record(event: duebox.Fact) -> None:
    """Adds a line to the history of the appointment."""
    verb = event.type.removeprefix("appointment.")
    TimelineEntry.objects.create(
        appointment_id=event.data["reference"], event_id=event.id, text=f"{verb} at {event.occurred_at:%H:%M:%S}"
    )
