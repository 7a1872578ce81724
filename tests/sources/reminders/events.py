from __future__ import annotations

import duebox


@duebox.event("appointment.reminder_due")
class ReminderDue:
    title: str
    channels: list[str]


@duebox.event("appointment.follow_up_due")
class FollowUpDue:
    title: str
    channels: list[str]


@duebox.event("workflow.run_due")
class WorkflowRunDue:
    failures: int = 0


@duebox.event("rule.evaluation_due")
class RuleEvaluationDue:
    rule: str


@duebox.event("export.due")
class ExportDue:
    seconds: float


@duebox.event("notification.due")
class NotificationDue:
    text: str
