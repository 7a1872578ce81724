"""What people do to deliveries, in any order and beside workers: nothing is lost, and nothing is due twice."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import duebox
from duebox.events.outcomes import Dead, Outcome
from duebox.exceptions import InvalidReplay
from duebox.models import Attempt, Delivery, Event
from duebox.store import operations, replay
from duebox.store.deliveries import claim, promote, settle
from duebox.store.operations import Pace
from tests.support import a_lease, ended, examples

SUBSCRIBERS = ("plain", "blocking")
ENDS = ("delivered", "discarded")
BOTH = ["dead", "parked"]
ALL = ["pending", "waiting", *BOTH]
picks = st.integers(0, 1000)
subscribers = st.sampled_from(SUBSCRIBERS)


class Letters(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._undo = transaction.atomic()
        self._undo.__enter__()
        self.now = self.since = timezone.now()
        self.served: dict[str, list[int]] = {}
        """Of each stream, which deliveries ended well, in that order."""

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self._undo.__exit__(None, None, None)

    @initialize()
    def begin(self) -> None:
        self.lease = a_lease(3600)
        self.emit(["x", "y", "x"])

    @rule(streams=st.lists(st.sampled_from("xy"), min_size=1, max_size=3))
    def emit(self, streams: list[str]) -> None:
        duebox.emit_many(duebox.NewEvent(type="letter.sent", about=("box", each)) for each in streams)
        self.now = max(self.now, timezone.now()) + timedelta(seconds=30)

    @rule(lives=st.lists(st.booleans(), min_size=1, max_size=6))
    def work(self, lives: list[bool]) -> None:
        claims, waiting = claim("default", self.lease, list(SUBSCRIBERS), len(lives), now=self.now)
        promote("default", waiting)
        for mine, well in zip(claims, lives, strict=False):
            outcome: Outcome = None if well else Dead(ValueError("no luck"))
            assert settle("default", self.lease, [ended(mine, outcome)], now=self.now) == set()
            if mine.stream:
                promote("default", {(mine.subscriber, mine.stream)})
                if well:
                    self.served.setdefault(mine.stream, []).append(mine.id)

    @rule(pick=picks, rate=st.sampled_from([None, 0.5, 1000.0]))
    def retry(self, pick: int, rate: float | None) -> None:
        ids, failed = self._some(pick, ALL), self._some(pick, ALL, only=BOTH)
        done = operations.retry("default", ids, note="again", pace=Pace(rate))
        assert {*done.ids, *done.left} == {*ids}
        assert not {*done.ids} & {*done.left}
        assert {*failed} <= {*done.ids}
        assert all("it is due already" in why or "it waits behind" in why for why in done.left.values())

    @rule(pick=picks)
    def park(self, pick: int) -> None:
        ids, parked = self._some(pick, ALL), self._some(pick, ALL, only=["parked"])
        done = operations.park("default", ids, note="aside")
        assert {*done.left} == {*parked}
        assert {*done.ids} == {*ids} - {*parked}

    @rule(pick=picks)
    def discard(self, pick: int) -> None:
        ids = self._some(pick, ALL)
        assert operations.discard("default", ids, note="enough").ids == ids

    @rule(pick=picks, to=subscribers)
    def resend(self, pick: int, to: str) -> None:
        events = list(Event.objects.filter(type="letter.sent").order_by("id").values_list("id", flat=True))
        event = events[pick % len(events)]
        is_open = Delivery.objects.filter(event_id=event, subscriber=to).exists()
        try:
            replay.resend(event, to=to)
        except InvalidReplay:
            assert is_open
        else:
            assert not is_open

    @rule(to=subscribers)
    def send_all_again(self, to: str) -> None:
        closed = Event.objects.filter(type="letter.sent").count() - Delivery.objects.filter(subscriber=to).count()
        until = timezone.now() + timedelta(days=1)
        assert replay.bulk(to=to, since=self.since - timedelta(days=1), until=until).added == closed

    @rule(to=subscribers)
    def send_what_is_missing(self, to: str) -> None:
        assert replay.missing(to=to, since=self.since - timedelta(days=1)).added == 0

    @rule(to=subscribers)
    def recover(self, to: str) -> None:
        failed = Delivery.objects.filter(subscriber=to, status__in=BOTH).count()
        done = replay.recover(to=to, since=self.since - timedelta(days=1))
        assert (done.retried, done.added) == (failed, 0)

    def _some(self, pick: int, statuses: list[str], only: list[str] | None = None) -> list[int]:
        rows = Delivery.objects.filter(status__in=statuses).order_by("id").values_list("id", "status")
        some = [row for place, row in enumerate(rows) if pick >> place % 10 & 1]
        return [id for id, status in some if only is None or status in only]

    @invariant()
    def what_began_is_open_or_has_ended(self) -> None:
        began = Counter((event, name) for event in self._events() for name in SUBSCRIBERS)
        began.update(Attempt.objects.filter(outcome="replayed").values_list("event_id", "subscriber"))
        over = Counter(Attempt.objects.filter(outcome__in=ENDS).values_list("event_id", "subscriber"))
        there = Counter(Delivery.objects.values_list("event_id", "subscriber"))
        assert began == over + there
        assert all(count == 1 for count in there.values())

    @invariant()
    def only_the_dead_have_a_cause(self) -> None:
        for row in Delivery.objects.all():
            assert (row.fingerprint is not None) == (row.died_at is not None)
            assert row.fingerprint is None or row.status in BOTH
            assert row.status != "dead" or row.fingerprint is not None

    @invariant()
    def each_stream_is_served_in_the_order_of_its_deliveries(self) -> None:
        assert all(ids == sorted(ids) for ids in self.served.values())

    @invariant()
    def nobody_waits_behind_nobody(self) -> None:
        heads: dict[str, str] = {}
        for stream, status in Delivery.objects.exclude(stream=None).order_by("id").values_list("stream", "status"):
            heads.setdefault(stream, status)
        assert "waiting" not in heads.values()

    def _events(self) -> list[object]:
        return list(Event.objects.filter(type="letter.sent").values_list("id", flat=True))


@pytest.mark.django_db
def test_whatever_is_done_to_deliveries_nothing_is_lost_and_nothing_is_due_twice(on):
    on("letter.sent", name="plain")(lambda event: None)
    on("letter.sent", name="blocking", ordered=True)(lambda event: None)
    run_state_machine_as_test(
        Letters,
        settings=settings(
            max_examples=examples(40),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
