"""Duebox inside other programs: Celery, APScheduler, AWS Lambda, FastAPI; Django views for monitoring; and the
configuration of Debezium.

celery_wakeup       Celery mode: a message after a commit with an event
celery              the tasks of Duebox, and reports of how tasks end
celery_beat         what beat sends
celery_beat_import  rows of django-celery-beat as rules, and where Celery differs
apscheduler         deliver as a job of a scheduler
background_worker   a worker inside another program
redeliver           events that come back from a queue
lambda_handler      AWS Lambda
debezium            the configuration of Debezium
views               Django views for monitoring
"""

from __future__ import annotations
