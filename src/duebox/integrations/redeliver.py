"""Deliver events again that return from a queue, such as the dead-letter queue of a rule or of a consumer.

DUEBOX_REDELIVER_TO names the destinations that they go to, as in `bus` or `bus,queue`. A pending delivery to one of
these becomes due, a dead letter is retried, and a delivered event is sent again. A parked delivery stays parked, and
its message stays in the queue. Without the variable only deliveries that are still stored become due: the destination
of others is not known.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction

from duebox.conf import conf
from duebox.events.address import OUTSIDE, Address
from duebox.events.subscribers import by_name
from duebox.exceptions import InvalidReplay
from duebox.models import Attempt, Delivery, Event
from duebox.store import replay
from duebox.store.operations import of_disabled, retry
from duebox.store.replay import Manner

logger = logging.getLogger("duebox.worker")

VARIABLE = "DUEBOX_REDELIVER_TO"
MOST_DELIVERED = 10
"""A message that no consumer can process would return forever; after this many deliveries it stays in the queue."""


def take_back(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Make the events of these messages due again; returns the ids of the messages that the queue must keep."""
    kept = []
    for record in records:
        reason = _reason_to_keep(record)
        if reason:
            logger.warning("message not taken back: id=%s reason=%s", record["messageId"], reason)
            kept.append(str(record["messageId"]))
    return kept


def _reason_to_keep(record: Mapping[str, Any]) -> str:
    using = conf().DATABASE
    event_id = _event_id(record.get("body"))
    if event_id is None or not Event.objects.using(using).filter(id=event_id).exists():
        return "it contains no stored event"
    given = [alias for each in os.environ.get(VARIABLE, "").split(",") if (alias := each.strip())]
    if unknown := [alias for alias in given if str(Address.of_destination(alias)) not in by_name()]:
        return f"{VARIABLE} names {', '.join(unknown)}, which is no destination"
    named = [str(Address.of_destination(alias)) for alias in given]
    waiting = Delivery.objects.using(using).filter(event_id=event_id, subscriber__startswith=OUTSIDE)
    open_ones = list(waiting.filter(subscriber__in=named) if named else waiting)
    if parked := [str(each.id) for each in open_ones if each.status == Delivery.Status.PARKED]:
        return f"it is parked; make it due again: manage.py duebox deliveries retry {' '.join(parked)}"
    missing = set(named) - {each.subscriber for each in open_ones}
    if not (open_ones or missing):
        return f"it was delivered before; set {VARIABLE} to the alias that it shall go to again"
    if _comes_for_ever(event_id, missing, using):
        return f"it was delivered {MOST_DELIVERED} times and comes back each time"
    dead = [each.id for each in open_ones if each.status == Delivery.Status.DEAD]
    for name in of_disabled(using, dead).values():
        endpoint = Address.parse(name)
        return f"{endpoint.plain} is disabled; enable it first: manage.py duebox endpoints enable {endpoint.key}"
    return _make_due(event_id, dead, sorted(missing), f"message {record['messageId']} came back", using)


def _make_due(event_id: UUID, dead: list[int], missing: list[str], why: str, using: str) -> str:
    """Make all due or none; returns the reason if none."""
    try:
        with transaction.atomic(using=using):
            retry(using, dead, note=f"retried: {why}", states=["dead"])
            for name in missing:
                replay.take_back(event_id, to=name, why=why, manner=Manner(using=using))
    except InvalidReplay as error:
        return str(error)
    return ""


def _event_id(body: Any) -> UUID | None:
    """The event id of an envelope, or of an envelope inside of a message from EventBridge."""
    try:
        found = json.loads(body)
        return UUID(found.get("detail", found)["event_id"])
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError):  # the last: brackets nested too deeply
        return None


def _comes_for_ever(event_id: UUID, names: set[str], using: str) -> bool:
    history = Attempt.objects.using(using).filter(event_id=event_id, outcome=Attempt.Outcome.DELIVERED)
    return any(history.filter(subscriber=name).count() >= MOST_DELIVERED for name in names)
