"""One run of a task, and how it is told: in its result, by the signals, and to the worker."""

from __future__ import annotations

import json
import logging
import os
import socket
from datetime import timedelta
from traceback import format_exception
from typing import Any

from django.db import connections

from duebox import clock
from duebox.exceptions import Permanent
from duebox.fact import Fact
from duebox.models import TaskRun
from duebox.outcome import Discard, Retried, Snooze
from duebox.tasks.backend import DueboxBackend, result_of
from duebox.tasks.library import (
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)

logger = logging.getLogger("duebox.worker")

_TRACEBACK_LIMIT = 8_000


def execute(event: Fact, using: str) -> Snooze | Discard | None:
    """Nothing where it succeeded, and Snooze where it will be tried again. A task that failed for good is raised, so
    that it stands among the dead letters."""
    run = TaskRun.objects.using(using).filter(event_id=event.id).first()
    if run is not None and run.status == TaskRun.Status.SUCCESSFUL:
        return None  # the worker was lost before it could settle
    run = _begin(event, run, using)
    try:
        result = result_of(str(event.id), event.data, event.occurred_at, run)
        backend = _backend(result)
    except Exception as error:
        _write(run, using, errors=[*run.errors, _told(error)], status=TaskRun.Status.FAILED, finished_at=clock.now())
        raise
    # Whoever listens must not change how a task ends.
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
        run.errors = []  # taken from the dead letters: it has all its tries again
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
    # Not by how often it was begun: a stop or a lost worker is not its failure.
    follows = backend.retry.outcome(error, len(run.errors) + 1)
    errors = [*run.errors, _told(error)]
    which = f"task={result.task.module_path} id={result.id} attempt={len(errors)}"
    logger.warning("task failed: %s", which, exc_info=error)
    if isinstance(follows, Retried):
        _write(run, using, status=TaskRun.Status.READY, errors=errors)
        return Snooze(timedelta(seconds=follows.after_seconds))
    _write(run, using, status=TaskRun.Status.FAILED, finished_at=clock.now(), errors=errors)
    told = [TaskError(**each) for each in errors]
    _tell(result, status=TaskResultStatus.FAILED, finished_at=run.finished_at, errors=told)
    task_finished.send_robust(type(backend), task_result=result)
    words = f"{result.task.module_path} failed: {type(error).__name__}: {error}"
    if connections[using].in_atomic_block:
        return Discard(words)  # in the transaction of a test an error would undo what was written here
    raise Permanent(words) from error


def _backend(result: TaskResult[..., Any]) -> DueboxBackend:
    backend = result.task.get_backend()
    if not isinstance(backend, DueboxBackend):
        raise Permanent(f"TASKS[{result.backend!r}] is not of Duebox any more; enqueue {result.task.name!r} again.")
    return backend


def _told(error: BaseException) -> dict[str, str]:
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
