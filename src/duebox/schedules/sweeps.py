"""Sweeps: find rows that are due with a query, and emit one event for each of them, once per window.

Use a sweep if a query finds the rows more easily than a schedule per row: tasks due within a day, trials that end soon.
A row is stamped and its event stored in one transaction, so concurrent runs are safe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.core.exceptions import FieldDoesNotExist
from django.db import transaction
from django.db.models import DateTimeField, Model, QuerySet

from duebox.context.current import detached
from duebox.contracts.enforce import Own
from duebox.events.fact import Fact
from duebox.events.outcomes import Retry
from duebox.events.subscribers import on
from duebox.exceptions import InvalidEvent, InvalidPlan, InvalidSchedule
from duebox.schedules.schedule import alias_in_use, cancel, schedule
from duebox.schedules.sweep_run import Run, Swept
from duebox.when import CatchUp, CatchUpMode, Rule, Timetable, cron, upcoming

EVENT = Own("duebox.sweep.due")
_NAME = re.compile(r"[A-Za-z0-9_.:\-]{1,200}")
_sweeps: dict[str, type[Sweep]] = {}


class Sweep:
    """Subclass it in `sweeps.py` of an app, which Duebox imports; workers run it.

    `stamp` names a nullable DateTimeField of the model: when the row was last swept. After that it is skipped for
    `again_after`; with None until the stamp is set to NULL. `every` says when workers run the sweep, in TIME_ZONE; with
    None they do not run it. A run processes `batch` rows per transaction, and ends after `limit` rows if it is set.

    A row that fails is tried again at the end of the run, as `retry` says, and by the next run. When a handler of its
    event gives up, the next run finds the row again; with `on_dead = "keep"` the dead letter is left to you.
    """

    model: ClassVar[type[Model]]
    event: ClassVar[str] = ""
    stamp: ClassVar[str] = ""
    name: ClassVar[str] = ""
    again_after: ClassVar[timedelta | None] = timedelta(hours=24)
    every: ClassVar[Rule | Timetable | None] = cron("0 * * * *")
    batch: ClassVar[int] = 500
    limit: ClassVar[int | None] = None
    retry: ClassVar[Retry] = Retry(delays=(1.0, 2.0, 4.0), jitter=0.0, permanent=(InvalidEvent,))
    on_dead: ClassVar[str] = "again"

    def due(self, rows: QuerySet[Any], now: datetime) -> QuerySet[Any]:
        """The rows that are due, whatever their stamp. Called once per run.

        They are taken in the order of `order_by`, or by primary key. Add `select_related` for what `data` looks at.
        """
        raise NotImplementedError

    def data(self, row: Any) -> Mapping[str, Any] | None:
        """The data of the event; the event is about the row in any case.

        The row is locked meanwhile, so be quick. When a row of the batch fails, those beside it are asked again.
        """
        return None

    def organization(self, row: Any) -> object:
        return None

    @classmethod
    def run(cls, *, using: str | None = None, limit: int | None = None, dry_run: bool = False) -> Swept:
        """Sweep now, in this thread; with `dry_run` only count. Any number of runs may go on at the same time.

        After a database error it tries again, after 1, 2 and 4 seconds; then it raises the error, and the next run
        goes on where this one ended.
        """
        limit = cls.limit if limit is None else limit
        _refuse_number(cls, "limit", limit)
        run = Run(_registered(cls), _stamp_of(cls), using or alias_in_use())
        return run.count(limit) if dry_run else run.go(limit)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if getattr(cls, "model", None) is not None:
            _register(cls)


def by_name() -> dict[str, type[Sweep]]:
    """All that are declared."""
    return _sweeps


def remove(name: str) -> None:
    """Forget a sweep; for tests and interactive work."""
    del _sweeps[name]


def ensure_schedules(using: str) -> None:
    """Store the schedule of every sweep that is declared here, unless it is stored already.

    Schedules of other sweeps are not changed: another process may have newer code.
    """
    latest = CatchUp(mode=CatchUpMode.LATEST)
    for name, sweep in _sweeps.items():
        # What is refused is a rule with nothing left to come; that must not keep the others from being scheduled.
        with suppress(InvalidSchedule), transaction.atomic(using=using), detached():
            if sweep.every is None:
                cancel(_key(name), using=using)
            else:
                schedule(EVENT, {"sweep": name}, about=("sweep", name), repeat=sweep.every, key=_key(name),
                         catch_up=latest, using=using)  # fmt: skip


@on(EVENT, name="duebox.sweep", atomic=False)
def run_due(event: Fact) -> None:
    """Run a sweep when its schedule fires."""
    name = event.data["sweep"]
    if name not in _sweeps:
        # Not for good: while a new release goes out, another worker may know it.
        raise InvalidPlan(
            f"No sweep is named {name!r} here; declare it, or end its schedule with duebox.cancel({_key(name)!r})."
        )
    _sweeps[name].run()


def _key(name: str) -> str:
    return f"duebox:sweep:{name}"


def _registered(cls: type[Sweep]) -> Sweep:
    if _sweeps.get(cls.name) is not cls:
        raise InvalidPlan(f"{cls.__name__} is not a declared sweep; give it a model = ..., or declare it again.")
    return cls()


def _register(cls: type[Sweep]) -> None:
    _refuse_no_model(cls)
    # Not inherited: a sweep derived from another one is another sweep.
    cls.name = vars(cls).get("name") or f"{cls.model._meta.app_label}.{cls.__name__}"
    _refuse_name(cls)
    _refuse_event(cls)
    _refuse_stamp(cls)
    _refuse_numbers(cls)
    _refuse_policies(cls)
    _refuse_rhythm(cls)
    if cls.due is Sweep.due:
        raise InvalidPlan(f"Sweep {cls.name} does not say which rows are due; define due(self, rows, now).")
    _sweeps[cls.name] = cls


def _refuse_no_model(cls: type[Sweep]) -> None:
    if not isinstance(cls.model, type) or not issubclass(cls.model, Model) or cls.model._meta.abstract:
        raise InvalidPlan(f"model of {cls.__name__} is {cls.model!r}; it must be a model class with a table.")
    if cls.model._meta.pk.column is None:
        raise InvalidPlan(f"{cls.model.__name__} has a primary key of several fields; a sweep needs one of one field.")


def _refuse_name(cls: type[Sweep]) -> None:
    if not isinstance(cls.name, str) or not _NAME.fullmatch(cls.name):
        raise InvalidPlan(f"Sweep name {cls.name!r} may hold up to 200 letters, digits and _.:- only; choose another.")
    taken = _sweeps.get(cls.name)
    # A module that is imported again declares the same class again; that is no collision.
    if taken and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
        raise InvalidPlan(
            f"Sweep name {cls.name!r} is taken by {taken.__module__}.{taken.__qualname__}; "
            f"give {cls.__module__}.{cls.__qualname__} another one with name = '...'."
        )


def _refuse_event(cls: type[Sweep]) -> None:
    if not isinstance(cls.event, str) or not cls.event:
        raise InvalidPlan(f"Sweep {cls.name} emits nothing; declare event = 'task.due_soon' or the like.")


def _refuse_stamp(cls: type[Sweep]) -> None:
    field = _stamp_of(cls)
    if not isinstance(field, DateTimeField) or not field.null:
        raise InvalidPlan(
            f"stamp of sweep {cls.name} is {field}, a {'' if field.null else 'non-null '}{type(field).__name__}; "
            "it must be a DateTimeField(null=True) that holds nothing else."
        )
    if field.auto_now or field.auto_now_add:
        raise InvalidPlan(f"stamp of sweep {cls.name} is {field}, which Django sets at each save; take another field.")


def _stamp_of(cls: type[Sweep]) -> Any:
    try:
        return cls.model._meta.get_field(cls.stamp)
    except FieldDoesNotExist:
        raise InvalidPlan(
            f"stamp of sweep {cls.name} is {cls.stamp!r}, which {cls.model.__name__} does not have; "
            "name a DateTimeField(null=True) of it, such as reminded_at."
        ) from None


def _refuse_numbers(cls: type[Sweep]) -> None:
    if cls.again_after is not None and not (isinstance(cls.again_after, timedelta) and cls.again_after > timedelta(0)):
        raise InvalidPlan(f"again_after of sweep {cls.name} is {cls.again_after!r}; give a timedelta above 0, or None.")
    _refuse_number(cls, "batch", cls.batch or 0)
    _refuse_number(cls, "limit", cls.limit)


def _refuse_number(cls: type[Sweep], word: str, number: int | None) -> None:
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
        raise InvalidPlan(f"{word} of sweep {cls.name} is {number!r}; it must be a whole number above 0.")


def _refuse_policies(cls: type[Sweep]) -> None:
    if not isinstance(cls.retry, Retry):
        raise InvalidPlan(
            f"retry of sweep {cls.name} is {cls.retry!r}; give a duebox.Retry, such as Retry(delays=(1, 2, 4)), "
            "or Retry(limit=0) to leave a row that fails to the next run."
        )
    if cls.on_dead not in ("again", "keep"):
        raise InvalidPlan(f"on_dead of sweep {cls.name} is {cls.on_dead!r}; it must be 'again' or 'keep'.")


def _refuse_rhythm(cls: type[Sweep]) -> None:
    """Runs are never as far apart as their rule says: a moment earlier or later, an hour when clocks change."""
    if cls.every is None:
        return
    if not isinstance(cls.every, Rule | Timetable):
        raise InvalidPlan(f"every of sweep {cls.name} is {cls.every!r}; give a rule such as when.cron('0 * * * *').")
    table = (cls.every if isinstance(cls.every, Timetable) else Timetable(rule=cls.every)).or_in("UTC")
    runs = upcoming(table, datetime(2026, 1, 1, tzinfo=UTC))
    first, second = next(runs, None), next(runs, None)
    if first is None or second is None or cls.again_after is None:
        return
    distance = second.instant - first.instant
    if 0.95 < cls.again_after / distance < 1.05:
        raise InvalidPlan(
            f"Sweep {cls.name} leaves a row alone for {cls.again_after} and runs every {distance}, so a run that comes "
            f"a moment early would pass it over; set again_after to {distance * 0.9} or less."
        )
