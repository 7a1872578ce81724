"""Webhooks as rows: an event becomes deliveries to endpoints, an endpoint is given up, a repeat is recognised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from duebox.store.statements import run
from duebox.subscribers import OUTSIDE

RETENTION_DAYS = 7
"""Longer than any sender goes on trying: the retries of Standard Webhooks end after three days and a few hours."""
SOME = 1_000
_AT_A_TIME = 10_000


class FannedOut(NamedTuple):
    routed: int
    missed: int
    """For endpoints that are disabled."""


def fan_out(using: str, alias: str, events: Sequence[str]) -> FannedOut:
    """Store a delivery for each endpoint that wants one of the events."""
    [(routed, missed)] = run("webhook_fan_out", using, {"events": list(events), "prefix": f"{OUTSIDE}{alias}/"})
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


def prune(using: str, days: float) -> int:
    """Forget what was received before so many days; gives how many."""
    gone = 0
    while found := _forget(using, days, _AT_A_TIME):
        gone += found
    return gone


def prune_some(using: str) -> bool:
    """The same for RETENTION_DAYS, a moment's work only; whether there may be more."""
    return _forget(using, RETENTION_DAYS, SOME) == SOME


def _forget(using: str, days: float, limit: int) -> int:
    return len(run("webhook_prune", using, {"days": days, "limit": limit}))


def last_attempts(using: str, alias: str, id: object, limit: int) -> list[dict[str, Any]]:
    """What became of the last events for an endpoint, the newest first."""
    names = ("event_id", "type", "number", "outcome", "status", "took_ms", "settled_at", "note")
    rows = run("webhook_attempts", using, {"name": f"{OUTSIDE}{alias}/{id}", "limit": limit})
    return [dict(zip(names, row, strict=True)) for row in rows]
