from __future__ import annotations

import os

from examples.from_celery.shop.settings import *  # noqa: F403
from examples.from_celery.shop.settings import databases

INSTALLED_APPS = ["django_celery_beat", "examples.from_celery.shop", "examples.from_celery.before"]
DATABASES = databases("from_celery_before")
ORDERS = "examples.from_celery.before.orders"

CELERY_BROKER_URL = os.environ.get("SHOP_BROKER", "redis://127.0.0.1:6379/7")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": os.environ.get("SHOP_KEY_PREFIX", "from-celery:")}
CELERY_TASK_IGNORE_RESULT = True
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
