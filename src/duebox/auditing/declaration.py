"""A policy from what is declared, or the error that says what contradicts itself."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import combinations
from typing import Any

from django.db import models

from duebox.auditing.policy import Policy
from duebox.exceptions import InvalidAudit


def declared(
    model: type[models.Model],
    *,
    fields: Iterable[str],
    drop: Iterable[str],
    mask: Iterable[str],
    hash: Iterable[str],
    organization: str | None,
) -> Policy:
    policy = Policy(
        only=_columns(model, fields),
        drop=_columns(model, drop),
        mask=_columns(model, mask),
        hash=_columns(model, hash),
        organization=organization,
    )
    if organization is not None:
        _field(model, organization.partition("__")[0])
    _refuse_contradictions(model, policy)
    return policy


def _columns(model: type[models.Model], names: Iterable[str]) -> frozenset[str]:
    """The names of columns; of a relation both, that of the field and that of its column."""
    found: set[str] = set()
    for name in (names,) if isinstance(names, str) else names:
        found |= {name, _field(model, name).attname}
    return frozenset(found)


def _field(model: type[models.Model], name: str) -> models.Field[Any, Any]:
    own = {key: field for field in model._meta.concrete_fields for key in (field.name, field.attname)}
    if name in own:
        return own[name]
    near = get_close_matches(name, own, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(dict.fromkeys(own))}."
    raise InvalidAudit(f"{model.__name__} has no column {name!r}; {hint}")


def _refuse_contradictions(model: type[models.Model], policy: Policy) -> None:
    ways = {"drop": policy.drop, "mask": policy.mask, "hash": policy.hash}
    for (one, names), (other, others) in combinations(ways.items(), 2):
        if both := names & others:
            raise InvalidAudit(f"{model.__name__}.{min(both)} is in {one}= and in {other}=; choose one.")
    if policy.only and (lost := (policy.mask | policy.hash) - policy.only):
        raise InvalidAudit(f"{model.__name__}.{min(lost)} is not in fields=, so it is not recorded; add it there.")
    if policy.only and policy.drop:
        raise InvalidAudit(f"{model.__name__} has fields= and drop=; what is not in fields= is left out anyway.")
    if (key := model._meta.pk) and key.attname in policy.mask | policy.hash:
        raise InvalidAudit(
            f"{model.__name__}.{key.attname} is the primary key, which every entry names; it cannot be masked."
        )
