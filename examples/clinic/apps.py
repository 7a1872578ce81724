from __future__ import annotations

from django.apps import AppConfig

from examples.clinic import timelapse


class ClinicConfig(AppConfig):
    name = "examples.clinic"
    label = "clinic"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        timelapse.follow()
