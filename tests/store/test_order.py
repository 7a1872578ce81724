"""Order per aggregate: only the head of a stream may run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

import duebox
from duebox.events.outcomes import Dead, Retried, Snooze
from duebox.models import Delivery
from duebox.store import operations
from duebox.store.deliveries import claim, promote, settle
from tests.support import a_lease, claims_of, ended

pytestmark = pytest.mark.django_db


@pytest.fixture
def it(on):
    on("a.b", name="it", ordered=True)(lambda event: None)


def emit(*streams):
    new = [duebox.NewEvent(type="a.b", about=("account", each), data={"number": n}) for n, each in enumerate(streams)]
    return duebox.emit_many(new)


def numbers(claims):
    return [(each.fact.about[1], each.fact.data["number"]) for each in claims]


def finish(lease, mine, outcome=None):
    """As the worker does it: settle, then let the next of the stream go."""
    assert settle("default", lease, [ended(mine, outcome)]) == set()
    promote("default", {(mine.subscriber, mine.stream)})


def claim_and_promote(lease, **options):
    """As the worker does it: whatever a claim had to park may have become a head meanwhile."""
    claims, waiting = claim("default", lease, ["it"], options.pop("limit", 100), **options)
    promote("default", waiting)
    return claims


def test_only_the_heads_of_the_streams_are_claimed(it):
    emit("x", "x", "y", "x", "y")
    claims, waiting = claim("default", a_lease(), ["it"], 100)
    assert numbers(claims) == [("x", 0), ("y", 2)]
    assert waiting == {("it", "account:x"): 2, ("it", "account:y"): 1}
    assert Delivery.objects.blocked().count() == 3


def test_one_stream_is_served_one_after_the_other_in_the_order_of_its_events(it):
    emit("x", "x", "x")
    lease, seen = a_lease(), []
    while claims := claim_and_promote(lease):
        (mine,) = claims
        seen.append(mine.fact.data["number"])
        finish(lease, mine)
    assert seen == [0, 1, 2]


def test_order_is_per_subscriber(on, it):
    on("a.b", name="other", ordered=True)(lambda event: None)
    emit("x", "x")
    claims = claims_of(a_lease(), "it", "other")
    assert [(each.subscriber, each.fact.data["number"]) for each in claims] == [("it", 0), ("other", 0)]


def test_while_the_head_runs_the_next_one_waits(it):
    emit("x", "x")
    lease = a_lease()
    assert numbers(claim_and_promote(lease)) == [("x", 0)]
    assert claim_and_promote(lease) == []
    assert claim_and_promote(a_lease()) == []


@pytest.mark.parametrize("outcome", [Retried(60, ValueError()), Snooze(timedelta(seconds=60))])
def test_later_ones_wait_behind_a_retry_or_a_snooze(it, outcome):
    emit("x", "x")
    lease = a_lease()
    finish(lease, claim_and_promote(lease)[0], outcome)
    assert claim_and_promote(lease) == []
    later = timezone.now() + timedelta(minutes=2)
    (again,) = claim_and_promote(lease, now=later)
    assert numbers([again]) == [("x", 0)]
    finish(lease, again)
    assert numbers(claim_and_promote(lease, now=later)) == [("x", 1)]


def test_later_ones_wait_behind_a_dead_letter(it):
    emit("x", "x", "y")
    lease = a_lease()
    for mine in claim_and_promote(lease):
        finish(lease, mine, Dead(ValueError()) if mine.fact.about[1] == "x" else None)
    assert claim_and_promote(lease, now=timezone.now() + timedelta(days=9)) == []


def test_a_redriven_dead_letter_goes_first_and_then_the_next(it):
    emit("x", "x")
    lease = a_lease()
    (head,) = claim_and_promote(lease)
    finish(lease, head, Dead(ValueError()))
    assert operations.retry("default", [head.id], note="again").ids == [head.id]
    (again,) = claim_and_promote(lease)
    assert again.id == head.id
    finish(lease, again)
    assert numbers(claim_and_promote(lease)) == [("x", 1)]


def test_a_dead_letter_that_leaves_its_stream_lets_the_next_one_pass(it):
    emit("x", "x")
    lease = a_lease()
    (head,) = claim_and_promote(lease)
    finish(lease, head, Dead(ValueError(), leaves_stream=True))
    assert numbers(claim_and_promote(lease)) == [("x", 1)]
    assert Delivery.objects.dead().get().id == head.id


def test_two_hot_streams_with_many_events_do_not_starve_the_others(it):
    emit(*["hot", "hotter"] * 300, *[f"cold {number}" for number in range(5)])
    lease = a_lease()
    seen, rounds = [], 0
    while len({about for about, _ in seen if about.startswith("cold")}) < 5:
        rounds += 1
        assert rounds < 20, "the others starve"
        seen += numbers(claim_and_promote(lease, limit=50))
    assert [each for each in seen if each[0].startswith("hot")] == [("hot", 0), ("hotter", 1)]


def test_promotion_makes_heads_only(it):
    emit("x", "x", "x")
    lease = a_lease()
    (head,) = claims_of(lease, "it")
    assert promote("default", {("it", "account:x")}) == 0
    settle("default", lease, [ended(head)])
    assert promote("default", {("it", "account:x"), ("it", "account:none")}) == 1
    assert Delivery.objects.blocked().count() == 1


def test_what_was_parked_when_its_predecessor_had_just_gone_is_promoted_after_the_claim(it):
    emit("x", "x")
    lease = a_lease()
    (head,) = claims_of(lease, "it")
    Delivery.objects.filter(id=head.id).delete()  # settled and promoted just before the parking was committed
    assert claim_and_promote(lease) == []
    assert Delivery.objects.get().status == "waiting"
    promote("default", {("it", "account:x")})
    assert numbers(claim_and_promote(lease)) == [("x", 1)]
