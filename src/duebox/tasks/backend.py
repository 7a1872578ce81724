"""What TASKS names.

TASKS = {"default": {"BACKEND": "duebox.tasks.backend.DueboxBackend"}}
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from duebox import clock
from duebox.conf import conf
from duebox.context import handling
from duebox.emit import NewEvent, announce, fact_row, ready_settings
from duebox.exceptions import InvalidDestination, Permanent
from duebox.fact import Fact
from duebox.models import Event, TaskRun
from duebox.store import tasks
from duebox.tasks.library import (
    BaseTaskBackend,
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from duebox.tasks.options import Options, read_options
from duebox.tasks.running import EVENT, SUBSCRIBER

P = ParamSpec("P")
R = TypeVar("R")


class DueboxBackend(BaseTaskBackend):
    """A task is stored in the caller's transaction and run by the workers of Duebox.

    There is no order of priority: workers take what is due first. OPTIONS may have `database`, and `retry` with the
    fields of `duebox.Retry`; without it a task that fails has failed.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = False

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.mistake = ""
        try:
            self._database, self.retry = read_options(self.options)
        except InvalidDestination as error:
            # Not raised yet: the module of a task makes its backend, and the check could not say what is wrong.
            self._database, self.retry = Options()
            self.mistake = f"TASKS[{alias!r}]: {error}"

    @property
    def using(self) -> str:
        """The database; inside of a handler the one that is being served."""
        current = handling.get()
        return self._database or (current.using if current else conf().DATABASE)

    def enqueue(self, task: Task[P, R], args: Any, kwargs: Any) -> TaskResult[P, R]:
        if self.mistake:
            raise ImproperlyConfigured(self.mistake)
        self.validate_task(task)
        now, using = clock.now(), self.using
        result: TaskResult[P, R] = TaskResult(
            task=task,
            id="",
            status=TaskResultStatus.READY,
            enqueued_at=now,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        row = fact_row(NewEvent(type=EVENT, data=_data(result), occurred_at=now), ready_settings())
        object.__setattr__(result, "id", row.id)
        due = _aware(task.run_after)
        tasks.enqueue(using, row, SUBSCRIBER, due if due is not None and due > now else None)
        announce([Fact(row)], using)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        try:
            event = Event.objects.using(self.using).get(id=UUID(str(result_id)), type=EVENT)
        except (ValueError, Event.DoesNotExist):
            raise TaskResultDoesNotExist(result_id) from None
        run = TaskRun.objects.using(self.using).filter(event_id=event.id).first()
        return result_of(str(event.id), event.data, event.occurred_at, run)

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        if not apps.is_installed("duebox"):
            hint = "Add 'duebox' to INSTALLED_APPS and run: manage.py migrate duebox"
            return [checks.Error(f"TASKS[{self.alias!r}] needs the tables of Duebox.", hint=hint)]
        if self.mistake:
            return [checks.Error(self.mistake, hint="OPTIONS may have 'database', and 'retry' with fields of Retry.")]
        return []


def result_of(id: str, data: dict[str, Any], enqueued_at: datetime, run: TaskRun | None) -> TaskResult[..., Any]:
    """A result as it is stored. Raises Permanent where the path is not that of a task."""
    result: TaskResult[..., Any] = TaskResult(
        task=_task(data),
        id=id,
        status=TaskResultStatus[run.status] if run else TaskResultStatus.READY,
        enqueued_at=enqueued_at,
        started_at=run.started_at if run else None,
        last_attempted_at=run.last_attempted_at if run else None,
        finished_at=run.finished_at if run else None,
        args=data["args"],
        kwargs=data["kwargs"],
        backend=data["backend"],
        errors=[TaskError(**each) for each in run.errors] if run else [],
        worker_ids=list(run.worker_ids) if run else [],
    )
    object.__setattr__(result, "_return_value", run.return_value if run else None)
    return result


def _data(result: TaskResult[..., Any]) -> dict[str, Any]:
    task, after = result.task, _aware(result.task.run_after)
    return {
        "task": task.module_path,
        "args": result.args,
        "kwargs": result.kwargs,
        "backend": result.backend,
        "queue": task.queue_name,
        "run_after": after.isoformat() if after else None,
    }


def _task(data: dict[str, Any]) -> Task[..., Any]:
    found = import_string(data["task"])
    if not isinstance(found, Task):  # the row may be from elsewhere: nothing else is called
        raise Permanent(f"{data['task']!r} is no task; decorate it with @task.")
    after = datetime.fromisoformat(data["run_after"]) if data["run_after"] else None
    return found.using(backend=data["backend"], queue_name=data["queue"], run_after=after)


def _aware(moment: datetime | None) -> datetime | None:
    """Where USE_TZ is off, a naive time is in the zone of the server."""
    return moment.astimezone(UTC) if moment is not None and moment.tzinfo is None else moment
