"""Hand-over to Celery: how many tasks a second reach the broker, beside `task.apply_async()` in the same process.

Ours are confirmed by RabbitMQ; so is the call beside it, which without confirms may lose what it sent. Celery asks for
none unless it is told to, so that is measured too. All of them take turns, since the speed of a machine changes within
a run; what counts is the median of the turns."""

from __future__ import annotations

import os
import statistics
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from celery import Celery
from django.conf import settings
from django.test.utils import override_settings
from kombu import Queue

import duebox
from bench import stage
from duebox.conf import conf
from duebox.destinations.celery import CeleryTask
from duebox.destinations.envelope import as_dict
from duebox.destinations.registry import destination_of
from duebox.events.emit import fact_row
from duebox.events.fact import Fact
from duebox.worker.worker import Worker

BROKERS = {
    "Redis": os.environ.get("DUEBOX_BENCH_REDIS", "redis://127.0.0.1:6379/3"),
    "RabbitMQ": os.environ.get("DUEBOX_BENCH_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672//"),
}
BATCH, THREADS, TURNS, TASK, TYPE = 100, 4, 3, "bench.task", "bench.to_celery"
SETTLE_SECONDS = 0.5
app = Celery("bench", set_as_current=False)
app.conf.update(task_ignore_result=True, broker_transport_options={"confirm_publish": True})


@app.task(name=TASK)
def task(event: dict[str, Any]) -> None:
    """Nobody runs it: what counts is that the broker has it."""


def hand_over(events: int = 10_000) -> dict[str, Any]:
    return {"celery_events": events, "celery": {name: _measure(url, events) for name, url in BROKERS.items()}}


def _measure(url: str, events: int) -> dict[str, int]:
    app.conf.broker_url = app.conf.broker_write_url = url
    app.set_default()
    queue = f"bench-{uuid.uuid4().hex}"
    ours = CeleryTask("bench", task=TASK, app="bench.celery.app", queue=queue, broker=url)
    facts = [
        Fact(fact_row(duebox.NewEvent(type=TYPE, data=stage.PAYLOAD, about=("account", 1)), conf()))
        for _ in range(events)
    ]
    ways: dict[str, tuple[int, Callable[[list[Fact]], None]]] = {
        "plain": (1, lambda part: _by_hand(part, queue, url)),
        "plain_threads": (THREADS, lambda part: _by_hand(part, queue, url)),
        "ours": (1, lambda part: _deliver(ours, part)),
        "ours_threads": (THREADS, lambda part: _deliver(ours, part)),
    }
    if url.startswith("amqp"):
        ways["unconfirmed"] = (1, lambda part: _by_hand(part, queue, url, confirm=False))
        ways["unconfirmed_threads"] = (THREADS, lambda part: _by_hand(part, queue, url, confirm=False))
    try:
        _by_hand(facts[:BATCH], queue, url)
        # As many for each, since those by hand also connect within the time that is measured.
        some = facts[: events // (2 * TURNS)]
        turns = [{name: _rate_alone(queue, url, some, *way) for name, way in ways.items()} for _ in range(TURNS)]
        found = {name: round(statistics.median(turn[name] for turn in turns)) for name in ways}
        return {**found, "worker": _by_worker(url, queue, events)}
    finally:
        ours.close()
        with app.connection_for_write(url) as connection:
            Queue(queue, channel=connection.default_channel).delete()


def _rate_alone(queue: str, url: str, facts: list[Fact], threads: int, send: Callable[[list[Fact]], None]) -> int:
    """With an empty queue, and a broker that has nothing left to do: what is not confirmed it may still be storing."""
    with app.connection_for_write(url) as connection:
        Queue(queue, channel=connection.default_channel).purge()
    time.sleep(SETTLE_SECONDS)
    return _rate(facts, threads, send)


def _rate(facts: list[Fact], threads: int, send: Callable[[list[Fact]], None]) -> int:
    each = [threading.Thread(target=send, args=[facts[number::threads]]) for number in range(threads)]
    begun = time.perf_counter()
    for thread in each:
        thread.start()
    for thread in each:
        thread.join()
    return round(len(facts) / (time.perf_counter() - begun))


def _deliver(ours: CeleryTask, facts: list[Fact]) -> None:
    for start in range(0, len(facts), BATCH):
        refused = [each for each in ours.deliver(facts[start : start + BATCH]) if each is not None]
        assert not refused, refused[0]


def _by_hand(facts: list[Fact], queue: str, url: str, *, confirm: bool = True) -> None:
    options = {"confirm_publish": confirm}
    with (
        app.connection_for_write(url, transport_options=options) as connection,
        app.amqp.Producer(connection) as producer,
    ):
        for fact in facts:
            task.apply_async((as_dict(fact.row),), task_id=str(fact.id), queue=queue, producer=producer)


def _by_worker(url: str, queue: str, events: int) -> int:
    """All of it: claim, hand over, settle."""
    options = {"task": TASK, "app": "bench.celery.app", "queue": queue, "broker": url}
    entry = {"BACKEND": "duebox.destinations.celery.CeleryTask", "OPTIONS": options}
    routes = [{"match": TYPE, "to": "celery"}]
    destinations = {"DESTINATIONS": {"celery": entry}, "ROUTES": routes}
    with override_settings(DUEBOX={**settings.DUEBOX, **destinations}):
        stage.fill(TYPE, events)
        begun = time.perf_counter()
        Worker(until_idle=True).run()
        seconds = time.perf_counter() - begun
        destination_of("to:celery").close()
    assert stage.left() == 0
    return round(events / seconds)


def rows(result: dict[str, Any]) -> list[tuple[str, str, str, str, float | None]]:
    found = []
    for name, each in result["celery"].items():
        references = {"task.apply_async()": max(each["plain"], each["plain_threads"])}
        if "unconfirmed" in each:
            references["the same, unconfirmed"] = max(each["unconfirmed"], each["unconfirmed_threads"])
        for what, rate in (("hand-over", max(each["ours"], each["ours_threads"])), ("one worker", each["worker"])):
            told = [f"Celery on {name}, {what}", f"{rate:,}/s"]
            for reference, beside in references.items():
                found.append((*told, reference, f"{beside:,}/s", rate / beside))
                told = ["", ""]
    return found
