"""A project with a Celery app, for processes that tests start. Where its broker and queue are is in the environment."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

from celery import Celery

from duebox.exceptions import Permanent
from duebox.integrations.celery_beat import beat_schedule

REDIS = "redis://127.0.0.1:6379/3"
RABBITMQ = "amqp://guest:guest@127.0.0.1:5672//"

app = Celery("project", broker=os.environ.get("DUEBOX_TEST_BROKER", REDIS), set_as_current=False)
app.conf.update(
    task_default_queue=os.environ.get("DUEBOX_TEST_QUEUE", "duebox-tests"),
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    task_ignore_result=True,
)


if "DUEBOX_TEST_SWEEP_SECONDS" in os.environ:
    app.conf.beat_schedule = beat_schedule(sweep_seconds=float(os.environ["DUEBOX_TEST_SWEEP_SECONDS"]))


@app.task(name="project.record", bind=True)
def record(self: Any, event: dict[str, Any]) -> None:
    from tests.app.models import Effect

    assert self.request.id == event["event_id"] == self.request.headers["duebox_event_id"]
    Effect.objects.create(event_id=event["event_id"], subscriber="task")


@app.task(name="project.nap")
def nap(event: dict[str, Any]) -> None:
    from tests.app.models import Effect

    time.sleep(event["data"]["seconds"])
    Effect.objects.create(event_id=event["event_id"], subscriber="task")


@app.task(name="project.fail")
def fail(event: dict[str, Any]) -> None:
    raise ValueError("the task did not like it")


@app.task(name="project.refuse")
def refuse(event: dict[str, Any]) -> None:
    raise Permanent("never")


@app.task(name="project.again", bind=True)
def again(self: Any, event: dict[str, Any]) -> None:
    if not self.request.retries:
        raise self.retry(countdown=0.1)
    record.run.__func__(self, event)


@app.task(name="project.die")
def die(event: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
