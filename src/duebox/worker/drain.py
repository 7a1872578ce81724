"""Deliver what is due in this thread and on this connection: for inline mode and for tests."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import connections

from duebox import clock
from duebox.conf import conf
from duebox.context.current import origin
from duebox.destinations.registry import Subscription
from duebox.events.address import Address
from duebox.events.outcomes import Dead, Retried, Snooze
from duebox.events.subscribers import Subscriber, by_name, matching
from duebox.exceptions import EndlessDrain, InvalidSubscriber, LeaseLost
from duebox.schedules.capture import plan_changes
from duebox.schedules.fire import fire_due
from duebox.store import destinations, leases
from duebox.store.deliveries import Claim, Claimed, DueNow, Ended, claim, due_now, promote, release
from duebox.worker.connections import replace_connections
from duebox.worker.lease import Clock
from duebox.worker.run_handler import perform, refuse_open_transaction
from duebox.worker.settle import OutcomeCounts, report, settle
from duebox.worker.tunables import TUNABLES


@dataclass
class Drained:
    """What a drain did: counts, and the errors its handlers raised."""

    outcome_counts: OutcomeCounts = field(default_factory=OutcomeCounts)
    ended: list[Ended] = field(default_factory=list)

    @property
    def delivered(self) -> int:
        return self.outcome_counts.delivered

    @property
    def retried(self) -> int:
        return self.outcome_counts.retried

    @property
    def dead(self) -> int:
        return self.outcome_counts.dead

    @property
    def errors(self) -> list[BaseException]:
        return [end.outcome.error for end in self.ended if isinstance(end.outcome, Retried | Dead)]

    def __iadd__(self, other: Drained) -> Drained:
        self.outcome_counts.add(other.ended)
        self.outcome_counts.lost += other.outcome_counts.lost
        self.ended += other.ended
        return self

    def __str__(self) -> str:
        return str(self.outcome_counts)


def drain(
    *, using: str | None = None, only: tuple[str, ...] = (), limit: int = 1000, now: datetime | None = None
) -> Drained:
    """Run handlers until nothing is due. Raises `EndlessDrain` after `limit` deliveries."""
    with Draining(using or conf().DATABASE, only, now=now) as draining:
        return draining.until_idle(limit)


def patterns(only: str | Sequence[str]) -> tuple[str, ...]:
    """Shell patterns of handler names; one that matches none is refused, or a test would deliver nothing by mistake."""
    given = (only,) if isinstance(only, str) else tuple(only)
    for each in given:
        if not matching((each,)):
            names = ", ".join(sorted(name for name in by_name() if not name.startswith("duebox.")))
            raise InvalidSubscriber(f"No handler is named {each!r}; there are: {names or 'none'}.")
    return given


class Draining:
    """A lease, under which this thread fires and delivers what is due, once or at one moment after the other."""

    def __init__(self, using: str, only: tuple[str, ...] = (), *, now: datetime | None = None) -> None:
        self._using = using
        self._only = only
        self._now = now
        self._lease = 0
        self._renew_at = 0.0
        # Nothing before these is left to do. In a long test, whose transaction stays open, the index still has the
        # entries of the rows that are done.
        self._schedules_from: datetime | None = None
        self._deliveries_from = 0.0
        self._seen: DueNow | None = None

    def __enter__(self) -> Draining:
        self._lease = leases.take(self._using, TUNABLES.drain_lease_seconds)
        self._renew_at = time.monotonic() + TUNABLES.drain_lease_seconds / TUNABLES.drain_renewals
        return self

    def __exit__(self, *error: object) -> None:
        leases.drop(self._using, self._lease)

    def until_idle(self, limit: int) -> Drained:
        """Until nothing is due any more, including what handlers emit on the way."""
        token = origin.set(None)  # an event that is delivered here may come from another request
        drained = Drained()
        self._seen = None
        try:
            while True:
                plan_changes(self._using)
                fired = fire_due(self._using, floor=self._schedules_from, now=self._now).due
                if not self._round(limit, drained) and not fired:
                    break
                if time.monotonic() > self._renew_at:
                    leases.renew(self._using, self._lease, TUNABLES.drain_lease_seconds)
                    self._renew_at = time.monotonic() + TUNABLES.drain_lease_seconds / TUNABLES.drain_renewals
                self._seen = self._look()
                if not self._seen.is_due:
                    break
        finally:
            origin.reset(token)
        return drained

    def next_moment(self) -> datetime | None:
        """When something comes due next, after everything that is due now was done."""
        following = (self._seen or self._look()).following
        self._schedules_from = clock.now()
        self._deliveries_from = self._schedules_from.timestamp() - 0.001
        return following

    def _look(self) -> DueNow:
        names = list(matching(self._only))
        return due_now(
            self._using,
            names,
            schedules_from=self._schedules_from,
            deliveries_from=self._deliveries_from,
            now=self._now,
        )

    def _round(self, limit: int, drained: Drained) -> bool:
        subscribers = matching(self._only)
        names, due_from = list(subscribers), self._deliveries_from
        claims, waiting = claim(self._using, self._lease, names, TUNABLES.drain_batch, due_from=due_from, now=self._now)
        if not claims:
            claims, outside_waiting = _claim_outside(self._using, self._lease, subscribers, self._now)
            waiting |= outside_waiting
        if waiting:
            self._promote(waiting)
        rest = list(claims)
        try:
            while rest:
                if len(drained.ended) >= limit:
                    raise EndlessDrain(_endless(rest[0], limit))
                self._deliver(rest[0], subscribers[rest[0].subscriber], drained)
                rest.pop(0)
        finally:
            if rest:
                release(self._using, self._lease, [each.id for each in rest])
        return bool(claims or waiting)

    def _deliver(self, each: Claim, subscriber: Subscriber, drained: Drained) -> None:
        if connections[self._using].in_atomic_block:
            # Inside a test's transaction a failure must undo what it did, or the whole transaction would be broken.
            subscriber = replace(subscriber, atomic=True)
        try:
            end, written = perform(each, subscriber, self._using, Clock())
        except LeaseLost:
            drained.outcome_counts.lost += 1
            return
        if not written:
            end = refuse_open_transaction(end, subscriber, connections[self._using])
            replace_connections()
            settle(self._using, each.lease, [end], now=self._now)
        if each.stream is not None:
            self._promote({(each.subscriber, each.stream)})
        if isinstance(end.outcome, Snooze):
            self._deliveries_from = 0.0  # it may come back at a time that is past
        report([end])
        drained.ended.append(end)
        drained.outcome_counts.add([end])

    def _promote(self, streams: Collection[tuple[str, str]]) -> None:
        if promote(self._using, streams):
            self._deliveries_from = 0.0  # it was due before the one that blocked it had ended


def _claim_outside(alias: str, lease: int, subscribers: dict[str, Subscriber], now: datetime | None) -> Claimed:
    """For destinations, whatever their rate, and whether or not they fail; not for those that are paused. Endpoints of
    a destination are added to `subscribers` as they are found."""
    due = [each.name for each in destinations.ready(alias, now=now) if each.due_in <= 0 and not each.paused]
    for name in due:
        whole = subscribers.get(str(Address.parse(name).whole))
        if isinstance(whole, Subscription):
            subscribers.setdefault(name, whole.part(name))
    many = {name: TUNABLES.drain_batch for name in due if name in subscribers}
    return destinations.claim(alias, lease, many, now=now) if many else Claimed([], Counter())


def _endless(next_one: Claim, limit: int) -> str:
    return (
        f"{limit} deliveries were made and more are due, next {next_one!r}; a handler probably emits what it reacts "
        "to. Raise the limit with drain(limit=...) if that many are right."
    )


_draining: ContextVar[bool] = ContextVar("duebox_draining", default=False)


def deliver_here(using: str) -> None:
    if _draining.get():
        return  # emitted by a handler: the drain that runs it delivers this too, after the handler has ended
    token = _draining.set(True)
    try:
        drain(using=using)
    finally:
        _draining.reset(token)
