"""Moves, cancellations and kills in the second of firing: one outcome each, one event for each occurrence."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

import duebox
from duebox.models import Attempt, Delivery, Event, Schedule, Worker
from duebox.testing import travel
from tests.app.guests import Greeting, Guest
from tests.crash.stage import wait_until
from tests.crash.time_app import Declared, declared
from tests.crash.time_stage import Order, Talker, TimeProcesses, assert_handled_once, carried_out
from tests.support import eventually

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

AN_HOUR = timedelta(hours=1)
# Three hours ahead of UTC, two, four and fourteen; none of them changes its clocks.
HOME, WEST, EAST, FAR_EAST = "Africa/Nairobi", "Africa/Maputo", "Asia/Dubai", "Pacific/Kiritimati"


@pytest.fixture
def stage(transactional_db: None) -> Iterator[TimeProcesses]:
    started = TimeProcesses()
    yield started
    started.end()


@pytest.fixture
def time_app() -> Iterator[Declared]:
    with declared() as found:
        yield found


@pytest.mark.soak
def test_a_schedule_moved_in_the_second_of_firing_has_one_outcome(stage: TimeProcesses) -> None:
    luck = random.Random(6)
    movers = with_workers(stage, movers=3, workers=[stage.worker() for _ in range(2)])
    moment = moment_after_planning(500)
    orders: list[Order] = []
    for number in range(500):
        # Half of them at the same instant, the others all over the second.
        due = moment + timedelta(milliseconds=2 * number if number % 2 else 0)
        to = due + luck.choice([AN_HOUR, timedelta(seconds=2), timedelta(milliseconds=-100)])
        orders.append({
            "do": luck.choice(["reschedule", "schedule_again"]), "key": f"bill:{number}", "undo": number % 10 == 0,
            "at": around(due, luck), "due": due.isoformat(), "to": to.isoformat(),
        })  # fmt: skip
    plan_bills({order["key"]: datetime.fromisoformat(order["due"]) for order in orders})
    refuse_lateness(moment)
    done = carried_out(movers, orders)
    settle(stage)

    fired: dict[str, list[str]] = {order["key"]: [] for order in done}
    for planned in Event.objects.filter(type="ledger.posted").values_list("metadata__schedule", flat=True):
        fired[planned["key"]].append(planned["due"])
    rows = {row.key: row for row in Schedule.objects.all()}
    wrong = []
    for order in done:
        expected = outcome_of_move(order)
        row = rows[order["key"]]
        found = (sorted(fired[row.key]), row.due_at.isoformat() if row.due_at else row.status)
        wrong += [f"{order}\n    expected {expected}\n    found    {found}"] if found != expected else []
    assert not wrong, "\n".join([f"{len(wrong)} schedules, for example", *wrong[:5], stage.logs()[-3000:]])
    assert_both_sides_won(Counter(order["saw"] for order in done), "moved", "fired")
    assert_handled_once("ledger.atomic", "ledger.outside", type="ledger.posted")
    assert "deadlock" not in stage.logs()


def outcome_of_move(order: Order) -> tuple[list[str], str]:
    """What must have fired and what must be planned, from what the mover's own transaction saw."""
    moved = not order["undo"] and order["saw"] in ("moved", "fired")
    fired = [] if moved and order["saw"] == "moved" else [order["due"]]
    if moved and datetime.fromisoformat(order["to"]) - datetime.fromisoformat(order["due"]) == AN_HOUR:
        return fired, order["to"]
    return sorted([*fired, order["to"]] if moved else fired), "completed"


@pytest.mark.soak
def test_a_guest_who_moves_in_the_second_of_the_birthday_is_greeted_once(
    stage: TimeProcesses, time_app: Declared
) -> None:
    luck = random.Random(7)
    movers = with_workers(stage, movers=3, workers=[stage.clocked_worker() for _ in range(2)])
    moment = moment_after_planning(200)
    year = born_at(moment, range(1, 601), time_app)
    singles = [[number] for number in range(1, 301)]
    together = [list(range(begin, 601, 12)) for begin in range(301, 313)]  # 25 each, through one another
    orders = [
        {"do": "move" if len(guests) == 1 else "move_together", "guests": guests, "undo": luck.random() < 0.1,
         "zone": luck.choice([WEST, EAST, FAR_EAST]), "at": around(moment, luck)}
        for guests in [*singles, *together]
    ]  # fmt: skip
    refuse_lateness(moment)
    done = carried_out(movers, orders)
    settle(stage)

    greeted: dict[int, list[str]] = {number: [] for number in range(1, 601)}
    for guest, of_year, zone in Greeting.objects.values_list("guest_id", "year", "zone"):
        greeted[guest].append(f"{of_year} in {zone}")
    coming = dict(Schedule.objects.filter(plan="guests.birthdays").values_list("aggregate_id", "occurrence"))
    wrong, sides = [], Counter[str]()
    for order in done:
        for guest, saw in zip(order["guests"], order["saw"], strict=True):
            sides["fired" if saw else "moved"] += 1
            zone = HOME if saw or order["undo"] else order["zone"]
            to_come = zone == WEST
            expected = ([] if to_come else [f"{year} in {zone}"], str(year if to_come else year + 1))
            found = (greeted[guest], coming[str(guest)])
            wrong += [f"{guest} in {order}\n    expected {expected}\n    found    {found}"] if found != expected else []
    assert not wrong, "\n".join([f"{len(wrong)} guests, for example", *wrong[:5], stage.logs()[-3000:]])
    assert_both_sides_won(sides, "moved", "fired")
    assert Event.objects.filter(type="guest.birthday").count() == Greeting.objects.count()
    assert "deadlock" not in stage.logs()


@pytest.mark.soak
def test_an_event_exists_if_and_only_if_cancel_came_too_late(stage: TimeProcesses) -> None:
    luck = random.Random(8)
    movers = with_workers(stage, movers=3, workers=[stage.worker() for _ in range(2)])
    moment = moment_after_planning(500)
    bills, orders = dict[str, datetime](), list[Order]()
    for number in range(500):
        # Two for each account; by their keys they stand in the other order than by their moments.
        key, account = f"bill:{999 - number}", str(number % 250)
        bills[key] = due = moment + timedelta(milliseconds=2 * (number % 250) if number % 2 else 0)
        if number % 250 < 150:
            order = {"do": "cancel", "key": key}
        elif number < 250:
            order = {"do": "cancel_about", "account": account}
        else:
            continue
        orders.append({**order, "at": around(due, luck), "undo": luck.random() < 0.1})
    plan_bills(bills, accounts=250)
    refuse_lateness(moment)
    done = carried_out(movers, orders)
    settle(stage)

    events = Counter(Event.objects.values_list("metadata__schedule__key", flat=True))
    of_account = Counter(Event.objects.values_list("aggregate_id", flat=True))
    wrong = []
    for order in done:
        cancelled = 0 if order["undo"] else order["saw"]
        if order["do"] == "cancel":
            expected, found = 1 - cancelled, events[order["key"]]
        else:
            expected, found = 2 - cancelled, of_account[order["account"]]
        wrong += [f"{order}: {found} events instead of {expected}"] if found != expected else []
    assert not wrong, "\n".join([f"{len(wrong)} cancellations, for example", *wrong[:5], stage.logs()[-3000:]])
    sides = Counter("cancelled" if order["saw"] else "fired" for order in done)
    assert_both_sides_won(sides, "cancelled", "fired")
    assert_handled_once("ledger.atomic", "ledger.outside", type="ledger.posted")
    assert "deadlock" not in stage.logs()


def test_a_schedule_held_by_a_transaction_delays_no_other_and_nobody_deadlocks(stage: TimeProcesses) -> None:
    with_workers(stage, movers=0, workers=[stage.worker()])
    moment = moment_after_planning(20)
    plan_bills({f"bill:{number}": moment + timedelta(milliseconds=number) for number in range(20)})
    wait_until(lambda: datetime.now(UTC) > moment - timedelta(seconds=0.3), 60, "the moment")
    with transaction.atomic():
        duebox.reschedule("bill:7", at=moment + AN_HOUR)
        wait_until(lambda: Event.objects.filter(type="ledger.posted").count() == 19, 60, "the others", stage.logs)
        assert duebox.cancel("bill:3") == 0
    settle(stage)
    assert Event.objects.filter(type="ledger.posted").count() == 19
    assert Schedule.objects.get(key="bill:7").due_at == moment + AN_HOUR
    assert "deadlock" not in stage.logs()


def test_a_schedule_that_is_due_and_held_does_not_make_the_worker_spin(stage: TimeProcesses) -> None:
    with_workers(stage, movers=0, workers=[stage.worker()])
    moment = moment_after_planning(1)
    plan_bills({"bill": moment})
    with transaction.atomic():
        duebox.reschedule("bill", at=moment + AN_HOUR)
        wait_until(lambda: datetime.now(UTC) > moment + timedelta(seconds=0.5), 60, "the moment")
        before = transactions()
        time.sleep(2)
        a_second = (transactions() - before) / 2
        transaction.set_rollback(True)
    wait_until(Event.objects.exists, 10, "the firing after all", stage.logs)
    assert a_second < 200, f"{a_second:.0f} transactions a second while there was nothing to do but wait"


@pytest.mark.soak
def test_three_workers_that_fire_the_same_2000_make_one_event_of_each(stage: TimeProcesses, time_app: Declared) -> None:
    with_workers(stage, movers=0, workers=[stage.clocked_worker() for _ in range(3)])
    moment = moment_after_planning(600)
    year = born_at(moment, range(1, 2001), time_app)
    refuse_lateness(moment)
    wait_until(lambda: Greeting.objects.count() >= 2000, 120, "greeting all", stage.logs)
    settle(stage)
    greeted = Counter(Greeting.objects.values_list("guest_id", "year"))
    assert greeted == {(number, year): 1 for number in range(1, 2001)}
    assert Event.objects.filter(type="guest.birthday").count() == 2000
    assert set(Schedule.objects.filter(plan="guests.birthdays").values_list("fired", "occurrence", "revision")) == {
        (str(year), str(year + 1), 2)
    }
    assert "deadlock" not in stage.logs()


def test_a_worker_killed_between_firing_and_handling_leaves_it_to_the_others(
    stage: TimeProcesses, time_app: Declared
) -> None:
    workers = [stage.clocked_worker(LEASE_SECONDS=1) for _ in range(4)]
    with_workers(stage, movers=0, workers=workers)
    moment = moment_after_planning(60)
    with transaction.atomic():
        for number in range(60):
            due = moment + timedelta(milliseconds=10 * number)
            duebox.schedule("bell.rung", {"seconds": 0.1}, at=due, key=f"bell:{number}")
    alive = {worker.pid: worker for worker in workers}
    held = 0
    for _ in range(2):
        victim = alive.pop(eventually(lambda: holders() & alive.keys(), 60).pop())
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        held += Delivery.objects.filter(lease__in=leases_of(victim.pid)).count()
    settle(stage)

    assert held, "the victims held nothing when they were killed"
    assert Attempt.objects.filter(outcome="rescued").count() >= held
    occurrences = Counter(Event.objects.filter(type="bell.rung").values_list("metadata__schedule__key", flat=True))
    assert occurrences == {f"bell:{number}": 1 for number in range(60)}
    assert_handled_once("bell.ring", "bell.ring_outside", type="bell.rung")


@pytest.mark.soak
def test_a_kill_in_the_middle_of_firing_leaves_nothing_half_done(stage: TimeProcesses, time_app: Declared) -> None:
    moment = soon(-600)
    with travel(moment - AN_HOUR):
        year = born_at(moment, range(1, 6001), time_app)
    undone = 0
    for number in range(4):
        worker = stage.clocked_worker("--only", "ledger.*")  # it fires, and leaves the handling to others
        before = caught_firing(worker)
        time.sleep(0.01 * number)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert half_done(year) == []
        wait_until(lambda worker=worker: not is_connected(worker.pid), 60, "the end of its session")
        assert half_done(year) == []
        undone += Event.objects.filter(type="guest.birthday").count() == before
    assert undone, "no kill came in the middle of a batch"
    assert Schedule.objects.filter(plan="guests.birthdays", fired="").exists(), "nothing was left to fire"
    stage.clocked_worker()
    stage.clocked_worker()
    wait_until(lambda: Greeting.objects.count() >= 6000, 120, "greeting all", stage.logs)
    settle(stage)
    assert half_done(year) == []
    assert Counter(Greeting.objects.values_list("guest_id", flat=True)) == dict.fromkeys(range(1, 6001), 1)


def caught_firing(worker: subprocess.Popen[str]) -> int:
    """How many events there were when the worker was seen in the middle of making more."""
    deadline = time.monotonic() + 40
    while True:
        before = Event.objects.filter(type="guest.birthday").count()
        if is_firing(worker.pid):
            return before
        assert time.monotonic() < deadline, "the worker fired nothing"


def soon(seconds: float) -> datetime:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)


def moment_after_planning(count: int) -> datetime:
    """Far enough from now to plan so many schedules before it, as quick or slow as this machine is right now."""
    started = time.monotonic()
    with transaction.atomic():
        plan_bills({f"try:{number}": soon(3600) for number in range(25)})
        transaction.set_rollback(True)
    return soon(2 + 1.5 * count * (time.monotonic() - started) / 25)


def plan_bills(bills: dict[str, datetime], accounts: int = 0) -> None:
    """One-shots by key; each about an account of its own, or dealt out to so many."""
    with transaction.atomic():
        for number, (key, due) in enumerate(bills.items()):
            about = ("account", number % accounts if accounts else key)
            duebox.schedule("ledger.posted", {"account": 1, "sequence": 0}, at=due, key=key, about=about)


def around(moment: datetime, luck: random.Random) -> float:
    """Rather before it than after: on a slow machine the orders are carried out later than they say."""
    return moment.timestamp() + luck.uniform(-0.5, 0.25)


def with_workers(stage: TimeProcesses, *, movers: int, workers: list[subprocess.Popen[str]]) -> list[Talker]:
    """The movers, once all is ready."""
    ready = stage.movers(movers)
    wait_until(lambda: Worker.objects.count() == len(workers), 60, "the start of the workers", stage.logs)
    return ready


def refuse_lateness(moment: datetime) -> None:
    left = (moment - datetime.now(UTC)).total_seconds()
    assert left > 0.5, f"this machine is too slow for a race: {left:.1f} s left"


def born_at(moment: datetime, numbers: range, time_app: Declared) -> int:
    """Guests whose birthday this year is at a moment, on the clock at home; gives the year."""
    local = moment.astimezone(UTC).replace(tzinfo=None) + 3 * AN_HOUR
    born = local.date().replace(year=1988)
    Guest.objects.bulk_create(Guest(id=number, born=born, zone=HOME, greeted_at=local.time()) for number in numbers)
    synced = time_app.birthdays.sync(Guest.objects.all())
    assert synced.planned == len(numbers), synced
    return local.year


def settle(stage: TimeProcesses) -> None:
    """Everything that comes due within ten minutes has fired, and everything that fired is handled."""

    def settled() -> bool:
        due = Schedule.objects.scheduled().filter(due_at__lt=datetime.now(UTC) + timedelta(minutes=10))
        return not due.exclude(type="duebox.plans.reconcile").exists() and not Delivery.objects.exists()

    wait_until(settled, 120, "settling", lambda: f"{what_is_left()}\n{stage.logs()[-6000:]}")


def what_is_left() -> str:
    deliveries = Counter(Delivery.objects.with_state().values_list("subscriber", "state"))
    schedules = Counter(Schedule.objects.values_list("type", "status"))
    return f"deliveries {deliveries}, schedules {schedules}"


def assert_both_sides_won(sides: Counter[str], *names: str) -> None:
    """Else it was no race."""
    assert min(sides[name] for name in names) >= 10, sides


def holders() -> set[int]:
    """The processes of the workers that have deliveries in hand."""
    leases = Delivery.objects.filter(lease__isnull=False).values("lease")
    names = Worker.objects.filter(id__in=leases).values_list("name", flat=True)
    return {int(name.rpartition(":")[2]) for name in names}


def leases_of(pid: int) -> list[int]:
    return list(Worker.objects.filter(name__endswith=f":{pid}").values_list("id", flat=True))


def is_firing(pid: int) -> bool:
    """Whether a worker is inside a transaction that writes events and schedules."""
    [(relations,)] = asked(
        """
        SELECT count(DISTINCT relation)
        FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE application_name = %s AND mode = 'RowExclusiveLock'
          AND relation IN ('duebox_event'::regclass, 'duebox_schedule'::regclass)
        """,
        f"worker-{pid}",
    )
    return bool(relations == 2)


def is_connected(pid: int) -> bool:
    return bool(asked("SELECT FROM pg_stat_activity WHERE application_name = %s", f"worker-{pid}"))


def half_done(year: int) -> list[tuple[Any, ...]]:
    """Guests whose event, delivery and schedule do not agree; one statement, so one snapshot."""
    return asked(
        """
        SELECT s.key, s.fired, s.occurrence, count(e.id), count(d.id) + count(a.id)
        FROM duebox_schedule s
        LEFT JOIN duebox_event e ON e.type = s.type AND e.aggregate_id = s.aggregate_id
        LEFT JOIN duebox_delivery d ON d.event_id = e.id
        LEFT JOIN duebox_attempt a ON a.event_id = e.id AND a.outcome = 'delivered'
        WHERE s.plan = 'guests.birthdays'
        GROUP BY s.id
        HAVING (s.fired, s.occurrence, count(e.id), count(d.id) + count(a.id)) NOT IN (('', %s, 0, 0), (%s, %s, 1, 1))
        LIMIT 5
        """,
        str(year), str(year), str(year + 1),
    )  # fmt: skip


def transactions() -> int:
    """How many there have been in this database."""
    asked("SELECT pg_stat_clear_snapshot()")
    [(found,)] = asked("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
    return int(found)


def asked(query: str, *params: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        return list(cursor.fetchall())
