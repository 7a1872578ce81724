from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from todos.models import Task

import duebox

FAILS: dict[str, int] = {}
"""How often the row of a title is still to fail."""


class DueTasks(duebox.Sweep):
    model = Task
    event = "task.due_soon"
    stamp = "reminded_at"

    def due(self, tasks: Any, now: datetime) -> Any:
        return tasks.filter(due_at__gte=now, due_at__lte=now + timedelta(hours=24)).order_by("due_at")

    def data(self, task: Any) -> dict[str, str]:
        if FAILS.get(task.title, 0) > 0:
            FAILS[task.title] -= 1
            raise ConnectionError(f"no title for {task.title}")
        return {"title": task.title}
