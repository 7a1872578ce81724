"""Duebox: an outbox with a clock.

The map, from the middle outwards; imports point to the left only:

    exceptions outcome fact payload ids clock   values; they know nobody
    fingerprint                                 by what an error is known again
    headers                                     what may be believed of a request
    when                                        when things happen: zones, rules, policies; pure
    intent                                      what a schedule wants, as one value
    conf context subscribers signals saving     what is configured, who reacts
    tracing logs origins                        where work comes from, and which story it belongs to
    contracts promise                           what an event is: types, schemas, versions, what others may see
    models                                      the rows
    store                                       the only room with SQL
    emit                                        facts, in the caller's transaction
    auditing                                    who changed what, in the caller's transaction, in a chain
    destinations                                where events go outside: routes, terms, and one file for each kind
    tasks                                       a backend for django.tasks, in the caller's transaction
    planner drafts                              how an intention becomes a row, and a changed one another row
    schedule upcoming deciding firing           moments: plan them, see them coming, let them happen
    plans following syncing rezone              moments that follow the rows of a model, and the zone database
    sweeps sweeping upkeep                      rows whose time has come; what the engine does for itself
    redis_tier                                  a bell and a mirror in Redis, for who has one; never the truth
    notices                                     what the engine tells about itself: deaths, as events and as mail
    worker                                      fire, claim, run, settle
    travel                                      another clock in the place of the real one
    destination_checks                          what is wrong with destinations and routes before anything runs
    testing embedded middleware management      the doors

Errors are in `duebox.exceptions`, rules in `duebox.when`.
"""

from __future__ import annotations

from duebox.auditing.record import audit
from duebox.contracts.types import event
from duebox.emit import New, aemit, emit, emit_many
from duebox.exceptions import Permanent
from duebox.fact import Fact
from duebox.outcome import Discard, Retry, Snooze
from duebox.plans import Plan
from duebox.schedule import cancel, pause, reschedule, resume, schedule
from duebox.subscribers import on
from duebox.sweeps import Sweep
from duebox.upcoming import upcoming

__all__ = [
    "Discard",
    "Fact",
    "New",
    "Permanent",
    "Plan",
    "Retry",
    "Snooze",
    "Sweep",
    "aemit",
    "audit",
    "cancel",
    "emit",
    "emit_many",
    "event",
    "on",
    "pause",
    "reschedule",
    "resume",
    "schedule",
    "upcoming",
]
