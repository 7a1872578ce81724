"""The beat schedule of Duebox. Separate from the tasks, so that a settings file can import it."""

from __future__ import annotations

from typing import Any

from celery.schedules import crontab

__all__ = ["beat_schedule"]

SWEEP_SECONDS = 10.0


def beat_schedule(*, sweep_seconds: float = SWEEP_SECONDS, queue: str | None = None) -> dict[str, dict[str, Any]]:
    """Entries for CELERY_BEAT_SCHEDULE. A sweep that no worker started before the next one is sent expires."""
    options = {"queue": queue} if queue else {}
    return {
        "duebox-sweep": {
            "task": "duebox.sweep",
            "schedule": sweep_seconds,
            "options": {**options, "expires": sweep_seconds},
        },
        "duebox-prune": {"task": "duebox.prune", "schedule": crontab(hour="3", minute="40"), "options": options},
    }
