"""What is recorded of a model: which columns, which of them masked, hashed or dropped, and the difference of old and
new values.

The triggers write values in the same way; see `duebox_audit_*.sql` in `store/sql/functions/`.
"""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import lru_cache, reduce
from itertools import combinations
from typing import Any, TypeVar

from django.apps import apps
from django.db import models
from django.utils.duration import duration_iso_string

from duebox.audit_log import chain
from duebox.conf import conf
from duebox.events.identities import aggregate_type
from duebox.exceptions import InvalidAudit, did_you_mean

Values = Mapping[str, Any]
LONGEST = 10_000
"""Characters. What is longer is cut, and says so: a record of a change is no backup."""
MASK = "****"
SHOWN = 4
LONG_ENOUGH = 12
"""A value shorter than this shows nothing: four of six characters would be most of it."""


def difference(before: Values | None, after: Values | None) -> dict[str, tuple[Any, Any]]:
    """What differs, as pairs of old and new by name. A name that only one of them has was, or is now, None."""
    old, new = before or {}, after or {}
    pairs = {name: (old.get(name), new.get(name)) for name in {**old, **new}}
    return {name: pair for name, pair in pairs.items() if _differ(*pair)}


def _differ(old: Any, new: Any) -> bool:
    return bool(old != new) or type(old) is not type(new)  # 1 is not True in JSON


def plain(value: Any) -> Any:
    """A value as JSON can carry it; a long one is cut."""
    match value:
        case None | bool() | int():
            return value
        case str():
            return _cut(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return duration_iso_string(value)
        case bytes() | bytearray() | memoryview():
            return f"{len(value):,} bytes, {keyed('bytes', value)}"
        case Mapping():
            return _whole({str(name): plain(item) for name, item in value.items()})
        case list() | tuple():
            return _whole([plain(item) for item in value])
    return _cut(str(value))  # Decimal, UUID, addresses, ranges


def masked(value: Any) -> str | None:
    """The last four characters, if the value is long enough to keep the rest to itself."""
    if value is None:
        return None
    text = str(value) if isinstance(value, str | int) else ""
    return MASK + (text[-SHOWN:] if len(text) >= LONG_ENOUGH else "")


def keyed(name: str, value: Any) -> str | None:
    """A hash by the key of the log: equal values of one column are seen to be equal, and nothing else is seen."""
    if value is None:
        return None
    text = bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)
    return f"hmac:{hmac.digest(chain.current('value'), f'{name}:{text}'.encode(), 'sha256')[:16].hex()}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def _whole(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= LONGEST else _cut(text)


M = TypeVar("M", bound=models.Model)
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

    def seen(self, kind: str, changes: Mapping[str, Pair]) -> dict[str, list[Any]]:
        """Of the changes of a row what may be seen."""
        label = kind.rpartition(".")[2].lower()
        kept = {name: pair for name, pair in changes.items() if self._names(name)}
        return {name: [self._seen(f"{label}.{name}", name, value) for value in pair] for name, pair in kept.items()}

    def below(self, above: Policy) -> Policy:
        """The policy of a model together with that of a model it inherits from: what is hidden there is not shown
        here."""
        return replace(
            self,
            drop=self.drop | above.drop,
            mask=self.mask | (above.mask - self.hash),
            hash=self.hash | (above.hash - self.mask),
            organization=self.organization or above.organization,
        )

    def recorded(self, model: type[models.Model]) -> list[models.Field[Any, Any]]:
        """The fields whose columns are recorded, also of a model below that has more of them."""
        key_fields = _key_fields(model)
        return [field for field in model._meta.concrete_fields if self._records(field, field in key_fields)]

    def _records(self, field: models.Field[Any, Any], is_key: bool) -> bool:
        # That a row was saved at another time is no change, unless the policy names the column.
        unasked = is_key or field.primary_key or getattr(field, "auto_now", False)
        return self._names(field.attname) and (bool(self.only) or not unasked)

    def _names(self, name: str) -> bool:
        return name not in self.drop and (not self.only or name in self.only)

    def _seen(self, label: str, name: str, value: Any) -> Any:
        if name in self.mask:
            return masked(value)
        return keyed(label, value) if name in self.hash else value


_policies: dict[type[models.Model], Policy] = {}


def follow(
    *,
    fields: Iterable[str] = (),
    drop: Iterable[str] = (),
    mask: Iterable[str] = (),
    hash: Iterable[str] = (),
    organization: str | None = None,
) -> Callable[[type[M]], type[M]]:
    """A decorator for a model: triggers record each change of its rows, old to new, in the transaction of the change.
    `migrate` installs them. All columns are recorded, or only those in `fields`.

    `drop` leaves columns out, `mask` keeps their last four characters, `hash` a keyed hash. `organization` is the way
    to the tenant along foreign keys, such as "team" or "project__team".
    """

    def decorate(model: type[M]) -> type[M]:
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
        keep(model, policy)
        return model

    return decorate


def keep(model: type[models.Model], policy: Policy | None) -> None:
    """From now on this is recorded of a model; None for nothing."""
    if policy is None:
        _policies.pop(model, None)
    else:
        _policies[model] = policy


def models_with_policies() -> list[type[models.Model]]:
    """Those that were followed by name; models below them are followed too."""
    return list(_policies)


def policy_of(model: type[models.Model]) -> Policy | None:
    """Its own, with those of the models above it."""
    found = [_policies[each] for each in model.__mro__ if each in _policies]
    return reduce(Policy.below, found) if found else None


def policies_named(kind: str) -> list[Policy]:
    """Of every model that goes by this name, as in `member`, `Member` and `app.Member`.

    Two apps may each have one, and a row has proxies.
    """
    return _found(kind.lower(), (*apps.get_models(),), (*_policies.items(),), (*conf().AGGREGATES.items(),))


@lru_cache(maxsize=256)
def _found(kind: str, known: tuple[type[models.Model], ...], *depends_on: object) -> list[Policy]:
    """Remembered, because to go through all models takes longer than to store an entry."""
    found = (policy_of(model) for model in known if kind in _names_of(model))
    return [policy for policy in dict.fromkeys(found) if policy]


def _names_of(model: type[models.Model]) -> set[str]:
    """Also the bare name of the model: what is hidden stays hidden where a caller writes ('member', 3)."""
    concrete = (model._meta.concrete_model or model)._meta
    names = {aggregate_type(model).lower()}
    for options in (model._meta, concrete):
        names |= {options.model_name or "", options.label_lower}
    return names


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
    hint = did_you_mean(name, own) or f"it has: {', '.join(dict.fromkeys(own))}."
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
    for key in _key_fields(model):
        if key.attname in policy.mask | policy.hash:
            raise InvalidAudit(
                f"{model.__name__}.{key.attname} is the primary key, which every entry names; it cannot be masked."
            )


def _key_fields(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    """Of the primary key; an abstract model may have none yet."""
    options: Any = model._meta
    return list(options.pk_fields) if options.pk else []
