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
        from duebox import checks
        from duebox.conf import conf
        from duebox.contracts import schema_files
        from duebox.dead_letters import mail
        from duebox.destinations import checks as destination_checks
        from duebox.destinations import registry
        from duebox.events import sql_events
        from duebox.redis import connection as redis
        from duebox.schedules import capture
        from duebox.tasks import handler as task_handler
        from duebox.when import zones

        checks.register_checks()
        destination_checks.register_checks()
        redis.register_checks()
        sql_events.register()
        task_handler.register()
        mail.register()
        if conf().TZ_SOURCE == "system":
            zones.use(zones.from_system())
        autodiscover_modules("events")
        schema_files.load(schema_files.folder())  # the check E008 says which files cannot be used
        autodiscover_modules("handlers", "plans", "sweeps")
        registry.set_up()  # the check E009 says what is wrong with them
        post_migrate.connect(capture.after_migrate, sender=self, dispatch_uid="duebox.capture")
        if "celery" in sys.modules:  # a project that uses it has made its app by now
            from duebox.integrations import celery

            celery.register()
