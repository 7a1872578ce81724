"""How a plan hears of the rows it follows: by Django's signals, inside the transaction of whoever changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.signals import ModelSignal, post_delete, post_save, pre_delete

from duebox.conf import conf
from duebox.identities import aggregate_type
from duebox.saving import in_one_transaction
from duebox.store.row_changes import take_of
from duebox.syncing import cancel_rows, sync_rows

if TYPE_CHECKING:
    from duebox.plans import Plan

Receiver = Callable[..., None]
Wire = tuple[ModelSignal, type[models.Model], Receiver]
_wires: dict[str, list[Wire]] = {}
_followers: dict[str, list[str]] = {}
"""The names of the plans that follow rows of a type."""


def connect(plan: Plan) -> None:
    """Listen to the rows of a plan."""
    _wires[plan.name] = list(_wiring(plan))
    for signal, sender, receiver in _wires[plan.name]:
        signal.connect(receiver, sender=sender, weak=False)
    for model in (plan.model, *plan.follows):
        in_one_transaction(model)
        _followers.setdefault(aggregate_type(model), []).append(plan.name)


def disconnect(name: str) -> None:
    """Listen no more."""
    for signal, sender, receiver in _wires.pop(name):
        signal.disconnect(receiver, sender=sender)
    for followers in _followers.values():
        if name in followers:
            followers.remove(name)


def lookups_to(plan: Plan, source: str) -> list[tuple[type[models.Model], str]]:
    """By which lookups a plan follows rows of this type, each with the model."""
    return [(model, lookup) for model, lookup in _followed(plan) if aggregate_type(model) == source]


def is_only_follower(plan: Plan) -> bool:
    """Whether a change of a row concerns no other plan."""
    return _followers[plan.aggregate_type] == [plan.name]


def _followed(plan: Plan) -> Iterator[tuple[type[models.Model], str]]:
    for other, lookups in plan.follows.items():
        yield from ((other, lookup) for lookup in ((lookups,) if isinstance(lookups, str) else lookups))


def _wiring(plan: Plan) -> Iterator[Wire]:
    """What to listen to. A row may be saved under the name of a proxy, or as part of a row of a model below."""
    for model in _family(plan.model):
        yield post_save, model, _saved(plan)
        yield post_delete, model, _deleted(plan)
    for other, lookup in _followed(plan):
        for model in _family(other):
            yield post_save, model, _other_saved(plan, other, lookup)
            yield pre_delete, model, _other_leaves(plan, lookup)
            yield post_delete, model, _other_left(plan, other, lookup)


def _family(model: type[models.Model]) -> Iterator[type[models.Model]]:
    yield model
    for below in model.__subclasses__():
        yield from _family(below)


def _saved(plan: Plan) -> Receiver:
    def receive(*, instance: models.Model, using: str, raw: bool = False, **kwargs: Any) -> None:
        if not raw:  # a fixture may come before what its rows refer to
            _take_note(plan, plan.aggregate_type, instance, using)
            sync_rows(plan, [instance.pk], using=using, strict=True)

    return receive


def _deleted(plan: Plan) -> Receiver:
    def receive(*, instance: models.Model, using: str, **kwargs: Any) -> None:
        _take_note(plan, plan.aggregate_type, instance, using)
        cancel_rows(plan, [instance.pk], using=using)

    return receive


def _other_saved(plan: Plan, other: type[models.Model], lookup: str) -> Receiver:
    def receive(*, instance: models.Model, using: str, raw: bool = False, **kwargs: Any) -> None:
        if not raw:
            _take_note(plan, aggregate_type(other), instance, using)
            rows = plan.queryset().using(using).filter(**{lookup: instance})
            sync_rows(plan, rows, using=using, strict=True)

    return receive


def _other_leaves(plan: Plan, lookup: str) -> Receiver:
    def receive(*, instance: models.Model, using: str, **kwargs: Any) -> None:
        rows = plan.queryset().using(using).filter(**{lookup: instance})
        _leaving(instance)[plan.name, lookup] = list(rows.values_list("pk", flat=True))

    return receive


def _other_left(plan: Plan, other: type[models.Model], lookup: str) -> Receiver:
    """Django sets the rows' keys to null behind the back of its own signals."""

    def receive(*, instance: models.Model, using: str, **kwargs: Any) -> None:
        _take_note(plan, aggregate_type(other), instance, using)
        sync_rows(plan, _leaving(instance).pop((plan.name, lookup), []), using=using, strict=True)

    return receive


def _take_note(plan: Plan, source: str, instance: models.Model, using: str) -> None:
    """What a trigger has noted of this change is planned now by all plans that follow the row, so the first of them
    takes the note away. Before it reads the row: what is noted after that is not lost. All of it is one transaction, so
    an error brings the note back."""
    if conf().CAPTURE and _followers[source][0] == plan.name:
        take_of(using, source, [str(instance.pk)])


def _leaving(instance: models.Model) -> dict[tuple[str, str], list[Any]]:
    """The rows that followed an instance before it was deleted."""
    found: dict[tuple[str, str], list[Any]] = instance.__dict__.setdefault("_duebox_followers", {})
    return found
