"""The subcommands of `manage.py duebox`: each parses, calls one function and reports.

output        tables, times, progress, subcommands, errors without a traceback
imports       rows of django-celery-beat as schedules
database      triggers, and SQL for a database administrator
destinations  the state of destinations, and pausing them
retention     prune and erase
slo           objectives and advice
status        status, health and doctor
worker        worker and once
endpoints     webhook endpoints
plan          plans and sweeps on demand
preview       when schedules will fire
audit         the audit log
deliveries    deliveries in any state
events        documents, routes and replay of events
observe       show, explain and watch
schedules     list, pause, resume, cancel and restore schedules
schemas       schema files and compatibility
"""

from __future__ import annotations
