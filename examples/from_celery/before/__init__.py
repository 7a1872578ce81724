"""The shop with Celery and django-celery-beat."""

from __future__ import annotations

from examples.from_celery.before.celery import app as celery_app

__all__ = ["celery_app"]
