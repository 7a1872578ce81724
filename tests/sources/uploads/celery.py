from __future__ import annotations

import os
from typing import Any

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "uploads.settings")

app = Celery("uploads")
app.config_from_object("django.conf:settings", namespace="CELERY")


@app.task(name="uploads.scan", bind=True)
def scan(self: Any, event: dict[str, Any]) -> None:
    from uploads.models import Result

    Result.objects.create(what="scan", text=event["data"]["name"])
