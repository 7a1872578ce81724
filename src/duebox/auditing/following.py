"""Follow a model: every save and delete of a row is recorded, old to new, in the transaction that does it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from django.db import models
from django.db.models.signals import class_prepared, post_delete, post_save, pre_delete, pre_save

from duebox.auditing.declaration import declared
from duebox.auditing.gathering import known_already, put
from duebox.auditing.holding import held
from duebox.auditing.homes import heads_foreseen
from duebox.auditing.policy import Policy, keep, policy_of
from duebox.auditing.snapshots import Snapshot, entries, snapshots
from duebox.saving import in_one_transaction
from duebox.store import audits

M = TypeVar("M", bound=models.Model)
_BEFORE = "_duebox_audit_before"


def follow(
    *,
    fields: Iterable[str] = (),
    drop: Iterable[str] = (),
    mask: Iterable[str] = (),
    hash: Iterable[str] = (),
    organization: str | None = None,
) -> Callable[[type[M]], type[M]]:
    """A decorator for a model. All columns are recorded, or only those in `fields`.

    `drop` leaves columns out, `mask` keeps their last four characters, `hash` a keyed hash. `organization` is the way
    to the tenant as in a query, such as "team" or "project__team".
    """

    def decorate(model: type[M]) -> type[M]:
        keep(model, declared(model, fields=fields, drop=drop, mask=mask, hash=hash, organization=organization))
        for each in _family(model):
            _connect(each)
        return model

    return decorate


def _family(model: type[models.Model]) -> Iterator[type[models.Model]]:
    """A row may be saved under the name of a proxy, or as part of a row of a model below."""
    yield model
    for below in model.__subclasses__():
        yield from _family(below)


def _connect(model: type[models.Model]) -> None:
    if model._meta.abstract:
        return
    in_one_transaction(model)
    for signal, receiver in (
        (pre_save, _before_save), (post_save, _after_save), (pre_delete, _before_delete), (post_delete, _after_delete),
    ):  # fmt: skip
        signal.connect(receiver, sender=model, dispatch_uid="duebox.auditing")


def _class_prepared(*, sender: type[models.Model], **kwargs: Any) -> None:
    if policy_of(sender):
        _connect(sender)


class_prepared.connect(_class_prepared, dispatch_uid="duebox.auditing")


def _before_save(
    *, instance: models.Model, using: str, raw: bool, update_fields: Collection[str] | None, **kwargs: Any
) -> None:
    if not raw:  # a fixture is a copy of what was recorded elsewhere
        _remember(instance, using, update_fields)


def _after_save(*, instance: models.Model, using: str, raw: bool, **kwargs: Any) -> None:
    if not raw:
        _record(instance, using, gone=False)


def _before_delete(*, instance: models.Model, using: str, **kwargs: Any) -> None:
    _remember(instance, using)


def _after_delete(*, instance: models.Model, using: str, **kwargs: Any) -> None:
    _record(instance, using, gone=True)


def _remember(instance: models.Model, using: str, update_fields: Collection[str] | None = None) -> None:
    before, policy = known_already(type(instance), instance.pk), policy_of(type(instance))
    if before is None and policy:
        before = _held(instance, policy, using, update_fields)
    instance.__dict__[_BEFORE] = before


def _record(instance: models.Model, using: str, *, gone: bool) -> None:
    before, policy = instance.__dict__.pop(_BEFORE, None), policy_of(type(instance))
    after = None if gone or policy is None else _snapshot(instance, policy, using)
    if policy and (before or after):
        put(entries(type(instance), policy, [(before, after)]), using)


def _held(instance: models.Model, policy: Policy, using: str, update_fields: Collection[str] | None) -> Snapshot | None:
    """The row as it is, which nobody else can change from now on. An entry may come, so its head is held too."""
    model, keys = type(instance), [instance.pk]
    if update_fields is not None and not policy.covers(model, update_fields):
        return _snapshot(instance, policy, using, lock=True)
    heads = heads_foreseen(policy, [instance], using)
    if instance.pk is None:
        audits.take(using, heads)
        return None
    found = held(
        using,
        heads,
        partial(snapshots, model, policy, keys, using, lock=True),
        lacks=lambda found: not found and model._base_manager.using(using).filter(pk__in=keys).exists(),
    )
    return next(iter(found.values()), None)


def _snapshot(instance: models.Model, policy: Policy, using: str, *, lock: bool = False) -> Snapshot | None:
    return next(iter(snapshots(type(instance), policy, [instance.pk], using, lock=lock).values()), None)
