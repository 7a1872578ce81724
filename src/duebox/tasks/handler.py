"""The handler through which workers run tasks. django.tasks is imported with the first task."""

from __future__ import annotations

from duebox.context.current import handling
from duebox.events.fact import Fact
from duebox.events.outcomes import Discard, Snooze
from duebox.events.subscribers import on
from duebox.tasks import EVENT, SUBSCRIBER


def run_task(event: Fact) -> Snooze | Discard | None:
    """The result is written before the delivery is settled: a task may fail, and its result must show that."""
    from duebox.tasks.backend import execute

    here = handling.get()
    assert here is not None, "run by a worker"
    return execute(event, here.using)


def register() -> None:
    on(EVENT, name=SUBSCRIBER, atomic=False)(run_task)
