"""A Celery app for the stages: its router can send a task astray, as the routers of a project can."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu import Queue

from duebox.exceptions import Refused

fates: dict[str, Any] = {}
"""What the router makes of an event, by its id: a queue that takes nothing, or an error."""


def route(name: str, args: Any, kwargs: Any, options: Any, task: Any = None, **more: Any) -> dict[str, Any]:
    fate = fates.get(args[0]["event_id"])
    if isinstance(fate, Exception):
        raise fate
    return {"queue": fate or Queue(name, durable=True)}


app = Celery("stages", broker="memory://", set_as_current=False)
app.conf.update(task_routes=(route,), broker_connection_retry_on_startup=True)


def refusal() -> Exception:
    return Refused("The router does not want it.")
