from __future__ import annotations

import json
import os
from urllib.parse import quote

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS

from duebox.integrations.celery_beat import beat_schedule

INSTALLED_APPS = [*INSTALLED_APPS, "django_celery_beat", "uploads", "duebox"]
DATABASE = json.loads(os.environ["SOURCE_DATABASE"])
DATABASES = {"default": DATABASE}


def in_database() -> str:
    """The database itself as Celery's broker."""
    user = quote(DATABASE["USER"]) + (f":{quote(DATABASE['PASSWORD'])}" if DATABASE.get("PASSWORD") else "")
    place = f"host={quote(DATABASE['HOST'], safe='')}&port={DATABASE['PORT'] or 5432}"
    return f"sqla+postgresql://{user}@/{DATABASE['NAME']}?{place}"


BROKERS = {
    "postgresql": in_database(),
    "redis": "redis://127.0.0.1:6379/8",
    "rabbitmq": "amqp://guest:guest@127.0.0.1:5672//",
}
CELERY_BROKER_URL = BROKERS[os.environ.get("SOURCE_BROKER", "postgresql")]
CELERY_TASK_DEFAULT_QUEUE = DATABASE["NAME"]
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_TIME_LIMIT = 300
CELERY_TASK_SOFT_TIME_LIMIT = 240
CELERY_TASK_ALWAYS_EAGER = "SOURCE_EAGER" in os.environ
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_BEAT_SCHEDULE = beat_schedule(sweep_seconds=1.0)

DUEBOX = {
    "MODE": os.environ.get("SOURCE_MODE", "worker"),
    "LISTEN": "SOURCE_DEAF" not in os.environ,
    "CELERY": {"APP": "uploads.celery.app"},
    "DESTINATIONS": {
        "scanner": {
            "BACKEND": "duebox.destinations.celery.CeleryTask",
            "OPTIONS": {"task": "uploads.scan", "app": "uploads.celery.app"},
        },
    },
    "ROUTES": [{"match": "file.scan_requested", "to": "scanner"}],
}
