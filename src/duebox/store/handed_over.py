"""Tasks that were handed over and are to report how they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from duebox.store.statements import execute, run


class HandedOver(NamedTuple):
    event: str
    ended: bool
    error: str
    """Nothing, unless it failed."""
    permanent: bool
    seconds_left: float
    """Until it counts as lost."""
    took: float | None


class Sent(NamedTuple):
    event: str
    task_id: str
    task: str


def look(using: str, subscriber: str, events: Sequence[str]) -> dict[str, HandedOver]:
    """What is known of these, by event. A failure is told once only."""
    rows = run("handover_look", using, {"subscriber": subscriber, "event": list(events)})
    return {row[0]: HandedOver(*row) for row in rows}


def note(using: str, subscriber: str, sent: Sequence[Sent], seconds: float) -> None:
    """These are about to be sent, and have so long to report."""
    columns = {"event": [each.event for each in sent], "task_id": [each.task_id for each in sent]}
    tasks = [each.task for each in sent]
    execute("handover_note", using, {"subscriber": subscriber, **columns, "task": tasks, "seconds": seconds})


def forget(using: str, subscriber: str, events: Sequence[str]) -> None:
    execute("handover_forget", using, {"subscriber": subscriber, "event": list(events)})


def end(using: str, task_id: str, task: str, *, error: str = "", permanent: bool = False) -> int:
    """A task ended; gives how many deliveries wait for that."""
    params = {"task_id": task_id, "task": task, "error": error, "permanent": permanent}
    [(ended, _, _)] = run("handover_end", using, params)
    return int(ended)


def extend(using: str, task_id: str, task: str, after: float) -> None:
    """A task will run again by itself after so many seconds."""
    execute("handover_extend", using, {"task_id": task_id, "task": task, "after": after})


def prune(using: str, subscriber: str) -> None:
    execute("handover_prune", using, {"subscriber": subscriber})
