"""Celery: each event calls a task with one argument, the envelope.

"mail": {"BACKEND": "duebox.destinations.celery.CeleryTask", "OPTIONS": {"task": "shop.tasks.send_mail"}}
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Warning, register
from django.utils.module_loading import import_string

from duebox.destinations.base import Destination, Problem, Result
from duebox.destinations.celery_line import Lines
from duebox.destinations.celery_message import DATABASE, SETTLE, Message, Messages, headers_of
from duebox.destinations.configured import subscriptions
from duebox.destinations.drivers import driver, positive
from duebox.destinations.envelope import envelope
from duebox.destinations.naming import Name
from duebox.exceptions import DueboxError, InvalidDestination, Refused, Undelivered
from duebox.fact import Fact
from duebox.outcome import Delivered, Snooze
from duebox.store import handed_over
from duebox.store.handed_over import HandedOver, Sent
from duebox.subscribers import OUTSIDE

FIRST_LOOK_SECONDS = 2.0
"""A task may end before the worker has written down that it was handed over; so look once, soon."""
PRUNE_SECONDS = 60.0
_remembered: list[Any] = []


class CeleryTask(Destination):
    """Delivered when the broker has the task, or with settle="finished" when the task has succeeded.

    The task's id is the event's, on every try. Where tasks are run eagerly, the task's failure is the delivery's.
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
        self._app, self._task = find_app(app), task
        limit = int(positive("max_bytes", max_bytes)) if max_bytes is not None else None
        self._waits = settle == "finished"
        self._messages = Messages(
            self._app, Name(task, option="task"), Name(task_id, option="task_id"), queue=queue, max_bytes=limit
        )  # fmt: skip
        self._lines = Lines(self._app, broker or None, positive("timeout", timeout))
        self._finish_within = positive("finish_within", finish_within)
        self._pruned_at = time.monotonic()

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        if self._app.conf.task_always_eager:
            return [self._run(fact) for fact in batch]
        return self._deliver_and_wait(batch) if self._waits else self._hand_over(batch)

    def check(self) -> list[Problem]:
        if self._waits and self._finish_within < FIRST_LOOK_SECONDS:
            return [(f"finish_within is {self._finish_within:g} s; most tasks would be sent twice.", "Make it larger.")]
        return []

    def unknown_task(self) -> str:
        """The name of its task, where the app does not know it; nothing where that cannot be said."""
        name = self._task
        if "{" in name or name in self._app.tasks:
            return ""
        try:
            self._app.loader.import_default_modules()  # as Celery's worker does when it starts
        except Exception:  # importing them may raise anything; the worker says so
            return ""
        return "" if name in self._app.tasks else name

    def close(self) -> None:
        self._lines.close()

    def _hand_over(self, batch: Sequence[Fact]) -> list[Result]:
        results: list[Result] = [None] * len(batch)
        messages: list[tuple[int, Message]] = []
        # Which database it is may be said after the destination was made.
        more = {SETTLE: "finished", DATABASE: self.using} if self._waits else {}
        for position, fact in enumerate(batch):
            try:
                messages.append((position, self._messages.of(fact, more)))
            except Exception as error:
                results[position] = error
        if messages:
            with self._lines.line() as line:
                answers = line.send([message for _, message in messages])
            for (position, _), answer in zip(messages, answers, strict=True):
                results[position] = answer
        return results

    def _run(self, fact: Fact) -> Result:
        name = self._messages.task_of(fact)
        task = self._app.tasks.get(name)
        if task is None:
            return Refused(f"Celery runs tasks eagerly here, and knows no task {name!r}.")
        given = [json.loads(envelope(fact))]
        ended = task.apply(args=given, task_id=self._messages.id_of(fact), headers=headers_of(fact), throw=False)
        return ended.result if ended.failed() else None

    def _deliver_and_wait(self, batch: Sequence[Fact]) -> list[Result]:
        """What was handed over is looked up; the rest is sent. No thread waits for a task."""
        self._prune()
        known = handed_over.look(self.using, self._name, [fact.row.id for fact in batch])
        found: dict[str, Result] = {id: result for id, each in known.items() if (result := self._known_result(each))}
        to_send = [fact for fact in batch if fact.row.id not in found]
        if to_send:
            found |= dict(zip((fact.row.id for fact in to_send), self._send_and_note(to_send), strict=True))
        return [found[fact.row.id] for fact in batch]

    def _known_result(self, known: HandedOver) -> Result:
        """None where it is to be sent again."""
        if known.error:
            return Refused(known.error) if known.permanent else Undelivered(known.error)
        if known.ended:
            return Delivered(f"The task ended after {known.took or 0.0:.1f} s.")
        if known.seconds_left > 0:
            # A task that ends right now wakes nobody, since its delivery is held: it is found by the next look, which
            # is no further away than the task has taken so far.
            elapsed = self._finish_within - known.seconds_left
            return Snooze(timedelta(seconds=min(known.seconds_left, max(FIRST_LOOK_SECONDS, elapsed))))
        return None

    def _send_and_note(self, facts: list[Fact]) -> list[Result]:
        sent = [Sent(fact.row.id, self._messages.id_of(fact), self._messages.task_of(fact)) for fact in facts]
        handed_over.note(self.using, self._name, sent, self._finish_within)
        try:
            results = self._hand_over(facts)
        except Exception as error:
            results = [error] * len(facts)
        if failed := [each.event for each, result in zip(sent, results, strict=True) if result is not None]:
            handed_over.forget(self.using, self._name, failed)
        look = Snooze(timedelta(seconds=min(FIRST_LOOK_SECONDS, self._finish_within)))
        return [look if result is None else result for result in results]

    def _prune(self) -> None:
        if time.monotonic() - self._pruned_at > PRUNE_SECONDS:
            self._pruned_at = time.monotonic()
            handed_over.prune(self.using, self._name)

    @property
    def _name(self) -> str:
        return f"{OUTSIDE}{self.alias}"


@register("duebox")
def check_that_celery_knows_the_tasks(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Its worker throws away what it does not know, and with settle="accepted" the event is delivered by then."""
    found: list[CheckMessage] = []
    for alias, each in subscriptions().items():
        try:
            destination = each.destination()
        except DueboxError:  # another check says so
            continue
        if isinstance(destination, CeleryTask) and (name := destination.unknown_task()):
            told = f"DUEBOX['DESTINATIONS'][{alias!r}]: the Celery app knows no task {name!r}."
            found.append(Warning(told, hint=_repair(name, list(destination._app.tasks)), id="duebox.W017"))
    return found


def _repair(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    correct = f"Did you mean {near[0]!r}? If not, correct" if near else "Correct"
    return (
        f"{correct} the name, or import the module of the task where the app is made. Where workers of another project "
        "run it, add duebox.W017 to SILENCED_SYSTEM_CHECKS."
    )


def find_app(path: str) -> Any:
    """The Celery app at a dotted path, or the one that this process has made its own."""
    celery = driver("celery", "celery")
    if not path:
        return _own_app(celery)
    try:
        found = import_string(path)
    except ImportError as error:
        raise InvalidDestination(f"app {path!r} cannot be imported ({error}).") from error
    if not isinstance(found, celery.Celery):
        raise InvalidDestination(f"app {path!r} is no Celery app; name the object that Celery(...) gave.")
    return found


def remember_app() -> None:
    """Celery knows its current app in the thread that made it. Other threads may get one that nobody configured, with
    a broker on this machine; so the main thread says which one it is."""
    app = driver("celery", "celery").current_app._get_current_object()
    _remembered[:] = [] if _is_nobodys(app) else [app]


def _own_app(celery: Any) -> Any:
    app = celery.current_app._get_current_object()
    if not _is_nobodys(app):
        return app
    if not _remembered:
        raise InvalidDestination(
            "There is no Celery app here; name yours with the option app, as in 'shop.celery.app'."
        )
    return _remembered[0]


def _is_nobodys(app: Any) -> bool:
    return bool(app.main == "default" and not app.set_as_current)
