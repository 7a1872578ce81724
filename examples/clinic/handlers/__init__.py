"""Who reacts to the clinic's events. Duebox imports this package when Django starts; every module registers its own."""

from __future__ import annotations

from examples.clinic.handlers import calendar, insurance, moments, notifications, rules, timeline, workflows

__all__ = ["calendar", "insurance", "moments", "notifications", "rules", "timeline", "workflows"]
