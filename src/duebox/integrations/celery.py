"""Duebox in Celery workers: tasks that deliver, and reports of the results of tasks with settle="finished".

- `duebox.deliver` is sent after a commit if DUEBOX['MODE'] is "celery".
- `duebox.sweep` is sent by beat, and does the same for schedules, retries and deliveries of lost workers.
- `duebox.prune` is sent by beat, and deletes the oldest audit entries.

If a report is lost, with the process or with the connection to the database, the task is sent again after
`finish_within`, with the same id.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from celery import shared_task, signals
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connections

from duebox.audit_log import prune as let_go
from duebox.conf import conf
from duebox.destinations.celery import DATABASE, SETTLE, remember_app
from duebox.destinations.registry import subscriptions
from duebox.events.fact import Actor
from duebox.exceptions import Permanent
from duebox.integrations.celery_wakeup import kick
from duebox.store import destinations
from duebox.worker.drain import deliver_here
from duebox.worker.supervisor import deliver_in_time

__all__ = ["deliver", "prune", "register", "sweep"]

logger = logging.getLogger("duebox.worker")

_NOTE_LIMIT = 4_000
_received: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""The requests of this worker that must report, by the id of the task, for as long as Celery has them."""


def register() -> None:
    """Connect the receivers that report how tasks end, and store the app for other threads. The tasks themselves are
    registered when this module is imported, as Celery requires."""
    remember_app()
    for signal, receiver in (
        (signals.task_received, received),
        (signals.task_postrun, ended),
        (signals.task_failure, failed),
        (signals.task_retry, tries_again),
        (signals.task_revoked, revoked),
        (signals.task_unknown, unknown),
    ):
        signal.connect(receiver, dispatch_uid=f"duebox.{receiver.__name__}", weak=False)


def received(*, request: Any, **more: Any) -> None:
    """When a process is killed, Celery before 5.7 reports which task it ran, but not its headers."""
    if _database(request.request_dict) is not None:
        _received[request.id] = request


def ended(*, sender: Any, task_id: str, state: str | None, retval: Any = None, **more: Any) -> None:
    using = _reports_to(sender.request)
    if using is None:
        return
    if state in ("SUCCESS", "IGNORED"):
        _report(using, lambda: destinations.end_sent_task(using, task_id, sender.name))
    elif state == "REJECTED" and not getattr(retval, "requeue", False):
        _report(using, lambda: destinations.end_sent_task(using, task_id, sender.name, error="The task rejected it."))


def failed(*, sender: Any, task_id: str, exception: Any, einfo: Any = None, **more: Any) -> None:
    using = _reports_to(sender.request)
    if using is None and (request := _received.get(task_id)) is not None:
        using = _database(request.request_dict)
    if using is None:
        return
    error = f"{getattr(einfo, 'traceback', None) or ''}\n{type(exception).__name__}: {exception}".strip()
    permanent = isinstance(exception, Permanent)
    text = error[-_NOTE_LIMIT:].replace("\x00", "")
    _report(using, lambda: destinations.end_sent_task(using, task_id, sender.name, error=text, permanent=permanent))


def tries_again(*, sender: Any, request: Any, reason: Any, **more: Any) -> None:
    using = _reports_to(request)
    if using is not None:
        _report(using, lambda: destinations.extend_sent_task(using, request.id, sender.name, _seconds_until(reason)))


def revoked(*, sender: Any, request: Any, **more: Any) -> None:
    """Revoked by a person, or because it expired: sending it again would not help."""
    using = _reports_to(request)
    error = "The task was revoked, or expired before it began."
    if using is not None:
        _report(using, lambda: destinations.end_sent_task(using, request.id, sender.name, error=error, permanent=True))


def unknown(*, message: Any, name: str | None, id: str | None, **more: Any) -> None:
    using = _database(message.headers or {})
    error = f"A Celery worker has no task {name!r}; deploy it there, or route the task to a worker that has it."
    if using is not None:
        _report(using, lambda: destinations.end_sent_task(using, id or "", name or "", error=error))


def _reports_to(request: Any) -> str | None:
    """The database that waits for a report, if there is one."""
    return _database(getattr(request, "headers", None) or {})


def _database(headers: Mapping[str, Any]) -> str | None:
    return str(headers.get(DATABASE) or conf().DATABASE) if headers.get(SETTLE) == "finished" else None


def _seconds_until(reason: Any) -> float:
    when = getattr(reason, "when", None)
    if isinstance(when, datetime):
        now = datetime.now(UTC) if when.tzinfo else datetime.now(UTC).replace(tzinfo=None)
        return max(0.0, (when - now).total_seconds())
    return float(when or 0.0)


def _report(using: str, write: Callable[[], object]) -> None:
    """Report; an error here must not fail the task."""
    connection = connections[using]
    try:
        write()
    except Exception:
        logger.exception("a task could not report how it ended; it will be sent again")
    finally:
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


RUN_SECONDS = 20.0
"""A Celery worker that stops waits for its tasks; so a run begins nothing after this, and requests the next run."""
WITHIN_LIMIT = 0.9


@shared_task(bind=True, name="duebox.deliver", ignore_result=True)  # type: ignore[untyped-decorator]
def deliver(self: Any, database: str | None = None) -> dict[str, int] | None:
    """Deliver everything that is due. Concurrent runs share the work; each delivery is claimed by one of them."""
    return _run(self, database or conf().DATABASE)


@shared_task(bind=True, name="duebox.sweep", ignore_result=True)  # type: ignore[untyped-decorator]
def sweep(self: Any, database: str | None = None) -> dict[str, int] | None:
    """The same at intervals: retries, schedules, plans, and deliveries of lost workers."""
    return _run(self, database or conf().DATABASE)


@shared_task(name="duebox.prune", ignore_result=True)  # type: ignore[untyped-decorator]
def prune(database: str | None = None) -> None:
    """Delete audit entries that are older than AUDIT_YEARS, and records of tasks that have ended."""
    using = database or conf().DATABASE
    for each in subscriptions().values():
        destinations.prune_sent_tasks(using, each.name)
    pruned = let_go(using, actor=Actor("system", "duebox.prune"))
    if pruned.flaw:
        logger.error("audit entries not pruned, something is wrong: %s", pruned.flaw)


def _run(task: Any, using: str) -> dict[str, int] | None:
    if task.request.is_eager:
        deliver_here(using)  # in this thread and on this connection, which may be in the transaction of a test
        return None
    (seconds, grace), started = _times(task), time.monotonic()
    try:
        counts = deliver_in_time(seconds, using=using, grace=grace)
    except SoftTimeLimitExceeded:
        # It ends before the limit unless the machine stalls. Claimed deliveries that do not run are released.
        logger.warning("stopped by the soft time limit of Celery; the next run continues")
        return None
    if time.monotonic() - started > seconds / 2:
        kick(using)  # there may be more
    return counts


def _times(task: Any) -> tuple[float, float]:
    """How long new handlers are started, and how long the running ones may take after that, so that neither time limit
    of Celery is reached. Without limits there is none."""
    hard, soft = task.request.timelimit or (None, None)
    config = task.app.conf
    soft = soft or task.soft_time_limit or config.task_soft_time_limit
    hard = hard or task.time_limit or config.task_time_limit
    limit = WITHIN_LIMIT * min((float(each) for each in (soft, hard) if each), default=math.inf)
    seconds = min(RUN_SECONDS, limit / 2)
    return seconds, limit - seconds
