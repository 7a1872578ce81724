"""Destinations as rows: claims for them, their shared rate, pause and circuit breaker state, Celery handovers, webhook
fan-out and receipts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction

from duebox.events.address import Address
from duebox.store.deliveries import MOST, Claim, Claimed, read_claims, storable
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
    return [Ready(*row) for row in run("outside_ready", using, {"now": now})]


def claim(
    using: str, lease: int, many: Mapping[str, int], *, past: Sequence[str] = (), now: datetime | None = None
) -> Claimed:
    """At most so many for each name; `past` are streams to pass over."""
    params = {"lease": lease, "subscriber": list(many), "many": list(many.values()), "past": list(past), "now": now}
    return read_claims(run("outside_claim", using, params), lease)


def claim_metered(
    using: str, lease: int, many: Mapping[str, int], buckets: Mapping[str, Bucket], *, past: Sequence[str] = ()
) -> Claimed:
    """The same for names with a rate. A bucket is held while its tokens become claims, so that all workers together
    never take more than there are."""
    with transaction.atomic(using=using):
        held = hold(using, buckets)
        allowed = {name: min(many[name], int(tokens)) for name, tokens in held.tokens.items() if tokens >= 1}
        if not allowed:
            return Claimed([], Counter())
        claimed = claim(using, lease, allowed, past=past)
        spend(using, held, _taken(claimed.claims))
    return claimed


def _taken(claims: list[Claim]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in claims:
        found[each.subscriber] = found.get(each.subscriber, 0) + 1
    return found


_ERROR_LIMIT = 500
MOST_NAMES = 5_000
"""So many destinations and endpoints for which something waits are looked up."""


class Bucket(NamedTuple):
    """Tokens: so many come in each second, and no more than `size` are kept."""

    rate: float
    size: float


class State(NamedTuple):
    """How a destination fares, for people."""

    name: str
    waiting: int = 0
    """Counted up to `MOST`; of one of many endpoints, up to its share of that."""
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


class Held(NamedTuple):
    tokens: dict[str, float]
    moment: float


def make(using: str, buckets: Mapping[str, Bucket]) -> None:
    execute("gate_make", using, {"name": list(buckets), "bucket": [each.size for each in buckets.values()]})


def hold(using: str, buckets: Mapping[str, Bucket]) -> Held:
    """What is in the buckets; held until the transaction ends. One that another worker holds is missing."""
    params = {
        "name": list(buckets),
        "rate": [each.rate for each in buckets.values()],
        "bucket": [each.size for each in buckets.values()],
    }
    rows = run("gate_hold", using, params)
    return Held({name: tokens for name, tokens, _ in rows}, rows[0][2] if rows else 0.0)


def spend(using: str, held: Held, taken: Mapping[str, int]) -> None:
    if not taken:
        return
    left = [held.tokens[name] - count for name, count in taken.items()]
    execute("gate_spend", using, {"name": list(taken), "tokens": left, "moment": held.moment})


def open(
    using: str, name: str, *, pause: float, longest: float, error: str, counts: bool, probed: bool
) -> float | None:
    """Leave it alone; gives the seconds, or None where somebody else has said so already. Each time in a row that
    `counts` doubles the pause."""
    params = {
        "name": name, "pause": pause, "longest": longest, "error": storable(error[:_ERROR_LIMIT]),
        "counts": int(counts), "probed": probed,
    }  # fmt: skip
    rows = run("gate_open", using, params)
    return rows[0][0] if rows else None


def probe(using: str, names: Collection[str], seconds: float) -> set[str]:
    """Those whose pause is over and that this worker may try, alone."""
    return {row[0] for row in run("gate_probe", using, {"name": list(names), "seconds": seconds})}


def probe_again(using: str, name: str, seconds: float) -> None:
    """Nothing came of it: nobody needs to wait for this worker."""
    execute("gate_probe_again", using, {"name": name, "seconds": seconds})


def shut(using: str, names: Collection[str]) -> set[str]:
    """Those that are paused or to be left alone."""
    return {row[0] for row in run("gate_shut", using, {"name": list(names)})}


def close(using: str, name: str, *, probed: bool) -> None:
    execute("gate_close", using, {"name": name, "probed": probed})


def failing(using: str, name: str, error: str, *, gap: float) -> float:
    """Since when, in seconds since 1970; after a gap of so many seconds it begins anew."""
    params = {"name": name, "error": storable(error[:_ERROR_LIMIT]), "gap": gap}
    since: float = run("gate_failing", using, params)[0][0]
    return since


def states(using: str) -> list[State]:
    return [State(*row) for row in run("gate_states", using, {"names": MOST_NAMES, "most": MOST, "least": 20})]


class StateCounts(NamedTuple):
    """How many endpoints of a destination, or 1 for one without endpoints, are in a state."""

    name: str
    paused: int
    open: int
    failing: int


def state_counts(using: str) -> list[StateCounts]:
    return [StateCounts(*row) for row in run("gate_counts", using, {})]


def pause(using: str, name: str, note: str) -> None:
    execute("gate_pause", using, {"name": name, "note": note})


def resume(using: str, name: str) -> bool:
    """False when it was not paused, nor left alone."""
    return bool(run("gate_resume", using, {"name": name}))


class HandedOver(NamedTuple):
    event: str
    ended: bool
    error: str
    """Nothing, unless it failed."""
    permanent: bool
    seconds_left: float
    """Until it counts as lost."""
    took: float | None


class Sent(NamedTuple):
    event: str
    task_id: str
    task: str


def look(using: str, subscriber: str, events: Sequence[str]) -> dict[str, HandedOver]:
    """What is known of these, by event. A failure is told once only."""
    rows = run("handover_look", using, {"subscriber": subscriber, "event": list(events)})
    return {row[0]: HandedOver(*row) for row in rows}


def note(using: str, subscriber: str, sent: Sequence[Sent], seconds: float) -> None:
    """These are about to be sent, and have so long to report."""
    columns = {"event": [each.event for each in sent], "task_id": [each.task_id for each in sent]}
    tasks = [each.task for each in sent]
    execute("handover_note", using, {"subscriber": subscriber, **columns, "task": tasks, "seconds": seconds})


def forget(using: str, subscriber: str, events: Sequence[str]) -> None:
    execute("handover_forget", using, {"subscriber": subscriber, "event": list(events)})


def end(using: str, task_id: str, task: str, *, error: str = "", permanent: bool = False) -> int:
    """A task ended; gives how many deliveries wait for that."""
    params = {"task_id": task_id, "task": task, "error": error, "permanent": permanent}
    [(ended, _, _)] = run("handover_end", using, params)
    return int(ended)


def extend(using: str, task_id: str, task: str, after: float) -> None:
    """A task will run again by itself after so many seconds."""
    execute("handover_extend", using, {"task_id": task_id, "task": task, "after": after})


def prune_handovers(using: str, subscriber: str) -> None:
    execute("handover_prune", using, {"subscriber": subscriber})


class FannedOut(NamedTuple):
    routed: int
    missed: int
    """For endpoints that are disabled."""


def fan_out(using: str, alias: str, events: Sequence[str]) -> FannedOut:
    """Store a delivery for each endpoint that wants one of the events."""
    prefix = f"{Address.of_destination(alias)}/"
    [(routed, missed)] = run("webhook_fan_out", using, {"events": list(events), "prefix": prefix})
    return FannedOut(routed, missed)


def wanting(using: str, kind: str, organization: str | None) -> int:
    """How many enabled endpoints, of all organizations or of one, want a public event; `kind` is without `public.`."""
    count: int = run("webhook_wanting", using, {"kind": kind, "organization": organization})[0][0]
    return count


def disable(using: str, id: object, reason: str) -> bool:
    """False when the endpoint was disabled before, or is gone."""
    return bool(run("webhook_disable", using, {"id": id, "reason": reason}))


def receive(using: str, source: str, webhook_id: str) -> bool:
    """Note a webhook; False when it was received before. Belongs into the transaction of what it causes."""
    return bool(run("webhook_receive", using, {"source": source, "webhook_id": webhook_id}))


def last_attempts(using: str, alias: str, id: object, limit: int) -> list[dict[str, Any]]:
    """What became of the last events for an endpoint, the newest first."""
    names = ("event_id", "type", "number", "outcome", "status", "took_ms", "settled_at", "note")
    rows = run("webhook_attempts", using, {"name": str(Address.of_destination(alias, id)), "limit": limit})
    return [dict(zip(names, row, strict=True)) for row in rows]


class CaptureState(NamedTuple):
    wal_level: str
    schema: str
    """In which the table of events is."""
    published: bool
    """Whether the publication exists, and holds that table."""


def capture_state(using: str, publication: str) -> CaptureState:
    [row] = run("capture_state", using, {"publication": publication})
    return CaptureState(*row)
