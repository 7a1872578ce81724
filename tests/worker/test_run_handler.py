"""One delivery, run once. Through drain(), which runs and settles one claim at a time."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone

import duebox
from duebox import Discard, Permanent, Retry, Snooze
from duebox.events.subscribers import by_name
from duebox.exceptions import LeaseLost
from duebox.models import Attempt, Delivery, Event
from duebox.testing import drain
from duebox.worker.lease import Clock
from duebox.worker.run_handler import perform
from tests.app.models import Effect
from tests.support import a_lease, claims_of

pytestmark = pytest.mark.django_db(transaction=True)


def write(event, subscriber="it"):
    Effect.objects.create(event_id=event.id, subscriber=subscriber)


def deliver(on, handler, **options):
    on("a.b", name="it", **options)(handler)
    duebox.emit("a.b", {"a": 1})
    return drain(raises=False)


@pytest.mark.parametrize(
    ("cause", "is_lost"),
    [
        (psycopg.InternalError("received 2 results from command 'COMMIT'"), True),
        (psycopg.OperationalError("the connection is closed"), True),
        (psycopg.errors.ProtocolViolation("server conn crashed?"), True),
        (psycopg.errors.AdminShutdown("terminating connection"), True),
        (psycopg.errors.UniqueViolation("duplicate key"), False),
        (psycopg.errors.InternalError_("cache lookup failed"), False),
        (psycopg.InterfaceError("the cursor is closed"), False),
    ],
)
def test_what_is_the_fault_of_the_connection_uses_up_no_attempt(on, cause, is_lost):
    def handler(event):
        raise DatabaseError(str(cause)) from cause

    deliver(on, handler)
    assert Delivery.objects.get().attempt == (0 if is_lost else 1)


def last():
    return Attempt.objects.latest("id")


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_may_be_sync_or_async_atomic_or_not(on, atomic, is_async):
    async def ahandler(event):
        await asyncio.sleep(0)
        await Effect.objects.acreate(event_id=event.id, subscriber="it")

    deliver(on, ahandler if is_async else write, atomic=atomic)
    assert Effect.objects.get().event_id == Event.objects.get().id
    assert last().outcome == "delivered"
    assert not Delivery.objects.exists()


@pytest.mark.parametrize("is_async", [True, False])
def test_the_writes_of_an_atomic_handler_that_fails_are_undone_and_the_retry_is_recorded(on, is_async):
    def handler(event):
        write(event)
        raise ValueError("after the write")

    async def ahandler(event):
        await Effect.objects.acreate(event_id=event.id, subscriber="it")
        raise ValueError("after the write")

    deliver(on, ahandler if is_async else handler)
    assert not Effect.objects.exists()
    assert last().outcome == "retried"
    assert "ValueError: after the write" in last().note


def test_the_writes_of_a_handler_that_is_not_atomic_stay_when_it_fails(on):
    def handler(event):
        write(event)
        raise ValueError

    deliver(on, handler, atomic=False)
    assert Effect.objects.count() == 1
    assert last().outcome == "retried"


def test_writes_and_settlement_of_an_atomic_handler_commit_together(on, elsewhere):
    seen = []

    def look():
        return [
            elsewhere.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("app_effect", "duebox_delivery")
        ]

    def handler(event):
        write(event)
        seen.append(look())
        transaction.on_commit(lambda: seen.append(look()))

    deliver(on, handler)
    assert seen == [[0, 1], [1, 0]]


def test_an_atomic_handler_whose_lease_was_lost_leaves_nothing(on):
    on("a.b", name="it")(write)
    duebox.emit("a.b")
    (claim,) = claims_of(a_lease(), "it")
    Delivery.objects.update(lease=a_lease())
    with pytest.raises(LeaseLost, match="belongs to another worker by now; everything it wrote here is rolled back"):
        perform(claim, by_name()["it"], "default", Clock())
    assert not Effect.objects.exists()
    assert not Attempt.objects.exists()


def test_snooze_comes_back_later_and_burns_no_attempt(on):
    before = timezone.now()
    deliver(on, lambda event: Snooze(timedelta(minutes=10)))
    row = Delivery.objects.get()
    assert timedelta(minutes=10) <= row.due_at - before < timedelta(minutes=11)
    assert (row.attempt, row.lease) == (0, None)


def test_snooze_until_a_moment_comes_back_then(on):
    moment = datetime(2031, 1, 1, tzinfo=UTC)
    deliver(on, lambda event: Snooze(moment), atomic=False)
    assert Delivery.objects.get().due_at == moment


def test_what_an_atomic_handler_wrote_before_it_snoozed_is_kept(on):
    def handler(event):
        write(event)
        return Snooze(timedelta(minutes=1))

    deliver(on, handler)
    assert Effect.objects.count() == 1


def test_discard_ends_it_with_the_reason(on):
    deliver(on, lambda event: Discard("the member left"))
    assert not Delivery.objects.exists()
    assert (last().outcome, last().note) == ("discarded", "the member left")


def test_permanent_goes_to_the_dead_letters_at_once(on):
    def handler(event):
        raise Permanent("no such address")

    assert deliver(on, handler).dead == 1
    assert (Delivery.objects.get().status, last().number) == ("dead", 1)


def test_a_handler_is_retried_after_1_2_and_4_minutes_and_is_then_dead(on):
    attempts = []

    @on("a.b", name="it")
    def handler(event):
        attempts.append(event.attempt)
        raise ValueError

    duebox.emit("a.b")
    for minutes in (1, 2, 4):
        before = timezone.now()
        drain(raises=False)
        row = Delivery.objects.get()
        wait = timedelta(minutes=minutes)
        assert wait * 0.9 <= row.due_at - before <= wait * 1.1 + timedelta(seconds=5)
        assert row.status == "pending"
        Delivery.objects.update(due_at=timezone.now())
    drain(raises=False)
    assert Delivery.objects.get().status == "dead"
    assert attempts == [1, 2, 3, 4]
    assert [(a.number, a.outcome) for a in Attempt.objects.order_by("id")] == [
        (1, "retried"), (2, "retried"), (3, "retried"), (4, "dead"),
    ]  # fmt: skip


def test_a_handler_may_have_a_policy_of_its_own(on):
    def handler(event):
        raise KeyError(event.attempt) if event.attempt < 3 else ConnectionError

    drained = deliver(on, handler, retry=Retry(limit=9, first=0, permanent=(OSError,)))
    assert (drained.retried, drained.dead) == (2, 1)


def test_an_ordered_handler_that_skips_lets_the_next_one_pass_a_dead_letter(on):
    seen = []

    @on("a.b", name="it", ordered=True, on_dead="skip")
    def handler(event):
        seen.append(event.data["number"])
        if event.data["number"] == 0:
            raise Permanent

    for number in range(3):
        duebox.emit("a.b", {"number": number}, about=("x", 1))
    drain(raises=False)
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("atomic", [True, False])
def test_a_handler_that_calls_sys_exit_has_failed_and_nothing_ends(on, atomic):
    drained = deliver(on, lambda event: sys.exit(3), atomic=atomic)
    assert drained.retried == 1
    assert "SystemExit: 3" in last().note


def test_an_async_handler_that_is_cancelled_has_failed(on):
    async def handler(event):
        raise asyncio.CancelledError

    assert deliver(on, handler).retried == 1


def test_an_error_of_the_database_is_retried_like_any_other(on):
    def handler(event):
        Effect.objects.create(event_id=None, subscriber="it")

    drained = deliver(on, handler)
    assert isinstance(drained.errors[0], IntegrityError)
    assert last().outcome == "retried"


def test_a_handler_that_swallowed_a_database_error_in_its_transaction_is_told_so(on):
    def handler(event):
        write(event)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1/0")
        except DatabaseError:
            pass

    deliver(on, handler)
    assert last().outcome == "retried"
    assert "it caught a database error and went on in the broken transaction; let the error pass" in last().note
    assert not Effect.objects.exists()


def test_a_handler_may_catch_a_database_error_in_a_block_of_its_own(on):
    def handler(event):
        write(event)
        try:
            with transaction.atomic():
                Effect.objects.create(event_id=None, subscriber="it")
        except IntegrityError:
            pass

    deliver(on, handler)
    assert last().outcome == "delivered"
    assert Effect.objects.count() == 1


def test_a_hook_after_the_commit_that_fails_changes_nothing_about_the_delivery(on, caplog):
    def handler(event):
        write(event)
        transaction.on_commit(lambda: 1 / 0)

    drained = deliver(on, handler)
    assert (drained.delivered, drained.errors) == (1, [])
    assert last().outcome == "delivered"
    assert "division by zero" in caplog.text


def test_a_plain_function_that_returns_a_coroutine_has_failed_and_is_told_the_repair(on):
    async def work(event):
        raise AssertionError("never awaited")

    deliver(on, lambda event: work(event), atomic=False)
    assert last().outcome == "retried"
    assert "returned a coroutine that was not awaited; write the handler with async def" in last().note


def test_events_emitted_in_a_handler_are_delivered_after_it_and_not_inside(on):
    story = []

    @on("a.b", name="first")
    def first(event):
        story.append("first begins")
        duebox.emit("a.c")
        story.append("first ends")

    on("a.c", name="second")(lambda event: story.append("second"))
    duebox.emit("a.b")
    drain()
    assert story == ["first begins", "first ends", "second"]


def test_events_emitted_by_an_atomic_handler_that_fails_are_gone(on):
    def handler(event):
        duebox.emit("a.c")
        raise ValueError

    deliver(on, handler)
    assert not Event.objects.filter(type="a.c").exists()


def test_an_event_emitted_after_a_handler_ended_has_no_cause(on):
    deliver(on, lambda event: None)
    assert duebox.emit("a.c").causation_id is None


@pytest.mark.parametrize("atomic", [True, False])
def test_a_handler_whose_connection_breaks_is_tried_again_a_second_later_without_burning_an_attempt(on, atomic):
    def break_the_connection(event):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    deliver(on, break_the_connection, atomic=atomic)
    left = Delivery.objects.get()
    assert (left.attempt, left.status, left.lease) == (0, "pending", None)
    assert timedelta(0) < left.due_at - last().settled_at <= timedelta(seconds=1.1)
    assert (last().outcome, last().number) == ("retried", 1)


def test_an_error_on_a_database_that_is_not_the_served_one_is_an_ordinary_failure(on):
    def fail_elsewhere(event):
        raise DatabaseError("the other database said no")

    deliver(on, fail_elsewhere, atomic=False)
    assert Delivery.objects.get().attempt == 1


def answering(answer, how, is_async):
    """A handler that writes, and then returns or raises an answer."""

    def handler(event):
        write(event)
        if how == "raised":
            raise answer
        return answer

    async def in_a_loop(event):
        return await sync_to_async(handler)(event)

    return in_a_loop if is_async else handler


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("how", ["returned", "raised"])
@pytest.mark.parametrize(
    ("answer", "outcome", "note"),
    [
        (Snooze(timedelta(minutes=10)), "snoozed", ""),
        (Discard("the member left"), "discarded", "the member left"),
        (Permanent("no such address"), "dead", "no such address"),
    ],
)
def test_an_answer_may_be_returned_or_raised(on, answer, outcome, note, how, atomic, is_async):
    deliver(on, answering(answer, how, is_async), atomic=atomic)
    assert last().outcome == outcome
    assert note in last().note
    assert Delivery.objects.filter(attempt=0).exists() == (outcome == "snoozed")
    kept = not atomic or how == "returned"
    assert Effect.objects.count() == int(kept)


def test_a_death_by_a_returned_permanent_is_told_like_any_other(on):
    told = []
    on("duebox.delivery.dead", name="told")(told.append)
    deliver(on, lambda event: Permanent("no such address"))
    assert len(told) == 1


def test_an_answer_that_is_caught_as_an_exception_and_raised_again_keeps_its_meaning(on):
    def handler(event):
        try:
            raise Discard("too late")
        except Exception as error:
            raise error

    deliver(on, handler)
    assert last().note == "too late"
