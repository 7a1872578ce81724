"""The app: add `duebox.dashboard` to INSTALLED_APPS."""

from __future__ import annotations

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "duebox.dashboard"
    label = "duebox_dashboard"
    verbose_name = "Duebox dashboard"
    default_auto_field = "django.db.models.BigAutoField"
