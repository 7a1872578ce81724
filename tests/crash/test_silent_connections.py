"""Connections that die without a sign: no FIN, no RST, no answer. New ones work."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from django.db import connections

import duebox
from duebox.models import Attempt, Delivery, Worker
from tests.app.models import Effect
from tests.crash.stage import Processes, wait_until
from tests.worker.proxy import PLAIN, Proxy

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def proxy(processes: Processes) -> Iterator[Proxy]:
    """The processes of this test go through it."""
    proxy = Proxy(connections["default"].settings_dict)
    processes.connect_by("127.0.0.1", proxy.port, **PLAIN)
    yield proxy
    proxy.close()


def post(count: int) -> None:
    for number in range(count):
        duebox.emit("ledger.posted", {"account": 1, "sequence": number}, about=("account", 1))


def test_two_workers_whose_connections_are_swallowed_deliver_again_and_end_in_time(
    processes: Processes, proxy: Proxy
) -> None:
    workers = [processes.worker(), processes.worker()]
    wait_until(lambda: Worker.objects.filter(listening=True).count() == 2, 30, "the start of both")
    post(50)
    wait_until(lambda: not Delivery.objects.exists(), 30, "the first deliveries", processes.logs)
    post(200)
    assert proxy.swallow() >= 2 * 4
    post(20)
    wait_until(lambda: not Delivery.objects.exists(), 40, "the deliveries after the silence", processes.logs)
    assert Effect.objects.filter(subscriber="ledger.atomic").count() == 270
    assert Effect.objects.filter(subscriber__startswith="ledger.ordered").count() == 270
    proxy.swallow()
    for worker in workers:
        worker.terminate()
    started = time.monotonic()
    for worker in workers:
        worker.wait(60)
    assert time.monotonic() - started < 5 + 15, processes.logs()


def test_a_worker_that_waits_for_an_answer_when_it_is_asked_to_stop_ends_by_itself(
    processes: Processes, proxy: Proxy
) -> None:
    worker = processes.worker(POLL_SECONDS=0.1, LISTEN=False, LEASE_SECONDS=6)
    wait_until(Worker.objects.exists, 30, "the start")
    time.sleep(1.0)
    proxy.swallow()
    time.sleep(1.0)
    worker.terminate()
    assert worker.wait(60) == 0, processes.logs()
    assert "most recent call first" not in processes.logs()


def test_a_handler_whose_statement_gets_no_answer_is_run_again_and_burns_no_attempt(
    processes: Processes, proxy: Proxy
) -> None:
    processes.worker()
    wait_until(Worker.objects.exists, 30, "the start")
    duebox.emit("query.asked", {"seconds": 4.0})
    wait_until(query_is_going_on, 60, "the handler's beginning", processes.logs)
    proxy.swallow()
    wait_until(lambda: not Delivery.objects.exists(), 40, "the delivery", processes.logs)
    assert Attempt.objects.get(outcome="delivered").number == 1
    assert "it waits for an answer that the server does not have" in processes.logs()


def test_a_statement_that_takes_long_is_not_cut(processes: Processes, proxy: Proxy) -> None:
    processes.worker(LEASE_SECONDS=1)
    wait_until(Worker.objects.exists, 30, "the start")
    duebox.emit("query.asked", {"seconds": 6.0})
    wait_until(lambda: not Delivery.objects.exists(), 40, "the delivery", processes.logs)
    assert [each.outcome for each in Attempt.objects.all()] == ["delivered"]
    assert "connection closed" not in processes.logs()


def test_a_worker_ends_in_time_although_a_thread_of_a_handler_does_not(processes: Processes) -> None:
    worker = processes.worker(SHUTDOWN_SECONDS=1)
    wait_until(Worker.objects.exists, 30, "the start")
    duebox.emit("thread.asked", {"seconds": 60})
    wait_until(Attempt.objects.exists, 60, "the delivery")
    worker.terminate()
    started = time.monotonic()
    assert worker.wait(60) == 1
    assert time.monotonic() - started < 1 + 4 + 3
    assert "most recent call first" in processes.logs()


def query_is_going_on() -> bool:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND state = 'active' AND query LIKE 'SELECT pg_sleep%%'"
        )
        return bool(cursor.fetchone()[0])
