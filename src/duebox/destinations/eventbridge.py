"""Events on an event bus of Amazon EventBridge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from duebox.destinations.aws import DEFAULT_BYTES, client, of_entry, size_of, trace_header
from duebox.destinations.aws_batch import AwsBatch, Entry
from duebox.destinations.base import Problem, Result
from duebox.destinations.envelope import envelope, producer
from duebox.exceptions import InvalidDestination, Refused, Undelivered
from duebox.fact import Fact

LONGEST_TYPE = 128
_BUS = re.compile(r"(arn:aws[\w-]*:events:[a-z]+-[a-z]+-[\w-]+:[0-9]{12}:event-bus/)?[.\-_A-Za-z0-9]{1,256}")
_TIME_BYTES = 14  # what AWS counts for the time, however it is written


class EventBridge(AwsBatch):
    """`source` is the producer of the event unless given, of a public event "duebox"; the detail type is its type, the
    detail its envelope.

    AWS may pass an event on more than once and in any order. `largest` is for a whole request, counted as AWS does.
    """

    hard_limit = 1_000_000

    def __init__(
        self,
        alias: str,
        *,
        bus: str = "default",
        source: str = "",
        resources: Sequence[str] = (),
        region: str | None = None,
        endpoint_url: str | None = None,
        largest: int = DEFAULT_BYTES,
        timeout: float = 10.0,
    ) -> None:
        super().__init__(alias, largest=largest)
        if not isinstance(bus, str) or not _BUS.fullmatch(bus):
            raise InvalidDestination(f"bus is {bus!r}; it must be the name or the ARN of an event bus.")
        self._bus, self._source, self._resources = bus, source, list(resources)
        self._resources_size = sum(map(size_of, self._resources))
        self.client = client("events", region=region, endpoint_url=endpoint_url, timeout=timeout)

    def check(self) -> list[Problem]:
        if self._source.startswith("aws."):
            return [
                (f"source is {self._source!r}.", "Choose another: AWS keeps names that begin with 'aws.' to itself.")
            ]
        return []

    def entry(self, place: int, fact: Fact) -> Entry:
        row = fact.row
        if len(row.type) > LONGEST_TYPE:
            raise Refused(f"{row.type!r} has {len(row.type)} characters; EventBridge takes {LONGEST_TYPE} at most.")
        source, detail = self._source or producer(row) or "duebox", envelope(fact)
        content: dict[str, Any] = {
            "EventBusName": self._bus,
            "Source": source,
            "DetailType": row.type,
            "Detail": detail,
            "Time": fact.occurred_at,
        }
        if self._resources:
            content["Resources"] = self._resources
        if trace := trace_header(fact):
            content["TraceHeader"] = trace
        size = _TIME_BYTES + size_of(source) + size_of(row.type) + size_of(detail) + self._resources_size
        return Entry(place, size, content)

    def call(self, entries: list[Entry]) -> list[Result]:
        answer = self.client.put_events(Entries=[entry.content for entry in entries])
        said = answer["Entries"]
        if len(said) != len(entries):
            raise Undelivered(f"EventBridge answered for {len(said)} of {len(entries)} events")
        return [
            of_entry(each["ErrorCode"], each.get("ErrorMessage", "")) if "ErrorCode" in each else None for each in said
        ]
