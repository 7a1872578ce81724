"""Sweeps for the crash tests: small batches and slow rows, so that a kill finds them at work."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from duebox.schedules.sweeps import Sweep
from tests.app.models import Task


class SlowReminders(Sweep):
    model = Task
    event = "task.due_soon"
    stamp = "reminded_at"
    every = None
    batch = 50

    def due(self, rows: QuerySet[Any], now: datetime) -> QuerySet[Any]:
        return rows.filter(done=False, due_at__gt=now)

    def data(self, row: Any) -> dict[str, Any]:
        time.sleep(0.001)
        return {"title": row.title}


class DueChores(Sweep):
    """For processes that sweep and redrive at the same time; there is a handler that fails for tasks that say so."""

    model = Task
    event = "chore.due_soon"
    stamp = "reminded_at"
    every = None
    batch = 7

    def due(self, rows: QuerySet[Any], now: datetime) -> QuerySet[Any]:
        return rows.filter(done=False, due_at__gt=now).order_by("due_at")

    def data(self, row: Any) -> dict[str, Any]:
        return {"title": row.title}
