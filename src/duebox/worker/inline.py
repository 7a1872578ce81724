"""Inline mode, for development and tests: delivered right after the commit, by the process that emitted."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any

from django.core.signals import setting_changed
from django.db import connections, transaction

from duebox.conf import conf
from duebox.signals import emitted
from duebox.worker.drain import drain

_draining: ContextVar[bool] = ContextVar("duebox_draining", default=False)


def deliver_after_commit(*, using: str, **kwargs: Any) -> None:
    hook = _hook(using)
    if not any(entry[1] is hook for entry in connections[using].run_on_commit):
        transaction.on_commit(hook, using=using, robust=True)


def follow_setting(*, setting: str = "DUEBOX", **kwargs: Any) -> None:
    """Listen to `emitted` only in inline mode, so that emitting costs nothing extra in the other."""
    if setting != "DUEBOX":
        return
    if conf().MODE == "inline":
        emitted.connect(deliver_after_commit, dispatch_uid="duebox.inline")
    else:
        emitted.disconnect(dispatch_uid="duebox.inline")


@cache
def _hook(using: str) -> Callable[[], None]:
    def deliver() -> None:  # a function: Django cannot log the failure of a partial, for want of its __qualname__
        deliver_here(using)

    return deliver


def deliver_here(using: str) -> None:
    if _draining.get():
        return  # emitted by a handler: the drain that runs it comes to it next, after the handler has ended
    token = _draining.set(True)
    try:
        drain(using=using)
    finally:
        _draining.reset(token)


# Connected after duebox.conf, which has dropped the old settings by then.
setting_changed.connect(follow_setting, dispatch_uid="duebox.inline")
follow_setting()
