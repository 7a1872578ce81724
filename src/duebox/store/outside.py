"""Claims for destinations: each has its own share, and none takes the place of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from duebox.store import gates
from duebox.store.deliveries import Claim, Claimed, read_claims
from duebox.store.gates import Bucket
from duebox.store.statements import run


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
        held = gates.hold(using, buckets)
        allowed = {name: min(many[name], int(tokens)) for name, tokens in held.tokens.items() if tokens >= 1}
        if not allowed:
            return Claimed([], Counter())
        claimed = claim(using, lease, allowed, past=past)
        gates.spend(using, held, _taken(claimed.claims))
    return claimed


def _taken(claims: list[Claim]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in claims:
        found[each.subscriber] = found.get(each.subscriber, 0) + 1
    return found
