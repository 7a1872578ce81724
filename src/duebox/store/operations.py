"""Operations on deliveries in any state: find them, read their history, retry, park and discard them.

An operation locks the deliveries, checks their states, then changes them: a worker that claims or settles one of them
at the same time comes before or after, never in between. Deliveries that cannot be changed are skipped, with the
reason.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypedDict, Unpack
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Coalesce

from duebox.dead_letters.fingerprint import UNKNOWN, group_id, telling_line
from duebox.events.address import OUTSIDE, Address
from duebox.events.fact import Aggregate
from duebox.events.subscribers import is_known
from duebox.models import Attempt, Delivery, Event, WebhookEndpoint, Worker
from duebox.models.delivery import DeliveryQuerySet
from duebox.store.deliveries import promote
from duebox.store.run_sql import run
from duebox.store.targets import told_disabled


class Pace:
    """`rate` deliveries per second from now on, None for all at once. It only computes due times; no thread sleeps."""

    def __init__(self, rate: float | None = None) -> None:
        self._step = 1 / rate if rate else 0.0
        self._done = 0
        self._started = time.monotonic()

    def params(self) -> dict[str, float]:
        """For the next statement: seconds until its first delivery is due, and seconds between deliveries."""
        return {"delay": self._done * self._step - (time.monotonic() - self._started), "step": self._step}

    def took(self, many: int) -> None:
        self._done += many


def may_mail(using: str, fingerprint: str, subscriber: str, *, seconds: float) -> bool:
    """Whether a mail about dead letters of this cause may be sent now; true once in `seconds`, for all workers."""
    params = {"fingerprint": fingerprint, "subscriber": subscriber, "seconds": seconds, "now": None}
    return bool(run("dead_mail", using, params))


BATCH = 1_000
LOOKED_AT = 20_000
GROUPED = 5_000
"""The maximum number of dead letters that are grouped for a page, the newest ones."""
GONE = "(gone)"
"""The type of an event that was deleted."""
PENDING = {"due", "retrying", "running", "scheduled"}
STORED = {**dict.fromkeys(PENDING, ("pending",)), "orphaned": ("pending", "waiting")}
"""The stored statuses of a state, if they are not the same word."""


class Which(TypedDict, total=False):
    """Filters of deliveries; keys that are left out match all."""

    ids: Sequence[int]
    states: Sequence[str]
    """Some of `models.delivery.STATES`; by default all."""
    type: str | None
    """An event type, or a pattern as in `order.*`."""
    subscriber: str | None
    """For a destination with endpoints, those of all its endpoints."""
    fingerprint: str | None
    group: Group | None
    organization: str | None
    correlation_id: str | None
    about: tuple[str, str] | None
    since: datetime | None
    """Dead letters that died at this moment or later, others that are due at this moment or later."""


@dataclass(frozen=True, slots=True)
class OpenDelivery:
    """A delivery that is stored: not delivered yet, or dead."""

    id: int
    state: str
    """due, retrying, running, waiting, scheduled, dead or parked."""
    orphaned: bool
    """Whether this code has no such handler or destination."""
    event_id: str
    event_type: str
    about: Aggregate | None
    organization: str
    correlation_id: str
    subscriber: str
    stream: str | None
    due_at: datetime
    attempt: int
    """How often it failed."""
    died_at: datetime | None = None
    error: str = ""
    """The note of its last failure: a traceback, or the answer of a destination."""
    answered: int | None = None
    """The status of that answer."""
    fingerprint: str = ""
    note: str = ""
    """Why it was parked, and by whom."""
    worker: str = ""
    """The worker that runs it."""
    expires_at: datetime | None = None
    """When its event expires: it is not run after that."""
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def error_line(self) -> str:
        """The line of the error with the message."""
        return telling_line(self.error, self.answered)

    @property
    def group(self) -> str:
        """The id of its group, if it is dead or parked."""
        if self.state not in ("dead", "parked"):
            return ""
        return group_id(self.event_type, self.subscriber, self.fingerprint or UNKNOWN)

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "state": self.state,
            "orphaned": self.orphaned,
            "event_id": self.event_id,
            "event_type": self.event_type,
            "about": ":".join(self.about) if self.about else None,
            "organization": self.organization,
            "correlation_id": self.correlation_id,
            "subscriber": self.subscriber,
            "stream": self.stream,
            "due_at": self.due_at.isoformat(),
            "attempt": self.attempt,
            "died_at": self.died_at.isoformat() if self.died_at else None,
            "error": self.error_line,
            "fingerprint": self.fingerprint,
            "group": self.group,
            "note": self.note,
            "worker": self.worker,
            "expires_at": self.expires_at.isoformat() if self.expires_at else None,
            "data": self.data,
        }

    def history(self, using: str) -> list[dict[str, Any]]:
        """What happened to it, oldest first."""
        attempts = Attempt.objects.using(using).filter(event_id=self.event_id, delivery_id=self.id).order_by("id")
        return [
            {
                "number": each.number,
                "outcome": each.outcome,
                "settled_at": each.settled_at.isoformat(),
                "took_ms": each.took_ms,
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


@dataclass(slots=True)
class Done:
    """What an action did, or would do."""

    ids: list[int] = field(default_factory=list)
    left: dict[int, str] = field(default_factory=dict)
    """The deliveries that were skipped, and why."""

    def __iadd__(self, other: Done) -> Done:
        self.ids += other.ids
        self.left |= other.left
        return self


# Finding


def find(using: str, *, limit: int | None = None, **which: Unpack[Which]) -> list[OpenDelivery]:
    """Pending deliveries ordered by their due times, others by their ids."""
    return _opened(using, _first(using, which, limit))


def newest(using: str, *, before: int | None = None, limit: int, **which: Unpack[Which]) -> list[OpenDelivery]:
    """A page of them, those with the highest ids first, behind the one with the id `before`. By the type or the
    organization of their events, which has no index, only the newest `LOOKED_AT` behind that id are looked at."""
    rows = _matching(using, which).with_state().order_by("-id")
    if before:
        rows = rows.filter(id__lt=before)
    by_event = {name for name in ("type", "organization") if which.get(name) is not None}
    if by_event and not any(which.get(name) is not None for name in ("ids", "about", "correlation_id")):
        others: Any = {name: value for name, value in which.items() if name not in by_event}
        looked = _matching(using, others).order_by("-id")
        if before:
            looked = looked.filter(id__lt=before)
        rows = rows.filter(id__in=looked.values("id")[:LOOKED_AT])
    return _opened(using, list(rows[:limit]))


def _opened(using: str, rows: Sequence[Delivery]) -> list[OpenDelivery]:
    event_ids = [row.event_id for row in rows]
    events = Event.objects.using(using).in_bulk(event_ids)
    told = Attempt.objects.using(using).filter(
        event_id__in=event_ids, delivery_id__in=[row.id for row in rows], outcome__in=["dead", "retried", "parked"]
    )
    last = {(line.delivery_id, line.outcome == "parked"): line for line in told.order_by("id")}
    workers = Worker.objects.using(using).in_bulk([row.lease for row in rows if row.lease])
    return [_open(row, events.get(row.event_id), last, workers) for row in rows]


def _first(using: str, which: Which, limit: int | None) -> list[Delivery]:
    rows = _matching(using, which).with_state()
    states = which.get("states") or ()
    if not states or which.get("ids") or not set(states) <= PENDING:
        return list(rows.order_by("id")[:limit])
    # Pending deliveries have two indexes, one for handlers and one for destinations.
    pending = rows.filter(status="pending").order_by("due_at", "id")
    inside, outside = ~Q(subscriber__startswith=OUTSIDE), Q(subscriber__startswith=OUTSIDE)
    found = [row for part in (inside, outside) for row in pending.filter(part)[:limit]]
    return sorted(found, key=lambda row: (row.due_at, row.id))[:limit]


def _open(
    row: Delivery, event: Event | None, last: dict[tuple[int, bool], Attempt], workers: dict[int, Worker]
) -> OpenDelivery:
    failure, aside = last.get((row.id, False)), last.get((row.id, True))
    return OpenDelivery(
        id=row.id,
        state=row.state,  # type: ignore[attr-defined]
        orphaned=not is_known(row.subscriber) and row.lease is None,
        event_id=str(row.event_id),
        event_type=event.type if event else GONE,
        about=Aggregate(event.aggregate_type, event.aggregate_id) if event and event.aggregate_type else None,
        organization=event.organization if event else "",
        correlation_id=event.correlation_id if event else "",
        subscriber=row.subscriber,
        stream=row.stream,
        due_at=row.due_at,
        attempt=row.attempt,
        died_at=row.died_at,
        error=failure.note if failure else "",
        answered=failure.status if failure else None,
        fingerprint=row.fingerprint or "",
        note=aside.note if aside and row.status == "parked" else "",
        worker=workers[row.lease].name if row.lease in workers else "",
        expires_at=event.expires_at if event else None,
        data=event.data if event else {},
    )


def count(using: str, **which: Unpack[Which]) -> int:
    return _matching(using, which).count()


def groups(
    using: str, *, parked: bool = False, limit: int = 50, newest: int | None = None, **which: Unpack[Which]
) -> list[Group]:
    """Dead letters by event type, subscriber and fingerprint; the largest group first. With `newest`, only so many of
    them are looked at."""
    group = which.get("group")
    return _groups(using, which, parked=parked, limit=limit, id=group.id if group else None, newest=newest)


def group(using: str, id: str, *, parked: bool = False) -> Group | None:
    """The one with this id, if there are dead letters in it now. Its numbers are those of the newest `GROUPED`, unless
    it has none among them."""
    for newest in (GROUPED, None):
        if found := _groups(using, Which(), parked=parked, limit=1, id=id, newest=newest):
            return found[0]
    return None


def _groups(using: str, which: Which, *, parked: bool, limit: int, id: str | None, newest: int | None) -> list[Group]:
    asked = {name: which.get(name) for name in ("subscriber", "organization", "fingerprint", "since")}
    shown = {"status": "parked" if parked else "dead", "limit": limit, "newest": newest}
    rows = run("delivery_groups", using, {**asked, "type": like(which.get("type")), "group": id, **shown})
    return [Group(*(*told, telling_line(note, answered))) for *told, note, answered in rows]


def batches(using: str, *, limit: int | None = None, **which: Unpack[Which]) -> Iterator[list[int]]:
    """Ids in chunks, oldest first. Process each chunk before you request the next."""
    last, left = 0, limit
    while left is None or left > 0:
        size = BATCH if left is None else min(BATCH, left)
        rows = _matching(using, which).filter(id__gt=last).order_by("id")
        ids = list(rows.values_list("id", flat=True)[:size])
        if not ids:
            return
        yield ids
        last, left = ids[-1], None if left is None else left - len(ids)


def like(pattern: str | None) -> str | None:
    """A pattern of event types as PostgreSQL compares it."""
    if pattern is None:
        return None
    return pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")


def _matching(using: str, which: Which) -> DeliveryQuerySet:
    rows = Delivery.objects.using(using).all()
    if states := which.get("states"):
        rows = rows.in_state(*states)
    if (ids := which.get("ids")) is not None:
        rows = rows.filter(id__in=ids)
    if subscriber := which.get("subscriber"):
        rows = rows.filter(Q(subscriber=subscriber) | Q(subscriber__startswith=f"{subscriber}/"))
    if group := which.get("group"):
        rows = _in_group(using, rows, group)
    if fingerprint := which.get("fingerprint"):
        rows = rows.filter(fingerprint=fingerprint)
    if since := which.get("since"):
        rows = rows.annotate(of=Coalesce("died_at", "due_at")).filter(of__gte=since)
    if any(which.get(name) is not None for name in ("type", "organization", "correlation_id", "about")):
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
    if (about := which.get("about")) is not None:
        events = events.about(*about)
    for name in ("organization", "correlation_id"):
        if (value := which.get(name)) is not None:
            events = events.filter(**{name: value})
    return events


# Acting


def retry(
    using: str,
    ids: Sequence[int],
    *,
    note: str,
    pace: Pace | None = None,
    states: Sequence[str] = (),
    dry_run: bool = False,
) -> Done:
    """Make deliveries due now, or by `pace`, with a fresh set of retries. Earlier attempts stay in the history. A
    delivery of a stream keeps its place in it."""
    pace, disabled = pace or Pace(), of_disabled(using, ids)

    def refusal(one: DeliveryState) -> str:
        if one.id in disabled:
            return told_disabled(disabled[one.id])
        if not is_known(one.subscriber):
            return (
                f"this code has no handler or destination {one.subscriber!r}; add that to aliases= of a handler, or "
                "discard it"
            )
        if one.status == "waiting":
            return f"it waits behind delivery {one.head} of its stream; deal with that one first"
        return "it is due already" if one.status == "pending" and one.is_due and not one.held else ""

    def act(chosen: list[int]) -> list[int]:
        params = {"id": chosen, "note": note, **pace.params(), "now": None}
        back = [row[0] for row in run("delivery_retry", using, params)]
        pace.took(len(back))
        return back

    return _deal(using, ids, states, refusal, act, dry_run=dry_run)


def park(using: str, ids: Sequence[int], *, note: str, states: Sequence[str] = (), dry_run: bool = False) -> Done:
    """Park deliveries: no worker claims them. One in a stream blocks those behind it."""

    def refusal(one: DeliveryState) -> str:
        return "it is parked already" if one.status == "parked" else ""

    def act(chosen: list[int]) -> list[int]:
        return [row[0] for row in run("delivery_park", using, {"id": chosen, "note": note, "now": None})]

    return _deal(using, ids, states, refusal, act, dry_run=dry_run)


def discard(using: str, ids: Sequence[int], *, note: str, states: Sequence[str] = (), dry_run: bool = False) -> Done:
    """Give up for good. Those behind them in a stream go on; inside of a transaction of yours within half a minute
    after it, since only then everybody sees that the way is free."""
    streams: set[tuple[str, str]] = set()

    def act(chosen: list[int]) -> list[int]:
        gone = run("delivery_discard", using, {"id": chosen, "note": note, "now": None})
        streams.update((subscriber, stream) for _, subscriber, stream in gone if stream is not None)
        return [row[0] for row in gone]

    done = _deal(using, ids, states, lambda one: "", act, dry_run=dry_run)
    if streams:
        promote(using, streams)
    return done


class DeliveryState(NamedTuple):
    """The data that decides whether a delivery can be changed, in the order of delivery_states.sql."""

    id: int
    subscriber: str
    status: str
    held: bool
    """Whether it has a lease, of a live worker or of a lost one."""
    is_due: bool
    worker: str | None
    """The live worker that runs it."""
    head: int | None
    """The first of its stream, if it waits."""


def _deal(
    using: str,
    ids: Sequence[int],
    states: Sequence[str],
    refusal: Callable[[DeliveryState], str],
    act: Callable[[list[int]], list[int]],
    *,
    dry_run: bool,
) -> Done:
    """Change the deliveries that can be changed. `states` are those in which they were found: one that has changed
    since is skipped."""
    ids = list(dict.fromkeys(ids))
    wanted = {status for state in states for status in STORED.get(state, (state,))}
    with transaction.atomic(using=using):
        locked = set(ids) if dry_run else {row[0] for row in run("delivery_lock", using, {"id": ids})}
        # A statement of its own: its snapshot must be younger than the claim that we waited for.
        there = {row[0]: DeliveryState(*row) for row in run("delivery_states", using, {"id": ids, "now": None})}
        left = {id: why for id in ids if (why := _why_not(there.get(id), id in locked, wanted) or refusal(there[id]))}
        chosen = [id for id in ids if id not in left]
        return Done(chosen if dry_run else act(chosen) if chosen else [], left)


def _why_not(one: DeliveryState | None, locked: bool, wanted: set[str]) -> str:
    if one is None:
        return "it was delivered or discarded meanwhile"
    if one.worker is not None or not locked:
        where = f" on {one.worker}" if one.worker else ""
        return f"it is running{where}; wait until that has ended"
    if wanted and one.status not in wanted:
        return f"it is {one.status} by now"
    return ""


def of_disabled(using: str, ids: Sequence[int]) -> dict[int, str]:
    """Those of these deliveries that go to an endpoint which is disabled, with its name: a worker would throw them
    away, so they are not retried."""
    rows = Delivery.objects.using(using).filter(id__in=ids, subscriber__startswith=OUTSIDE, subscriber__contains="/")
    names = dict(rows.values_list("id", "subscriber"))
    keys = {key for name in names.values() if (key := _endpoint_id(name)) is not None}
    disabled = WebhookEndpoint.objects.using(using).filter(id__in=keys, disabled_at__isnull=False)
    found = set(disabled.values_list("id", flat=True))  # asks nobody where there are no keys
    return {id: name for id, name in names.items() if _endpoint_id(name) in found}


def _endpoint_id(name: str) -> UUID | None:
    try:
        return UUID(Address.parse(name).key)
    except ValueError:
        return None
