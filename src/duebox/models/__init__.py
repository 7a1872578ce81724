"""The rows. Events and attempts are only ever inserted; deliveries live while there is work to do."""

from __future__ import annotations

from duebox.models.attempt import Attempt
from duebox.models.audit import AuditEntry, AuditHead
from duebox.models.dead_mail import DeadMail
from duebox.models.delivery import Delivery
from duebox.models.endpoint import Endpoint
from duebox.models.event import Event
from duebox.models.gate import Gate
from duebox.models.handover import Handover
from duebox.models.receipt import Receipt
from duebox.models.schedule import Schedule
from duebox.models.task_run import TaskRun
from duebox.models.trail import Trail
from duebox.models.worker import Worker

__all__ = [
    "Attempt", "AuditEntry", "AuditHead", "DeadMail", "Delivery", "Endpoint", "Event", "Gate", "Handover", "Receipt",
    "Schedule", "TaskRun", "Trail", "Worker",
]  # fmt: skip
