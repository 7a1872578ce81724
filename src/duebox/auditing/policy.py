"""What is recorded of a model, said once: which columns, and which of them only in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import models

from duebox.auditing.entry import kind_of
from duebox.auditing.values import keyed, masked

Pair = tuple[Any, Any]
"""A value before and after."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Of a relation both names are here, `team` and `team_id`: callers may use either."""

    only: frozenset[str]
    drop: frozenset[str]
    mask: frozenset[str]
    hash: frozenset[str]
    organization: str | None

    def columns(self, model: type[models.Model]) -> list[str]:
        """What to read of a row, also of a model below that has more columns."""
        return [field.attname for field in model._meta.concrete_fields if self._records(field)]

    def seen(self, kind: str, changes: Mapping[str, Pair]) -> dict[str, list[Any]]:
        """Of the changes of a row what may be seen."""
        kept = {name: pair for name, pair in changes.items() if name not in self.drop}
        return {name: [self._seen(f"{kind}.{name}", name, value) for value in pair] for name, pair in kept.items()}

    def _records(self, field: models.Field[Any, Any]) -> bool:
        if self.only:
            return field.attname in self.only
        # That a row was saved at another time is no change of its own.
        return not (field.primary_key or field.attname in self.drop or getattr(field, "auto_now", False))

    def _seen(self, label: str, name: str, value: Any) -> Any:
        if name in self.mask:
            return masked(value)
        return keyed(label, value) if name in self.hash else value


_policies: dict[type[models.Model], Policy] = {}


def keep(model: type[models.Model], policy: Policy | None) -> None:
    """From now on this is recorded of a model; None for nothing."""
    if policy is None:
        _policies.pop(model, None)
    else:
        _policies[model] = policy


def policy_of(model: type[models.Model]) -> Policy | None:
    """Its own, or that of the nearest model above it."""
    return next((_policies[each] for each in model.__mro__ if each in _policies), None)


def policies_named(kind: str) -> list[Policy]:
    """Of every model that goes by this name: two apps may each have one, and a row has proxies."""
    found = (policy_of(model) for model in apps.get_models() if kind_of(model) == kind)
    return [policy for policy in dict.fromkeys(found) if policy]
