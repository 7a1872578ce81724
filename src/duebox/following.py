"""How a plan hears of the rows it follows: by Django's signals, inside the transaction of whoever changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.signals import ModelSignal, post_delete, post_save, pre_delete

from duebox.saving import in_one_transaction
from duebox.syncing import cancel_rows, sync_rows

if TYPE_CHECKING:
    from duebox.plans import Plan

Receiver = Callable[..., None]
Wire = tuple[ModelSignal, type[models.Model], Receiver]
_wires: dict[str, list[Wire]] = {}


def connect(plan: Plan) -> None:
    """Listen to the rows of a plan."""
    _wires[plan.name] = list(_wiring(plan))
    for signal, sender, receiver in _wires[plan.name]:
        signal.connect(receiver, sender=sender, weak=False)
    for model in (plan.model, *plan.follows):
        in_one_transaction(model)


def disconnect(name: str) -> None:
    """Listen no more."""
    for signal, sender, receiver in _wires.pop(name):
        signal.disconnect(receiver, sender=sender)


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
            yield post_save, model, _other_saved(plan, lookup)
            yield pre_delete, model, _other_leaves(plan, lookup)
            yield post_delete, model, _other_left(plan, lookup)


def _family(model: type[models.Model]) -> Iterator[type[models.Model]]:
    yield model
    for below in model.__subclasses__():
        yield from _family(below)


def _saved(plan: Plan) -> Receiver:
    def receive(*, instance: models.Model, using: str, raw: bool = False, **kwargs: Any) -> None:
        if not raw:  # a fixture may come before what its rows refer to
            sync_rows(plan, [instance.pk], using=using, strict=True)

    return receive


def _deleted(plan: Plan) -> Receiver:
    def receive(*, instance: models.Model, using: str, **kwargs: Any) -> None:
        cancel_rows(plan, [instance.pk], using=using)

    return receive


def _other_saved(plan: Plan, lookup: str) -> Receiver:
    def receive(*, instance: models.Model, using: str, raw: bool = False, **kwargs: Any) -> None:
        if not raw:
            rows = plan.queryset().using(using).filter(**{lookup: instance})
            sync_rows(plan, rows, using=using, strict=True)

    return receive


def _other_leaves(plan: Plan, lookup: str) -> Receiver:
    def receive(*, instance: models.Model, using: str, **kwargs: Any) -> None:
        rows = plan.queryset().using(using).filter(**{lookup: instance})
        _leaving(instance)[plan.name, lookup] = list(rows.values_list("pk", flat=True))

    return receive


def _other_left(plan: Plan, lookup: str) -> Receiver:
    """Django sets the rows' keys to null behind the back of its own signals."""

    def receive(*, instance: models.Model, using: str, **kwargs: Any) -> None:
        sync_rows(plan, _leaving(instance).pop((plan.name, lookup), []), using=using, strict=True)

    return receive


def _leaving(instance: models.Model) -> dict[tuple[str, str], list[Any]]:
    """The rows that followed an instance before it was deleted."""
    found: dict[tuple[str, str], list[Any]] = instance.__dict__.setdefault("_duebox_followers", {})
    return found
