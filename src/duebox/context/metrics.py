"""Counters and histograms of this process.

The engine adds to them a batch at a time, and the exporters of `duebox.observe.metrics` read them. They only grow; an
exporter that sends differences remembers what it has sent. `docs/reference/metrics.md` explains each metric.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Labels = tuple[str, ...]
"""The values of the labels of a metric, in their order."""

MOST_SERIES = 1_000
"""The maximum number of label combinations of a metric. Further ones are counted under `other`."""
OTHER = "other"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets of a histogram of seconds; the last bucket has none."""

_lock = threading.Lock()


class Metric:
    """The base of counters, histograms and gauges. `name` has dots; each exporter converts it to its own spelling."""

    kind = ""

    def __init__(self, name: str, help: str, *, labels: Labels = (), unit: str = "") -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self.unit = unit


class Counter(Metric):
    kind = "counter"

    def __init__(self, name: str, help: str, *, labels: Labels = ()) -> None:
        super().__init__(name, help, labels=labels)
        self._values: dict[Labels, int] = {} if labels else {(): 0}

    def add(self, amount: int = 1) -> None:
        """For a counter without labels."""
        self.add_many({(): amount})

    def add_many(self, amounts: Mapping[Labels, int]) -> None:
        with _lock:
            for labels, amount in amounts.items():
                series = _bounded(self._values, labels)
                self._values[series] = self._values.get(series, 0) + amount

    def read(self) -> dict[Labels, int]:
        with _lock:
            return dict(self._values)


class Distribution(NamedTuple):
    """The number of values in each bucket, and the sum of all values."""

    counts: tuple[int, ...]
    sum: float

    @property
    def total(self) -> int:
        return sum(self.counts)


class Histogram(Metric):
    kind = "histogram"

    def __init__(self, name: str, help: str, *, labels: Labels = (), bounds: tuple[float, ...] = SECONDS) -> None:
        super().__init__(name, help, labels=labels, unit="seconds")
        self.bounds = bounds
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        if not labels:
            self.observe(())

    def observe(self, values: Iterable[float], labels: Labels = ()) -> None:
        found = [0] * (len(self.bounds) + 1)
        total, bounds = 0.0, self.bounds
        for value in values:
            found[bisect_left(bounds, value)] += 1
            total += value
        with _lock:
            series = _bounded(self._counts, labels)
            before = self._counts.get(series)
            self._counts[series] = found if before is None else [a + b for a, b in zip(before, found, strict=True)]
            self._sums[series] = self._sums.get(series, 0.0) + total

    def read(self) -> dict[Labels, Distribution]:
        with _lock:
            return {labels: Distribution(tuple(counts), self._sums[labels]) for labels, counts in self._counts.items()}


def _bounded(known: Mapping[Labels, object], labels: Labels) -> Labels:
    if labels in known or len(known) < MOST_SERIES:
        return labels
    return (OTHER,) * len(labels)


PUBLISHED = Counter(
    "events.published",
    "Events that a worker has delivered, each of them once, however many consumers it has",
    labels=("event_type",),
)
SUCCESS = Counter("events.delivery.success", "Successful deliveries", labels=("consumer",))
FAILURE = Counter(
    "events.delivery.failure",
    "Failed attempts to deliver, by the class of the exception",
    labels=("consumer", "error"),
)
SETTLED = Counter("deliveries.settled", "Attempts by outcome", labels=("outcome",))
RESCUED = Counter("deliveries.rescued", "Deliveries taken back from workers that were lost")
LEASE_LOSSES = Counter("lease.losses", "Leases that this worker has lost")
SWEEP_ROWS = Counter("sweep.rows", "Rows of sweeps by what became of them", labels=("sweep", "result"))
LATENESS = Histogram(
    "delivery.lateness", "Delay between the scheduled time and the start of the first attempt, in seconds"
)
COMMIT_TO_START = Histogram(
    "delivery.commit_to_start",
    "Delay between the due time of a delivery, by default its emission, and the start of the first attempt, in seconds",
)
HANDLER_DURATION = Histogram("handler.duration", "How long attempts took, in seconds", labels=("consumer",))
CLAIM_DURATION = Histogram("claim.duration", "How long the database took to claim due deliveries, in seconds")

COUNTERS = (PUBLISHED, SUCCESS, FAILURE, SETTLED, RESCUED, LEASE_LOSSES, SWEEP_ROWS)
HISTOGRAMS = (LATENESS, COMMIT_TO_START, HANDLER_DURATION, CLAIM_DURATION)
