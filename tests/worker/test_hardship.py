"""What handlers and bad luck do to a worker, and what must not come of it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test import TestCase

import duebox
from duebox.models import Attempt, Delivery
from duebox.store import leases
from duebox.testing import drain
from tests.app.models import Effect, Seat
from tests.support import a_lease, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("configure")]


class Timeout(BaseException):
    """As gevent raises it: not an Exception."""


def emit_many(count):
    return duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": n}) for n in range(count))


def all_done():
    return not Delivery.objects.exists()


def test_a_handler_that_raises_what_is_no_exception_does_not_end_its_thread(hire, on):
    seen = []

    @on("a.b", name="it", atomic=False, retry=duebox.Retry(limit=0))
    def handler(event):
        if event.data["number"] < 4:
            raise Timeout
        seen.append(event.data["number"])

    emit_many(8)
    hire(threads=2)
    eventually(lambda: sorted(seen) == [4, 5, 6, 7])
    eventually(lambda: Delivery.objects.dead().count() == 4)


def test_a_commit_hook_that_exits_does_not_end_its_thread(hire, on):
    @on("a.b", name="it")
    def handler(event):
        transaction.on_commit(lambda: sys.exit(1))

    emit_many(60)
    hire(threads=1)
    eventually(all_done)


def test_a_handler_that_runs_again_gets_its_data_as_it_was_emitted(hire, on):
    wrong = []

    @on("a.b", name="it")
    def handler(event):
        number = event.data.pop("number", None)
        if number is None:
            wrong.append(event.id)
        # Two seats of one number break a deferred constraint, and with it the commit of the whole group.
        Seat.objects.create(number=1 if number in (30, 31) else 100 + (number or 0))

    emit_many(40)
    hire(threads=1)
    eventually(lambda: Delivery.objects.count() == 1)
    assert wrong == []


def test_a_handler_that_asks_to_be_alone_shares_no_transaction(hire, on):
    transactions = []

    @on("a.b", name="it", alone=True)
    def handler(event):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()::text")
            transactions.append(cursor.fetchone()[0])

    emit_many(60)
    hire(threads=1)
    eventually(all_done)
    assert len(set(transactions)) == 60


def test_a_transaction_left_open_outside_of_atomic_is_a_failure_and_takes_no_settlement_along(hire, on):
    @on("a.b", name="it", atomic=False)
    def handler(event):
        if event.data["number"] == 2:
            transaction.set_autocommit(False)
            Effect.objects.create(event_id=event.id, subscriber="it")

    emit_many(4)
    hire(threads=1)
    eventually(lambda: Attempt.objects.count() == 4)
    failed = Attempt.objects.filter(outcome="retried")
    assert failed.exists()
    assert "left a transaction open" in failed[0].note
    assert Delivery.objects.count() == failed.count()


@pytest.mark.parametrize("until", [datetime(1, 1, 1, tzinfo=UTC), timedelta(days=-3)])
def test_a_snooze_into_the_past_is_due_at_once(on, until):
    runs = []

    @on("a.b", name="it")
    def handler(event):
        runs.append(event.attempt)
        return duebox.Snooze(until) if len(runs) == 1 else None

    duebox.emit("a.b")
    drain()
    assert len(runs) == 2


def test_once_heals_strays_and_parked_heads_where_no_worker_runs_for_long(hire, on):
    @on("a.b", name="it", ordered=True)
    def handler(event):
        pass

    duebox.emit_many(duebox.NewEvent(type="a.b", about=("account", n)) for n in range(2))
    first, second = Delivery.objects.order_by("id")
    Delivery.objects.filter(id=first.id).update(lease=9_999_999)
    Delivery.objects.filter(id=second.id).update(status="waiting")
    hire(until_idle=True)
    eventually(all_done)


def test_the_heartbeat_waits_for_nobody_who_locks_a_parked_delivery(on, elsewhere):
    @on("a.b", name="it", ordered=True)
    def handler(event):
        pass

    duebox.emit("a.b", about=("account", 1))
    Delivery.objects.update(status="waiting")
    elsewhere.execute("BEGIN")
    elsewhere.execute("SELECT FROM duebox_delivery FOR UPDATE")
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '500ms'")
    lease = a_lease()
    leases.rescue("default", 3, always=True)
    assert leases.renew("default", lease, 10)
    elsewhere.execute("ROLLBACK")
    leases.rescue("default", 3, always=True)
    assert Delivery.objects.get().status == "pending"
    connection.close()


class InATestCase(TestCase):
    def test_the_error_of_a_handler_is_the_one_that_is_raised(self):
        @duebox.on("a.b", name="hardship.divides", atomic=False)
        def handler(event):
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")

        self.addCleanup(duebox.events.subscribers.remove, "hardship.divides")
        duebox.emit("a.b")
        with pytest.raises(Exception, match="division by zero"):
            drain()
