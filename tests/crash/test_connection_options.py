"""Workers under OPTIONS of the database that a project may have."""

from __future__ import annotations

import pytest
from django.db import connections

import duebox
from duebox.models import Attempt, Delivery, Worker
from duebox.when import every
from tests.crash.stage import Processes, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]


def connect(processes: Processes, **options: object) -> None:
    entry = connections["default"].settings_dict
    processes.connect_by(entry["HOST"], entry["PORT"], **options)


def test_a_worker_takes_no_connections_from_the_pool_of_django(processes: Processes) -> None:
    pytest.importorskip("psycopg_pool")
    connect(processes, pool={"min_size": 1, "max_size": 1, "timeout": 3})
    processes.worker(THREADS=4)
    wait_until(Worker.objects.exists, 30, "the start", processes.logs)
    for number in range(100):
        duebox.emit("ledger.posted", {"account": number % 5, "sequence": number}, about=("account", number % 5))
    wait_until(lambda: not Delivery.objects.exists(), 40, "the deliveries", processes.logs)
    assert set(Attempt.objects.values_list("outcome", "number")) == {("delivered", 1)}
    assert "PoolTimeout" not in processes.logs()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_under_a_strict_isolation_level_no_worker_believes_that_its_lease_is_lost(
    processes: Processes, level: str
) -> None:
    connect(processes, options="-c default_transaction_isolation=" + level.replace(" ", "\\ "))
    for _ in range(2):
        processes.worker(LEASE_SECONDS=2)
    wait_until(lambda: Worker.objects.count() == 2, 40, "the start of both", processes.logs)
    for number in range(20):
        duebox.schedule("thread.asked", {"seconds": 0}, key=f"s{number}", repeat=every(seconds=1))
    wait_until(lambda: Attempt.objects.count() > 100, 60, "the deliveries", processes.logs)
    assert "lease lost" not in processes.logs()
