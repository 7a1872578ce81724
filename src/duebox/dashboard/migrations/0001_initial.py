"""The permissions of the dashboard. No table is made."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            name="DashboardPermission",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "permissions": [
                    ("view_events", "Can see events, deliveries, schedules, destinations and workers"),
                    ("view_payloads", "Can see the data of events unmasked"),
                    ("redrive", "Can retry, park and discard deliveries"),
                    ("pause", "Can pause and resume destinations, and pause, resume, cancel and restore schedules"),
                    ("manage_destinations", "Can enable, disable and test webhook endpoints, and rotate their secrets"),
                    ("view_audit", "Can search and verify the audit log"),
                ],
                "managed": False,
                "default_permissions": (),
            },
        ),
    ]
