"""The public functions for async code, and `atomically`, which runs a function in a transaction.

Django's transactions belong to a connection, and a connection to a thread. Everything here runs in the thread in which
Django's own async calls, such as `asave`, use the database.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import transaction

from duebox.context.current import CallSite, call_site
from duebox.events.emit import emit, emit_many
from duebox.schedules.plans import restore
from duebox.schedules.schedule import alias_in_use, cancel, pause, reschedule, resume, schedule
from duebox.schedules.upcoming import upcoming, upcoming_of, upcoming_schedules

P = ParamSpec("P")
R = TypeVar("R")


def _async_form(function: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    @wraps(function)
    async def call(*args: P.args, **options: P.kwargs) -> R:
        caller = sys._getframe(1)
        token = call_site.set(CallSite(call.__name__, caller.f_code.co_filename, caller.f_lineno, caller.f_globals))
        try:
            return await sync_to_async(function, thread_sensitive=True)(*args, **options)
        finally:
            call_site.reset(token)

    call.__name__ = call.__qualname__ = f"a{function.__name__}"
    call.__module__ = __name__
    call.__doc__ = f"`{function.__name__}` for async code. {function.__doc__ or ''}"
    return call


aemit = _async_form(emit)
aemit_many = _async_form(emit_many)
aschedule = _async_form(schedule)
areschedule = _async_form(reschedule)
acancel = _async_form(cancel)
arestore = _async_form(restore)
apause = _async_form(pause)
aresume = _async_form(resume)
aupcoming = _async_form(upcoming)
aupcoming_of = _async_form(upcoming_of)
aupcoming_schedules = _async_form(upcoming_schedules)


async def atomically(function: Callable[..., R], /, *args: Any, using: str | None = None, **options: Any) -> R:
    """Run a plain function in one transaction: all that it saves and emits is committed together, or not at all.

    The function uses the ordinary calls: `order.save()`, `duebox.emit(...)`. `using` is the database alias.
    """

    def run() -> R:
        with transaction.atomic(using=using or alias_in_use()):
            result = function(*args, **options)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(
                    f"atomically() runs a plain function, and {function!r} is async, but Django has no async "
                    "transactions; write it with def and call save() and duebox.emit() in it."
                )
            return result

    return await sync_to_async(run, thread_sensitive=True)()
