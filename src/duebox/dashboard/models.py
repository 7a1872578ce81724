"""The permissions of the dashboard. There is no table."""

from __future__ import annotations

from django.db import models


class DashboardPermission(models.Model):  # noqa: DJ008 - it has no rows
    """Carries the permissions, which Django makes for models only."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = [
            ("view_events", "Can see events, deliveries, schedules, destinations and workers"),
            ("view_payloads", "Can see the data of events unmasked"),
            ("redrive", "Can retry, park and discard deliveries"),
            ("pause", "Can pause and resume destinations, and pause, resume, cancel and restore schedules"),
            ("manage_destinations", "Can enable, disable and test webhook endpoints, and rotate their secrets"),
            ("view_audit", "Can search and verify the audit log"),
        ]
