from __future__ import annotations

from datetime import datetime
from typing import Any

from reminders.models import Appointment

import duebox
from duebox.when import days, hours, minutes


class _Moments(duebox.Plan):
    def anchor(self, appointment: Any) -> datetime:
        return appointment.starts_at

    def zone(self, appointment: Any) -> str:
        return appointment.zone

    def when(self, appointment: Any) -> bool:
        return not appointment.cancelled

    def data(self, appointment: Any) -> dict[str, Any]:
        return {"title": appointment.title, "channels": ["email", "sms"]}


class Reminders(_Moments):
    model = Appointment
    event = "appointment.reminder_due"
    offsets = (days(-1), hours(-2), minutes(-15))


class FollowUps(_Moments):
    model = Appointment
    event = "appointment.follow_up_due"
    offsets = (days(1),)
