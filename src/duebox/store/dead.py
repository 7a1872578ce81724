"""Dead letters: find them, group them by cause, make them due again, set them aside, give them up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from duebox.fingerprint import UNKNOWN, group_id, telling_line
from duebox.models import Attempt, Delivery, Endpoint, Event
from duebox.models.delivery import DeliveryQuerySet
from duebox.store.deliveries import promote
from duebox.store.pace import Pace
from duebox.store.statements import run
from duebox.subscribers import OUTSIDE

BATCH = 1_000
GONE = "(gone)"
"""The type of an event that somebody deleted."""


class Which(TypedDict, total=False):
    """Which dead letters are meant; what is left out does not matter."""

    ids: Sequence[int]
    type: str | None
    """An event type, or a pattern as in `order.*`."""
    subscriber: str | None
    """With its parts, where it is a destination that has some."""
    fingerprint: str | None
    group: Group | None
    organization: str | None
    since: datetime | None
    """Died at this moment or later."""
    statuses: Sequence[str]
    """`dead` where not said; `parked` are those that were set aside."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: int
    event_id: str
    event_type: str
    subscriber: str
    data: dict[str, Any]
    died_at: datetime
    error: str
    fingerprint: str
    status: str
    note: str = ""
    """Why it was parked, and by whom."""
    answered: int | None = None
    """The status of the answer that it died of."""

    @property
    def error_line(self) -> str:
        """The line of the error that says what happened."""
        return telling_line(self.error, self.answered)

    @property
    def group(self) -> str:
        """The id of its group."""
        return group_id(self.event_type, self.subscriber, self.fingerprint or UNKNOWN)

    def as_dict(self) -> dict[str, Any]:
        parked = {"note": self.note} if self.status == "parked" else {}
        return {
            "id": self.id,
            "event_id": self.event_id,
            "event_type": self.event_type,
            "subscriber": self.subscriber,
            "data": self.data,
            "died_at": self.died_at.isoformat(),
            "error": self.error_line,
            "fingerprint": self.fingerprint,
            "group": self.group,
            "status": self.status,
            **parked,
        }

    def history(self, using: str) -> list[dict[str, Any]]:
        attempts = Attempt.objects.using(using).filter(event_id=self.event_id, delivery_id=self.id).order_by("id")
        return [
            {
                "number": each.number,
                "outcome": each.outcome,
                "settled_at": each.settled_at.isoformat(),
                "note": each.note,
            }
            for each in attempts
        ]


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters of one event type and one subscriber that died of the same cause."""

    id: str
    event_type: str
    subscriber: str
    fingerprint: str
    count: int
    first_at: datetime | None
    last_at: datetime | None
    sample: int
    error: str

    def as_dict(self) -> dict[str, Any]:
        first, last = (moment and moment.isoformat() for moment in (self.first_at, self.last_at))
        told = asdict(self)
        return {"group": told.pop("id"), **told, "first_at": first, "last_at": last}


def find(using: str, *, limit: int | None = None, **which: Unpack[Which]) -> list[DeadLetter]:
    rows = list(_matching(using, which).order_by("id")[:limit])
    event_ids = [row.event_id for row in rows]
    events = Event.objects.using(using).in_bulk(event_ids)
    told = Attempt.objects.using(using).filter(event_id__in=event_ids, outcome__in=["dead", "parked"]).order_by("id")
    last = {(line.delivery_id, line.outcome): line for line in told}
    return [_letter(row, events.get(row.event_id), last) for row in rows]


def _letter(row: Delivery, event: Event | None, last: dict[tuple[int, str], Attempt]) -> DeadLetter:
    death, aside = last.get((row.id, "dead")), last.get((row.id, "parked"))
    return DeadLetter(
        id=row.id,
        event_id=str(row.event_id),
        event_type=event.type if event else GONE,
        subscriber=row.subscriber,
        data=event.data if event else {},
        died_at=row.died_at or (death.settled_at if death else row.due_at),
        error=death.note if death else "",
        fingerprint=row.fingerprint or "",
        status=row.status,
        note=aside.note if aside and row.status == "parked" else "",
        answered=death.status if death else None,
    )


def count(using: str, **which: Unpack[Which]) -> int:
    return _matching(using, which).count()


def groups(using: str, *, parked: bool = False, limit: int = 50, **which: Unpack[Which]) -> list[Group]:
    """By event type, subscriber and fingerprint; the largest first."""
    group = which.get("group")
    return _groups(using, which, parked=parked, limit=limit, id=group.id if group else None)


def group(using: str, id: str, *, parked: bool = False) -> Group | None:
    """The one with this id, if there are dead letters in it now."""
    found = _groups(using, Which(), parked=parked, limit=1, id=id)
    return found[0] if found else None


def _groups(using: str, which: Which, *, parked: bool, limit: int, id: str | None) -> list[Group]:
    asked = {name: which.get(name) for name in ("subscriber", "organization", "fingerprint", "since")}
    shown = {"status": "parked" if parked else "dead", "limit": limit}
    rows = run("dead_groups", using, {**asked, "type": like(which.get("type")), "group": id, **shown})
    return [Group(*(*told, telling_line(note, answered))) for *told, note, answered in rows]


def types(using: str) -> set[str]:
    """The event types of what is dead or parked."""
    return {row[0] for row in run("dead_types", using, {})}


def batches(using: str, *, limit: int | None = None, **which: Unpack[Which]) -> Iterator[list[int]]:
    """Ids, a part at a time and oldest first; each part is to be dealt with before the next is asked for."""
    last, left = 0, limit
    while left is None or left > 0:
        size = BATCH if left is None else min(BATCH, left)
        rows = _matching(using, which).filter(id__gt=last).order_by("id")
        ids = list(rows.values_list("id", flat=True)[:size])
        if not ids:
            return
        yield ids
        last, left = ids[-1], None if left is None else left - len(ids)


def redrive(using: str, ids: Sequence[int], *, note: str, pace: Pace | None = None) -> list[int]:
    """Due again, at once or as the pace says, with a fresh set of retries; the attempts of before stay in the history.
    One that stands in a stream has its old place in it. One of a disabled endpoint stays where it is."""
    pace, left = pace or Pace(), of_disabled(using, ids)
    going = [each for each in ids if each not in left]
    back = [row[0] for row in run("redrive", using, {"id": going, "note": note, **pace.params(), "now": None})]
    pace.took(len(back))
    return back


def of_disabled(using: str, ids: Sequence[int]) -> dict[int, str]:
    """Those of these letters that go to an endpoint which is disabled, with its name: a worker would throw them away,
    so they are not redriven."""
    rows = Delivery.objects.using(using).filter(id__in=ids, subscriber__startswith=OUTSIDE, subscriber__contains="/")
    names = dict(rows.values_list("id", "subscriber"))
    keys = {key for name in names.values() if (key := _endpoint_id(name)) is not None}
    disabled = Endpoint.objects.using(using).filter(id__in=keys, disabled_at__isnull=False)
    found = set(disabled.values_list("id", flat=True))  # asks nobody where there are no keys
    return {id: name for id, name in names.items() if _endpoint_id(name) in found}


def _endpoint_id(name: str) -> UUID | None:
    try:
        return UUID(name.partition("/")[2])
    except ValueError:
        return None


def park(using: str, ids: Sequence[int], *, note: str) -> list[int]:
    """Set dead letters aside. One in a stream still blocks those behind it."""
    return [row[0] for row in run("dead_park", using, {"id": list(ids), "note": note, "now": None})]


def discard(using: str, ids: Sequence[int], *, note: str) -> list[int]:
    """Give dead or parked letters up. Those behind them go on; inside of a transaction of yours within half a minute
    after it, since only then everybody sees that the way is free."""
    gone = run("dead_discard", using, {"id": list(ids), "note": note, "now": None})
    streams = {(subscriber, stream) for _, subscriber, stream in gone if stream is not None}
    if streams:
        promote(using, streams)
    return [row[0] for row in gone]


def may_mail(using: str, fingerprint: str, subscriber: str, *, seconds: float) -> bool:
    """Whether a mail about deaths of this cause may be sent now; true once in so many seconds, for all workers."""
    params = {"fingerprint": fingerprint, "subscriber": subscriber, "seconds": seconds, "now": None}
    return bool(run("dead_mail", using, params))


def like(pattern: str | None) -> str | None:
    """A pattern of event types as PostgreSQL compares it."""
    if pattern is None:
        return None
    return pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")


def _matching(using: str, which: Which) -> DeliveryQuerySet:
    rows = Delivery.objects.using(using).filter(status__in=which.get("statuses") or ["dead"])
    if ids := which.get("ids"):
        rows = rows.filter(id__in=ids)
    if subscriber := which.get("subscriber"):
        rows = rows.filter(Q(subscriber=subscriber) | Q(subscriber__startswith=f"{subscriber}/"))
    if group := which.get("group"):
        rows = _in_group(using, rows, group)
    if fingerprint := which.get("fingerprint"):
        rows = rows.filter(fingerprint=fingerprint)
    if since := which.get("since"):
        rows = rows.filter(died_at__gte=since)
    if which.get("type") or which.get("organization") is not None:
        rows = rows.filter(event_id__in=_events(using, which).values("id"))
    return rows


def _in_group(using: str, rows: DeliveryQuerySet, group: Group) -> DeliveryQuerySet:
    cause = Q(fingerprint=group.fingerprint)
    if group.fingerprint == UNKNOWN:
        cause |= Q(fingerprint=None)
    event = Event.objects.using(using).filter(id=OuterRef("event_id"))
    of_type = ~Exists(event) if group.event_type == GONE else Exists(event.filter(type=group.event_type))
    return rows.filter(cause, of_type, subscriber=group.subscriber)


def _events(using: str, which: Which) -> Any:
    events = Event.objects.using(using).all()
    if pattern := which.get("type"):
        words = ".*".join(map(re.escape, pattern.split("*")))
        events = events.filter(type__regex=f"^{words}$") if "*" in pattern else events.filter(type=pattern)
    if (organization := which.get("organization")) is not None:
        events = events.filter(organization=organization)
    return events
