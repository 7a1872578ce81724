"""Several quick atomic handlers in one transaction."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

import duebox
from duebox.events.outcomes import Dead, Retried, Snooze
from duebox.events.subscribers import by_name
from duebox.exceptions import LeaseLost
from duebox.models import Attempt, Delivery, Event
from duebox.worker.lease import Clock
from duebox.worker.run_handler import perform_together
from tests.app.models import Account, Effect
from tests.support import a_lease, claims_of, undone

pytestmark = pytest.mark.django_db(transaction=True)


def owns(lease):
    return True


def write(event):
    Effect.objects.create(event_id=event.id, subscriber="it", sequence=event.data["number"])


def together(on, handler, *, count=3, at_once=None, **options):
    """Claims `count` deliveries, numbered from 0, and runs them as a handler thread does: a group that falls apart
    takes no more from the queue, and the next group goes on there. `at_once` takes many of them."""
    on("a.b", name="it", **options)(handler)
    duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": number}) for number in range(count))
    claims = claims_of(a_lease(), "it")
    assert len(claims) == count
    queue = iter([(claim, replace(by_name()["it"], together=at_once)) for claim in claims])
    ended = []
    while group := perform_together(queue, "default", Clock(), owns)[0]:
        ended += group
    return ended


def written():
    return list(Effect.objects.order_by("sequence").values_list("sequence", flat=True))


def left():
    return [Event.objects.get(id=row.event_id).data["number"] for row in Delivery.objects.order_by("id")]


def test_all_run_in_one_transaction_and_are_settled_with_it(on):
    transactions = set()

    def handler(event):
        write(event)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()::text")
            transactions.add(cursor.fetchone())

    ended = together(on, handler)
    assert [end.outcome for end in ended] == [None] * 3
    assert len(transactions) == 1
    assert written() == [0, 1, 2]
    assert not Delivery.objects.exists()
    assert Attempt.objects.filter(outcome="delivered").count() == 3


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_one_that_fails_undoes_nothing_but_itself(on, failing, error):
    def handler(event):
        write(event)
        if event.data["number"] == failing:
            raise error

    ended = together(on, handler)
    assert isinstance(ended[failing].outcome, Retried)
    assert written() == [number for number in range(3) if number != failing]
    assert left() == [failing]
    row = Delivery.objects.get()
    assert (row.attempt, row.lease) == (1, None)


def test_all_that_fail_are_all_retried(on):
    def handler(event):
        write(event)
        sys.exit()

    together(on, handler)
    assert written() == []
    assert Attempt.objects.filter(outcome="retried").count() == 3


def test_one_whose_query_fails_undoes_nothing_but_itself(on):
    def handler(event):
        write(event)
        if event.data["number"] == 1:
            Effect.objects.create(event_id=None, subscriber="it")

    ended = together(on, handler)
    assert isinstance(ended[1].outcome.error, IntegrityError)
    assert written() == [0, 2]


def test_one_that_swallows_a_database_error_is_told_so_and_undoes_nothing_but_itself(on):
    def handler(event):
        write(event)
        if event.data["number"] == 1:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1/0")
            except DatabaseError:
                pass

    ended = together(on, handler)
    assert "it caught a database error and went on in the broken transaction" in str(ended[1].outcome.error)
    assert written() == [0, 2]


def test_one_that_asks_for_a_rollback_undoes_nothing_but_itself(on):
    def handler(event):
        write(event)
        if event.data["number"] == 1:
            transaction.set_rollback(True)

    ended = together(on, handler)
    assert isinstance(ended[1].outcome, Retried)
    assert written() == [0, 2]


def test_a_block_inside_a_handler_works_as_ever(on):
    def handler(event):
        write(event)
        with undone():
            Account.objects.create()
        with transaction.atomic():
            Account.objects.create(counter=event.data["number"])

    together(on, handler)
    assert sorted(Account.objects.values_list("counter", flat=True)) == [0, 1, 2]


def test_only_the_hooks_of_those_that_succeeded_run_after_the_commit(on):
    ran = []

    def handler(event):
        number = event.data["number"]
        transaction.on_commit(lambda: ran.append((number, Effect.objects.count())))
        write(event)
        if number == 1:
            raise ValueError

    together(on, handler)
    assert ran == [(0, 1), (2, 2)]


def divide(results, number):
    results.append(1 / number)


def test_a_hook_that_fails_is_logged_and_the_others_run(on, caplog):
    ran = []

    def handler(event):
        number = event.data["number"]
        transaction.on_commit(partial(divide, ran, number))

    ended = together(on, handler)
    assert [end.outcome for end in ended] == [None] * 3
    assert ran == [1, 0.5]
    assert "division by zero" in caplog.text


def test_different_outcomes_are_settled_together(on):
    def handler(event):
        return [None, Snooze(timedelta(hours=1)), duebox.Discard("no")][event.data["number"]]

    together(on, handler)
    assert left() == [1]
    assert sorted(Attempt.objects.values_list("outcome", flat=True)) == ["delivered", "discarded", "snoozed"]


def test_one_that_raises_an_answer_is_undone_alone_and_has_not_failed(on):
    def handler(event):
        write(event)
        if event.data["number"] == 1:
            raise Snooze(timedelta(minutes=1))

    ended = together(on, handler)
    assert [type(end.outcome) for end in ended].count(Snooze) == 1
    assert written() == [0, 2]
    assert Attempt.objects.filter(outcome="snoozed").count() == 1
    assert Delivery.objects.get().attempt == 0


def test_a_permanent_error_is_a_dead_letter_of_its_own(on):
    def handler(event):
        if event.data["number"] == 2:
            raise duebox.Permanent

    ended = together(on, handler)
    assert isinstance(ended[2].outcome, Dead)
    assert Delivery.objects.get().status == "dead"


def test_one_that_fights_for_a_lock_gets_a_try_alone_before_it_counts(on, elsewhere):
    account = Account.objects.create()
    elsewhere.execute("SELECT 1 FROM app_account FOR UPDATE")
    tries = []

    def handler(event):
        write(event)
        if event.data["number"] == 1:
            tries.append(event.attempt)
            if len(tries) == 2:
                elsewhere.rollback()
            Account.objects.select_for_update(nowait=True).get(pk=account.pk)

    ended = together(on, handler)
    assert [end.outcome for end in ended] == [None] * 3
    assert tries == [1, 1]
    assert written() == [0, 1, 2]


def test_when_one_fails_those_before_it_run_again_alone_and_it_does_not(on):
    runs = []

    def handler(event):
        runs.append(event.data["number"])
        if event.data["number"] == 2:
            raise ValueError

    together(on, handler, count=4)
    assert runs == [0, 1, 2, 0, 1, 3]
    assert left() == [2]
    assert Delivery.objects.get().attempt == 1


def test_if_the_lease_was_lost_nothing_of_all_is_kept(on):
    def handler(event):
        write(event)
        if event.data["number"] == 2:
            with connection.cursor() as cursor:
                cursor.execute("UPDATE duebox_delivery SET lease = lease + 1000 WHERE lease IS NOT NULL")

    with pytest.raises(LeaseLost, match="everything its handlers wrote here is rolled back"):
        together(on, handler)
    assert written() == []
    assert not Attempt.objects.exists()


def test_async_handlers_share_the_transaction_too(on):
    async def handler(event):
        await Effect.objects.acreate(event_id=event.id, subscriber="it", sequence=event.data["number"])
        if event.data["number"] == 0:
            raise ValueError

    together(on, handler)
    assert written() == [1, 2]
    assert left() == [0]


def test_events_emitted_by_one_that_fails_are_gone_and_the_others_are_kept(on):
    def handler(event):
        duebox.emit("a.c", {"by": event.data["number"]})
        if event.data["number"] == 1:
            raise ValueError

    together(on, handler)
    assert [event.data["by"] for event in Event.objects.filter(type="a.c").order_by("id")] == [0, 2]


def test_none_is_no_work(on):
    assert perform_together([], "default", Clock(), owns) == ([], True)


def test_those_that_can_be_taken_at_once_are(on):
    calls = []
    ended = together(on, write, at_once=lambda facts, using: calls.append([fact.data["number"] for fact in facts]))
    assert calls == [[0, 1, 2]]
    assert [end.outcome for end in ended] == [None] * 3
    assert Attempt.objects.filter(outcome="delivered").count() == 3
    assert written() == []


def test_what_the_database_says_against_one_of_many_is_said_to_that_one_alone(on):
    def handler(event):
        write(event)
        if event.data["number"] == 1:
            raise ValueError("not this one")

    def at_once(facts, using):
        for fact in facts:
            write(fact)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    ended = together(on, handler, at_once=at_once)
    assert [type(end.outcome) for end in ended] == [type(None), Retried, type(None)]
    assert written() == [0, 2]


def test_one_whose_event_was_deleted_is_not_taken_along(on):
    gone, calls = [], []

    def emitted_and_one_deleted(*args, **options):
        events = real(*args, **options)
        gone.append(Event.objects.order_by("occurred_at", "id")[1].id)
        Event.objects.filter(id=gone[0]).delete()
        return events

    real = duebox.emit_many
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duebox, "emit_many", emitted_and_one_deleted)
        ended = together(on, write, at_once=lambda facts, using: calls.append(len(facts)))
    assert calls == [2]
    assert len([end for end in ended if isinstance(end.outcome, duebox.Discard)]) == 1


def test_what_many_do_at_once_and_fails_is_done_by_each_alone(on):
    def at_once(facts, using):
        raise ValueError("not of the database")

    ended = together(on, write, at_once=at_once)
    assert [end.outcome for end in ended] == [None] * 3
    assert written() == [0, 1, 2]


def test_those_that_were_given_back_meanwhile_do_not_run_again_one_by_one(on):
    on("a.b", name="it")(write)
    duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": number}) for number in range(3))

    def at_once(facts, using):
        raise ValueError

    pairs = [(claim, replace(by_name()["it"], together=at_once)) for claim in claims_of(a_lease(), "it")]
    assert perform_together(pairs, "default", Clock(), lambda lease: False) == ([], False)
    assert written() == []
