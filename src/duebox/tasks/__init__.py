"""A backend for django.tasks: a task that is enqueued is committed with your transaction, or not at all.

library      django.tasks of Django 6, or the django-tasks package before it
backend      what TASKS names: `duebox.tasks.backend.DueboxBackend`
options      what TASKS says about it, and what is wrong with that
running      the handler through which workers run tasks
execution    one run of a task, and how it is told
"""

from __future__ import annotations
