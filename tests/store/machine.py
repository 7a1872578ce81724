"""The life of deliveries as a machine: three workers, their leases, and a clock that only moves forward.

Every step is a call into the store on the real database. What must be true after each is in the invariants.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import duebox
from duebox.events.outcomes import Dead, Discard, Outcome, Retried, Snooze
from duebox.models import Attempt, Delivery, Event, Worker
from duebox.store import leases, operations
from duebox.store.deliveries import Claim, claim, promote, settle
from tests.support import a_lease, ended, expire

SUBSCRIBERS = ("plain", "blocking", "skipping")
RESCUE_LIMIT = 3
FINAL = ("delivered", "discarded")
OTHERWISE: list[Outcome] = [
    Retried(60.0, ValueError()),
    Snooze(timedelta(seconds=30)),
    Discard("no"),
    Dead(ValueError()),
]
workers = st.sampled_from(["ann", "bob", "cid"])


class Deliveries(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._undo = transaction.atomic()
        self._undo.__enter__()
        self.now = timezone.now()
        self.leases: dict[str, int] = {}
        self.hands: dict[str, list[Claim]] = {"ann": [], "bob": [], "cid": []}
        self.emitted = 0
        self.order: dict[tuple[str, str], list[int]] = {}
        """Which deliveries of a stream ended well, in the order in which they did."""
        self.died: set[int] = set()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self._undo.__exit__(None, None, None)

    # What happens

    @initialize()
    def begin(self) -> None:
        for name in self.hands:
            self.leases[name] = a_lease()
        self.emit(["x", "y", "x"])

    @rule(streams=st.lists(st.sampled_from("xy"), min_size=1, max_size=4))
    def emit(self, streams: list[str]) -> None:
        duebox.emit_many(duebox.NewEvent(type="machine.ran", about=("stream", each)) for each in streams)
        self.emitted += len(streams)
        self.now = max(self.now, timezone.now())

    @rule(who=workers, limit=st.integers(1, 6), stubborn=st.integers(0, 3))
    def claim(self, who: str, limit: int, stubborn: int) -> None:
        alive = leases.renew("default", self.leases[who], 60)
        if not alive and stubborn:
            self.leases[who], alive = a_lease(), True
        claims, waiting = claim("default", self.leases[who], list(SUBSCRIBERS), limit, now=self.now)
        promote("default", waiting)
        assert alive or not (claims or waiting)
        assert all(each.due <= self.now.timestamp() for each in claims)
        self.hands[who] += claims

    @precondition(lambda self: any(self.hands.values()))
    @rule(pick=st.integers(0, 1000), also_promote=st.booleans())
    def deliver(self, pick: int, also_promote: bool) -> None:
        self._settle(pick, None, also_promote)

    @precondition(lambda self: any(self.hands.values()))
    @rule(pick=st.integers(0, 1000), outcome=st.sampled_from(OTHERWISE), also_promote=st.booleans())
    def settle_otherwise(self, pick: int, outcome: Outcome, also_promote: bool) -> None:
        self._settle(pick, outcome, also_promote)

    def _settle(self, pick: int, outcome: Outcome, also_promote: bool) -> None:
        held = [(who, each) for who, claims in self.hands.items() for each in claims]
        who, mine = held[pick % len(held)]
        self.hands[who].remove(mine)
        if isinstance(outcome, Dead) and mine.subscriber == "skipping":
            outcome = Dead(outcome.error, leaves_stream=True)
        before = Delivery.objects.filter(id=mine.id).values().first()
        owned = before is not None and before["lease"] == mine.lease
        lost = settle("default", mine.lease, [ended(mine, outcome)], now=self.now)
        assert lost == (set() if owned else {mine.id})
        if not owned:
            assert Delivery.objects.filter(id=mine.id).values().first() == before
        if owned and isinstance(outcome, Dead):
            self.died.add(mine.id)
        if owned and (outcome is None or isinstance(outcome, Discard)) and mine.stream:
            self.order.setdefault((mine.subscriber, mine.stream), []).append(mine.id)
        if also_promote and mine.stream:  # else the worker is lost in between, and a rescue heals it
            promote("default", {(mine.subscriber, mine.stream)})

    @rule(seconds=st.sampled_from([1, 45, 120]))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(who=workers, announce=st.booleans(), noticed=st.booleans())
    def lose(self, who: str, announce: bool, noticed: bool) -> None:
        """Frozen: the lease runs out, yet it may still try to settle what it holds."""
        if announce and self.hands[who]:
            leases.announce_suspect("default", self.leases[who], self.hands[who][0].id)
        expire(self.leases[who])
        if noticed:
            self.rescue(always=False)

    @rule(always=st.booleans())
    def rescue(self, always: bool) -> None:
        before = set(Delivery.objects.dead().values_list("id", flat=True))
        leases.rescue("default", RESCUE_LIMIT, always=always, now=self.now)
        self.died |= set(Delivery.objects.dead().values_list("id", flat=True)) - before

    @precondition(lambda self: self.died)
    @rule()
    def redrive(self) -> None:
        ids = list(Delivery.objects.dead().values_list("id", flat=True))
        assert sorted(operations.retry("default", ids, note="again").ids) == sorted(ids)

    # What must be true

    @invariant()
    def nothing_is_lost_and_nothing_is_twice(self) -> None:
        assert Event.objects.filter(type="machine.ran").count() == self.emitted
        there = Counter(Delivery.objects.values_list("event_id", "subscriber"))
        done = Counter(Attempt.objects.filter(outcome__in=FINAL).values_list("event_id", "subscriber"))
        assert all(count == 1 for count in (there + done).values())
        assert len(there + done) == self.emitted * len(SUBSCRIBERS)

    @invariant()
    def nobody_holds_what_another_owns(self) -> None:
        holders: Counter[int] = Counter()
        owner = dict(Delivery.objects.filter(lease__isnull=False).values_list("id", "lease"))
        for claims in self.hands.values():
            holders.update(each.id for each in claims if owner.get(each.id) == each.lease)
        assert all(count == 1 for count in holders.values())

    @invariant()
    def of_each_stream_at_most_one_runs_and_it_is_the_first(self) -> None:
        rows = Delivery.objects.filter(stream__isnull=False).order_by("id")
        seen: set[tuple[str, str]] = set()
        for subscriber, stream, lease in rows.values_list("subscriber", "stream", "lease"):
            assert lease is None or (subscriber, stream) not in seen
            seen.add((subscriber, stream))

    @invariant()
    def each_stream_ended_in_its_order(self) -> None:
        for (subscriber, _), ids in self.order.items():
            # A dead letter that was passed over may be delivered late; nothing else may.
            kept = [each for each in ids if subscriber == "blocking" or each not in self.died]
            assert kept == sorted(kept)

    @invariant()
    def the_count_of_attempts_is_what_the_history_tells(self) -> None:
        history: dict[int, list[str]] = {}
        for delivery, outcome in Attempt.objects.order_by("id").values_list("delivery_id", "outcome"):
            history.setdefault(delivery, []).append(outcome)
        for row in Delivery.objects.all():
            told = history.get(row.id, [])
            since = told[len(told) - told[::-1].index("redriven") :] if "redriven" in told else told
            burned = since.count("retried") + (1 if "dead" in since and row.attempt > since.count("retried") else 0)
            assert row.attempt == burned
            assert (row.status == "dead") == bool(since and since[-1] == "dead")

    @invariant()
    def no_two_workers_have_the_same_lease(self) -> None:
        assert len(set(self.leases.values())) == len(self.leases)
        assert Worker.objects.count() <= len(self.leases) * 50
