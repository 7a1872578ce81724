"""Duebox: an outbox with a clock.

The map, from the middle outwards; imports point to the left only:

    exceptions outcome fact payload ids clock   values; they know nobody
    when                                        when things happen: zones, rules, policies; pure
    intent                                      what a schedule wants, as one value
    conf context subscribers signals            what is configured, who reacts
    models                                      the rows
    store                                       the only room with SQL
    emit                                        facts, in the caller's transaction
    planner                                     how an intention becomes a row, and a changed one another row
    schedule upcoming deciding firing           moments: plan them, see them coming, let them happen
    plans following syncing rezone              moments that follow the rows of a model, and the zone database
    sweeps sweeping upkeep                      rows whose time has come; what the engine does for itself
    worker                                      fire, claim, run, settle
    travel                                      another clock in the place of the real one
    testing embedded management                 the doors

Errors are in `duebox.exceptions`, rules in `duebox.when`.
"""

from __future__ import annotations

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
    "cancel",
    "emit",
    "emit_many",
    "on",
    "pause",
    "reschedule",
    "resume",
    "schedule",
    "upcoming",
]
