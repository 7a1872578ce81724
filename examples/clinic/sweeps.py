"""Rows that a query finds more easily than a schedule for each could follow. Every hour, at :00."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

import duebox
from examples.clinic.models import Task


class TasksDueSoon(duebox.Sweep):
    """Tasks that are due within a day and not done; a task that is put off is found again."""

    model = Task
    event = "task.due_soon"
    stamp = "reminded_at"

    def due(self, rows: QuerySet[Task], now: datetime) -> QuerySet[Task]:
        soon = rows.filter(done=False, due_at__gt=now, due_at__lte=now + timedelta(hours=24))
        return soon.select_related("patient")

    def data(self, row: Task) -> dict[str, Any]:
        zone = row.patient.zone
        return {"assignee": row.assignee or "front desk", "title": row.title, "due_at": row.due_at, "zone": zone}
