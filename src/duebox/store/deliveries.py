"""Deliveries as rows: claim, settle and release them, count the backlog, and find blocked and busy streams."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from duebox import clock
from duebox.dead_letters.fingerprint import fingerprint
from duebox.events.address import Address
from duebox.events.fact import Fact, FactRow
from duebox.events.outcomes import Dead, Delivered, Discard, Expired, Outcome, Retried, Snooze, outcome_name
from duebox.events.subscribers import is_known
from duebox.exceptions import Refused, Undelivered
from duebox.store.run_sql import execute, number_array, run, text_array

_NOTE_LIMIT = 8_000


class Claim:
    """A delivery that this worker owns for now."""

    __slots__ = ("attempt", "due", "fact", "id", "lease", "rescues", "stream", "subscriber")

    def __init__(self, row: tuple[Any, ...], lease: int) -> None:
        self.lease = lease
        self.id: int = row[0]
        self.subscriber: str = row[1]
        self.stream: str | None = row[2]
        self.attempt: int = row[3] + 1
        self.rescues: int = row[4]
        self.due: float = row[5]
        self.fact = Fact(row[6:], attempt=self.attempt)

    @property
    def event_is_gone(self) -> bool:
        """Whether the event of the delivery was deleted."""
        return self.fact.type is None

    def age(self) -> float:
        """Seconds since its event occurred."""
        return 0.0 if self.event_is_gone else max(0.0, clock.now().timestamp() - self.fact.row.occurred)

    def expired(self) -> Expired | None:
        """The outcome if its event has expired. Nothing has expired whose event is gone."""
        at = self.fact.expires_at
        return Expired(at) if at is not None and at <= clock.now() else None

    def __repr__(self) -> str:
        return f"<{self.fact!r} to {self.subscriber}, attempt {self.attempt}>"


_DUE_THEN_ID = attrgetter("due", "id")


class Ended(NamedTuple):
    """A claim, how it ended, when it started (seconds since 1970) and how long it took."""

    claim: Claim
    outcome: Outcome
    started: float
    took_ms: float


class Claimed(NamedTuple):
    claims: list[Claim]
    waiting: Counter[tuple[str, str]]
    """For each stream, how many due deliveries were not claimed but got the status `waiting`, because an earlier one of
    the stream is not done."""


def claim(
    using: str,
    lease: int,
    subscribers: Sequence[str],
    limit: int,
    *,
    due_from: float = 0.0,
    past: Sequence[str] = (),
    now: datetime | None = None,
) -> Claimed:
    """Claim due deliveries for handlers. Streams in `past` are skipped."""
    params = {"lease": lease, "subscribers": subscribers, "limit": limit, "due_from": due_from, "now": now}
    return read_claims(run("claim", using, {**params, "past": list(past)}), lease)


def read_claims(rows: list[tuple[Any, ...]], lease: int) -> Claimed:
    claims = sorted((Claim(row, lease) for row in rows if row[3] >= 0), key=_DUE_THEN_ID)
    waiting = Counter((row[1], row[2]) for row in rows if row[3] < 0)
    return Claimed(claims, waiting)


class ToNext(NamedTuple):
    """Seconds until the next one; below zero for a schedule that is due already, None if there is none."""

    delivery: float | None
    schedule: float | None


def seconds_to_next(using: str, subscribers: Sequence[str], *, now: datetime | None = None) -> ToNext:
    [found] = run("next_due", using, {"subscribers": subscribers, "now": now})
    return ToNext(*found)


class DueNow(NamedTuple):
    """Whether anything is due to be fired or delivered, and when the next one is due after that."""

    is_due: bool
    following: datetime | None


def due_now(
    using: str,
    subscribers: Sequence[str],
    *,
    schedules_from: datetime | None = None,
    deliveries_from: float = 0.0,
    now: datetime | None = None,
) -> DueNow:
    """Schedules and deliveries that were due before `schedules_from` and `deliveries_from` are left out."""
    params = {
        "subscribers": subscribers,
        "schedules_from": schedules_from,
        "deliveries_from": deliveries_from,
        "now": now,
    }
    [found] = run("due_now", using, params)
    return DueNow(*found)


def settle(using: str, lease: int, ended: Sequence[Ended], *, now: datetime | None = None) -> set[int]:
    """Write the outcomes down. Gives back the ids that were no longer this lease's: nothing was written for them."""
    delivered = [end for end in ended if end.outcome is None]
    otherwise = [end for end in ended if end.outcome is not None]
    lost: set[int] = set()
    # Those first that may fail because of what a handler has put into them: then nothing was written yet.
    if otherwise:
        params = {**_times(otherwise), **_fates(otherwise), "lease": lease, "now": now}
        lost |= _lost(otherwise, run("settle_otherwise", using, params))
    if delivered:
        [(not_owned,)] = run("settle_delivered", using, {**_times(delivered), "lease": lease, "now": now})
        lost.update(not_owned or ())
    return lost


def release(using: str, lease: int, ids: Sequence[int]) -> None:
    """Release deliveries that were not run, or not to the end: no attempt is used up, and no history is written."""
    execute("release", using, {"id": ids, "lease": lease})


def promote(using: str, streams: Collection[tuple[str, str]]) -> int:
    """Let the next delivery of each stream run. Call it after the commit that took the previous one away, and
    after the commit that made one wait: whichever comes second sees the other."""
    pairs = list(streams)
    return len(
        run(
            "stream_promote",
            using,
            {"subscriber": [pair[0] for pair in pairs], "stream": [pair[1] for pair in pairs]},
        )
    )


def _lost(ended: Sequence[Ended], returned: list[tuple[Any, ...]]) -> set[int]:
    written = returned[0][0] or ()
    if len(written) == len(ended):
        return set()
    return {end.claim.id for end in ended}.difference(written)


def _times(ended: Sequence[Ended]) -> dict[str, str]:
    """In microseconds: the text of a whole number is made in 0.15 µs, that of a float in 1 µs."""
    moved = clock.override()  # they were measured in real time
    return {
        "id": number_array([end.claim.id for end in ended]),
        "started": number_array([int((moved.timestamp() if moved else end.started) * 1e6) for end in ended]),
        "took": number_array([int(end.took_ms * 1e3) for end in ended]),
    }


def _fates(ended: Sequence[Ended]) -> dict[str, str]:
    outcomes = [end.outcome for end in ended]
    return {
        "outcome": text_array([outcome_name(outcome) for outcome in outcomes]),
        "note": text_array([_note(outcome) for outcome in outcomes]),
        "due": text_array([_until(outcome) for outcome in outcomes]),
        "after": _values([_after(outcome) for outcome in outcomes]),
        "uses_attempt": _values([int(_uses_attempt(outcome)) for outcome in outcomes]),
        "rescued": _values([isinstance(outcome, Retried) and outcome.rescued for outcome in outcomes]),
        "status": _values([_status(outcome) for outcome in outcomes]),
        "fingerprint": text_array([fingerprint(each.error) if isinstance(each, Dead) else None for each in outcomes]),
        "leaves_stream": _values([isinstance(outcome, Dead) and outcome.leaves_stream for outcome in outcomes]),
    }


def _values(given: Iterable[float | bool | None]) -> str:
    return number_array("NULL" if each is None else str(each) for each in given)


def _uses_attempt(outcome: Outcome) -> bool:
    return not isinstance(outcome, Snooze | Expired) and not (isinstance(outcome, Retried) and not outcome.uses_attempt)


def _status(outcome: Outcome) -> int | None:
    try:
        found = getattr(getattr(outcome, "error", outcome), "status", None)
    except Exception:  # any error may have an attribute of this name, and a property may fail
        return None
    return int(found) if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= 32_767 else None


def _until(outcome: Outcome) -> str | None:
    return outcome.until.isoformat() if isinstance(outcome, Snooze) and isinstance(outcome.until, datetime) else None


def _after(outcome: Outcome) -> float | None:
    match outcome:
        case Retried(after_seconds=seconds):
            return seconds
        case Snooze(until=until) if not isinstance(until, datetime):
            return until.total_seconds()
    return None


def _note(outcome: Outcome) -> str:
    match outcome:
        case Discard(reason=reason) | Delivered(note=reason):
            return storable(reason)
        case Expired(at=at):
            return f"its event expired at {at.isoformat()}"
        case Retried(error=Undelivered() | Refused() as error) | Dead(error=Undelivered() | Refused() as error):
            return storable(str(error))  # where in our code that was found out says nothing
        case Retried(error=error) | Dead(error=error):
            return storable("".join(traceback.format_exception(error)))
    return ""


def storable(text: str) -> str:
    """The end of a long text, where a traceback says what happened, without what PostgreSQL cannot store."""
    return text[-_NOTE_LIMIT:].replace("\x00", "\\x00").encode(errors="backslashreplace").decode()


def enqueue(using: str, row: FactRow, subscriber: str, due: datetime | None) -> None:
    """Store a delivery of an event to one subscriber only. Without `due` it is due now."""
    routes = {"route_subscriber": text_array([subscriber]), "route_stream": text_array([None])}
    run("emit_one", using, {**row._asdict(), **routes, "now": due})


COUNTED = 1_000
"""The maximum number of deliveries behind a head that are counted."""
LOOKED_AT = 1_000
"""The maximum number of dead, of parked, and of blocking deliveries that are compared."""


class Blocked(NamedTuple):
    """A stream whose first delivery is dead, parked, or waits for its next try."""

    subscriber: str
    stream: str
    head: int
    event_id: str
    status: str
    attempt: int
    due_at: datetime
    waiting: int
    """How many wait behind it, up to `COUNTED`."""
    since: datetime
    more_wait: bool = False
    """Whether there are more than that."""

    @property
    def why(self) -> str:
        """`dead`, `parked`, `retrying`, or `snoozed` where it comes later without having failed."""
        if self.status != "pending":
            return self.status
        return "retrying" if self.attempt else "snoozed"

    def as_dict(self) -> dict[str, Any]:
        return {
            "subscriber": self.subscriber,
            "stream": self.stream,
            "head": self.head,
            "event_id": self.event_id,
            "why": self.why,
            "until": self.due_at.isoformat() if self.status == "pending" else None,
            "waiting": self.waiting,
            "more_wait": self.more_wait,
            "since": self.since.isoformat(),
        }


def blocked(using: str, *, subscriber: str | None = None, limit: int = 50) -> list[Blocked]:
    """Those with the most behind them first."""
    params = {"subscriber": subscriber, "limit": limit, "look": max(limit, LOOKED_AT), "most": COUNTED + 1, "now": None}
    found = [Blocked(*row) for row in run("dead_streams", using, params)]
    return [each._replace(waiting=min(each.waiting, COUNTED), more_wait=each.waiting > COUNTED) for each in found]


Stream = tuple[str, str]
"""A subscriber, and what it keeps in order."""


class MarkedWaiting(NamedTuple):
    many: int
    last: int
    """The id of the last delivery that waits now."""


def mark_waiting(using: str, streams: Mapping[Stream, int], limit: int) -> dict[Stream, MarkedWaiting]:
    """Give the status `waiting` to up to `limit` deliveries of each stream, after the id given for it. Promote the
    streams after the commit."""
    params = {
        "subscriber": [subscriber for subscriber, _ in streams],
        "stream": [stream for _, stream in streams],
        "after": list(streams.values()),
        "limit": limit,
        "now": None,
    }
    return {(row[0], row[1]): MarkedWaiting(row[2], row[3]) for row in run("stream_wait", using, params)}


MOST = 10_000
"""The maximum number that is counted."""
NAMES = 1_000
"""The maximum number of destinations, with their endpoints, that are read."""


class Backlog(NamedTuple):
    """What is stored for one handler or destination and not delivered yet."""

    subscriber: str
    due: int
    running: int
    retrying: int
    later: int
    """To come without having failed: snoozed, delayed, or spread by a rate."""
    oldest: datetime | None
    more_due: bool
    more_later: bool
    held_back: bool
    """Whether it is a destination that is paused or has an open circuit breaker."""

    @property
    def orphaned(self) -> bool:
        """Whether this code has no such handler or destination."""
        return not is_known(self.subscriber)


class Counts(NamedTuple):
    waiting: int
    dead: int
    parked: int
    minute: int
    hour: int
    day: int
    overdue: int
    oldest_overdue: float | None
    workers: int
    listening: int
    unsealed: int
    oldest_unsealed: float | None
    now: datetime


class Orphaned(NamedTuple):
    """Deliveries for a handler or destination that this code does not have."""

    subscriber: str
    deliveries: int
    more: bool
    since: datetime
    """When the oldest of them became due, or will."""


def backlog(using: str, *, most: int = MOST) -> list[Backlog]:
    params = {"most": most + 1, "names": NAMES, "now": None}
    return [Backlog(*row) for row in run("delivery_backlog", using, params)]


def counts(using: str, *, late: float, most: int = MOST) -> Counts:
    [row] = run("status_counts", using, {"most": most + 1, "late": late, "now": None})
    return Counts(*row)


def orphaned(found: list[Backlog]) -> list[Orphaned]:
    """Those of a backlog that nobody here will take; of a destination with all its endpoints. What a worker runs right
    now is known to that worker."""
    known: dict[str, Orphaned] = {}
    for each in found:
        waiting, more = each.due + each.retrying + each.later, each.more_due or each.more_later
        if not each.orphaned or not waiting or each.oldest is None:
            continue
        name = str(Address.parse(each.subscriber).whole)
        before = known.get(name, Orphaned(name, 0, False, each.oldest))
        known[name] = Orphaned(name, before.deliveries + waiting, before.more or more, min(before.since, each.oldest))
    return list(known.values())
