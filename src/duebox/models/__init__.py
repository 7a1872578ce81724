"""The rows. Events and attempts are only ever inserted; deliveries live while there is work to do."""

from __future__ import annotations

from duebox.models.attempt import Attempt
from duebox.models.audit import AuditEntry, AuditHead
from duebox.models.delivery import Delivery
from duebox.models.event import Event
from duebox.models.schedule import Schedule
from duebox.models.trail import Trail
from duebox.models.worker import Worker

__all__ = ["Attempt", "AuditEntry", "AuditHead", "Delivery", "Event", "Schedule", "Trail", "Worker"]
