from __future__ import annotations

import signal
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

import duebox
from duebox.contracts.enforce import Own
from duebox.models import Attempt, Delivery, Event, ScheduleLog, Worker
from duebox.testing import drain
from tests.app.models import Task
from tests.app.sweeps import DueChores
from tests.crash.stage import Processes, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

TASKS = 5_000


def test_each_task_is_reminded_once_though_one_of_three_workers_is_killed_in_the_middle(processes: Processes) -> None:
    tomorrow = timezone.now() + timedelta(days=1)
    Task.objects.bulk_create(Task(title=f"task {number}", due_at=tomorrow) for number in range(TASKS))
    workers = [processes.worker("--threads", "1", LEASE_SECONDS=1) for _ in range(3)]
    wait_until(lambda: Worker.objects.count() == 3, 60, "the start of the workers", processes.logs)

    wait_until(all_three_are_at_work, 60, "three runs at the same time", processes.logs)
    wait_until(lambda: reminded() > TASKS / 5, 60, "a fifth of the work", processes.logs)
    workers[0].send_signal(signal.SIGKILL)
    workers[0].wait()
    assert reminded() < TASKS, "the kill came too late"
    processes.worker("--threads", "1", LEASE_SECONDS=1)

    wait_until(lambda: not Delivery.objects.exists(), 120, "the end of all runs", processes.logs)
    judge()


def test_a_sweep_goes_on_by_itself_when_the_database_restarts_in_the_middle(own_server, processes: Processes) -> None:
    tomorrow = timezone.now() + timedelta(days=1)
    Task.objects.bulk_create(Task(title=f"task {number}", due_at=tomorrow) for number in range(TASKS // 5))
    sweep = processes.manage("sweep", "app.SlowReminders")
    wait_until(lambda: reminded() > 100, 30, "the beginning of the work", processes.logs)
    own_server.restart()
    out, _ = sweep.communicate(timeout=120)
    connection.close()
    assert sweep.returncode == 0, processes.logs()
    assert "database error, trying again in 1 s: sweep=app.SlowReminders run=" in processes.logs()
    judge(runs=1)
    assert out.startswith("app.SlowReminders: ")


def test_processes_that_sweep_and_redrive_at_once_remind_nobody_twice(processes: Processes) -> None:
    """The letter of a row whose handler died is redriven, or replaced by an event of a later run, never both."""
    many = 300
    tomorrow = timezone.now() + timedelta(days=1)
    Task.objects.bulk_create(Task(title="broken", due_at=tomorrow) for _ in range(many))
    DueChores.run()
    assert drain(raises=False).dead == many
    Task.objects.update(title="mended")

    started = [processes.manage("sweep", "app.DueChores") for _ in range(2)]
    started.append(processes.manage("deliveries", "retry", "--state", "dead", "--handler", "chore.reminds"))
    for process in started:
        process.communicate(timeout=120)
        assert process.returncode == 0, processes.logs()

    redriven = set(Attempt.objects.filter(outcome="redriven").values_list("event_id", flat=True))
    found_again = set(Attempt.objects.filter(outcome="discarded").values_list("event_id", flat=True))
    assert not redriven & found_again
    assert len(redriven) + len(found_again) == many
    assert Delivery.objects.filter(status="pending").count() == many
    about = Event.objects.in_bulk(Delivery.objects.values_list("event_id", flat=True)).values()
    assert Counter(event.aggregate_id for event in about) == Counter(str(task.pk) for task in Task.objects.all())


def all_three_are_at_work() -> bool:
    """One of them may claim several runs, so there are as many as it takes."""
    duebox.emit(Own("duebox.sweep.due"), {"sweep": "app.SlowReminders"})
    return Delivery.objects.filter(lease__isnull=False).values("lease").distinct().count() == 3


def reminded() -> int:
    return Event.objects.filter(type="task.due_soon").count()


def judge(runs: int = 3) -> None:
    events = dict(Event.objects.filter(type="task.due_soon").values_list("id", "aggregate_id"))
    assert Counter(events.values()) == Counter(str(key) for key in Task.objects.values_list("pk", flat=True))
    lines = list(ScheduleLog.objects.values_list("what", "event_id", "aggregate_id", "run"))
    assert {what for what, *_ in lines} == {"swept"}
    assert {event: key for _, event, key, _ in lines} == events
    assert len(lines) == Task.objects.count()
    told = {run for *_, run in lines}
    assert "" not in told
    assert len(told) >= runs
    assert not Task.objects.filter(reminded_at__isnull=True).exists()
