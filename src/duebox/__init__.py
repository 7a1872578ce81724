"""Duebox: an outbox with a clock.

The map. A module imports what stands above it in this list, or beside it. A name with a dot is a module that stands
apart from its package. The docstring of a package has the same list of its own modules. `tests/test_house.py` holds all
of them, and `docs/explain/design.md` shows them on one page.

    exceptions clock          all errors; the current time, which tests can replace
    when                      time zones, rules, occurrences and policies; pure functions without Django
    events.fact               an event, as a value
    events.address            where a delivery goes, as a value
    events.wildcards          the one meaning of `*` in patterns
    events.outcomes           how a delivery ended, as a value; `Retry`: retry or dead letter, and the back-off
    events.payload            what may stand in the data of an event
    dead_letters.fingerprint  the cause of an error
    schedules.intent          what a schedule asks for, as a value
    conf signals              the `DUEBOX` setting; signals to observe Duebox with
    context.current           the event that is being handled
    events.after_commit       what follows the commit of new events, by the settings
    events                    events and their payloads, subscribers, and `emit` in the caller's transaction
    context                   where work comes from: the current event, request or job; tracing, logging and counters
    contracts events.subscribers  event types: schemas, versions, public events, documents; `@duebox.on`
    models migrations         the tables
    store                     all SQL: one statement or database object per file in `sql/`, and functions that run them
    events.emit               `duebox.emit`
    audit_log                 who changed what: entries in the caller's transaction, sealed into a hash chain
    destinations              where events are sent: routes, webhooks, AWS, Celery and brokers
    tasks                     the backend for django.tasks
    events.sql_events         events that were emitted by SQL
    deliveries                what operators do with deliveries: find, retry, park, discard, send again
    schedules                 schedules, plans that follow rows, sweeps, periodic functions: plan and fire them
    asynchronous              the public functions for async code
    dead_letters              events and mails about dead letters
    retention                 remove rows that are old, and the personal data of one row
    observe                   what is due, what failed, what happened to something and why; metrics
    redis                     optional: wake-ups and a mirror of schedules in Redis, never the only copy
    worker                    fire, claim, run, settle; `worker.senders` delivers to destinations
    testing                   for your tests: assertions, draining, time travel
    integrations              Celery, APScheduler, AWS Lambda, FastAPI, Debezium, Django views for monitoring
    sqlalchemy embedded       emit from SQLAlchemy; a local PostgreSQL without Docker
    middleware fields         correlation ids of requests; model and form fields for time zones
    cli management            the commands of `manage.py duebox`
    admin                     the pages in the Django admin, where a project has it
    dashboard                 an app of its own: the commands as web pages, in the site of the Django admin
    destinations.checks       system checks of destinations
    checks apps               system checks, and the start of the app

The names in `__all__` are public; `docs/reference/api.md` has the other public modules.
"""

from __future__ import annotations

from duebox.asynchronous import (
    acancel,
    aemit,
    aemit_many,
    apause,
    areschedule,
    arestore,
    aresume,
    aschedule,
    atomically,
    aupcoming,
    aupcoming_of,
    aupcoming_schedules,
)
from duebox.audit_log.record import audit
from duebox.contracts.event_types import event
from duebox.events.emit import NewEvent, emit, emit_many
from duebox.events.fact import Fact
from duebox.events.outcomes import Discard, Retry, Snooze
from duebox.events.subscribers import Limit, on
from duebox.exceptions import Permanent
from duebox.schedules.periodic import periodic
from duebox.schedules.plans import Plan, restore
from duebox.schedules.schedule import cancel, pause, reschedule, resume, schedule
from duebox.schedules.sweeps import Sweep
from duebox.schedules.upcoming import Upcoming, UpcomingSchedule, upcoming, upcoming_of, upcoming_schedules

__all__ = [
    "Discard",
    "Fact",
    "Limit",
    "NewEvent",
    "Permanent",
    "Plan",
    "Retry",
    "Snooze",
    "Sweep",
    "Upcoming",
    "UpcomingSchedule",
    "acancel",
    "aemit",
    "aemit_many",
    "apause",
    "areschedule",
    "arestore",
    "aresume",
    "aschedule",
    "atomically",
    "audit",
    "aupcoming",
    "aupcoming_of",
    "aupcoming_schedules",
    "cancel",
    "emit",
    "emit_many",
    "event",
    "on",
    "pause",
    "periodic",
    "reschedule",
    "restore",
    "resume",
    "schedule",
    "upcoming",
    "upcoming_of",
    "upcoming_schedules",
]
