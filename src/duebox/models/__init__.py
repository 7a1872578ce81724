"""The rows. Events and attempts are only ever inserted; deliveries live while there is work to do.

audit        the audit log
delivery     deliveries, worker leases, runs of tasks
destination  state of destinations, webhook endpoints and receipts
event        events and attempts
rollup       counts per minute and per hour
schedule     schedules, their log, and row changes
"""

# ruff: noqa: E402
from __future__ import annotations

from duebox.conf import require_app

# Checked first: Django's own error about models of an app that is not installed does not name the repair.
require_app()

from duebox.models.audit import (
    AuditBatch,
    AuditEntry,
    AuditErasure,
    AuditHead,
    AuditKey,
    AuditSeal,
    AuditWriter,
    AuditWriterSealed,
    StoredAuditEntry,
)
from duebox.models.delivery import DeadLetter, Delivery, TaskRun, Worker
from duebox.models.destination import DeadMail, DestinationState, SentTask, WebhookEndpoint, WebhookReceipt
from duebox.models.event import Attempt, Event
from duebox.models.rollup import Rollup
from duebox.models.schedule import RowChange, Schedule, ScheduleLog

__all__ = [
    "Attempt",
    "AuditBatch",
    "AuditEntry",
    "AuditErasure",
    "AuditHead",
    "AuditKey",
    "AuditSeal",
    "AuditWriter",
    "AuditWriterSealed",
    "DeadLetter",
    "DeadMail",
    "Delivery",
    "DestinationState",
    "Event",
    "Rollup",
    "RowChange",
    "Schedule",
    "ScheduleLog",
    "SentTask",
    "StoredAuditEntry",
    "TaskRun",
    "WebhookEndpoint",
    "WebhookReceipt",
    "Worker",
]
