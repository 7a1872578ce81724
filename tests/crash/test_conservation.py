"""Nothing committed is lost, nothing rolled back leaves, effects in the database exist once, order holds."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection

from duebox.embedded import Embedded
from duebox.models import Delivery, Event
from tests.app.models import Account, Effect
from tests.crash.stage import Processes, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.soak, pytest.mark.django_db(transaction=True)]

EMITTERS = 4
WORKERS = 3
# These workers die of chance, not of what they run: one killed while it runs a delivery on its last chance, alone,
# would rightly send that one to the dead letters.
PATIENT = {"RESCUE_LIMIT": 30}
SUBSCRIBERS = ("ledger.atomic", "ledger.outside", "ledger.ordered")


def test_killed_workers_lose_nothing_repeat_nothing_and_keep_order(processes: Processes) -> None:
    luck = random.Random(20261115)

    def kill_one(workers: list) -> None:
        victim = luck.randrange(len(workers))
        workers[victim].send_signal(signal.SIGKILL)
        workers[victim].wait()
        workers[victim] = processes.worker(**PATIENT)

    committed, rolled_back = run_with_trouble(processes, kill_one, events=10_000)
    judge(committed, rolled_back)


def test_a_database_that_restarts_loses_nothing_either(own_server: Embedded, processes: Processes) -> None:
    restarts = iter([None, None, own_server.restart, None, None, own_server.restart])

    def restart_twice(workers: list) -> None:
        if restart := next(restarts, None):
            restart()
            connection.close()

    committed, rolled_back = run_with_trouble(processes, restart_twice, events=4_000)
    assert next(restarts, "both restarts happened") == "both restarts happened"
    judge(committed, rolled_back)


def run_with_trouble(
    processes: Processes, trouble: Callable[[list], None], *, events: int
) -> tuple[set[str], set[str]]:
    """Emit and deliver while `trouble` comes about every second; ends when all is settled."""
    Account.objects.bulk_create(Account(id=number) for number in range(1, 41))
    workers = [processes.worker(**PATIENT) for _ in range(WORKERS)]
    emitters = [processes.emitter(events // EMITTERS, seed) for seed in range(EMITTERS)]
    troubles = 0
    while any(emitter.process.poll() is None for emitter in emitters) or troubles < 6:
        time.sleep(random.uniform(0.7, 1.3))
        trouble(workers)
        troubles += 1
    fates = [fate for emitter in emitters for fate in emitter.fates()]
    wait_until(lambda: not Delivery.objects.exists(), 120, "settling after the last trouble", what_is_left)
    told = Counter(fate for fate, _ in fates)
    assert told["committed"] > events * 0.8
    assert told["rolled_back"] > events * 0.05
    return ({id for fate, id in fates if fate == "committed"}, {id for fate, id in fates if fate == "rolled_back"})


def what_is_left() -> str:
    rows = Delivery.objects.with_state().values_list("subscriber", "state", "rescues")
    return "\n".join(f"{count} x {row}" for row, count in Counter(rows).most_common())


def judge(committed: set[str], rolled_back: set[str]) -> None:
    stored = {str(id) for id in Event.objects.filter(type="ledger.posted").values_list("id", flat=True)}
    assert committed <= stored
    assert not rolled_back & stored
    effects: dict[str, Counter[str]] = {name: Counter() for name in SUBSCRIBERS}
    of_ledger = Effect.objects.filter(subscriber__startswith="ledger.")
    for subscriber, event_id in of_ledger.values_list("subscriber", "event_id"):
        effects[subscriber.partition(":")[0]][str(event_id)] += 1
    for name in SUBSCRIBERS:
        assert set(effects[name]) == stored, f"{name} did not get exactly the committed events"
    for name in ("ledger.atomic", "ledger.ordered"):
        assert set(effects[name].values()) == {1}, f"effects of the atomic handler {name} were repeated"
    assert_order()


def assert_order() -> None:
    for account in range(1, 41):
        of_account = Effect.objects.filter(subscriber=f"ledger.ordered:{account}").order_by("id")
        sequence = list(of_account.values_list("sequence", flat=True))
        assert sequence == sorted(sequence), f"account {account} was served out of order"
