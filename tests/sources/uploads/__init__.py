"""Files that are stored, with an outbox beside Celery."""

from __future__ import annotations

from uploads.celery import app as celery_app

__all__ = ["celery_app"]
