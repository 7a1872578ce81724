"""Django's tasks: each event enqueues a task with one argument, the envelope.

"mail": {"BACKEND": "duebox.destinations.django_tasks.DjangoTask", "OPTIONS": {"task": "shop.tasks.send_mail"}}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from duebox.context.current import Handling, handling
from duebox.destinations.base import Destination, Result
from duebox.destinations.envelope import envelope
from duebox.destinations.options import driver, positive
from duebox.events.fact import Fact
from duebox.events.outcomes import Delivered
from duebox.exceptions import InvalidDestination, Permanent, Refused, TooLarge, Undelivered

__all__ = ["DjangoTask"]


class DjangoTask(Destination):
    """Delivered when the task is enqueued, with the backend in TASKS. If that backend runs tasks immediately, a failed
    task is a failed delivery."""

    batch_size = 10

    def __init__(
        self, alias: str, *, task: str, backend: str = "", queue: str = "", max_bytes: int | None = None
    ) -> None:
        super().__init__(alias)
        self._library = _library()
        self._max_bytes = int(positive("max_bytes", max_bytes)) if max_bytes is not None else None
        self._task = self._found(task, backend, queue)

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        return [self._enqueue(fact) for fact in batch]

    def _enqueue(self, fact: Fact) -> Result:
        text = envelope(fact)
        if self._max_bytes is not None and (size := len(text.encode())) > self._max_bytes:
            return TooLarge(size, self._max_bytes)
        before = handling.set(Handling(fact, self.using))  # the correlation id of the task is that of the event
        try:
            result = self._task.enqueue(json.loads(text))
        except (self._library.InvalidTask, TypeError, ValueError) as error:
            return Refused(f"The task cannot be enqueued ({type(error).__name__}: {error}).")
        except Exception as error:
            return error
        finally:
            handling.reset(before)
        return self._failure(result) or Delivered(f"Task {result.id}")

    def _failure(self, result: Any) -> Exception | None:
        """The error of a task that ran immediately."""
        if result.status != self._library.TaskResultStatus.FAILED:
            return None
        last = result.errors[-1]
        permanent = issubclass(last.exception_class, Permanent)
        return Refused(last.traceback) if permanent else Undelivered(last.traceback)

    def _found(self, path: str, backend: str, queue: str) -> Any:
        try:
            found = import_string(path)
        except ImportError as error:
            raise InvalidDestination(f"task {path!r} cannot be imported ({error}).") from error
        if not isinstance(found, self._library.Task):
            raise InvalidDestination(f"task {path!r} is not a task; decorate it with @task.")
        try:
            return found.using(backend=backend or None, queue_name=queue or None)
        except (self._library.InvalidTask, ImproperlyConfigured) as error:
            raise InvalidDestination(f"task {path!r} does not fit its backend ({error}).") from error


def _library() -> Any:
    try:
        return driver("duebox.tasks.compat", "tasks")
    except ImproperlyConfigured as error:
        raise InvalidDestination(str(error)) from error
