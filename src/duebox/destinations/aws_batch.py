"""Ten at a time, and no more bytes than a request holds: how AWS takes events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from duebox.destinations.aws import limited, of_call
from duebox.destinations.base import Destination, Result
from duebox.exceptions import Permanent, Refused, TooLarge, Undelivered
from duebox.fact import Fact

TEN = 10


class Entry(NamedTuple):
    """An event as it is put into a request."""

    place: int
    """In the batch that the worker gave."""
    size: int
    content: dict[str, Any]
    group: str = ""
    """No request holds two of the same group."""


class AwsBatch(Destination):
    """Sorts a batch into requests and the answers back to the events."""

    batch_size = TEN
    hard_limit = 1024 * 1024

    def __init__(self, alias: str, *, largest: int) -> None:
        super().__init__(alias)
        self.largest = limited(largest, self.hard_limit)
        self.client: Any = None

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        results: list[Result] = [None] * len(batch)
        entries: list[Entry] = []
        for place, fact in enumerate(batch):
            try:
                entries.append(self._fitting(place, fact))
            except Permanent as error:
                results[place] = error
        trouble: Undelivered | None = None
        for request in in_requests(entries, self.largest):
            # Once AWS cannot be reached, the rest waits too: each request more would wait for its own timeout.
            if trouble is None:
                try:
                    answers = self._send(request)
                except Undelivered as error:
                    trouble = error
            for entry, answer in zip(request, answers if trouble is None else [trouble] * len(request), strict=True):
                results[entry.place] = answer
        return results

    def close(self) -> None:
        self.client.close()

    def entry(self, place: int, fact: Fact) -> Entry:
        """The event, ready to be sent; raises `Permanent` for one that never can be."""
        raise NotImplementedError

    def call(self, entries: list[Entry]) -> list[Result]:
        """One request; an answer for each entry. What the client raises concerns all of them."""
        raise NotImplementedError

    def _fitting(self, place: int, fact: Fact) -> Entry:
        made = self.entry(place, fact)
        if made.size > self.largest:
            raise TooLarge(made.size, self.largest, f"Event {fact.type!r}, as it is sent to {self.alias!r},")
        return made

    def _send(self, request: list[Entry]) -> list[Result]:
        """A request that is refused for what it holds is sent again event by event: one must not spoil nine."""
        try:
            return self.call(request)
        except Undelivered:
            raise
        except Exception as error:
            judged = of_call(error)
            if not isinstance(judged, Refused):
                raise judged from error
            if len(request) == 1:
                return [judged]
        return [answer for entry in request for answer in self._send([entry])]


def in_requests(entries: Sequence[Entry], largest: int) -> Iterator[list[Entry]]:
    """Cut where a request would hold too many entries, too many bytes, or two of a group; the order stays."""
    request: list[Entry] = []
    size = 0
    groups: set[str] = set()
    for entry in entries:
        if request and (len(request) == TEN or size + entry.size > largest or entry.group in groups):
            yield request
            request, size, groups = [], 0, set()
        request.append(entry)
        size += entry.size
        if entry.group:
            groups.add(entry.group)
    if request:
        yield request
