"""EventBridge, as moto plays it: what our code costs an event beside a loop that anybody would write, and whether a
worker fills its requests. What boto3 and moto cost is left out: it is the same for both."""

from __future__ import annotations

import json
import logging
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import boto3
from django.test.utils import override_settings
from moto.server import ThreadedMotoServer

import duebox
from bench import stage
from duebox.conf import conf
from duebox.destinations.aws import EventBridge
from duebox.destinations.envelope import as_dict
from duebox.destinations.registry import destination_of
from duebox.events.emit import fact_row
from duebox.events.fact import Fact
from duebox.worker.worker import Worker

BUS, REGION, TEN, WARM = "bench", "eu-central-1", 10, 20
DATA = {
    "order": "A-10482", "customer": "0198d3a2-6f1e-7c44-9b52-3f7f2f0c1d11", "total": "162.60", "currency": "EUR",
    "lines": [{"sku": "KB-2041-DE", "quantity": 1, "price": "89.90"}, {"sku": "MS-1007", "quantity": 2}],
    "express": True, "note": "leave it at the door, please",
}  # fmt: skip


class Stopwatch:
    """A client that counts what is spent inside of it, and how many events each call held."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.seconds = 0.0
        self.sizes: list[int] = []

    def put_events(self, Entries: list[dict[str, Any]]) -> Any:  # noqa: N803 - as boto3 has it
        self.sizes.append(len(Entries))
        begun = time.thread_time()
        try:
            return self._client.put_events(Entries=Entries)
        finally:
            self.seconds += time.thread_time() - begun

    def close(self) -> None:
        self._client.close()


def cost(batches: int = 300) -> dict[str, Any]:
    """Microseconds of CPU for an event, and how full a worker makes its requests."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "bench")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "bench")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for each request otherwise
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        boto3.client("events", region_name=REGION, endpoint_url=endpoint).create_event_bus(Name=BUS)
        return _compare(endpoint, batches) | _fill(endpoint, batches * TEN)
    finally:
        server.stop()


def _compare(endpoint: str, batches: int) -> dict[str, Any]:
    ours = EventBridge("bench", bus=BUS, region=REGION, endpoint_url=endpoint)
    watch = ours.client = Stopwatch(ours.client)
    ways: dict[str, Callable[[list[Fact]], Any]] = {"ours": ours.deliver, "bare": lambda batch: _bare(watch, batch)}
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(batches + WARM):
        batch = [_fact() for _ in range(TEN)]
        for name in sorted(ways, reverse=bool(number % 2)):  # each first now and then
            mine = _cpu(watch, ways[name], batch)
            if number >= WARM:
                took[name].append(mine / TEN * 1e6)
    ours.close()
    found = {name: statistics.median(each) for name, each in took.items()}
    return {"aws_event_us": round(found["ours"], 1), "aws_bare_event_us": round(found["bare"], 1)}


def _cpu(watch: Stopwatch, send: Callable[[list[Fact]], Any], batch: list[Fact]) -> float:
    """Seconds of this thread, without those inside of the client."""
    inside, begun = watch.seconds, time.thread_time()
    send(batch)
    return time.thread_time() - begun - (watch.seconds - inside)


def _bare(client: Stopwatch, batch: list[Fact]) -> list[Any]:
    """A loop that anybody would write: no limits, no judging of errors."""
    entries = [
        {
            "EventBusName": BUS,
            "Source": "bench",
            "DetailType": fact.type,
            "Detail": json.dumps(as_dict(fact.row)),
            "Time": fact.occurred_at,
        }
        for fact in batch
    ]
    answer = client.put_events(Entries=entries)
    return [each.get("ErrorCode") for each in answer["Entries"]]


def _fact() -> Fact:
    """Fresh from the database: its data is text."""
    return Fact(fact_row(duebox.NewEvent(type="bench.to_bus", data=DATA, about=("account", 1)), conf()))


def _fill(endpoint: str, events: int) -> dict[str, Any]:
    """A worker with a bus and a crowd of events that are due."""
    entry = {
        "BACKEND": "duebox.destinations.aws.EventBridge",
        "OPTIONS": {"bus": BUS, "region": REGION, "endpoint_url": endpoint},
    }
    routes = [{"match": "bench.to_bus", "to": "bus"}]
    with override_settings(DUEBOX={"UNDECLARED": "allow", "DESTINATIONS": {"bus": entry}, "ROUTES": routes}):
        stage.empty()
        duebox.emit_many(duebox.NewEvent(type="bench.to_bus", data=DATA, about=("account", 1)) for _ in range(events))
        bus: Any = destination_of("to:bus")
        watch = bus.client = Stopwatch(bus.client)
        begun = time.perf_counter()
        Worker(until_idle=True).run()
        seconds = time.perf_counter() - begun
    assert sum(watch.sizes) == events, f"{sum(watch.sizes)} of {events} were sent"
    return {
        "aws_request_events": round(statistics.mean(watch.sizes), 2),
        "aws_worker_events_s": round(events / seconds),
    }


def rows(result: dict[str, Any]) -> list[tuple[str, str, str, str, float | None]]:
    ours, bare = result["aws_event_us"], result["aws_bare_event_us"]
    return [
        ("EventBridge, CPU of our code", f"{ours:.1f} us an event",
         "a loop with json.dumps", f"{bare:.1f} us", ours / bare),
        ("EventBridge, events in a request", f"{result['aws_request_events']:.2f}", "AWS takes", str(TEN), None),
        ("EventBridge, one worker, moto beside", f"{result['aws_worker_events_s']:,}/s", "", "", None),
    ]  # fmt: skip
