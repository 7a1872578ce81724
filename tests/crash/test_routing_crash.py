"""Events that were emitted by SQL are routed once, although a worker is killed while it routes."""

from __future__ import annotations

import json
import signal
from collections import Counter

import psycopg
import pytest

from duebox.models import Attempt, Delivery, Event, Worker
from tests.app.models import Effect
from tests.crash.stage import Processes, wait_until
from tests.support import connection_params

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

EVENTS, ACCOUNTS = 1_500, 50


def test_each_event_of_another_service_is_handled_once_though_a_worker_is_killed(processes: Processes) -> None:
    with psycopg.connect(**connection_params()) as service:
        for number in range(EVENTS):
            account = number % ACCOUNTS
            data = json.dumps({"account": account, "sequence": number})
            service.execute(
                "SELECT duebox_emit('ledger.posted', %s, about_type => 'account', about_id => %s)", [data, str(account)]
            )
    workers = [processes.worker("--threads", "2", LEASE_SECONDS=1) for _ in range(2)]
    wait_until(lambda: Worker.objects.count() == 2, 30, "the start of the workers", processes.logs)
    wait_until(lambda: routed() > EVENTS / 10, 60, "a tenth of the routing", processes.logs)
    workers[0].send_signal(signal.SIGKILL)
    workers[0].wait()
    assert routed() < EVENTS, "the kill came too late"
    processes.worker("--threads", "2", LEASE_SECONDS=1)
    wait_until(lambda: not Delivery.objects.exists(), 120, "the end of all deliveries", processes.logs)

    ids = set(Event.objects.values_list("id", flat=True))
    assert len(ids) == EVENTS
    for subscriber in ("duebox.route", "ledger.atomic", "ledger.outside", "ledger.ordered"):
        done = Attempt.objects.filter(subscriber=subscriber, outcome="delivered").values_list("event_id", flat=True)
        assert Counter(done) == Counter(ids), subscriber
    assert Effect.objects.filter(subscriber="ledger.atomic").count() == EVENTS
    for account in range(ACCOUNTS):
        effects = Effect.objects.filter(subscriber=f"ledger.ordered:{account}").order_by("id")
        numbers = list(effects.values_list("sequence", flat=True))
        assert numbers == sorted(numbers)


def routed() -> int:
    return Attempt.objects.filter(subscriber="duebox.route", outcome="delivered").count()
