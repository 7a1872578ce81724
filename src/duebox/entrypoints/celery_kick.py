"""Celery mode: after a commit with an event, a message asks a Celery worker to deliver now.

The message is a courtesy. One that is lost, or could not be sent, costs time and no event: beat sends `duebox.sweep`.
Celery itself is loaded with the first one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from django.core.signals import setting_changed
from django.db import connections, transaction

from duebox.conf import conf
from duebox.context import handling
from duebox.destinations.celery import find_app
from duebox.destinations.celery_broker import Broker, Message
from duebox.destinations.drivers import driver
from duebox.exceptions import InvalidDestination
from duebox.signals import emitted
from duebox.worker.inline import deliver_here

logger = logging.getLogger("duebox.worker")

DELIVER = "duebox.deliver"
APART_SECONDS = 0.25
"""A process sends at most one in this time, and a late one at its end for all that came in between."""
TIMEOUT_SECONDS = 1.0
LEAVE_ALONE_SECONDS = 5.0
"""After one could not be sent: a request must not wait for the broker again and again."""
NEVER = float("-inf")
_looked_for = [NEVER]
"""When there was no app the last time."""


def kick_after_commit(*, using: str, **kwargs: Any) -> None:
    if handling.get() is not None:
        return  # emitted by a handler: whoever runs it comes to it next
    hook = _hook(using)
    if not any(entry[1] is hook for entry in connections[using].run_on_commit):
        transaction.on_commit(hook, using=using, robust=True)


def kick(using: str) -> None:
    """Ask for a delivery now, or a moment later where one was asked for just now."""
    kicks = _kicks_or_none()
    if kicks is None:
        return
    if kicks.eager:
        deliver_here(using)
    else:
        kicks.kick(using)


def app_of_settings() -> Any:
    """The app that is asked; InvalidDestination in the words of the settings."""
    driver("celery", "celery")
    path = conf().CELERY.get("APP", "")
    try:
        return find_app(path)
    except InvalidDestination as error:
        if path:
            raise InvalidDestination(f"DUEBOX['CELERY']['APP'] cannot be used: {error}") from error
        raise InvalidDestination(
            "DUEBOX['MODE'] is 'celery', and there is no Celery app here; name yours in DUEBOX['CELERY']['APP'], as in "
            "'shop.celery.app'."
        ) from error


class Kicks:
    def __init__(self) -> None:
        self._app = app_of_settings()
        self._queue = conf().CELERY.get("QUEUE", "")
        self.broker = Broker(self._app, None, TIMEOUT_SECONDS)
        self._last: dict[str, float] = {}
        """When the last one runs, for each database; one that is still to come covers whatever is stored until then."""
        self._one_at_a_time = threading.Lock()

    @property
    def eager(self) -> bool:
        return bool(self._app.conf.task_always_eager)

    def kick(self, using: str) -> None:
        wait = self._wait(using)
        if wait is None:
            return
        try:
            [problem] = self.broker.send([self._message(using, wait)])
            if problem is not None:
                raise problem
        except Exception as error:
            self._last[using] = time.monotonic() + LEAVE_ALONE_SECONDS
            _tell(error)

    def _wait(self, using: str) -> float | None:
        """Seconds, or None where one is on its way that runs later than now."""
        with self._one_at_a_time:
            now, last = time.monotonic(), self._last.get(using, float("-inf"))
            if last > now:
                return None
            wait = max(0.0, last + APART_SECONDS - now)
            self._last[using] = now + wait
            return wait

    def _message(self, using: str, wait: float) -> Message:
        options = {"queue": self._queue} if self._queue else {}
        return self.broker.message(DELIVER, kwargs={"database": using}, countdown=wait, headers={}, **options)


@cache
def _kicks() -> Kicks:
    return Kicks()


def _kicks_or_none() -> Kicks | None:
    """None where there is no app: whoever commits must not feel it. It is looked for again, and told, now and then."""
    if time.monotonic() < _looked_for[0] + LEAVE_ALONE_SECONDS:
        return None
    try:
        return _kicks()
    except Exception as error:  # whatever the import of a project's own app may raise
        _looked_for[0] = time.monotonic()
        _tell(error)
        return None


def _tell(error: Exception) -> None:
    logger.warning("Celery was not asked to deliver, duebox.sweep will: %s", error or type(error).__name__)


@cache
def _hook(using: str) -> Callable[[], None]:
    def ask() -> None:  # a function: Django cannot log the failure of a partial, for want of its __qualname__
        kick(using)

    return ask


def follow_setting(*, setting: str = "DUEBOX", **kwargs: Any) -> None:
    """Listen to `emitted` only in Celery mode, so that emitting costs nothing extra in the others."""
    if setting != "DUEBOX":
        return
    _kicks.cache_clear()
    _looked_for[0] = NEVER
    if conf().MODE == "celery":
        emitted.connect(kick_after_commit, dispatch_uid="duebox.celery")
    else:
        emitted.disconnect(dispatch_uid="duebox.celery")


# Connected after duebox.conf, which has dropped the old settings by then.
setting_changed.connect(follow_setting, dispatch_uid="duebox.celery")
follow_setting()
