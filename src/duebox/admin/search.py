"""Search by what has an index: ids, entities, correlation ids; and by the text of errors, among failed deliveries."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from duebox.conf import conf
from duebox.models import Attempt, Delivery, Event
from duebox.observe.find import Target, named

MOST_DELIVERIES = 2_000
"""How many deliveries of a status are looked at: the newest."""
MOST_ERRORS = 500
"""How many of them where a text is looked for in their errors."""
MOST_FOUND = 1_000


def target(text: str, *kinds: str) -> Target | None:
    """What a text names, as the first of these kinds."""
    found = named(text, *kinds, using=conf().DATABASE)
    return found[0] if found else None


def events_with(*statuses: str, most: int = MOST_DELIVERIES) -> QuerySet[Any, Any]:
    """The ids of the events that have deliveries of these statuses, from the newest of each: each has an index."""
    rows = Delivery.objects.using(conf().DATABASE).order_by("-id").values("event_id")
    first, *others = (rows.filter(status=status)[:most] for status in statuses)
    return first.union(*others, all=True)


def failed_events(most: int = MOST_DELIVERIES) -> QuerySet[Any, Any]:
    return events_with("dead", "parked", most=most)


def failures_with(text: str, column: str) -> list[Any]:
    """The event ids or delivery ids of failed deliveries whose error has a text in it. Looked up once, since a list is
    asked for its rows and for their number."""
    # As a list: with a subquery, PostgreSQL may look for the text in the whole history.
    events = [row["event_id"] for row in failed_events(MOST_ERRORS)]
    failed = Attempt.objects.using(conf().DATABASE).filter(event_id__in=events)
    found = failed.filter(outcome__in=["retried", "dead"], note__icontains=text)
    return list(found.values_list(column, flat=True)[:MOST_FOUND])


def events_named(found: Target | None) -> QuerySet[Event] | None:
    """The events that a text names as an event, an entity or a correlation id."""
    events = Event.objects.using(conf().DATABASE).all()
    if found is None:
        return None
    if found.kind == "event":
        return events.filter(id=found.id)
    if found.kind == "entity":
        return events.about(*found.entity)
    return events.filter(correlation_id=found.id) if found.kind == "correlation" else None
