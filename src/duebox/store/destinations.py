"""Destinations as rows: claims for them, their shared rate, pause and circuit breaker state, Celery tasks that
were sent, webhook fan-out and receipts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction

from duebox.events.address import Address
from duebox.store.deliveries import MOST, Claimed, read_claims, storable
from duebox.store.run_sql import execute, run


class Ready(NamedTuple):
    """A destination that has something to deliver, now or later."""

    name: str
    due_in: float
    """Seconds; below zero when it is due already."""
    paused: bool
    opens_in: float | None
    """Seconds until it may be tried again; None when its breaker is closed."""
    failing_since: float | None


def ready(using: str, *, now: datetime | None = None) -> list[Ready]:
    return [Ready(*row) for row in run("destination_ready", using, {"now": now})]


def claim(
    using: str, lease: int, many: Mapping[str, int], *, past: Sequence[str] = (), now: datetime | None = None
) -> Claimed:
    """Claim at most `many[name]` deliveries of each destination. Streams in `past` are skipped."""
    params = {"lease": lease, "subscriber": list(many), "many": list(many.values()), "past": list(past), "now": now}
    return read_claims(run("destination_claim", using, params), lease)


def claim_within_rates(
    using: str, lease: int, many: Mapping[str, int], buckets: Mapping[str, Bucket], *, past: Sequence[str] = ()
) -> Claimed:
    """The same for destinations with a rate. A bucket is locked while its tokens become claims, so that all workers
    together never use more tokens than it has."""
    with transaction.atomic(using=using):
        locked = lock_buckets(using, buckets)
        allowed = {name: min(many[name], int(tokens)) for name, tokens in locked.tokens.items() if tokens >= 1}
        if not allowed:
            return Claimed([], Counter())
        claimed = claim(using, lease, allowed, past=past)
        spend_tokens(using, locked, Counter(each.subscriber for each in claimed.claims))
    return claimed


_ERROR_LIMIT = 500
MOST_NAMES = 5_000
"""The maximum number of destinations and endpoints with open deliveries that are read."""


class Bucket(NamedTuple):
    """A token bucket: `rate` tokens are added each second, up to `size`."""

    rate: float
    size: float


class State(NamedTuple):
    """The state of a destination, as commands and the dashboard show it."""

    name: str
    waiting: int = 0
    """Counted up to `MOST`; for one of many endpoints, up to its share of that."""
    dead: int = 0
    """Among the newest `MOST` dead letters."""
    paused_at: datetime | None = None
    paused_note: str = ""
    open_until: datetime | None = None
    failing_since: datetime | None = None
    error: str = ""
    more_waiting: bool = False
    """Whether there are more than `waiting` says."""

    def as_dict(self) -> dict[str, Any]:
        return {
            name: value.isoformat() if isinstance(value, datetime) else value for name, value in self._asdict().items()
        }


class LockedBuckets(NamedTuple):
    tokens: dict[str, float]
    moment: float


def create_buckets(using: str, buckets: Mapping[str, Bucket]) -> None:
    execute("rate_bucket_create", using, {"name": list(buckets), "bucket": [each.size for each in buckets.values()]})


def lock_buckets(using: str, buckets: Mapping[str, Bucket]) -> LockedBuckets:
    """Lock buckets until the transaction ends, and read their tokens, except those that another worker has locked."""
    params = {
        "name": list(buckets),
        "rate": [each.rate for each in buckets.values()],
        "bucket": [each.size for each in buckets.values()],
    }
    rows = run("rate_bucket_lock", using, params)
    return LockedBuckets({name: tokens for name, tokens, _ in rows}, rows[0][2] if rows else 0.0)


def spend_tokens(using: str, locked: LockedBuckets, taken: Mapping[str, int]) -> None:
    if not taken:
        return
    left = [locked.tokens[name] - count for name, count in taken.items()]
    execute("rate_bucket_spend", using, {"name": list(taken), "tokens": left, "moment": locked.moment})


def open_breaker(
    using: str, name: str, *, pause: float, longest: float, error: str, counts: bool, probed: bool
) -> float | None:
    """Open the circuit breaker of a destination. Returns the seconds until it is tried again, or None if another worker
    has opened it already. Each time in a row with `counts` doubles the pause."""
    params = {
        "name": name, "pause": pause, "longest": longest, "error": storable(error[:_ERROR_LIMIT]),
        "counts": int(counts), "probed": probed,
    }  # fmt: skip
    rows = run("breaker_open", using, params)
    return rows[0][0] if rows else None


def start_probes(using: str, names: Collection[str], seconds: float) -> set[str]:
    """The destinations whose pause is over and that only this worker may try now."""
    return {row[0] for row in run("breaker_probe", using, {"name": list(names), "seconds": seconds})}


def delay_probe(using: str, name: str, seconds: float) -> None:
    """The probe had no result: any worker may try the destination after `seconds`."""
    execute("breaker_probe_later", using, {"name": name, "seconds": seconds})


def unavailable(using: str, names: Collection[str]) -> set[str]:
    """The destinations that are paused or have an open circuit breaker."""
    return {row[0] for row in run("destination_unavailable", using, {"name": list(names)})}


def close_breaker(using: str, name: str, *, probed: bool) -> None:
    execute("breaker_close", using, {"name": name, "probed": probed})


def record_failure(using: str, name: str, error: str, *, gap: float) -> float:
    """Record that a destination fails. Returns since when, as a Unix timestamp; after a gap of `gap` seconds without
    failures that is now."""
    params = {"name": name, "error": storable(error[:_ERROR_LIMIT]), "gap": gap}
    since: float = run("destination_failing", using, params)[0][0]
    return since


def states(using: str) -> list[State]:
    return [State(*row) for row in run("destination_states", using, {"names": MOST_NAMES, "most": MOST, "least": 20})]


class StateCounts(NamedTuple):
    """How many endpoints of a destination, or 1 for one without endpoints, are in a state."""

    name: str
    paused: int
    open: int
    failing: int


def state_counts(using: str) -> list[StateCounts]:
    return [StateCounts(*row) for row in run("destination_state_counts", using, {})]


def pause(using: str, name: str, note: str) -> None:
    execute("destination_pause", using, {"name": name, "note": note})


def resume(using: str, name: str) -> bool:
    """False if it was not paused and its circuit breaker was closed."""
    return bool(run("destination_resume", using, {"name": name}))


class SentTaskState(NamedTuple):
    event: str
    ended: bool
    error: str
    """Empty unless it failed."""
    permanent: bool
    seconds_left: float
    """Until it counts as lost."""
    took: float | None


class NewSentTask(NamedTuple):
    event: str
    task_id: str
    task: str


def read_sent_tasks(using: str, subscriber: str, events: Sequence[str]) -> dict[str, SentTaskState]:
    """The state of the tasks of these events. A failure is returned once."""
    rows = run("sent_task_read", using, {"subscriber": subscriber, "event": list(events)})
    return {row[0]: SentTaskState(*row) for row in rows}


def write_sent_tasks(using: str, subscriber: str, sent: Sequence[NewSentTask], seconds: float) -> None:
    """Store tasks that are about to be sent, and that must report their result within `seconds`."""
    columns = {"event": [each.event for each in sent], "task_id": [each.task_id for each in sent]}
    tasks = [each.task for each in sent]
    execute("sent_task_write", using, {"subscriber": subscriber, **columns, "task": tasks, "seconds": seconds})


def delete_sent_tasks(using: str, subscriber: str, events: Sequence[str]) -> None:
    execute("sent_task_delete", using, {"subscriber": subscriber, "event": list(events)})


def end_sent_task(using: str, task_id: str, task: str, *, error: str = "", permanent: bool = False) -> int:
    """Store that a task has ended. Returns how many deliveries wait for it."""
    params = {"task_id": task_id, "task": task, "error": error, "permanent": permanent}
    [(ended, _, _)] = run("sent_task_end", using, params)
    return int(ended)


def extend_sent_task(using: str, task_id: str, task: str, after: float) -> None:
    """Celery retries a task after so many seconds."""
    execute("sent_task_extend", using, {"task_id": task_id, "task": task, "after": after})


def prune_sent_tasks(using: str, subscriber: str) -> None:
    execute("sent_task_prune", using, {"subscriber": subscriber})


class FannedOut(NamedTuple):
    routed: int
    missed: int
    """For endpoints that are disabled."""


def fan_out(using: str, alias: str, events: Sequence[str]) -> FannedOut:
    """Store a delivery for each endpoint that subscribes to one of the events."""
    prefix = f"{Address.of_destination(alias)}/"
    [(routed, missed)] = run("webhook_fan_out", using, {"events": list(events), "prefix": prefix})
    return FannedOut(routed, missed)


def count_endpoints_for(using: str, kind: str, organization: str | None) -> int:
    """How many enabled endpoints, of all organizations or of one, subscribe to a public event. `kind` is without
    `public.`."""
    count: int = run("webhook_wanting", using, {"kind": kind, "organization": organization})[0][0]
    return count


def disable(using: str, id: object, reason: str) -> bool:
    """False if the endpoint was disabled before or does not exist."""
    return bool(run("webhook_disable", using, {"id": id, "reason": reason}))


def record_webhook(using: str, source: str, webhook_id: str) -> bool:
    """Store that a webhook was received; False if it was received before. Call it in the transaction that processes the
    webhook."""
    return bool(run("webhook_receive", using, {"source": source, "webhook_id": webhook_id}))


def last_attempts(using: str, alias: str, id: object, limit: int) -> list[dict[str, Any]]:
    """The last attempts for an endpoint, the newest first."""
    names = ("event_id", "type", "number", "outcome", "status", "took_ms", "settled_at", "note")
    rows = run("webhook_attempts", using, {"name": str(Address.of_destination(alias, id)), "limit": limit})
    return [dict(zip(names, row, strict=True)) for row in rows]


class CaptureState(NamedTuple):
    wal_level: str
    schema: str
    """The schema of the table of events."""
    published: bool
    """Whether the publication exists and contains that table."""


def capture_state(using: str, publication: str) -> CaptureState:
    [row] = run("capture_state", using, {"publication": publication})
    return CaptureState(*row)
