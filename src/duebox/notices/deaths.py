"""`duebox.delivery.dead`: a delivery went to the dead letters, and whoever subscribes to this event is told.

It is stored in the transaction that settles the delivery: each death is told once, also when the worker is killed
right after, or not at all when it is killed right before, in which case the delivery has not died. The death of a
delivery of one of Duebox's own events is not told, or a failing alarm would set off itself. A task is told: it is work
of the project, unless one of Duebox's own events has enqueued it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, transaction

from duebox.emit import NewEvent, emit_many
from duebox.fingerprint import WORKER_LOST, error_line, fingerprint, group_id
from duebox.models import Event
from duebox.outcome import Dead
from duebox.promise import OWN, Own
from duebox.store.deliveries import Ended
from duebox.store.leases import Killer
from duebox.subscribers import receivers_of
from duebox.tasks.running import EVENT as TASK

logger = logging.getLogger("duebox.worker")

EVENT = Own("duebox.delivery.dead")


class Death(NamedTuple):
    delivery: int
    subscriber: str
    attempts: int
    error: str
    fingerprint: str
    once: str
    """Tells this death from another one of the same delivery, after it was redriven."""
    event_id: UUID
    event_type: str
    organization: str | None
    correlation_id: str
    cause: UUID | None = None

    def notice(self) -> NewEvent:
        data = {
            "delivery_id": self.delivery,
            "event_id": str(self.event_id),
            "event_type": self.event_type,
            "subscriber": self.subscriber,
            "error": self.error,
            "fingerprint": self.fingerprint,
            "group": group_id(self.event_type, self.subscriber, self.fingerprint),
            "attempts": self.attempts,
        }
        return NewEvent(
            type=EVENT,
            data=data,
            about=("delivery", self.delivery),
            organization=self.organization,
            idempotency_key=f"{self.delivery}:{self.once}",
            correlation_id=self.correlation_id or None,
            causation_id=self.event_id,
        )


def is_wanted() -> bool:
    """Whether anybody subscribes; else nothing is stored, and nobody pays."""
    try:
        return bool(receivers_of(EVENT))
    except ImproperlyConfigured:  # nobody can know, and nothing can be emitted; the check says what is wrong
        return False


def to_tell(ended: Iterable[Ended]) -> list[Ended]:
    """Those of a batch that died and are to be told about."""
    dead = [end for end in ended if isinstance(end.outcome, Dead) and _is_of_the_project(end.claim.fact.type)]
    return dead if dead and is_wanted() else []


def death_of(end: Ended) -> Death:
    assert isinstance(end.outcome, Dead)
    claim, fact, error = end.claim, end.claim.fact, end.outcome.error
    return Death(
        claim.id, claim.subscriber, claim.attempt, _storable(error_line(error)), fingerprint(error),
        f"{claim.lease}:{end.started:.6f}", fact.id, fact.type, fact.organization, fact.correlation_id,
        fact.causation_id,
    )  # fmt: skip


def tell_of_killers(using: str, killers: Sequence[Killer]) -> None:
    """Deliveries that took their workers along: nobody was left who could have told."""
    if not is_wanted():
        return
    events = Event.objects.using(using).defer("data", "metadata").in_bulk({UUID(each.event_id) for each in killers})
    deaths = [
        Death(
            each.delivery, each.subscriber, each.attempts,
            f"Workers were lost {each.rescues} times while running it; it may be what kills them.", WORKER_LOST,
            f"{each.lease}:lost", event.id, event.type, event.organization or None, event.correlation_id,
            event.causation_id,
        )
        for each in killers
        if (event := events.get(UUID(each.event_id))) is not None and _is_of_the_project(event.type)
    ]  # fmt: skip
    tell(using, deaths)


def tell(using: str, deaths: Sequence[Death]) -> None:
    """In the transaction that settles them. A database that is not there fails both, and both are tried again;
    whatever else goes wrong must not keep a delivery from being settled."""
    if not deaths:
        return
    try:
        with transaction.atomic(using=using):
            notices = [each.notice() for each in _without_alarms(using, deaths)]
            emit_many(notices, on_conflict="first", using=using)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        logger.exception("deaths could not be told: deliveries=%s", [each.delivery for each in deaths])


def _is_of_the_project(event_type: str) -> bool:
    """An event that somebody deleted has no type any more."""
    return event_type == TASK or not (event_type or OWN).startswith(OWN)


def _without_alarms(using: str, deaths: Sequence[Death]) -> list[Death]:
    """A task that one of our own events enqueued may be the alarm itself."""
    causes = {each.cause for each in deaths if each.event_type == TASK and each.cause}
    if not causes:
        return list(deaths)
    ours = Event.objects.using(using).filter(id__in=causes, type__startswith=OWN).exclude(type=TASK)
    alarms = set(ours.values_list("id", flat=True))
    return [each for each in deaths if not (each.event_type == TASK and each.cause in alarms)]


def _storable(text: str) -> str:
    return text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
