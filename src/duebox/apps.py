from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class DueboxConfig(AppConfig):
    name = "duebox"
    label = "duebox"
    verbose_name = "Duebox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from duebox import checks, upkeep  # noqa: F401 - registers the system checks, and who does the upkeep
        from duebox.conf import conf
        from duebox.contracts import files
        from duebox.when import zones
        from duebox.worker import inline  # noqa: F401 - connects inline mode

        if conf().TZ_SOURCE == "system":
            zones.use(zones.from_system())
        autodiscover_modules("events")
        files.load(files.folder())  # the check E008 says which files cannot be used
        autodiscover_modules("handlers", "plans", "sweeps")
