"""Celery mode: after a commit with an event, a message asks a Celery worker to deliver now.

The message only saves time. If it is lost or cannot be sent, no event is lost: beat sends `duebox.sweep`. Celery itself
is imported with the first message.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import cache
from typing import Any

from django.core.signals import setting_changed

from duebox.conf import conf
from duebox.destinations.celery import find_app
from duebox.destinations.celery_broker import Broker, Message
from duebox.destinations.options import driver
from duebox.exceptions import InvalidDestination
from duebox.worker.drain import deliver_here

logger = logging.getLogger("duebox.worker")

DELIVER = "duebox.deliver"
APART_SECONDS = 0.25
"""A process sends at most one message in this time, and one at its end for all commits in between."""
TIMEOUT_SECONDS = 1.0
LEAVE_ALONE_SECONDS = 5.0
"""The pause after a message could not be sent: requests must not wait for the broker again and again."""
NEVER = float("-inf")
_looked_for = [NEVER]
"""When no app was found the last time."""


def kick(using: str) -> None:
    """Send a message now, or a moment later if one was sent just now."""
    kicks = _kicks_or_none()
    if kicks is None:
        return
    if kicks.eager:
        deliver_here(using)
    else:
        kicks.kick(using)


def app_of_settings() -> Any:
    """The app that receives the message. Raises InvalidDestination, with a message about the settings."""
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


class CeleryWakeups:
    def __init__(self) -> None:
        self._app = app_of_settings()
        self._queue = conf().CELERY.get("QUEUE", "")
        self.broker = Broker(self._app, None, TIMEOUT_SECONDS)
        self._last: dict[str, float] = {}
        """When the last message is sent, for each database; a pending one covers everything that is stored until
        then."""
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
        """Seconds to wait, or None if a message is pending."""
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
def _kicks() -> CeleryWakeups:
    return CeleryWakeups()


def _kicks_or_none() -> CeleryWakeups | None:
    """None if there is no app, which must not fail a commit. The app is looked for again, and the problem logged, from
    time to time."""
    if time.monotonic() < _looked_for[0] + LEAVE_ALONE_SECONDS:
        return None
    try:
        return _kicks()
    except Exception as error:  # the import of the project's app may raise anything
        _looked_for[0] = time.monotonic()
        _tell(error)
        return None


def _tell(error: Exception) -> None:
    logger.warning("Celery was not notified, duebox.sweep will deliver: %s", error or type(error).__name__)


def follow_setting(*, setting: str = "DUEBOX", **kwargs: Any) -> None:
    """Another app may be named."""
    if setting == "DUEBOX":
        _kicks.cache_clear()
        _looked_for[0] = NEVER


setting_changed.connect(follow_setting, dispatch_uid="duebox.celery")
