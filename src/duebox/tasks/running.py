"""The handler through which workers run tasks. The library of tasks is loaded with the first one."""

from __future__ import annotations

from duebox.context import handling
from duebox.fact import Fact
from duebox.outcome import Discard, Snooze
from duebox.promise import Own
from duebox.subscribers import on

EVENT = Own("duebox.task")
SUBSCRIBER = "duebox.tasks"


@on(EVENT, name=SUBSCRIBER, atomic=False)
def run_task(event: Fact) -> Snooze | Discard | None:
    """How it ends is written down before it is settled: a task may fail, and its result must say so."""
    from duebox.tasks.execution import execute

    here = handling.get()
    assert here is not None, "run by a worker"
    return execute(event, here.using)
