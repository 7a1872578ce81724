from __future__ import annotations

import sys

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules


class DueboxConfig(AppConfig):
    name = "duebox"
    label = "duebox"
    verbose_name = "Duebox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from duebox import capture, checks, destination_checks, routing, upkeep  # noqa: F401 - system checks, upkeep
        from duebox.conf import conf
        from duebox.contracts import files
        from duebox.destinations import configured
        from duebox.destinations.webhooks import checks as webhook_checks  # noqa: F401 - registers a system check
        from duebox.entrypoints import celery_kick  # noqa: F401 - connects Celery mode
        from duebox.notices import mail  # noqa: F401 - registers who mails about dead letters
        from duebox.redis_tier import hooks  # noqa: F401 - connects the bell, where there is a Redis
        from duebox.tasks import running  # noqa: F401 - registers the handler that runs tasks
        from duebox.when import zones
        from duebox.worker import inline  # noqa: F401 - connects inline mode

        if conf().TZ_SOURCE == "system":
            zones.use(zones.from_system())
        autodiscover_modules("events")
        files.load(files.folder())  # the check E008 says which files cannot be used
        autodiscover_modules("handlers", "plans", "sweeps")
        configured.set_up()  # the check E009 says what is wrong with them
        post_migrate.connect(capture.after_migrate, sender=self, dispatch_uid="duebox.capture")
        if "celery" in sys.modules:  # a project that uses it has made its app by now
            from duebox.entrypoints import celery  # noqa: F401 - registers the tasks, and who reports how tasks end
