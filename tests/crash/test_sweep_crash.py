from __future__ import annotations

import signal
from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

import duebox
from duebox.models import Delivery, Event, Trail, Worker
from duebox.promise import Own
from tests.app.models import Task
from tests.crash.stage import Processes, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

TASKS = 5_000


def test_each_task_is_reminded_once_though_one_of_three_workers_is_killed_in_the_middle(processes: Processes) -> None:
    tomorrow = timezone.now() + timedelta(days=1)
    Task.objects.bulk_create(Task(title=f"task {number}", due_at=tomorrow) for number in range(TASKS))
    workers = [processes.worker("--threads", "1", LEASE_SECONDS=1) for _ in range(3)]
    wait_until(lambda: Worker.objects.count() == 3, 20, "the start of the workers", processes.logs)

    wait_until(all_three_are_at_work, 5, "three runs at the same time", processes.logs)
    wait_until(lambda: reminded() > TASKS / 5, 60, "a fifth of the work", processes.logs)
    workers[0].send_signal(signal.SIGKILL)
    workers[0].wait()
    assert reminded() < TASKS, "the kill came too late"
    processes.worker("--threads", "1", LEASE_SECONDS=1)

    wait_until(lambda: not Delivery.objects.exists(), 120, "the end of all runs", processes.logs)
    judge()


def all_three_are_at_work() -> bool:
    """One of them may claim several runs, so there are as many as it takes."""
    duebox.emit(Own("duebox.sweep.due"), {"sweep": "app.SlowReminders"})
    return Delivery.objects.filter(lease__isnull=False).values("lease").distinct().count() == 3


def reminded() -> int:
    return Event.objects.filter(type="task.due_soon").count()


def judge() -> None:
    events = dict(Event.objects.filter(type="task.due_soon").values_list("id", "aggregate_id"))
    assert Counter(events.values()) == Counter(str(key) for key in Task.objects.values_list("pk", flat=True))
    lines = list(Trail.objects.values_list("what", "event_id", "aggregate_id", "run"))
    assert {what for what, *_ in lines} == {"swept"}
    assert {event: key for _, event, key, _ in lines} == events
    assert len(lines) == TASKS
    runs = {run for *_, run in lines}
    assert "" not in runs
    assert len(runs) >= 3
    assert not Task.objects.filter(reminded_at__isnull=True).exists()
