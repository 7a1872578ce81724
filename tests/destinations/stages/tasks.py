"""DjangoTask with the backend that runs a task at once, so that the task is the other side."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from duebox.exceptions import Permanent
from tests.destinations.conformance import Arrived, Stage

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

KEY = "DUEBOX_TEST_TASK_LIST"
moods: dict[str, Any] = {}
"""What the task does instead, by event id; under "" for all."""


@task
def record(envelope: dict[str, Any]) -> None:
    """Another process may run it, so what arrived goes to Redis."""
    mood = moods.get(envelope["event_id"], moods.get(""))
    if mood is not None and mood != "mute":
        raise mood
    with redis.Redis(db=3) as client:
        client.rpush(os.environ[KEY], json.dumps(envelope))
    if mood == "mute":
        raise ConnectionError("the answer is lost")


class DjangoTask(Stage):
    backend = "duebox.destinations.django_tasks.DjangoTask"
    largest = 20_000

    def __enter__(self) -> DjangoTask:
        self.key = os.environ[KEY] = f"stage-{uuid.uuid4().hex}"
        return self

    def __exit__(self, *exc: object) -> None:
        with redis.Redis(db=3) as client:
            client.delete(self.key)

    @property
    def options(self) -> dict[str, Any]:
        return {"task": f"{__name__}.record", "max_bytes": self.largest}

    def arrived(self) -> list[Arrived]:
        with redis.Redis(db=3) as client:
            return [Arrived(json.loads(each)) for each in client.lrange(self.key, 0, -1)]

    def away(self) -> Any:
        return _mood({""}, ConnectionError("nobody is there"))

    def hanging(self) -> Any:
        """To enqueue is a call in this process: its own timeout is all the silence there can be."""
        return _mood({""}, TimeoutError("no answer came"))

    def muted(self) -> Any:
        return _mood({""}, "mute")

    def failing(self, ids: set[str]) -> Any:
        return _mood(ids, ConnectionError("not now"))

    def refusing(self, ids: set[str]) -> Any:
        return _mood(ids, Permanent("never"))


@contextmanager
def _mood(ids: set[str], mood: Any) -> Iterator[None]:
    moods.update(dict.fromkeys(ids, mood))
    try:
        yield
    finally:
        for id in ids:
            del moods[id]


STAGES = [DjangoTask]
