"""Claim, settle, release."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

import duebox
from duebox.events.outcomes import Dead, Discard, Retried, Snooze
from duebox.models import Attempt, Delivery
from duebox.store.deliveries import claim, release, seconds_to_next, settle
from tests.support import a_lease, claims_of, ended, expire

pytestmark = pytest.mark.django_db


@pytest.fixture
def it(on):
    on("a.b", name="it")(lambda event: None)


def emit_many(count):
    return duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": number}) for number in range(count))


def test_due_rows_are_claimed_oldest_first_with_their_events(it):
    facts = emit_many(5)
    later = timezone.now() - timedelta(minutes=1)
    Delivery.objects.filter(event_id=facts[3].id).update(due_at=later)
    claims = claims_of(a_lease(), "it")
    assert [each.fact.data["number"] for each in claims] == [3, 0, 1, 2, 4]
    assert [each.due for each in claims] == sorted(each.due for each in claims)
    assert claims[0].fact.id == facts[3].id


def test_only_as_many_as_asked_for_are_claimed_and_the_others_next(it):
    facts = emit_many(5)
    lease = a_lease()
    first, second = claims_of(lease, "it", limit=3), claims_of(lease, "it", limit=3)
    assert [each.fact for each in first + second] == facts


def test_a_claim_carries_the_lease_and_the_number_of_the_try(it):
    emit_many(1)
    Delivery.objects.update(attempt=2, rescues=1)
    lease = a_lease()
    (mine,) = claims_of(lease, "it")
    assert (mine.lease, mine.attempt, mine.fact.attempt, mine.rescues) == (lease, 3, 3, 1)
    assert repr(mine) == f"<{mine.fact!r} to it, attempt 3>"


def test_deliveries_of_unknown_subscribers_are_left_alone(it, on):
    on("a.b", name="newer.code")(lambda event: None)
    emit_many(1)
    before = Delivery.objects.filter(subscriber="newer.code").values().get()
    assert [each.subscriber for each in claims_of(a_lease(), "it")] == ["it"]
    assert claims_of(a_lease(), "it", "nobody") == []
    assert Delivery.objects.filter(subscriber="newer.code").values().get() == before


def test_what_is_not_due_yet_is_not_claimed(it):
    emit_many(2)
    soon = timezone.now() + timedelta(hours=1)
    Delivery.objects.update(due_at=soon)
    lease = a_lease()
    assert claims_of(lease, "it") == []
    assert claims_of(lease, "it", now=soon - timedelta(seconds=1)) == []
    assert len(claims_of(lease, "it", now=soon)) == 2


def test_what_is_claimed_is_not_claimed_again(it):
    emit_many(2)
    assert len(claims_of(a_lease(), "it")) == 2
    assert claims_of(a_lease(), "it") == []


def test_dead_letters_are_not_claimed(it):
    emit_many(1)
    Delivery.objects.update(status="dead")
    assert claims_of(a_lease(), "it") == []


@pytest.mark.django_db(transaction=True)
def test_locked_rows_are_passed_over_without_waiting(it, elsewhere):
    facts = emit_many(3)
    elsewhere.execute("SELECT 1 FROM duebox_delivery WHERE event_id = %s FOR UPDATE", [facts[1].id])
    lease = a_lease()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '1s'")
        assert [each.fact for each in claims_of(lease, "it")] == [facts[0], facts[2]]


def test_a_lease_that_ran_out_claims_nothing(it):
    emit_many(1)
    lease = a_lease()
    expire(lease)
    assert claims_of(lease, "it") == []
    assert Delivery.objects.get().lease is None


def test_a_lease_that_never_was_claims_nothing(it):
    emit_many(1)
    assert claims_of(12345, "it") == []


def test_a_floor_leaves_out_what_was_due_before_it(it):
    emit_many(2)
    first, second = Delivery.objects.order_by("id")
    Delivery.objects.filter(id=first.id).update(due_at=second.due_at - timedelta(minutes=1))
    lease = a_lease()
    assert [each.id for each in claims_of(lease, "it", due_from=second.due_at.timestamp() - 1)] == [second.id]
    assert [each.id for each in claims_of(lease, "it")] == [first.id]


def test_a_claim_is_a_heap_only_update(it):
    emit_many(40)
    connection.ensure_connection()
    with transaction.atomic(), connection.cursor() as cursor:
        counters = (
            "SELECT pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid) "
            "FROM pg_class WHERE relname = 'duebox_delivery'"
        )
        cursor.execute(counters)
        before = cursor.fetchone()
        assert len(claims_of(a_lease(), "it")) == 40
        cursor.execute(counters)
        after = cursor.fetchone()
    assert (after[0] - before[0], after[1] - before[1]) == (40, 40)


def test_the_next_due_instant_is_known_in_seconds(it):
    assert seconds_to_next("default", ["it"]).delivery is None
    emit_many(2)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    Delivery.objects.update(due_at=now + timedelta(seconds=90))
    assert seconds_to_next("default", ["it"], now=now).delivery == 90.0
    assert seconds_to_next("default", ["nobody"], now=now).delivery is None


def test_delivered_leaves_the_hot_table_for_the_history(it):
    emit_many(2)
    lease = a_lease()
    assert settle("default", lease, [ended(each) for each in claims_of(lease, "it")]) == set()
    assert not Delivery.objects.exists()
    assert list(Attempt.objects.values_list("outcome", "number", "lease")) == [("delivered", 1, lease)] * 2


def settle_one(outcome, **options):
    lease = a_lease()
    (mine,) = claims_of(lease, "it")
    assert settle("default", lease, [ended(mine, outcome)], **options) == set()
    told = Attempt.objects.get()
    return Delivery.objects.first(), told


def test_retried_is_due_again_after_its_delay_and_one_attempt_is_burned(it):
    emit_many(1)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    row, told = settle_one(Retried(90, ValueError("no luck")), now=now)
    assert (row.status, row.attempt, row.lease, row.due_at) == ("pending", 1, None, now + timedelta(seconds=90))
    assert (told.outcome, told.number) == ("retried", 1)
    assert told.note.endswith("ValueError: no luck\n")


def test_snoozed_by_a_delay_burns_no_attempt(it):
    emit_many(1)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    row, told = settle_one(Snooze(timedelta(minutes=5)), now=now)
    assert (row.status, row.attempt, row.due_at) == ("pending", 0, now + timedelta(minutes=5))
    assert told.outcome == "snoozed"


def test_snoozed_until_a_moment_is_due_at_that_moment(it):
    emit_many(1)
    until = datetime(2031, 5, 5, 9, tzinfo=UTC)
    row, _ = settle_one(Snooze(until))
    assert row.due_at == until


def test_dead_stays_as_a_dead_letter_with_its_error(it):
    emit_many(1)
    row, told = settle_one(Dead(KeyError("who")))
    assert (row.status, row.attempt, row.lease) == ("dead", 1, None)
    assert told.outcome == "dead"
    assert "KeyError: 'who'" in told.note


def test_discarded_goes_with_its_reason(it):
    emit_many(1)
    row, told = settle_one(Discard("the member left"))
    assert row is None
    assert (told.outcome, told.note) == ("discarded", "the member left")


def test_released_burns_nothing_and_is_no_history(it):
    emit_many(2)
    lease = a_lease()
    one, two = claims_of(lease, "it")
    assert settle("default", lease, [ended(one)]) == set()
    release("default", lease, [two.id])
    row = Delivery.objects.get()
    assert (row.id, row.lease, row.attempt, row.rescues) == (two.id, None, 0, 0)
    assert Attempt.objects.count() == 1


def test_a_release_under_a_lost_lease_changes_nothing(it):
    emit_many(1)
    lease = a_lease()
    (mine,) = claims_of(lease, "it")
    release("default", lease - 1, [mine.id])
    assert Delivery.objects.get().lease == lease
    release("default", lease, [mine.id])
    assert Delivery.objects.get().lease is None


OUTCOMES = [None, Retried(1.0, ValueError()), Snooze(timedelta(1)), Dead(ValueError()), Discard("no")]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_settling_under_a_lost_lease_changes_nothing_and_says_which(it, outcome):
    emit_many(2)
    stale, fresh = a_lease(), a_lease()
    kept, lost = claims_of(stale, "it")
    Delivery.objects.filter(id=lost.id).update(lease=fresh)
    before = Delivery.objects.filter(id=lost.id).values().get()
    gone = settle("default", stale, [ended(kept, outcome), ended(lost, outcome)])
    assert gone == {lost.id}
    assert Delivery.objects.filter(id=lost.id).values().get() == before
    assert not Attempt.objects.filter(delivery_id=lost.id).exists()


def test_many_different_outcomes_are_settled_at_once(it):
    emit_many(len(OUTCOMES))
    lease = a_lease()
    claims = claims_of(lease, "it")
    assert settle("default", lease, [ended(*pair) for pair in zip(claims, OUTCOMES, strict=True)]) == set()
    told = dict(Attempt.objects.values_list("delivery_id", "outcome"))
    words = ["delivered", "retried", "snoozed", "dead", "discarded"]
    assert [told.get(each.id) for each in claims] == words


def test_snoozes_until_moments_of_different_kinds_are_settled_together(it):
    class Moment(datetime):
        """As pendulum and freezegun have them."""

    emit_many(2)
    lease = a_lease()
    snoozes = [Snooze(Moment(2031, 1, 1, tzinfo=UTC)), Snooze(datetime(2032, 1, 1, tzinfo=UTC))]
    claims = claims_of(lease, "it")
    assert settle("default", lease, [ended(*pair) for pair in zip(claims, snoozes, strict=True)]) == set()
    assert [row.due_at.year for row in Delivery.objects.order_by("id")] == [2031, 2032]


def test_an_error_that_postgresql_cannot_store_is_stored_as_far_as_it_can_be(it):
    emit_many(1)
    _, told = settle_one(Dead(ValueError("nul \x00 half \ud83d " + "x" * 20_000 + " the end")))
    assert len(told.note) <= 8_000
    assert told.note.endswith("the end\n")


def test_the_short_version_of_such_an_error_shows_what_was_there(it):
    emit_many(1)
    _, told = settle_one(Discard("nul \x00 half \ud83d"))
    assert told.note == r"nul \x00 half \ud83d"


def test_a_claim_of_nothing_is_nothing(it):
    assert claim("default", a_lease(), [], 10) == ([], {})
