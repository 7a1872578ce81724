from __future__ import annotations

from django.apps import AppConfig


class OrganizationsConfig(AppConfig):
    name = "examples.clinic.organizations"
    label = "organizations"
    default_auto_field = "django.db.models.BigAutoField"
