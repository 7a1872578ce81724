"""The pages of Duebox in the Django admin: events, schedules, deliveries, dead letters, audit entries, endpoints.

actions      who acts, what is reported, and a page that asks for a reason
change_list  lists that answer in the same time with a thousand rows and with millions
display      how values are shown: status, entities, actors, payloads, errors
filters      filters of the lists
audit        the audit log
endpoints    webhook endpoints
search       search by what has an index
deliveries   deliveries and dead letters
events       events
schedules    schedules

Loaded by `django.contrib.admin` where that is installed, and by nothing else. Everything is read-only; what can be done
is an action with a permission of its own, and goes through the same functions as the commands of `manage.py duebox`.
"""

from __future__ import annotations

from duebox.admin.audit import AuditEntryAdmin
from duebox.admin.deliveries import DeadLetterAdmin, DeliveryAdmin
from duebox.admin.endpoints import WebhookEndpointAdmin
from duebox.admin.events import EventAdmin
from duebox.admin.schedules import ScheduleAdmin

__all__ = [
    "AuditEntryAdmin",
    "DeadLetterAdmin",
    "DeliveryAdmin",
    "EventAdmin",
    "ScheduleAdmin",
    "WebhookEndpointAdmin",
]
