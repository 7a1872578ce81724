from __future__ import annotations

import duebox


@duebox.event("task.due_soon")
class TaskDueSoon:
    title: str


@duebox.event("task.nap_due")
class NapDue:
    seconds: float
