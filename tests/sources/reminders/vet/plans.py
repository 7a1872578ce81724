from __future__ import annotations

from datetime import datetime
from typing import Any

from reminders.vet.models import Appointment

import duebox
from duebox.when import hours


class VetReminders(duebox.Plan):
    model = Appointment
    event = "notification.due"
    offsets = (hours(-3),)

    def anchor(self, appointment: Any) -> datetime:
        return appointment.starts_at

    def data(self, appointment: Any) -> dict[str, str]:
        return {"text": "vet"}
