"""The organizations that rows belong to, read from the rows or foreseen before they are saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from duebox.auditing.policy import Policy
from duebox.auditing.story import organization_handled
from duebox.auditing.text import cleaned


def home_of(organization: object) -> str:
    return "" if organization is None else cleaned(str(organization))


def heads_of(organizations: Iterable[object]) -> set[str]:
    """Whose heads entries about these will move: a row of none belongs to that of the event that is being handled."""
    return {home_of(each) or organization_handled() for each in organizations}


def heads_foreseen(policy: Policy, instances: Sequence[models.Model], using: str) -> set[str]:
    """Whose heads will move if these are saved now. Nothing is locked, so it may turn out to be another's."""
    if policy.organization is None or not instances:
        return heads_of([None])
    model = type(instances[0])
    first, _, rest = policy.organization.partition("__")
    field: Any = model._meta.get_field(first)
    values = [instance.__dict__.get(field.attname, models.F(first)) for instance in instances]
    if any(hasattr(value, "resolve_expression") for value in values) or (rest and not field.is_relation):
        rows = model._base_manager.using(using).filter(pk__in=[instance.pk for instance in instances])
        return heads_of(rows.values_list(policy.organization, flat=True))
    if not rest:
        return heads_of(_as_stored(field, value) for value in values)
    nobody = [None] if None in values else []
    there = field.related_model._base_manager.using(using).filter(**{f"{field.target_field.name}__in": values})
    return heads_of([*there.values_list(rest, flat=True), *nobody])


def _as_stored(field: Any, value: object) -> object:
    try:
        return field.to_python(value)
    except ValidationError:  # the save will say so
        return value
