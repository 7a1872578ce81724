from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duebox.destinations.base import Destination
from duebox.exceptions import Undelivered


class Printer(Destination):
    """Takes everything, and writes down when."""

    def deliver(self, batch: Sequence[Any]) -> list[None]:
        from timesheets.models import Result

        Result.objects.bulk_create(Result(what="printed", text=fact.data["title"]) for fact in batch)
        return [None for _ in batch]


class Broken(Destination):
    def deliver(self, batch: Sequence[Any]) -> list[Undelivered]:
        from timesheets.models import Result

        Result.objects.bulk_create(Result(what="tried", text=fact.data["title"]) for fact in batch)
        return [Undelivered("out of paper") for _ in batch]
