from __future__ import annotations

import threading
import time

import psycopg
import pytest
from django.db import OperationalError

import duebox
from duebox.models import Delivery, Worker
from duebox.store import leases
from duebox.worker.lease import Clock, Lease
from tests.support import claims_of, eventually, expire, terminate_others

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lease():
    made = Lease("default", 4.0, 3, Clock(), probe=False)
    made.start()
    yield made
    made.stop()


def test_a_lease_is_kept_alive_by_its_heartbeat(lease):
    first = Worker.objects.get().expires_at
    eventually(lambda: Worker.objects.get().expires_at > first)
    assert Worker.objects.get().id == lease.id
    assert lease.owns(lease.id)


def test_a_lease_owns_nothing_but_its_own(lease):
    assert not lease.owns(lease.id + 1)
    assert not lease.owns(0)


def test_stopped_it_gives_its_row_back(lease):
    lease.stop()
    assert not Worker.objects.exists()


def test_a_heartbeat_that_takes_another_while_it_is_stopped_gives_that_back_too(lease, monkeypatch):
    real, asked, gate, taken = leases.take, threading.Event(), threading.Event(), []

    def take(*given):
        asked.set()
        gate.wait(10)
        taken.append(real(*given))
        return taken[-1]

    monkeypatch.setattr(leases, "take", take)
    lease.abandon("a test says so")
    assert asked.wait(10)
    lease.stop()
    gate.set()
    lease._thread.join(10)
    assert taken
    assert not Worker.objects.filter(id__in=taken).exists()
    assert lease.id == 0


def test_a_lease_found_expired_is_replaced_by_a_new_one(lease, caplog):
    before = lease.id
    expire(before)
    eventually(lambda: lease.id not in (0, before) and lease.owns(lease.id))
    assert not lease.owns(before)
    assert f"lease lost: lease={before} reason=the heartbeat came too late" in caplog.text


def test_an_abandoned_lease_is_replaced_and_what_hung_on_it_is_rescued(lease, on):
    on("a.b", name="it")(lambda event: None)
    duebox.emit("a.b")
    before = lease.id
    claims_of(before, "it")
    lease.abandon("a test says so")
    assert not lease.owns(before)
    eventually(lambda: Delivery.objects.get().lease is None)
    assert lease.id != before


def test_once_it_was_not_trusted_it_is_never_trusted_again(lease):
    before = lease.id
    lease.safe_until = time.perf_counter() - 1  # the heartbeat hangs, so a claim of this lease is not started
    assert not lease.owns(before)
    eventually(lambda: lease.id not in (0, before))  # else that claim would hang on a lease that lives on


def test_a_heartbeat_survives_the_loss_of_its_connection(lease, elsewhere, caplog):
    before = lease.id
    eventually(lambda: lease.beats)  # else another session, which a test before has just left, may be the one that ends
    assert terminate_others(elsewhere)
    eventually(lambda: "heartbeat failed" in caplog.text)
    beat = lease.beats
    eventually(lambda: lease.beats > beat + 1)
    assert lease.owns(lease.id)
    assert lease.id == before


def test_the_clock_follows_the_database():
    clock = Clock()
    clock.set(1_000.0, time.perf_counter())
    assert 1_000.0 <= clock.now() < 1_001.0


def test_the_numbers_of_leases_cannot_be_guessed_so_that_none_comes_back_after_a_fail_over():
    numbers = [leases.take("default", 10) for _ in range(20)]
    assert len({*numbers}) == 20
    assert all(0 < each < 2**60 for each in numbers)
    assert max(numbers) - min(numbers) > 2**40


@pytest.fixture
def replaced(monkeypatch):
    """Replaces a function by one that first waits until the worker has a new lease, and then fails as a lost connection
    does. Gives the new lease."""

    def replace(worker, where):
        new = []

        def fail(*arguments, **options):
            if not new:
                before = worker.lease.id
                worker.lease.abandon("a test says so")
                new.append(eventually(lambda: worker.lease.id not in (0, before) and worker.lease.id))
            raise OperationalError("server closed the connection")

        monkeypatch.setattr(where, fail)
        return new

    return replace


def raise_error(*arguments, **options):
    raise RuntimeError("a mistake in Duebox")


def lost_connection(*arguments, **options):
    raise OperationalError("server closed the connection") from psycopg.OperationalError("server closed the connection")


@pytest.mark.usefixtures("configure")
@pytest.mark.parametrize(
    ("fails", "error", "said"),
    [
        ("duebox.worker.settle.settle", raise_error, "failures could not be written"),
        ("duebox.worker.settle.release", lost_connection, "deliveries could not be given back"),
    ],
)
def test_a_handler_thread_that_cannot_write_under_an_old_lease_keeps_the_new_one(
    hire, on, configure, replaced, monkeypatch, caplog, fails, error, said
):
    """A claim under the old lease failed; nothing is wrong with the new one."""
    configure(LEASE_SECONDS=60)
    on("a.b", name="it")(lambda event: None)
    worker = hire(threads=1)
    monkeypatch.setattr("duebox.worker.run_handler.perform", error)
    new = replaced(worker, fails)
    thread_is_through = threading.Event()
    monkeypatch.setattr(worker.pool.inbox, "done", lambda claims: thread_is_through.set())
    duebox.emit("a.b")
    assert thread_is_through.wait(20)
    assert worker.lease.id == new[0]
    assert said not in caplog.text


@pytest.mark.usefixtures("configure")
@pytest.mark.parametrize("limit", [None, duebox.Limit(concurrency=1)])
def test_a_claim_that_fails_under_an_old_lease_leaves_the_new_one_alone(hire, on, configure, replaced, limit):
    configure(LEASE_SECONDS=60)
    on("a.b", name="it", limit=limit)(lambda event: None)
    where = "duebox.worker.claimer" if limit is None else "duebox.worker.limited_handlers"
    worker = hire(threads=1)
    claimer = worker if limit is None else worker.limited_handlers
    after_error = claimer._after_error
    failed = threading.Event()

    def note(*arguments):
        failed.set()
        return after_error(*arguments)

    claimer._after_error = note
    new = replaced(worker, f"{where}.claim")
    duebox.emit("a.b")
    assert failed.wait(20)
    assert worker.lease.id == new[0]


@pytest.mark.usefixtures("configure")
def test_a_claim_that_fails_under_the_lease_of_this_moment_ends_it(hire, on, configure, monkeypatch):
    """The claim may have been committed, and nobody would run what it took."""
    configure(LEASE_SECONDS=60)
    on("a.b", name="it")(lambda event: None)
    worker = hire(threads=1)
    before = worker.lease.id
    monkeypatch.setattr("duebox.worker.claimer.claim", lost_connection)
    duebox.emit("a.b")
    eventually(lambda: worker.lease.id not in (0, before))
