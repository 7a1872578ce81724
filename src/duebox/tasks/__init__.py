"""A backend for django.tasks: a task that is enqueued is committed with your transaction, or not at all.

compat   django.tasks of Django 6, or the django-tasks package before it
backend  `DueboxBackend`, its options, and the run of a task
handler  the handler through which workers run tasks
"""

from __future__ import annotations

from duebox.contracts.enforce import Own

EVENT = Own("duebox.task")
"""The type of the event that asks for the run of a task."""
SUBSCRIBER = "duebox.tasks"
