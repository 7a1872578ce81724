"""Destinations for the tests of the seam: what they are told to do, they do."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from duebox.destinations.base import Destination, Result
from duebox.events.fact import Fact


class Post(Destination):
    """Keeps what it gets. `answers` decides by event: an error is given back, a number is waited for in seconds,
    until `hurry` is set."""

    batch_size = 10
    keeps_order = True
    boxes: dict[str, Post] = {}

    def __init__(self, alias: str, *, answers: Any = None) -> None:
        super().__init__(alias)
        self.calls: list[list[Fact]] = []
        self.at: list[float] = []
        self.told: list[Any] = []
        self.at_once = 0
        self.most_at_once = 0
        self.answers: Any = answers
        self.hurry = threading.Event()
        self._lock = threading.Lock()
        Post.boxes[alias] = self

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        with self._lock:
            self.calls.append(list(batch))
            self.at.append(time.monotonic())
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return [self._answer(fact) for fact in batch]
        finally:
            with self._lock:
                self.at_once -= 1

    def fails_since(self, since: Any) -> None:
        self.told.append(since)

    @property
    def facts(self) -> list[Fact]:
        return [fact for call in self.calls for fact in call]

    def _answer(self, fact: Fact) -> Any:
        answer = self.answers(fact) if callable(self.answers) else self.answers
        if isinstance(answer, int | float):
            self.hurry.wait(answer)
            return None
        if isinstance(answer, BaseException) and not isinstance(answer, Exception):
            raise answer
        return answer


class Single(Post):
    batch_size = 1


class Parts(Post):
    """Expands into a part for each letter in the event's data."""

    expands = True
    match = "letter.*"

    @classmethod
    def expand(cls, alias: str, facts: Sequence[Fact], using: str) -> None:
        from duebox.models import Delivery

        names = [(fact.id, f"to:{alias}/{letter}") for fact in facts for letter in fact.data["letters"]]
        Delivery.objects.using(using).bulk_create(Delivery(event_id=id, subscriber=name) for id, name in names)

    def part(self, key: str) -> Destination:
        return Post.boxes.get(f"{self.alias}/{key}") or Single(f"{self.alias}/{key}")
