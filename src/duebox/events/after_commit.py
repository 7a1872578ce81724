"""What follows the commit of new events: delivery in this process, a message to Celery, or a wake-up through Redis.

Workers listen to the database and need none of it. Who stores events calls `deliver`, and who writes schedules calls
`schedules_written`; what they do is decided here, by the settings. The modules are named by their paths, as they stand
above this one in the map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal

from django.db import connections, transaction
from django.utils.module_loading import import_string

from duebox.conf import conf
from duebox.context.current import handling

INLINE = "duebox.worker.drain.deliver_here"
CELERY = "duebox.integrations.celery_wakeup.kick"
REDIS = "duebox.redis.wakeup.wake_workers"
REDIS_SCHEDULES = "duebox.redis.wakeup.wake_for_schedules"

Name = tuple[Literal["key", "id"], str]
"""A schedule that was written, by its key or its id."""


def deliver(using: str) -> None:
    """Events were stored in the current transaction: see to it that they are delivered once it is committed."""
    settings = conf()
    if settings.MODE == "inline":
        _once(INLINE, using)
    elif settings.MODE == "celery" and handling.get() is None:  # what a handler emits is delivered by who runs it
        _once(CELERY, using)
    if settings.REDIS_URL:
        _once(REDIS, using)


def schedules_written(using: str, kind: Literal["key", "id"], names: Iterable[object]) -> None:
    """Schedules were written in the current transaction; a worker that sleeps may have to fire one of them soon."""
    if conf().REDIS_URL:
        written = frozenset((kind, str(name)) for name in names)

        def wake() -> None:
            import_string(REDIS_SCHEDULES)(using, written)

        transaction.on_commit(wake, using=using, robust=True)


def _once(path: str, using: str) -> None:
    """Once for each transaction, however many events are in it. What is rolled back takes its hook away with it."""
    hook, connection = _hook(path, using), connections[using]
    if any(each[1] is hook for each in reversed(connection.run_on_commit)):
        return
    if connection.in_atomic_block or connection.get_autocommit():  # otherwise the caller commits by itself, unnoticed
        transaction.on_commit(hook, using=using, robust=True)


@cache
def _hook(path: str, using: str) -> Callable[[], None]:
    action: Callable[[str], Any] = import_string(path)

    def act() -> None:  # a function: Django cannot log the failure of a partial, for want of its __qualname__
        action(using)

    return act
