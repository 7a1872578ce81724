"""Appointment reminders, follow-ups, workflows and business rules that come in time."""

from __future__ import annotations
