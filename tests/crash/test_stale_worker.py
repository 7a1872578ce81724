from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import duebox
from duebox.models import Attempt, Delivery, Worker
from tests.app.models import Effect
from tests.crash.stage import Processes, wait_until
from tests.support import nap_is_going_on

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]


def test_a_worker_frozen_past_its_lease_overwrites_nothing_and_says_so(processes: Processes) -> None:
    frozen = processes.worker(LEASE_SECONDS=1)
    wait_until(Worker.objects.exists, 60, "the start of the worker")
    duebox.emit("nap.asked", {"seconds": 1.0})
    wait_until(nap_is_going_on, 60, "the handler's beginning")
    frozen.send_signal(signal.SIGSTOP)
    processes.worker(LEASE_SECONDS=1)
    wait_until(lambda: Attempt.objects.filter(outcome="delivered").exists(), 60, "the delivery by the other worker")
    frozen.send_signal(signal.SIGCONT)
    wait_until(lambda: "lease lost" in processes.logs(), 60, "the word of the frozen worker")
    wait_until(lambda: "nothing overwritten" in processes.logs(), 60, "the word about the delivery")
    assert Effect.objects.filter(subscriber="nap.sleeps").count() == 1
    assert Attempt.objects.filter(outcome="delivered").count() == 1


def test_a_worker_frozen_in_a_transaction_of_its_own_keeps_its_deliveries_no_longer_than_the_server_allows(
    processes: Processes, elsewhere: psycopg.Connection, on: Callable[..., Any]
) -> None:
    """It holds a lock on the row of its lease, so that no other worker can end the lease."""
    on("frozen.asked", name="frozen")(lambda event: None)
    frozen = processes.freezing_worker(4.0, LEASE_SECONDS=1)
    wait_until(Worker.objects.exists, 60, "the start of the worker", processes.logs)
    duebox.emit("nap.asked", {"seconds": 1.0})
    wait_until(nap_is_going_on, 60, "the handler's beginning", processes.logs)
    duebox.emit("frozen.asked")
    wait_until(lambda: is_stopped(frozen), 60, "the freeze", processes.logs)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        elsewhere.execute("SELECT FROM duebox_worker FOR UPDATE NOWAIT")
    elsewhere.rollback()
    processes.worker(LEASE_SECONDS=1)
    wait_until(lambda: Attempt.objects.filter(outcome="delivered").exists(), 60, "the delivery by the other worker")
    assert is_stopped(frozen)
    elsewhere.execute("SELECT FROM duebox_delivery WHERE subscriber = 'frozen' AND lease IS NULL FOR UPDATE NOWAIT")
    elsewhere.rollback()
    frozen.send_signal(signal.SIGCONT)
    wait_until(lambda: "lease lost" in processes.logs(), 60, "the word of the frozen worker", processes.logs)
    assert Effect.objects.filter(subscriber="nap.sleeps").count() == 1


def is_stopped(process: subprocess.Popen[str]) -> bool:
    found = subprocess.run(["ps", "-o", "state=", "-p", str(process.pid)], capture_output=True, text=True, check=False)
    return found.stdout.startswith("T")


def test_a_delivery_that_kills_its_workers_goes_to_the_dead_letters_alone(processes: Processes) -> None:
    poison = duebox.emit("poison.taken")
    innocent = [duebox.emit("ledger.posted", {"account": 1, "sequence": n}, about=("account", 1)) for n in range(20)]
    for _ in range(3):
        worker = processes.worker(LEASE_SECONDS=1, RESCUE_LIMIT=3)
        wait_until(lambda worker=worker: worker.poll() is not None, 30, "the death of the worker")
    processes.worker(LEASE_SECONDS=1, RESCUE_LIMIT=3)
    wait_until(lambda: not Delivery.objects.exclude(status="dead").exists(), 30, "the delivery of the innocent")
    assert [row.event_id for row in Delivery.objects.all()] == [poison.id]
    assert Effect.objects.filter(subscriber="ledger.atomic").count() == len(innocent)


def test_sigterm_lets_a_running_handler_finish_and_gives_the_lease_back(processes: Processes) -> None:
    worker = processes.worker()
    wait_until(Worker.objects.exists, 60, "the start of the worker")
    duebox.emit("nap.asked", {"seconds": 1.0})
    wait_until(nap_is_going_on, 60, "the handler's beginning")
    worker.terminate()
    assert worker.wait(60) == 0
    assert Attempt.objects.get().outcome == "delivered"
    assert not Worker.objects.exists()


def test_sigterm_releases_what_does_not_end_in_time_without_burning_an_attempt(processes: Processes) -> None:
    worker = processes.worker(SHUTDOWN_SECONDS=0.5)
    wait_until(Worker.objects.exists, 60, "the start of the worker")
    duebox.emit("nap.asked", {"seconds": 30})
    wait_until(nap_is_going_on, 60, "the handler's beginning")
    worker.terminate()
    assert worker.wait(60) == 0
    left = Delivery.objects.get()
    assert (left.lease, left.attempt, left.status) == (None, 0, "pending")
    assert not Effect.objects.exists()
