"""Celery: each event calls a task with one argument, the envelope.

"mail": {"BACKEND": "duebox.destinations.celery.CeleryTask", "OPTIONS": {"task": "shop.tasks.send_mail"}}
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from django.utils.module_loading import import_string

from duebox.destinations.base import Destination, Problem, Result
from duebox.destinations.celery_broker import Broker, Message
from duebox.destinations.envelope import envelope, headers
from duebox.destinations.options import Name, driver, positive
from duebox.events.address import Address
from duebox.events.fact import Fact
from duebox.events.outcomes import Delivered, Snooze
from duebox.exceptions import InvalidDestination, Refused, TooLarge, Undelivered
from duebox.store import destinations
from duebox.store.destinations import NewSentTask, SentTaskState

__all__ = ["CeleryTask"]

FIRST_LOOK_SECONDS = 2.0
"""A task may end before the worker has stored that it was sent, so the first check comes soon."""
PRUNE_SECONDS = 60.0
SETTLE, DATABASE = "duebox_settle", "duebox_database"
"""Headers that ask a task to report its result, and where to."""
BROKERS = ("Redis", "RabbitMQ", "PostgreSQL")
"""The brokers that Duebox is tested with."""
_remembered: list[Any] = []
_is_importing: ContextVar[bool] = ContextVar("duebox_is_importing_celery_modules", default=False)
"""Celery runs all system checks when it imports the modules of an app, so the check that imports them would call
itself."""


class CeleryTask(Destination):
    """Delivered when the broker has the task, or with settle="finished" when the task has succeeded.

    The id of the task is that of the event, on every attempt. If tasks run eagerly, a failed task is a failed delivery.
    """

    batch_size = 100

    def __init__(
        self,
        alias: str,
        *,
        task: str,
        app: str = "",
        queue: str = "",
        broker: str = "",
        settle: str = "accepted",
        finish_within: float = 3600.0,
        task_id: str = "{event_id}",
        max_bytes: int | None = None,
        timeout: float = 5.0,
    ) -> None:
        super().__init__(alias)
        if settle not in ("accepted", "finished"):
            raise InvalidDestination(f"settle is {settle!r}; it must be 'accepted' or 'finished'.")
        self._app, self._name_of_task = find_app(app), task
        self._task, self._task_id = Name(task, option="task"), Name(task_id, option="task_id")
        self._options = {"queue": queue} if queue else {}
        self._max_bytes = int(positive("max_bytes", max_bytes)) if max_bytes is not None else None
        self._waits = settle == "finished"
        self._finish_within = positive("finish_within", finish_within)
        self.broker = Broker(self._app, broker or None, positive("timeout", timeout))
        self._pruned_at = time.monotonic()

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        if self._app.conf.task_always_eager:
            return [self._run(fact) for fact in batch]
        return self._deliver_and_wait(batch) if self._waits else self._send(batch)

    def check(self) -> list[Problem]:
        if self._waits and self._finish_within < FIRST_LOOK_SECONDS:
            return [(f"finish_within is {self._finish_within:g} s; most tasks would be sent twice.", "Make it larger.")]
        if self._app.conf.task_always_eager:
            return []
        problem = self.broker.problem()
        return [problem] if problem else []

    def unknown_task(self) -> str:
        """The name of its task if the app does not have it; "" if the app has it or cannot be loaded."""
        name = self._name_of_task
        if "{" in name or name in self._app.tasks or _is_importing.get():
            return ""
        token = _is_importing.set(True)
        try:
            self._app.loader.import_default_modules()  # as Celery's worker does when it starts
        except Exception:  # importing them may raise anything; Celery's worker reports it
            return ""
        finally:
            _is_importing.reset(token)
        return "" if name in self._app.tasks else name

    def close(self) -> None:
        self.broker.close()

    def _send(self, batch: Sequence[Fact]) -> list[Result]:
        results: list[Result] = [None] * len(batch)
        messages: dict[int, Message] = {}
        # `using` may be set after the destination was created.
        report = {SETTLE: "finished", DATABASE: self.using} if self._waits else {}
        for position, fact in enumerate(batch):
            try:
                messages[position] = self._message(fact, report)
            except InvalidDestination:  # counts for all of them
                raise
            except Exception as error:  # a router of the project may raise anything
                results[position] = error
        if messages:
            for position, answer in zip(messages, self.broker.send(list(messages.values())), strict=True):
                results[position] = answer
        return results

    def _message(self, fact: Fact, report: Mapping[str, str]) -> Message:
        text, row = envelope(fact), fact.row
        if self._max_bytes is not None and (size := len(text.encode())) > self._max_bytes:
            raise TooLarge(size, self._max_bytes)
        return self.broker.message(
            self._task.of(fact),
            args=(json.loads(text),),
            task_id=self._task_id.of(fact),
            headers={**_headers(fact), **report},
            # Logs and monitors show these instead of the arguments, which may contain personal data.
            argsrepr=f"(<{row.type} {row.id}>,)",
            kwargsrepr="{}",
            **self._options,
        )

    def _run(self, fact: Fact) -> Result:
        name = self._task.of(fact)
        task = self._app.tasks.get(name)
        if task is None:
            return Refused(f"Celery runs tasks eagerly here, and has no task {name!r}.")
        given = [json.loads(envelope(fact))]
        ended = task.apply(args=given, task_id=self._task_id.of(fact), headers=_headers(fact), throw=False)
        return ended.result if ended.failed() else None

    def _deliver_and_wait(self, batch: Sequence[Fact]) -> list[Result]:
        """Look up the tasks that were sent, and send the others. No thread waits for a task."""
        self._prune()
        known = destinations.read_sent_tasks(self.using, self._subscriber, [fact.row.id for fact in batch])
        found: dict[str, Result] = {id: result for id, each in known.items() if (result := self._known_result(each))}
        to_send = [fact for fact in batch if fact.row.id not in found]
        if to_send:
            found |= dict(zip((fact.row.id for fact in to_send), self._send_and_record(to_send), strict=True))
        return [found[fact.row.id] for fact in batch]

    def _known_result(self, known: SentTaskState) -> Result:
        """None if it has to be sent again."""
        if known.error:
            return Refused(known.error) if known.permanent else Undelivered(known.error)
        if known.ended:
            return Delivered(f"The task ended after {known.took or 0.0:.1f} s.")
        if known.seconds_left > 0:
            # A task that ends while this worker holds its delivery wakes up no worker. The next check finds it, at the
            # latest after as long as the task has taken so far.
            elapsed = self._finish_within - known.seconds_left
            return Snooze(timedelta(seconds=min(known.seconds_left, max(FIRST_LOOK_SECONDS, elapsed))))
        return None

    def _send_and_record(self, facts: list[Fact]) -> list[Result]:
        sent = [NewSentTask(fact.row.id, self._task_id.of(fact), self._task.of(fact)) for fact in facts]
        destinations.write_sent_tasks(self.using, self._subscriber, sent, self._finish_within)
        try:
            results = self._send(facts)
        except Exception as error:
            results = [error] * len(facts)
        if failed := [each.event for each, result in zip(sent, results, strict=True) if result is not None]:
            destinations.delete_sent_tasks(self.using, self._subscriber, failed)
        look = Snooze(timedelta(seconds=min(FIRST_LOOK_SECONDS, self._finish_within)))
        return [look if result is None else result for result in results]

    def _prune(self) -> None:
        if time.monotonic() - self._pruned_at > PRUNE_SECONDS:
            self._pruned_at = time.monotonic()
            destinations.prune_sent_tasks(self.using, self._subscriber)

    @property
    def _subscriber(self) -> str:
        return str(Address.of_destination(self.alias))


def _headers(fact: Fact) -> dict[str, str]:
    """The values for `task.request.headers`. Celery has a correlation_id of its own, the id of the task."""
    return {name if name == "traceparent" else f"duebox_{name}": value for name, value in headers(fact).items()}


def find_app(path: str) -> Any:
    """The Celery app at a dotted path, or the current app of this process."""
    celery = driver("celery", "celery")
    if not path:
        return _own_app(celery)
    try:
        found = import_string(path)
    except ImportError as error:
        raise InvalidDestination(f"app {path!r} cannot be imported ({error}).") from error
    if not isinstance(found, celery.Celery):
        raise InvalidDestination(f"app {path!r} is not a Celery app; name the object that Celery(...) returned.")
    return found


def remember_app() -> None:
    """Celery's current app belongs to the thread that created it. Other threads may get an unconfigured app with a
    local broker, so the app of the main thread is used."""
    app = driver("celery", "celery").current_app._get_current_object()
    _remembered[:] = [] if _is_unconfigured(app) else [app]


def _own_app(celery: Any) -> Any:
    app = celery.current_app._get_current_object()
    if not _is_unconfigured(app):
        return app
    if not _remembered:
        raise InvalidDestination(
            "There is no Celery app here; name yours with the option app, as in 'shop.celery.app'."
        )
    return _remembered[0]


def _is_unconfigured(app: Any) -> bool:
    return bool(app.main == "default" and not app.set_as_current)
