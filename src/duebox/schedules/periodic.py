"""Periodic functions: `@duebox.periodic(cron("0 9 * * 1-5"), zone="Europe/Paris")` above a function in `handlers.py`.

The code is what counts. A worker that starts stores one schedule for each function that is declared, changes those
whose rule has changed, and cancels those of functions that are gone. Each occurrence is an event of the type
`periodic.<name>` with a delivery to the function; from there on the function is a handler like any other.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from django.db import transaction

from duebox.conf import conf
from duebox.context.current import detached
from duebox.contracts.enforce import Own
from duebox.events import subscribers
from duebox.events.fact import Fact
from duebox.events.subscribers import PERIODIC, Handler, default_name, on
from duebox.events.wildcards import fits, fits_any
from duebox.exceptions import InvalidSchedule, InvalidSubscriber
from duebox.schedules.planner import cancel_all
from duebox.schedules.schedule import schedule
from duebox.store import schedules
from duebox.when import CatchUp, Rule, Timetable, WhenError, zones

logger = logging.getLogger("duebox.periodic")

AGGREGATE = "periodic"
REMOVED = "no longer declared in the code"
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Periodic:
    """One declared function: when it runs, and under which name."""

    name: str
    function: Callable[..., Any]
    rule: Rule | Timetable
    zone: str | None = None
    catch_up: CatchUp | None = None

    @property
    def type(self) -> str:
        """The type of its events: its name, spelled as types are."""
        words = re.sub(r"[^a-z0-9_.]", "_", self.name.lower()).split(".")
        return PERIODIC + ".".join(filter(None, words))

    @property
    def key(self) -> str:
        """The key of its schedule."""
        return f"{AGGREGATE}:{self.name}"


_declared: dict[str, Periodic] = {}


def periodic(
    rule: Rule | Timetable,
    *,
    zone: str | ZoneInfo | None = None,
    name: str | None = None,
    catch_up: CatchUp | None = None,
    **options: Any,
) -> Callable[[F], F]:
    """Run a function by a rule: `cron("0 9 * * 1-5")`, `every(seconds=30)`, `daily("09:00")`, or a whole `Timetable`.

    The function takes the event, or nothing. `zone` is by default that of the timetable, or else TIME_ZONE. The name
    (by default module and function) is stored with schedule and history. `catch_up` is the policy for occurrences that
    were due while no worker ran; by default only the latest of them runs. All other options are those of
    `@duebox.on`.
    """
    _refuse_rule(rule)
    if catch_up is not None and not isinstance(catch_up, CatchUp):
        raise InvalidSchedule(f"catch_up={catch_up!r} is not a policy; pass when.CatchUp(mode='all') or the like.")
    place = None if zone is None else zones.name_of(zone)

    def register(function: F) -> F:
        new = Periodic(name or default_name(function), function, rule, place, catch_up)
        handler = _as_handler(function)
        if _taken_again(new):
            remove(new.name)
        on(new.type, name=new.name, **options)(handler)
        _declared[new.name] = new
        return function

    return register


def by_name() -> dict[str, Periodic]:
    """All that are declared."""
    return _declared


def remove(name: str) -> None:
    """Forget a periodic function; for tests and interactive work. The next worker that starts cancels its schedule."""
    del _declared[name]
    subscribers.remove(name)


def matching(wanted: Sequence[str]) -> list[Periodic]:
    """Those whose names match one of the shell patterns; a pattern that matches none is refused."""
    for pattern in wanted:
        if not any(fits(name, pattern) for name in _declared):
            there = ", ".join(sorted(_declared)) or "none"
            raise InvalidSchedule(f"No periodic function is named {pattern!r}; there are: {there}.")
    return [each for name, each in _declared.items() if fits_any(name, wanted)]


def ensure_periodic(using: str) -> None:
    """Bring the schedules of a database in line with the functions that are declared here.

    Schedules that were paused or cancelled stay so. Functions of a service with another PRODUCER are not changed: they
    are declared in other code.
    """
    cancelled = set(_rows(using).exclude(opt_out="").values_list("key", flat=True))
    for each in _declared.values():
        if each.key not in cancelled:
            start(each, using)
    declared = [each.key for each in _declared.values()]
    with transaction.atomic(using=using):
        rows = schedules.locked(_live(using).exclude(key__in=declared))
        removed = [row for row in rows if row.metadata.get("producer", "") == conf().PRODUCER]
        cancel_all(using, removed, why=REMOVED)
    for row in removed:
        logger.info("periodic function is gone, its schedule is cancelled: name=%s", row.aggregate_id)


def start(each: Periodic, using: str) -> bool:
    """Store the schedule of a function, or change it if the code has changed. Returns whether it runs again."""
    producer = {"producer": conf().PRODUCER} if conf().PRODUCER else None
    try:
        with transaction.atomic(using=using), detached():
            schedule(Own(each.type), about=(AGGREGATE, each.name), repeat=each.rule, zone=each.zone, key=each.key,
                     catch_up=each.catch_up, metadata=producer, using=using)  # fmt: skip
    except (InvalidSchedule, WhenError) as error:
        # A rule whose end has come is refused, too; that must not keep the others from being scheduled.
        logger.warning("periodic function is not scheduled: name=%s problem=%s", each.name, error)
        return False
    return True


def stop(keys: Sequence[str], using: str) -> None:
    """Cancel the schedules under these keys."""
    with transaction.atomic(using=using):
        cancel_all(using, schedules.locked(_live(using).filter(key__in=keys)))


def live_keys(using: str) -> set[str]:
    """The keys of periodic functions that are scheduled or paused."""
    return set(_live(using).values_list("key", flat=True))


def _live(using: str) -> Any:
    return _rows(using).filter(status__in=["scheduled", "paused"])


def _rows(using: str) -> Any:
    # Only Duebox can store this type; the aggregate is there for the index.
    return schedules.rows(using).filter(aggregate_type=AGGREGATE, type__startswith=PERIODIC)


def _refuse_rule(rule: object) -> None:
    if not isinstance(rule, Rule | Timetable):
        raise InvalidSchedule(
            f"@duebox.periodic needs a rule and was given {rule!r}; write @duebox.periodic(every(hours=1)), or another "
            "rule from duebox.when."
        )
    if (rule.rule if isinstance(rule, Timetable) else rule).single:
        raise InvalidSchedule(f"{rule!r} happens once; call duebox.schedule(..., at=...) for a single time.")


def _taken_again(new: Periodic) -> bool:
    """Whether a module is imported again and declares the same function; another one under the name is refused."""
    for old in _declared.values():
        if old.name != new.name and old.type != new.type:
            continue
        codes = [getattr(each.function, "__code__", None) for each in (old, new)]
        reloaded = codes[0] is None or codes[0] is not codes[1]  # compiled again, and not created by a loop
        if old.name != new.name or _where(old.function) != _where(new.function) or not reloaded:
            raise InvalidSubscriber(
                f"The name {new.name!r} of a periodic function is taken by {_where(old.function)}; "
                f"give {_where(new.function)} another one with @duebox.periodic(..., name=...)."
            )
        return True
    return False


def _where(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _as_handler(function: Callable[..., Any]) -> Handler:
    """The function itself, or one that takes the event in its place."""
    if _can_take(function, Fact):
        return function
    if not _can_take(function):
        raise InvalidSubscriber(
            f"Periodic function {_where(function)} takes {inspect.signature(function)}, but it is called with the "
            "event, or with nothing; give the other arguments defaults."
        )

    async def in_a_loop(event: Fact) -> Any:
        return await function()

    def plainly(event: Fact) -> Any:
        return function()

    is_async = any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004
    handler: Any = in_a_loop if is_async else plainly
    update_wrapper(handler, function, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    del handler.__wrapped__  # whose signature is another one
    return handler  # type: ignore[no-any-return]


def _can_take(function: Callable[..., Any], *arguments: object) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    return True
