"""`duebox.delivery.dead`: the event for subscribers that a delivery became a dead letter.

It is stored in the transaction that settles the delivery, so there is exactly one for each dead letter, even if the
worker is killed. There is none for dead letters of Duebox's own events, so that a failing alarm does not trigger
itself. There is one for a task, unless one of Duebox's own events has enqueued it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, transaction

from duebox.contracts.enforce import OWN, Own
from duebox.dead_letters.fingerprint import WORKER_LOST, error_line, fingerprint, group_id
from duebox.events.emit import NewEvent, emit_many
from duebox.events.outcomes import Dead
from duebox.events.subscribers import receivers_of
from duebox.models import Event
from duebox.store.deliveries import Ended
from duebox.store.leases import CrashingDelivery
from duebox.tasks import EVENT as TASK

logger = logging.getLogger("duebox.worker")

EVENT = Own("duebox.delivery.dead")


class Death(NamedTuple):
    delivery: int
    subscriber: str
    attempts: int
    error: str
    fingerprint: str
    once: str
    """Distinguishes it from an earlier dead letter of the same delivery, before a retry."""
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
    """Whether there is a subscriber; otherwise nothing is stored."""
    try:
        return bool(receivers_of(EVENT))
    except ImproperlyConfigured:  # the receivers are unknown, and nothing can be emitted; a check reports the reason
        return False


def to_report(ended: Iterable[Ended]) -> list[Ended]:
    """The dead letters of a batch for which an event is emitted."""
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


def report_crashing(using: str, crashing: Sequence[CrashingDelivery]) -> None:
    """Emit the events about deliveries that became dead letters because workers were lost while they ran them: no
    worker was left to do so when it settled them."""
    if not is_wanted():
        return
    events = Event.objects.using(using).defer("data", "metadata").in_bulk({UUID(each.event_id) for each in crashing})
    deaths = [
        Death(
            each.delivery, each.subscriber, each.attempts,
            f"Workers were lost {each.rescues} times while running it; it may be the cause.", WORKER_LOST,
            f"{each.lease}:lost", event.id, event.type, event.organization or None, event.correlation_id,
            event.causation_id,
        )
        for each in crashing
        if (event := events.get(UUID(each.event_id))) is not None and _is_of_the_project(event.type)
    ]  # fmt: skip
    report(using, deaths)


def report(using: str, deaths: Sequence[Death]) -> None:
    """Emit in the transaction that settles the deliveries. If the database fails, both are tried again; any other error
    must not prevent a delivery from being settled."""
    if not deaths:
        return
    try:
        with transaction.atomic(using=using):
            notices = [each.notice() for each in _without_alarms(using, deaths)]
            emit_many(notices, on_conflict="first", using=using)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        logger.exception("dead letters could not be announced: deliveries=%s", [each.delivery for each in deaths])


def _is_of_the_project(event_type: str) -> bool:
    """A deleted event has no type any more."""
    return event_type == TASK or not (event_type or OWN).startswith(OWN)


def _without_alarms(using: str, deaths: Sequence[Death]) -> list[Death]:
    """A task that one of Duebox's own events enqueued may be the alarm itself."""
    causes = {each.cause for each in deaths if each.event_type == TASK and each.cause}
    if not causes:
        return list(deaths)
    ours = Event.objects.using(using).filter(id__in=causes, type__startswith=OWN).exclude(type=TASK)
    alarms = set(ours.values_list("id", flat=True))
    return [each for each in deaths if not (each.event_type == TASK and each.cause in alarms)]


def _storable(text: str) -> str:
    return text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
