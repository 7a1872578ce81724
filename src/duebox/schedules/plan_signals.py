"""Plan the rows that are saved and deleted through Django: at once, and in the caller's transaction if there is one.

A save outside of a transaction commits the row and the trigger's note of it together. Its plans follow in a
transaction of their own, which removes the note. If that fails, or the process ends before it, the note is still there,
and a worker plans the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.signals import post_delete, post_save, pre_delete, pre_save

from duebox.events.identities import aggregate_type, text_of_key
from duebox.schedules.plan_sync import cancel_rows, sync_rows
from duebox.store.row_changes import PLANNED, WRITES, take_own

if TYPE_CHECKING:
    from duebox.schedules.plans import Plan

Execute = Callable[[Any, Any, bool, dict[str, Any]], Any]


class Follower(NamedTuple):
    """A plan that follows the rows of a model."""

    plan: Plan
    model: type[models.Model]
    lookup: str | None
    """That leads from rows of the plan to rows of the model; None for the plan's own model."""


_followers: dict[type[models.Model], list[Follower]] = {}
"""By the model under whose name rows are saved: also by proxies, and by models below."""


def connect(plan: Plan) -> None:
    """Follow the rows of a plan."""
    for model, lookup in ((plan.model, None), *_followed(plan)):
        for sender in _family(model):
            if sender not in _followers:
                _followers[sender] = []
                for signal, receiver in _RECEIVERS:
                    signal.connect(receiver, sender=sender)
            _followers[sender].append(Follower(plan, model, lookup))


def disconnect(name: str) -> None:
    """Follow them no more."""
    for sender, followers in list(_followers.items()):
        followers[:] = [each for each in followers if each.plan.name != name]
        if not followers:
            del _followers[sender]
            for signal, receiver in _RECEIVERS:
                signal.disconnect(receiver, sender=sender)


def lookups_to(plan: Plan, source: str) -> list[tuple[type[models.Model], str]]:
    """By which lookups a plan follows rows of this type, each with the model."""
    return [(model, lookup) for model, lookup in _followed(plan) if aggregate_type(model) == source]


def is_only_follower(plan: Plan) -> bool:
    """Whether a change of a row concerns no other plan."""
    model = _concrete(plan.model)
    found = (each for followers in _followers.values() for each in followers if _concrete(each.model) is model)
    return {(each.plan.name, each.lookup) for each in found} == {(plan.name, None)}


def _concrete(model: type[models.Model]) -> type[models.Model]:
    """A proxy shows the rows of its concrete model."""
    return model._meta.concrete_model or model


def _followed(plan: Plan) -> Iterator[tuple[type[models.Model], str]]:
    for other, lookups in plan.follows.items():
        yield from ((other, lookup) for lookup in ((lookups,) if isinstance(lookups, str) else lookups))


def _family(model: type[models.Model]) -> Iterator[type[models.Model]]:
    yield model
    for below in model.__subclasses__():
        yield from _family(below)


def _before_save(*, sender: type[models.Model], using: str, raw: bool = False, **kwargs: Any) -> None:
    if not raw:
        _mark(sender, using)


def _after_save(
    *, sender: type[models.Model], instance: models.Model, using: str, raw: bool = False, **kwargs: Any
) -> None:
    if raw:
        return  # a fixture may come before what its rows refer to; a worker plans it
    with _planning(sender, instance, using):
        for plan, _, lookup in _followers[sender]:
            rows = [instance.pk] if lookup is None else plan.queryset().using(using).filter(**{lookup: instance})
            sync_rows(plan, rows, using=using, strict=True)


def _before_delete(*, sender: type[models.Model], instance: models.Model, using: str, **kwargs: Any) -> None:
    """Remember the rows that follow this one: Django sets their keys to null without a signal."""
    _mark(sender, using)
    for plan, _, lookup in _followers[sender]:
        if lookup is not None:
            rows = plan.queryset().using(using).filter(**{lookup: instance})
            _remembered(instance)[plan.name, lookup] = list(rows.values_list("pk", flat=True))


def _after_delete(*, sender: type[models.Model], instance: models.Model, using: str, **kwargs: Any) -> None:
    with _planning(sender, instance, using):
        for plan, _, lookup in _followers[sender]:
            if lookup is None:
                cancel_rows(plan, [instance.pk], using=using)
            else:
                sync_rows(plan, _remembered(instance).pop((plan.name, lookup), []), using=using, strict=True)


_RECEIVERS = (
    (pre_save, _before_save), (post_save, _after_save), (pre_delete, _before_delete), (post_delete, _after_delete),
)  # fmt: skip


def _remembered(instance: models.Model) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = instance.__dict__.setdefault("_duebox_followers", {})
    return found


@contextmanager
def _planning(sender: type[models.Model], instance: models.Model, using: str) -> Iterator[None]:
    """All plans that follow a row are brought up to date in one transaction, which removes what a trigger has noted of
    the row. It does so before it reads the row: what is noted after that is not lost. If it fails, the note stays."""
    connection = connections[using]
    _unmark(connection)
    is_alone = connection.get_autocommit() and not connection.in_atomic_block
    with transaction.atomic(using=using, savepoint=False):
        sources = {aggregate_type(each.model) for each in _followers[sender]}
        take_own(using, sources, text_of_key(instance.pk), is_alone=is_alone)
        yield


class _Marking:
    """Marks the statements of a save or a deletion that is planned at once, so that their triggers wake no worker. Only
    the wake-up depends on it: workers look once a second in any case."""

    def __init__(self) -> None:
        self.beginnings: tuple[str, ...] = ()

    def __call__(self, execute: Execute, sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if self.beginnings and isinstance(sql, str) and sql.startswith(self.beginnings):
            sql += PLANNED
        return execute(sql, params, many, context)


_markings: WeakKeyDictionary[BaseDatabaseWrapper, _Marking] = WeakKeyDictionary()


def _mark(sender: type[models.Model], using: str) -> None:
    connection = connections[using]
    marking = _markings.get(connection)
    if marking is None:
        marking = _markings[connection] = _Marking()
        connection.execute_wrappers.insert(0, marking)  # `execute_wrapper` takes away the last one, whichever that is
    marking.beginnings = _beginnings(sender, using)


@cache
def _beginnings(sender: type[models.Model], using: str) -> tuple[str, ...]:
    """Of the statements by which Django writes a row of a model."""
    tables = dict.fromkeys(each._meta.db_table for each in (sender, *sender._meta.all_parents))
    quoted = connections[using].ops.quote_name
    return tuple(f"{word} {quoted(table)} " for word in WRITES for table in tables)


def _unmark(connection: BaseDatabaseWrapper) -> None:
    if marking := _markings.get(connection):
        marking.beginnings = ()
