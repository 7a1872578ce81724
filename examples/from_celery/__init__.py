"""A project with Celery and django-celery-beat in `before`, and the same with Duebox in `after`. See README.md."""

from __future__ import annotations
