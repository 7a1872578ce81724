"""An event as a message to a Celery task: one argument, the envelope.

What is the same for each event of a kind, its route and the options of its task, is asked once. The envelope is JSON
already and goes out as it is; Celery's own way would read it, write it, and take its `repr` for the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from duebox.destinations.drivers import driver
from duebox.destinations.envelope import envelope, headers
from duebox.destinations.naming import Name
from duebox.exceptions import TooLarge
from duebox.fact import Fact

_OF_MESSAGE = ("expires", "time_limit", "soft_time_limit", "ignore_result")
_OF_SENDING = ("queue", "exchange", "routing_key", "priority", "delivery_mode", "compression")
_NOTHING_MORE = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
_END = "],{}," + json.dumps(_NOTHING_MORE, separators=(",", ":")) + "]"
_JSON = {"content_type": "application/json", "content_encoding": "utf-8"}


SETTLE, DATABASE = "duebox_settle", "duebox_database"
"""Headers of a task that is to report how it ends, and where."""
EVENT = "duebox_event_id"


class Message(NamedTuple):
    task: str
    content: Any
    """Headers, properties and body, as Celery has them."""
    sending: dict[str, Any]
    """Where to, and how."""

    @property
    def line_up(self) -> tuple[str, str]:
        """What shares a place at the broker, and so a fate."""
        queue = self.sending.get("queue")
        return (str(getattr(queue, "name", queue)), str(self.sending.get("routing_key")))


class Messages:
    def __init__(self, app: Any, task: Name, task_id: Name, *, queue: str, max_bytes: int | None) -> None:
        self._app, self._task, self._task_id, self._queue = app, task, task_id, queue
        self._max_bytes = max_bytes
        self._signals = driver("celery.signals", "celery")
        self._by_name = driver("celery.app.routes", "celery").MapRoute
        self._origin = driver("celery.utils", "celery").nodenames.anon_nodename()
        self._known: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def task_of(self, fact: Fact) -> str:
        return self._task.of(fact)

    def id_of(self, fact: Fact) -> str:
        """The same on every try, so that a worker, a result and a revocation mean the same task."""
        return self._task_id.of(fact)

    def of(self, fact: Fact, more: Mapping[str, str]) -> Message:
        """With more headers. Raises what a router of the app raises."""
        task, text = self._task.of(fact), envelope(fact)
        if self._max_bytes is not None and (size := len(text.encode())) > self._max_bytes:
            raise TooLarge(size, self._max_bytes)
        about, sending = self._options(task, text)
        row = fact.row
        # Logs and monitors show argsrepr. The data of an event has no business there.
        told, properties, _, _ = self._app.amqp.as_task_v2(
            self._task_id.of(fact),
            task,
            argsrepr=f"(<{row.type} {row.id}>,)",
            kwargsrepr="{}",
            origin=self._origin,
            **about,
        )
        told.update(headers_of(fact), **more)
        if self._signals.before_task_publish.receivers or self._signals.after_task_publish.receivers:
            # Whoever listens may look at the arguments.
            return Message(task, (told, properties, _spelled_out(text), None), {**sending, "serializer": "json"})
        return Message(task, (told, properties, f"[[{text}{_END}", None), {**sending, **_JSON})

    def _options(self, task: str, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        if task in self._known:
            return self._known[task]
        kind = self._app.tasks.get(task)
        about = {name: value for name in _OF_MESSAGE if (value := getattr(kind, name, None)) is not None}
        sending = {name: value for name in _OF_SENDING if (value := getattr(kind, name, None)) is not None}
        if self._queue:
            sending["queue"] = self._queue
        routers = list(self._app.amqp.routes)
        every_time = not all(isinstance(each, self._by_name) for each in routers)
        args = (json.loads(text),) if every_time else ()
        found = about, self._app.amqp.router.route(sending, task, args, {}, kind)
        if not every_time:
            self._known[task] = found
        return found


def headers_of(fact: Fact) -> dict[str, str]:
    """For `task.request.headers`. Celery knows a correlation_id of its own, which is the task's id."""
    return {name if name == "traceparent" else f"duebox_{name}": value for name, value in headers(fact).items()}


def _spelled_out(text: str) -> tuple[Any, ...]:
    return ([json.loads(text)], {}, dict(_NOTHING_MORE))
