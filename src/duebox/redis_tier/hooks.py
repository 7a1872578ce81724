"""After the commit: ring for events, and for schedules that were written. Connected only where there is a Redis."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from django.core.signals import setting_changed
from django.db import connections, transaction

from duebox.conf import conf
from duebox.redis_tier import checking  # noqa: F401 - registers the system check
from duebox.redis_tier.bell import bell
from duebox.signals import emitted
from duebox.store import schedules
from duebox.store.schedules import Name


def ring_after_commit(*, using: str, **kwargs: Any) -> None:
    """Once for each transaction, however many events are in it."""
    hook = _hook(using)
    hooks = connections[using].run_on_commit
    # Where the last one is ours, nothing was rolled back since: that would have taken it away.
    if not (hooks and hooks[-1][1] is hook):
        transaction.on_commit(hook, using=using, robust=True)


def name_after_commit(using: str, names: list[Name]) -> None:
    """Schedules are looked up again by whoever keeps the mirror; a worker that sleeps may have to fire one soon."""
    written = frozenset(names)

    def ring() -> None:
        bell.ring(using, written)

    transaction.on_commit(ring, using=using, robust=True)


@cache
def _hook(using: str) -> Callable[[], None]:
    def ring() -> None:
        bell.ring(using)

    return ring


def follow_setting(*, setting: str = "DUEBOX", **kwargs: Any) -> None:
    """Emitting costs nothing extra where there is no Redis."""
    if setting != "DUEBOX":
        return
    emitted.disconnect(dispatch_uid="duebox.redis_tier")
    if name_after_commit in schedules.watchers:
        schedules.watchers.remove(name_after_commit)
    if conf().REDIS_URL:
        emitted.connect(ring_after_commit, dispatch_uid="duebox.redis_tier")
        schedules.watchers.append(name_after_commit)


setting_changed.connect(follow_setting, dispatch_uid="duebox.redis_tier.hooks")
follow_setting()
