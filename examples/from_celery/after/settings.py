from __future__ import annotations

from examples.from_celery.shop.settings import *  # noqa: F403
from examples.from_celery.shop.settings import databases

INSTALLED_APPS = ["duebox", "examples.from_celery.shop", "examples.from_celery.after"]
DATABASES = databases("from_celery_after")
ORDERS = "examples.from_celery.after.orders"
