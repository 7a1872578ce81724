"""What is recorded of a model, said once: which columns, and which of them only in part."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from django.apps import apps
from django.db import models

from duebox.auditing.values import keyed, masked
from duebox.identities import aggregate_type

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
        return [field.attname for field in self._recorded(model)]

    def seen(self, kind: str, changes: Mapping[str, Pair]) -> dict[str, list[Any]]:
        """Of the changes of a row what may be seen."""
        label = kind.rpartition(".")[2].lower()
        kept = {name: pair for name, pair in changes.items() if self._names(name)}
        return {name: [self._seen(f"{label}.{name}", name, value) for value in pair] for name, pair in kept.items()}

    def covers(self, model: type[models.Model], names: Collection[str]) -> bool:
        """Whether any of these fields, by either name, is recorded."""
        return any(field.name in names or field.attname in names for field in self._recorded(model))

    def below(self, above: Policy) -> Policy:
        """This one of a model and that of one above it together: what is hidden there is not shown here."""
        return replace(
            self,
            drop=self.drop | above.drop,
            mask=self.mask | (above.mask - self.hash),
            hash=self.hash | (above.hash - self.mask),
            organization=self.organization or above.organization,
        )

    def _recorded(self, model: type[models.Model]) -> list[models.Field[Any, Any]]:
        return [field for field in model._meta.concrete_fields if self._records(field)]

    def _records(self, field: models.Field[Any, Any]) -> bool:
        # That a row was saved at another time is no change of its own, unless somebody names it.
        unasked = field.primary_key or getattr(field, "auto_now", False)
        return self._names(field.attname) and (bool(self.only) or not unasked)

    def _names(self, name: str) -> bool:
        return name not in self.drop and (not self.only or name in self.only)

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
    """Its own, with those of the models above it."""
    found = [_policies[each] for each in model.__mro__ if each in _policies]
    return reduce(Policy.below, found) if found else None


def policies_named(kind: str) -> list[Policy]:
    """Of every model that goes by this name, as in `member`, `Member` and `app.Member`.

    Two apps may each have one, and a row has proxies.
    """
    found = (policy_of(model) for model in apps.get_models() if kind.lower() in _names_of(model))
    return [policy for policy in dict.fromkeys(found) if policy]


def _names_of(model: type[models.Model]) -> set[str]:
    """Also the bare name of the model: what is hidden stays hidden where a caller writes ('member', 3)."""
    concrete = (model._meta.concrete_model or model)._meta
    names = {aggregate_type(model).lower()}
    for options in (model._meta, concrete):
        names |= {options.model_name or "", options.label_lower}
    return names
