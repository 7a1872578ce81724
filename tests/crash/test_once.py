"""`duebox once` without its database."""

from __future__ import annotations

import re
import time

import pytest
from django.db import connections
from django.db.models.functions import Now

import duebox
from duebox.models import Delivery, Worker
from tests.crash.stage import Processes, wait_until
from tests.support import nap_is_going_on
from tests.worker.proxy import PLAIN, Proxy

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]


def test_once_that_loses_the_database_in_the_middle_tries_for_seven_seconds_and_leaves_the_rest_to_the_next_run(
    processes: Processes,
) -> None:
    proxy = Proxy(connections["default"].settings_dict)
    processes.connect_by("127.0.0.1", proxy.port, **PLAIN)
    for _ in range(3):
        duebox.emit("nap.asked", {"seconds": 1.0})
    run = processes.manage("once", "--threads", "1")
    wait_until(nap_is_going_on, 30, "the first handler", processes.logs)
    proxy.close()
    started = time.monotonic()
    run.wait(60)
    took = time.monotonic() - started
    logs = processes.logs()
    assert run.returncode == 1, logs
    assert 7 < took < 35
    assert re.findall(r"database error, next try in (\d) s", logs) == ["1", "2", "4"]
    assert "run ended, the next one tries again: database error: " in logs
    processes.connect_by(connections["default"].settings_dict["HOST"], connections["default"].settings_dict["PORT"])
    wait_until(lambda: not Worker.objects.filter(expires_at__gt=Now()).exists(), 30, "the end of the first run's lease")
    assert processes.manage("once").wait(60) == 0
    assert not Delivery.objects.exists()
