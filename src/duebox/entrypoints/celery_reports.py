"""Celery tasks that report how they end, to destinations with settle="finished"; in the processes of Celery workers.

A report that is lost, with the process or with the connection to the database, is made up for: after `finish_within`
the task is sent again, with the same id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from celery import signals
from django.db import connections

from duebox.conf import conf
from duebox.destinations.celery import DATABASE, SETTLE
from duebox.exceptions import Permanent
from duebox.store import handed_over

logger = logging.getLogger("duebox.worker")

_NOTE_LIMIT = 4_000
_received: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""The requests of this worker that are to report, by the id of the task, for as long as Celery has them."""


def connect() -> None:
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
    """When a process is killed, Celery before 5.7 says which task it ran, but not what its headers were."""
    if _database(request.request_dict) is not None:
        _received[request.id] = request


def ended(*, sender: Any, task_id: str, state: str | None, retval: Any = None, **more: Any) -> None:
    using = _reports_to(sender.request)
    if using is None:
        return
    if state in ("SUCCESS", "IGNORED"):
        _report(using, lambda: handed_over.end(using, task_id, sender.name))
    elif state == "REJECTED" and not getattr(retval, "requeue", False):
        _report(using, lambda: handed_over.end(using, task_id, sender.name, error="The task rejected it."))


def failed(*, sender: Any, task_id: str, exception: Any, einfo: Any = None, **more: Any) -> None:
    using = _reports_to(sender.request)
    if using is None and (request := _received.get(task_id)) is not None:
        using = _database(request.request_dict)
    if using is None:
        return
    error = f"{getattr(einfo, 'traceback', None) or ''}\n{type(exception).__name__}: {exception}".strip()
    permanent = isinstance(exception, Permanent)
    text = error[-_NOTE_LIMIT:].replace("\x00", "")
    _report(using, lambda: handed_over.end(using, task_id, sender.name, error=text, permanent=permanent))


def tries_again(*, sender: Any, request: Any, reason: Any, **more: Any) -> None:
    using = _reports_to(request)
    if using is not None:
        _report(using, lambda: handed_over.extend(using, request.id, sender.name, _seconds_until(reason)))


def revoked(*, sender: Any, request: Any, **more: Any) -> None:
    """By a person, or because it expired: to send it again would not help."""
    using = _reports_to(request)
    error = "The task was revoked, or expired before it began."
    if using is not None:
        _report(using, lambda: handed_over.end(using, request.id, sender.name, error=error, permanent=True))


def unknown(*, message: Any, name: str | None, id: str | None, **more: Any) -> None:
    using = _database(message.headers or {})
    error = f"A Celery worker knows no task {name!r}; deploy it there, or route the task to a worker that has it."
    if using is not None:
        _report(using, lambda: handed_over.end(using, id or "", name or "", error=error))


def _reports_to(request: Any) -> str | None:
    """The database that waits for a report, if one does."""
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
    """Never the failure of the task."""
    connection = connections[using]
    try:
        write()
    except Exception:
        logger.exception("a task could not report how it ended; it will be sent again")
    finally:
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
