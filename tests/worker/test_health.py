"""Whether a worker is alive and ready, asked over HTTP."""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest
from django.db import connections

import duebox
from duebox.exceptions import NotReady
from duebox.schedules.fire import BATCH
from duebox.worker.health import HealthServer
from duebox.worker.worker import Worker
from tests.support import eventually
from tests.worker.proxy import PLAIN, Proxy

pytestmark = pytest.mark.django_db(transaction=True)
TIMED_OUT = 0


def free_port():
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return line.getsockname()[1]


def ask(port, path, method="GET"):
    """The status and the body; no status where nobody answers in time."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=1) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (OSError, http.client.HTTPException):
        return TIMED_OUT, ""


@pytest.fixture(autouse=True)
def quick(settings):
    settings.DUEBOX = {**settings.DUEBOX, "POLL_SECONDS": 0.1, "LEASE_SECONDS": 3, "THREADS": 1}


@pytest.fixture
def served():
    servers = []

    def serve(worker, **options):
        server = HealthServer(worker, "127.0.0.1", 0, **options)
        server.__enter__()
        servers.append(server)
        return server.port

    yield serve
    for each in servers:
        each.__exit__(None, None, None)


def test_a_worker_that_works_is_alive_and_ready(hire, served):
    port = served(hire())
    assert ask(port, "/live")[0] == 200
    status, body = ask(port, "/ready")
    found = json.loads(body)
    assert (status, found["ready"], found["problem"]) == (200, True, "")
    assert found["lease"] > 0
    assert ask(port, "/ready", "HEAD") == (200, "")


def test_a_worker_without_a_lease_is_alive_and_not_ready(served):
    port = served(Worker())
    assert ask(port, "/live")[0] == 200
    status, body = ask(port, "/ready")
    assert (status, json.loads(body)["problem"]) == (503, "the worker has no lease")


def test_a_worker_that_stops_is_not_ready(hire, served):
    worker = hire()
    port = served(worker)
    worker.stop()
    status, body = ask(port, "/ready")
    assert (status, json.loads(body)["problem"]) == (503, "the worker is stopping")


def test_a_worker_that_waits_for_its_last_handlers_is_alive(served):
    worker = Worker()
    port = served(worker, live_seconds=0.2)
    eventually(lambda: ask(port, "/live")[0] == 503)
    worker.stop()
    assert ask(port, "/live")[0] == 200
    assert ask(port, "/ready")[0] == 503


def test_each_batch_of_schedules_has_the_time_of_a_turn(monkeypatch):
    worker, batches = Worker(), iter([BATCH, BATCH, 0])
    monkeypatch.setattr("duebox.worker.scheduler.fire_due", lambda using: SimpleNamespace(due=next(batches)))
    worker.pulse.turned_at = 0.0
    worker.scheduler.fire(0)
    assert time.monotonic() - worker.pulse.turned_at < 5


def test_a_loop_that_does_not_turn_is_not_alive(served):
    port = served(Worker(), live_seconds=0.2)
    eventually(lambda: ask(port, "/live")[0] == 503)
    found = json.loads(ask(port, "/live")[1])
    assert not found["live"]
    assert "the worker's main loop has not run for" in found["problem"]
    assert ask(port, "/ready")[0] == 503


def test_the_loop_turns_also_when_there_is_nothing_to_do(hire, served):
    worker = hire()
    port = served(worker, live_seconds=0.7)
    until = time.monotonic() + 1.2
    while time.monotonic() < until:
        assert ask(port, "/live")[0] == 200


def test_a_worker_that_lost_its_database_is_alive_and_not_ready(hire, served):
    entry = connections["default"].settings_dict
    proxy = Proxy(entry)
    before = {name: entry[name] for name in ("HOST", "PORT", "OPTIONS")}
    entry.update(HOST="127.0.0.1", PORT=proxy.port, OPTIONS={**entry["OPTIONS"], **PLAIN})
    try:
        port = served(hire())
        eventually(lambda: ask(port, "/ready")[0] == 200)
        proxy.close()
        eventually(lambda: ask(port, "/ready")[0] == 503)
        assert json.loads(ask(port, "/ready")[1])["problem"] in (
            "the database does not answer",
            "the worker has no lease",
        )
        assert ask(port, "/live")[0] == 200
    finally:
        entry.update(before)


def test_metrics_are_there_where_prometheus_is_on(hire, served, settings, on):
    assert ask(served(Worker()), "/metrics")[0] == 404
    settings.DUEBOX = {**settings.DUEBOX, "METRICS": ["prometheus"]}
    on("order.paid", name="it")(lambda event: None)
    duebox.emit("order.paid")
    worker = hire()
    port = served(worker)
    eventually(lambda: worker.outcome_counts.delivered)
    eventually(lambda: 'duebox_events_delivery_success_total{consumer="it"}' in ask(port, "/metrics")[1])
    status, body = ask(port, "/metrics")
    assert status == 200
    assert "duebox_workers_alive 1.0" in body


def test_an_unknown_path_is_answered_with_those_there_are(served):
    assert ask(served(Worker()), "/nothing") == (404, "There are /live, /ready and /metrics.\n")


def test_a_port_that_is_taken_is_an_error_with_the_way_out(served):
    port = served(Worker())
    with pytest.raises(NotReady, match=rf"cannot listen on 127.0.0.1:{port} .* choose another --health-port"):
        HealthServer(Worker(), "127.0.0.1", port)


def test_so_is_a_port_that_cannot_be():
    with pytest.raises(NotReady, match=r"cannot listen on 127.0.0.1:70000 .* choose another --health-port"):
        HealthServer(Worker(), "127.0.0.1", 70_000)
