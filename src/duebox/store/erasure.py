"""Erase the payloads of events, the texts of their history, and the data of schedules, of one entity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from django.db import transaction

from duebox.events.fact import PAYLOAD_REMOVED_AT
from duebox.models import Attempt, Delivery, Event, Schedule, ScheduleLog
from duebox.models.delivery import DeliveryQuerySet
from duebox.models.event import EventQuerySet
from duebox.models.schedule import ScheduleQuerySet
from duebox.store.run_sql import run

LIVE = ["scheduled", "paused"]


@contextmanager
def erasing(using: str) -> Iterator[None]:
    """A transaction in which events, attempts and audit entries may be changed."""
    with transaction.atomic(using=using):
        [(before, _)] = run("erase_begin", using, {"allows": "erase"})
        yield
        run("erase_begin", using, {"allows": before})


def events(using: str, kind: str, id: str) -> EventQuerySet:
    """Those about an entity that still have a payload."""
    return Event.objects.using(using).about(kind, id).exclude(metadata__has_key=PAYLOAD_REMOVED_AT)


def lock_events(using: str, kind: str, id: str) -> None:
    """Until the transaction ends none of them gets another delivery: to send an event again locks it, too."""
    list(Event.objects.using(using).about(kind, id).select_for_update().order_by("id").values_list("id"))


def open_deliveries(using: str, kind: str, id: str) -> DeliveryQuerySet:
    return Delivery.objects.using(using).filter(event_id__in=Event.objects.using(using).about(kind, id).values("id"))


def schedules(using: str, kind: str, id: str) -> ScheduleQuerySet:
    return Schedule.objects.using(using).about(kind, id)


def log_lines(using: str, kind: str, id: str) -> int:
    return ScheduleLog.objects.using(using).filter(aggregate_type=kind, aggregate_id=id).count()


def texts(using: str, kind: str, id: str) -> int:
    """How many lines of the history of events about an entity have a text."""
    about = Event.objects.using(using).about(kind, id).values("id")
    return Attempt.objects.using(using).filter(event_id__in=about).exclude(note="").count()


def erase_events(using: str, kind: str, id: str) -> tuple[int, int]:
    """How many events lost their payload, and how many lines of the history their text."""
    every = list(Event.objects.using(using).about(kind, id).values_list("id", flat=True))
    ids = list(events(using, kind, id).values_list("id", flat=True))
    [(lines,)] = run("erase_history", using, {"id": every})
    return _bare(using, ids), int(lines)


def _bare(using: str, ids: Sequence[UUID]) -> int:
    return len(run("event_remove_payload", using, {"id": list(ids)})) if ids else 0


def erase_schedules(using: str, kind: str, id: str) -> tuple[int, int]:
    """Remove schedules that have ended, and lines of their log. One that a person cancelled with an opt-out stays,
    without its data: its plan must not plan it again."""
    ended = schedules(using, kind, id).exclude(status__in=LIVE)
    kept = ended.exclude(opt_out="").update(data={}, metadata={}, actor=None)
    removed, _ = ended.filter(opt_out="").delete()
    lines, _ = ScheduleLog.objects.using(using).filter(aggregate_type=kind, aggregate_id=id).delete()
    return kept + removed, lines
