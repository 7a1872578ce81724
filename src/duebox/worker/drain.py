"""Deliver what is due here and now, in this thread and on this connection: for inline mode and for tests."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import connections

from duebox.conf import conf
from duebox.context import origin
from duebox.destinations.subscription import Subscription
from duebox.exceptions import EndlessDrain, LeaseLost
from duebox.firing import fire_due
from duebox.outcome import Dead, Retried
from duebox.store import leases, outside
from duebox.store.deliveries import Claim, Claimed, Ended, claim, promote, release
from duebox.subscribers import Subscriber, matching
from duebox.worker.clock import Clock
from duebox.worker.dispatch import perform, refuse_open_transaction
from duebox.worker.settling import settle
from duebox.worker.tally import Tally
from duebox.worker.tidy import tidy_connections

LEASE_SECONDS = 300.0
BATCH = 100


@dataclass
class Drained:
    """What a drain did: counts, and the errors its handlers raised."""

    tally: Tally = field(default_factory=Tally)
    ended: list[Ended] = field(default_factory=list)

    @property
    def delivered(self) -> int:
        return self.tally.delivered

    @property
    def retried(self) -> int:
        return self.tally.retried

    @property
    def dead(self) -> int:
        return self.tally.dead

    @property
    def errors(self) -> list[BaseException]:
        return [end.outcome.error for end in self.ended if isinstance(end.outcome, Retried | Dead)]

    def __iadd__(self, other: Drained) -> Drained:
        self.tally.add(other.ended)
        self.tally.lost += other.tally.lost
        self.ended += other.ended
        return self

    def __str__(self) -> str:
        return str(self.tally)


def drain(
    *, using: str | None = None, only: tuple[str, ...] = (), limit: int = 1000, now: datetime | None = None
) -> Drained:
    """Run handlers until nothing is due. Raises `EndlessDrain` after `limit` deliveries."""
    alias = using or conf().DATABASE
    lease = leases.take(alias, LEASE_SECONDS)
    token = origin.set(None)  # what is delivered here may come from another request than the one that is going on
    drained = Drained()
    renew_at = time.monotonic() + LEASE_SECONDS / 10
    try:
        while True:
            fired = fire_due(alias, now=now).due
            if not _round(alias, lease, only, limit, now, drained) and not fired:
                break
            if time.monotonic() > renew_at:
                leases.renew(alias, lease, LEASE_SECONDS)
                renew_at = time.monotonic() + LEASE_SECONDS / 10
    finally:
        origin.reset(token)
        leases.drop(alias, lease)
    return drained


def _round(alias: str, lease: int, only: tuple[str, ...], limit: int, now: datetime | None, drained: Drained) -> bool:
    subscribers = matching(only)
    claims, parked = claim(alias, lease, list(subscribers), BATCH, now=now)
    if not claims:
        claims, outside_parked = _claim_outside(alias, lease, subscribers, now)
        parked |= outside_parked
    if parked:
        promote(alias, parked)
    waiting = list(claims)
    try:
        while waiting:
            if len(drained.ended) >= limit:
                raise EndlessDrain(_endless(waiting[0], limit))
            _deliver(waiting[0], subscribers[waiting[0].subscriber], alias, now, drained)
            waiting.pop(0)
    finally:
        if waiting:
            release(alias, lease, [each.id for each in waiting])
    return bool(claims or parked)


def _claim_outside(alias: str, lease: int, subscribers: dict[str, Subscriber], now: datetime | None) -> Claimed:
    """For destinations, whatever their rate and health; one that is paused is left alone. Their parts become known
    as they are met."""
    due = [each.name for each in outside.ready(alias, now=now) if each.due_in <= 0 and not each.paused]
    for name in due:
        whole = subscribers.get(name.partition("/")[0])
        if isinstance(whole, Subscription):
            subscribers.setdefault(name, whole.part(name))
    many = {name: BATCH for name in due if name in subscribers}
    return outside.claim(alias, lease, many, now=now) if many else Claimed([], Counter())


def _deliver(each: Claim, subscriber: Subscriber, alias: str, now: datetime | None, drained: Drained) -> None:
    if connections[alias].in_atomic_block:
        # Inside a test's transaction a failure must undo what it did, or the whole transaction would be broken.
        subscriber = replace(subscriber, atomic=True)
    try:
        end, written = perform(each, subscriber, alias, Clock())
    except LeaseLost:
        drained.tally.lost += 1
        return
    if not written:
        end = refuse_open_transaction(end, subscriber, alias)
        tidy_connections()
        settle(alias, each.lease, [end], now=now)
    if each.stream is not None:
        promote(alias, {(each.subscriber, each.stream)})
    drained.ended.append(end)
    drained.tally.add([end])


def _endless(next_one: Claim, limit: int) -> str:
    return (
        f"{limit} deliveries were made and more are due, next {next_one!r}; a handler probably emits what it reacts "
        "to. Raise the limit with drain(limit=...) if that many are right."
    )
