"""What an id or a name means: an event, a delivery, a schedule, an entity, or a request."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from uuid import UUID

from django.apps import apps
from django.db import models, transaction

from duebox.conf import conf
from duebox.events.identities import aggregate_type
from duebox.exceptions import NotFound
from duebox.models import AuditEntry, Delivery, Event, Schedule, ScheduleLog
from duebox.schedules.plans import plans
from duebox.store.run_sql import migrated

KINDS = ("event", "delivery", "schedule", "entity", "correlation")
_LARGEST = 2**63


@dataclass(frozen=True, slots=True)
class Target:
    """What was meant."""

    kind: str
    """One of KINDS."""
    id: str
    """The id of an event or delivery, the key of a schedule, a correlation id, or the type and id of an entity."""

    @property
    def entity(self) -> tuple[str, str]:
        """Type and id of an entity."""
        kind, _, id = self.id.partition(":")
        return kind, id

    def __str__(self) -> str:
        return f"{'correlation id' if self.kind == 'correlation' else self.kind} {self.id}"


def find(text: str, *, kind: str | None = None, audit: bool = True, using: str | None = None) -> Target:
    """What this text names, looked for as each kind in the order of KINDS, or only as the one that is given.

    A number may be the id of a delivery and of a schedule: then `kind` has to say which. Without `audit`, the audit log
    is not looked at.
    """
    alias, text = using or conf().DATABASE, text.strip()
    found = named(text, *([kind] if kind else KINDS), audit=audit, using=alias)
    if not found:
        with migrated(alias):
            raise NotFound(_unknown(alias, text, kind))
    if {each.kind for each in found} >= {"delivery", "schedule"}:
        raise NotFound(
            f"{text} is the id of a delivery, and of the schedule {found[1].id!r}; say which is meant: "
            "--as delivery or --as schedule."
        )
    return found[0]


def named(text: str, *kinds: str, audit: bool = True, using: str | None = None) -> list[Target]:
    """Everything that this text names, in the order of these kinds; nothing where it names none of them."""
    alias, text = using or conf().DATABASE, text.strip()
    looks: dict[str, Callable[[str, str], str | None]] = {
        "event": _event,
        "delivery": _delivery,
        "schedule": _schedule,
        "entity": partial(_entity, audit=audit),
        "correlation": partial(_correlation, audit=audit),
    }
    with migrated(alias):
        return [Target(kind, id) for kind in kinds if (id := looks[kind](alias, text)) is not None]


def _event(using: str, text: str) -> str | None:
    id = _uuid(text)
    return str(id) if id and Event.objects.using(using).filter(id=id).exists() else None


def _delivery(using: str, text: str) -> str | None:
    number = _number(text)
    return text if number and Delivery.objects.using(using).filter(id=number).exists() else None


def _schedule(using: str, text: str) -> str | None:
    rows = Schedule.objects.using(using)
    if rows.filter(key=text).exists() or ScheduleLog.objects.using(using).filter(source=text).exists():
        return text
    number = _number(text)
    return rows.filter(id=number).values_list("key", flat=True).first() if number else None


def _entity(using: str, text: str, *, audit: bool) -> str | None:
    """Under its own name, or under that of a model, as in `clinic.Appointment:42`."""
    kind, colon, id = text.partition(":")
    if not (kind and colon and id):
        return None
    model = _model(kind)
    names = dict.fromkeys([kind, *([aggregate_type(model)] if model else []), kind.lower()])
    for name in names:
        if _is_known(using, name, id, audit=audit):
            return f"{name}:{id}"
    return f"{aggregate_type(model)}:{id}" if model and _has_row(using, model, id) else None


def _is_known(using: str, kind: str, id: str, *, audit: bool) -> bool:
    about = {"aggregate_type": kind, "aggregate_id": id}
    return (
        Event.objects.using(using).filter(**about).exists()
        or Schedule.objects.using(using).filter(**about).exists()
        or ScheduleLog.objects.using(using).filter(**about).exists()
        or (audit and AuditEntry.objects.using(using).filter(entity_type=kind, entity_id=id).exists())
    )


def _model(kind: str) -> type[models.Model] | None:
    try:
        return apps.get_model(kind)
    except (LookupError, ValueError):
        return next((each for each in apps.get_models() if aggregate_type(each) == kind), None)


def _has_row(using: str, model: type[models.Model], id: str) -> bool:
    try:
        with transaction.atomic(using=using):  # after an error of the database, the transaction around it goes on
            return model._base_manager.using(using).filter(pk=model._meta.pk.to_python(id)).exists()
    except Exception:  # the text is no primary key of that model, or the model has no table
        return False


def _correlation(using: str, text: str, *, audit: bool) -> str | None:
    if not text:
        return None
    found = Event.objects.using(using).filter(correlation_id=text).exists()
    return text if found or (audit and AuditEntry.objects.using(using).correlated(text).exists()) else None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,19}", text) and int(text) < _LARGEST else None


def _unknown(using: str, text: str, kind: str | None) -> str:
    as_what = {
        "event": "the id of an event",
        "delivery": "the id of a delivery that is stored (one that was delivered is known by its event)",
        "schedule": "the key or id of a schedule",
        "entity": "an entity such as clinic.appointment:42",
        "correlation": "a correlation id",
    }
    looked = [as_what[kind]] if kind else list(as_what.values())
    listed = f"{', '.join(looked[:-1])} and {looked[-1]}" if len(looked) > 1 else looked[0]
    return f"Nothing is stored by the name {text!r}; it was looked for as {listed}.{_near(using, text)}"


def _near(using: str, text: str) -> str:
    for plan in plans():
        id = text.removeprefix(f"{plan.name}:").partition(":")[0]
        if text.startswith(f"{plan.name}:") and id:
            return (
                f" To see why {plan.name} planned nothing, ask for its row: duebox explain {plan.aggregate_type}:{id}"
            )
    keys = Schedule.objects.using(using).filter(status="scheduled").order_by("due_at", "id")
    near = get_close_matches(text, keys.values_list("key", flat=True)[:1000], n=1, cutoff=0.7)
    return f" Did you mean the schedule {near[0]!r}?" if near else ""
