"""The rows. Events and attempts are only ever inserted; deliveries live while there is work to do."""

# ruff: noqa: E402
from __future__ import annotations

from duebox.conf import require_app

# First of all: Django's own error about models of an app that is not installed names no repair.
require_app()

from duebox.models.attempt import Attempt
from duebox.models.audit import AuditEntry, AuditHead
from duebox.models.dead_mail import DeadMail
from duebox.models.delivery import Delivery
from duebox.models.destination_state import DestinationState
from duebox.models.event import Event
from duebox.models.handover import Handover
from duebox.models.row_change import RowChange
from duebox.models.schedule import Schedule
from duebox.models.schedule_log import ScheduleLog
from duebox.models.task_run import TaskRun
from duebox.models.webhook_endpoint import WebhookEndpoint
from duebox.models.webhook_receipt import WebhookReceipt
from duebox.models.worker import Worker

__all__ = [
    "Attempt",
    "AuditEntry",
    "AuditHead",
    "DeadMail",
    "Delivery",
    "DestinationState",
    "Event",
    "Handover",
    "RowChange",
    "Schedule",
    "ScheduleLog",
    "TaskRun",
    "WebhookEndpoint",
    "WebhookReceipt",
    "Worker",
]
