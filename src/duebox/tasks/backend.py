"""The backend for django.tasks: its options, enqueueing in the caller's transaction, and running a task.

TASKS = {"default": {"BACKEND": "duebox.tasks.backend.DueboxBackend"}}
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from traceback import format_exception
from typing import Any, NamedTuple, ParamSpec, TypeVar
from uuid import UUID

from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils.module_loading import import_string

from duebox import clock
from duebox.conf import conf
from duebox.context.current import handling
from duebox.destinations.base import DestinationPolicy, read_policy
from duebox.destinations.options import only_known
from duebox.events.emit import NewEvent, announce, fact_row, ready_settings
from duebox.events.fact import Fact
from duebox.events.outcomes import Discard, Retried, Retry, Snooze
from duebox.exceptions import InvalidDestination, Permanent
from duebox.models import Event, TaskRun
from duebox.store import deliveries
from duebox.tasks import EVENT, SUBSCRIBER
from duebox.tasks.compat import (
    BaseTaskBackend,
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
    task_finished,
    task_started,
)

__all__ = ["DueboxBackend"]

KNOWN = ("database", "retry")


class Options(NamedTuple):
    database: str = ""
    """The database of the current delivery if none is configured."""
    retry: Retry = Retry(limit=0)


def read_options(given: Any) -> Options:
    """Validate the options. Raises InvalidDestination."""
    if not isinstance(given, Mapping):
        raise InvalidDestination(f"OPTIONS is a {type(given).__name__}; it must be a dict.")
    only_known("OPTIONS", given, KNOWN)
    return Options(_database(given.get("database", "")), _retry(given.get("retry", {})))


def _database(given: Any) -> str:
    if given and given not in list(connections):
        raise InvalidDestination(
            f"OPTIONS['database'] is {given!r}, which DATABASES does not have; use one of {', '.join(connections)}."
        )
    return str(given or "")


def _retry(given: Any) -> Retry:
    try:
        return read_policy({"RETRY": given}, DestinationPolicy(retry=Options().retry)).retry
    except InvalidDestination as error:  # the option has another name in DESTINATIONS
        raise InvalidDestination(str(error).replace("RETRY", "OPTIONS['retry']", 1)) from error


P = ParamSpec("P")
R = TypeVar("R")


class DueboxBackend(BaseTaskBackend):
    """A task is stored in the caller's transaction and run by the workers of Duebox.

    Priorities are not supported: workers run what is due first. OPTIONS may have `database`, and `retry` with the
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
            # Not raised yet: importing the module of a task creates its backend, and the system check could not report
            # it.
            self._database, self.retry = Options()
            self.mistake = f"TASKS[{alias!r}]: {error}"

    @property
    def using(self) -> str:
        """The configured database, or inside of a handler the database of its delivery."""
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
        deliveries.enqueue(using, row, SUBSCRIBER, due if due is not None and due > now else None)
        announce([row], using)
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
    """The stored result. Raises Permanent if the path is not that of a task."""
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
    if not isinstance(found, Task):  # the row may be untrusted: only tasks are called
        raise Permanent(f"{data['task']!r} is not a task; decorate it with @task.")
    after = datetime.fromisoformat(data["run_after"]) if data["run_after"] else None
    return found.using(backend=data["backend"], queue_name=data["queue"], run_after=after)


def _aware(moment: datetime | None) -> datetime | None:
    """If USE_TZ is off, a naive time is in the zone of the server."""
    return moment.astimezone(UTC) if moment is not None and moment.tzinfo is None else moment


logger = logging.getLogger("duebox.worker")

_TRACEBACK_LIMIT = 8_000


def execute(event: Fact, using: str) -> Snooze | Discard | None:
    """None if it succeeded, and Snooze if it will be retried. A task that failed for good raises, so that it becomes a
    dead letter."""
    run = TaskRun.objects.using(using).filter(event_id=event.id).first()
    if run is not None and run.status == TaskRun.Status.SUCCESSFUL:
        return None  # the worker was lost before it could settle
    run = _begin(event, run, using)
    try:
        result = result_of(str(event.id), event.data, event.occurred_at, run)
        backend = _backend(result)
    except Exception as error:
        _write(
            run,
            using,
            errors=[*run.errors, _error_fields(error)],
            status=TaskRun.Status.FAILED,
            finished_at=clock.now(),
        )
        raise
    # A signal receiver must not change the result of a task.
    task_started.send_robust(type(backend), task_result=result)
    try:
        value = _call(result)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _fail(error, backend, result, run, using)
    finished = {"status": TaskRun.Status.SUCCESSFUL, "finished_at": clock.now(), "return_value": value}
    _write(run, using, **finished)
    _tell(result, status=TaskResultStatus.SUCCESSFUL, finished_at=run.finished_at, _return_value=value)
    task_finished.send_robust(type(backend), task_result=result)
    return None


def _begin(event: Fact, run: TaskRun | None, using: str) -> TaskRun:
    now = clock.now()
    run = run or TaskRun(event_id=event.id, started_at=now, errors=[], worker_ids=[])
    if run.status == TaskRun.Status.FAILED:
        run.errors = []  # retried from the dead letters: all attempts are available again
    workers = [*run.worker_ids, f"{socket.gethostname()[:40]}:{os.getpid()}"]
    _write(run, using, status=TaskRun.Status.RUNNING, last_attempted_at=now, finished_at=None, worker_ids=workers)
    return run


def _call(result: TaskResult[..., Any]) -> Any:
    context: list[Any] = [TaskContext(task_result=result)] if result.task.takes_context else []
    value = normalize_json(result.task.call(*context, *result.args, **result.kwargs))
    if "\\u0000" in json.dumps(value, allow_nan=False):
        raise ValueError("The task returned a text with a NUL character, which PostgreSQL cannot store.")
    return value


def _fail(
    error: BaseException, backend: DueboxBackend, result: TaskResult[..., Any], run: TaskRun, using: str
) -> Snooze | Discard | None:
    # Not the number of starts: a stop or a lost worker is not a failure of the task.
    follows = backend.retry.outcome(error, len(run.errors) + 1)
    errors = [*run.errors, _error_fields(error)]
    which = f"task={result.task.module_path} id={result.id} attempt={len(errors)}"
    logger.warning("task failed: %s", which, exc_info=error)
    if isinstance(follows, Retried):
        _write(run, using, status=TaskRun.Status.READY, errors=errors)
        return Snooze(timedelta(seconds=follows.after_seconds))
    _write(run, using, status=TaskRun.Status.FAILED, finished_at=clock.now(), errors=errors)
    failures = [TaskError(**each) for each in errors]
    _tell(result, status=TaskResultStatus.FAILED, finished_at=run.finished_at, errors=failures)
    task_finished.send_robust(type(backend), task_result=result)
    words = f"{result.task.module_path} failed: {type(error).__name__}: {error}"
    if connections[using].in_atomic_block:
        return Discard(words)  # in the transaction of a test an error would roll back the result
    raise Permanent(words) from error


def _backend(result: TaskResult[..., Any]) -> DueboxBackend:
    backend = result.task.get_backend()
    if not isinstance(backend, DueboxBackend):
        raise Permanent(
            f"TASKS[{result.backend!r}] is not a Duebox backend any more; enqueue {result.task.name!r} again."
        )
    return backend


def _error_fields(error: BaseException) -> dict[str, str]:
    text = "".join(format_exception(error))[-_TRACEBACK_LIMIT:].replace("\x00", "\\x00")
    kind = type(error)
    path = f"{kind.__module__}.{kind.__qualname__}"
    return {"exception_class_path": path, "traceback": text.encode(errors="backslashreplace").decode()}


def _write(run: TaskRun, using: str, **columns: Any) -> None:
    for name, value in columns.items():
        setattr(run, name, value)
    run.save(using=using)


def _tell(result: TaskResult[..., Any], **attributes: Any) -> None:
    for name, value in attributes.items():
        object.__setattr__(result, name, value)
