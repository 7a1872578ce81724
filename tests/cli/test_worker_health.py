"""The port of `duebox worker`, with real processes."""

from __future__ import annotations

import json
import signal

import pytest

from tests.support import eventually
from tests.worker.test_health import TIMED_OUT, ask, free_port

pytestmark = pytest.mark.django_db(transaction=True)
SETTINGS = {"DUEBOX_TEST_SETTINGS": json.dumps({"POLL_SECONDS": 0.2, "LEASE_SECONDS": 3, "METRICS": ["prometheus"]})}


def test_a_process_that_is_frozen_does_not_answer_and_is_ready_again_afterwards(start):
    port = free_port()
    worker = start("duebox", "worker", "--health-port", str(port), **SETTINGS)
    eventually(lambda: ask(port, "/ready")[0] == 200)
    eventually(lambda: "duebox_database_reachable 1.0" in ask(port, "/metrics")[1])
    worker.send_signal(signal.SIGSTOP)
    try:
        assert ask(port, "/live")[0] == TIMED_OUT
    finally:
        worker.send_signal(signal.SIGCONT)
    eventually(lambda: ask(port, "/ready")[0] == 200)
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=120)
    assert worker.returncode == 0, err
    assert "Traceback" not in err


def test_a_worker_that_waits_for_its_database_is_alive_and_not_ready(start, nowhere):
    port = free_port()
    start("duebox", "worker", "--health-port", str(port), "--skip-checks", **SETTINGS, **nowhere)
    eventually(lambda: ask(port, "/live")[0] == 200)
    assert ask(port, "/ready")[0] == 503


def test_several_processes_have_ports_that_follow_each_other(start):
    port = free_port()
    settings = {"DUEBOX_TEST_SETTINGS": json.dumps({"LEASE_SECONDS": 3, "HEALTH_PORT": port, "THREADS": 1})}
    supervisor = start("duebox", "worker", "--processes", "2", **settings)
    eventually(lambda: ask(port, "/ready")[0] == 200)
    eventually(lambda: ask(port + 1, "/ready")[0] == 200)
    supervisor.send_signal(signal.SIGTERM)
    _, err = supervisor.communicate(timeout=120)
    assert supervisor.returncode == 0, err
