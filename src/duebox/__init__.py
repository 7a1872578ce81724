"""Duebox: an outbox with a clock.

The map, from the middle outwards; imports point to the left only:

    exceptions outcome fact payload ids clock   values; they know nobody
    fingerprint                                 by what an error is known again
    headers                                     what may be believed of a request
    when                                        when things happen: zones, rules, policies; pure
    intent                                      what a schedule wants, as one value
    conf context signals saving                 what is configured, and what is under way
    identities                                  how entities, tenants and actors are named
    tracing logs origins                        where work comes from, and which story it belongs to
    contracts promise                           what an event is: types, schemas, versions, what others may see
    subscribers                                 which handler receives which events
    models                                      the rows
    store                                       the only room with SQL
    emit                                        facts, in the caller's transaction
    routing                                     validates and routes what was emitted by SQL
    auditing                                    who changed what, in the caller's transaction, in a chain
    destinations                                where events go outside: routes, terms, and one file for each kind
    tasks                                       a backend for django.tasks, in the caller's transaction
    deliveries status                           what a person does with deliveries, and how much there is to do
    planner drafts                              how an intention becomes a row, and a changed one another row
    schedule upcoming deciding firing           moments: plan them, see them coming, let them happen
    plans following syncing rezone              moments that follow the rows of a model, and the zone database
    capture row_changes                         triggers on the rows that plans follow, and what they have noted
    sweeps sweeping periodic upkeep             rows whose time has come; functions by the clock; the engine's own work
    asynchronous                                the same for async code
    redis_tier                                  a bell and a mirror in Redis, for who has one; never the truth
    notices                                     what the engine tells about itself: deaths, as events and as mail
    worker                                      fire, claim, run, settle
    travel                                      another clock in the place of the real one
    destination_checks                          what is wrong with destinations and routes before anything runs
    sqlalchemy                                  emit in a transaction of SQLAlchemy
    testing embedded middleware fields          the doors
    management                                  the commands

Errors are in `duebox.exceptions`, rules in `duebox.when`.
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
)
from duebox.auditing.record import audit
from duebox.contracts.types import event
from duebox.emit import NewEvent, emit, emit_many
from duebox.exceptions import Permanent
from duebox.fact import Fact
from duebox.outcome import Discard, Retry, Snooze
from duebox.periodic import periodic
from duebox.plans import Plan, restore
from duebox.schedule import cancel, pause, reschedule, resume, schedule
from duebox.subscribers import Limit, on
from duebox.sweeps import Sweep
from duebox.upcoming import upcoming, upcoming_of

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
]
