"""Exporters that send by themselves, every few seconds and once more when the worker stops: JSON lines in CloudWatch's
embedded metric format (EMF), and StatsD datagrams.

They send what was added since the last time. That is remembered for the process, not for a worker: a function that is
called again, as on Lambda, sends nothing twice.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from duebox.context.metrics import COUNTERS, HISTOGRAMS, Counter, Distribution, Histogram, Labels, Metric
from duebox.observe.metrics.gauges import DatabaseGauges, Gauge

logger = logging.getLogger("duebox.metrics")

STOP_SECONDS = 2.0
"""The timeout of the last send, when the worker is stopping."""
DATAGRAM_BYTES = 1_400
"""The size of a datagram that no network fragments."""
EMF_UNITS = {"seconds": "Seconds", "percent": "Percent", "": "Count"}
EMF_METRICS = 100
"""The maximum number of metrics in a line that CloudWatch accepts."""


class Changes(NamedTuple):
    """The changes since the last time, and the gauges."""

    counters: list[tuple[Counter, Labels, int]]
    histograms: list[tuple[Histogram, Labels, Distribution]]
    gauges: list[tuple[Gauge, Labels, float]]


class Sent:
    """The values that an exporter of this process has sent already."""

    def __init__(self) -> None:
        self._counted: dict[tuple[Metric, Labels], int] = {}
        self._distributed: dict[tuple[Metric, Labels], Distribution] = {}
        self._lock = threading.Lock()

    def changes(self, gauges: DatabaseGauges) -> Changes:
        now = [(gauge, labels, value) for gauge, values in gauges.read().items() for labels, value in values.items()]
        with self._lock:
            return Changes(list(self._counters()), list(self._histograms()), now)

    def _counters(self) -> Iterator[tuple[Counter, Labels, int]]:
        for counter in COUNTERS:
            for labels, value in counter.read().items():
                if added := value - self._counted.get((counter, labels), 0):
                    self._counted[counter, labels] = value
                    yield counter, labels, added

    def _histograms(self) -> Iterator[tuple[Histogram, Labels, Distribution]]:
        for histogram in HISTOGRAMS:
            for labels, found in histogram.read().items():
                before = self._distributed.get((histogram, labels), Distribution((0,) * len(found.counts), 0.0))
                if found.total > before.total:
                    self._distributed[histogram, labels] = found
                    counts = tuple(a - b for a, b in zip(found.counts, before.counts, strict=True))
                    yield histogram, labels, Distribution(counts, found.sum - before.sum)


_sent: dict[str, Sent] = {}


class Pusher:
    """A thread that sends at intervals. Values that cannot be sent are lost, and the worker continues."""

    name = ""

    def __init__(self, gauges: DatabaseGauges, options: dict[str, Any]) -> None:
        self._gauges = gauges
        self._options = options
        self._sent = _sent.setdefault(self.name, Sent())
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"duebox-{self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(self._options["SECONDS"]):
            self.push()
        self.push()

    def push(self) -> None:
        try:
            self.send(self._sent.changes(self._gauges))
        except Exception as error:
            logger.warning("metrics could not be sent: exporter=%s error=%s", self.name, error)

    def send(self, changes: Changes) -> None:
        raise NotImplementedError


class StatsdExporter(Pusher):
    """Counters as `c`, gauges as `g`, histograms as `ms` with one line for each bucket: `@` says how many values it
    represents."""

    name = "statsd"

    def send(self, changes: Changes) -> None:
        address = (self._options["HOST"], self._options["PORT"])
        family, kind, protocol, _, target = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as line:
            for datagram in _datagrams(self._lines(changes)):
                line.sendto(datagram, target)

    def _lines(self, changes: Changes) -> Iterator[str]:
        for counter, labels, added in changes.counters:
            yield self._line(counter, labels, f"{added}|c")
        for gauge, labels, value in changes.gauges:
            yield self._line(gauge, labels, f"{value:g}|g" if value < 1e6 else f"{value:.0f}|g")
        for histogram, labels, found in changes.histograms:
            for seconds, count in _values(histogram, found):
                share = f"|@{1 / count:.9f}" if count > 1 else ""
                yield self._line(histogram, labels, f"{seconds * 1000:g}|ms{share}")

    def _line(self, metric: Metric, labels: Labels, value: str) -> str:
        prefix = self._options["PREFIX"]
        name = f"{prefix}.{metric.name}" if prefix else metric.name
        if self._options["TAGS"] == "none":  # the labels become a part of the name
            return f"{'.'.join([name, *(_plain(label, '.') for label in labels)])}:{value}"
        tags = ",".join(f"{key}:{_plain(label)}" for key, label in zip(metric.labels, labels, strict=True))
        return f"{name}:{value}{f'|#{tags}' if tags else ''}"


def _plain(label: str, *more: str) -> str:
    """Without characters that have a meaning in a line of StatsD."""
    for sign in (":", "|", "@", "#", ",", "\n", " ", *more):
        label = label.replace(sign, "_")
    return label


def _datagrams(lines: Iterator[str]) -> Iterator[bytes]:
    """Datagrams, each with as many lines as fit."""
    held = b""
    for line in lines:
        text = line.encode()
        if held and len(held) + 1 + len(text) > DATAGRAM_BYTES:
            yield held
            held = b""
        held = held + b"\n" + text if held else text
    if held:
        yield held


class EmfExporter(Pusher):
    """One line for each combination of labels, to stdout or to the end of a file."""

    name = "emf"

    def send(self, changes: Changes) -> None:
        text = "".join(f"{json.dumps(line)}\n" for line in self._lines(changes))
        if file := self._options["FILE"]:
            with Path(file).open("a") as out:
                out.write(text)
        else:
            sys.stdout.write(text)
            sys.stdout.flush()

    def _lines(self, changes: Changes) -> Iterator[dict[str, Any]]:
        found: dict[tuple[tuple[str, str], ...], list[tuple[Metric, Any]]] = {}
        for metric, labels, value in (*changes.counters, *changes.gauges):
            found.setdefault(_dimensions(metric, labels), []).append((metric, value))
        for histogram, labels, distribution in changes.histograms:
            statistics = _statistics(histogram, distribution)
            found.setdefault(_dimensions(histogram, labels), []).append((histogram, statistics))
        for dimensions, values in found.items():
            for start in range(0, len(values), EMF_METRICS):
                yield self._line(dict(dimensions), values[start : start + EMF_METRICS])

    def _line(self, dimensions: dict[str, str], values: list[tuple[Metric, Any]]) -> dict[str, Any]:
        named = [{"Name": metric.name, "Unit": EMF_UNITS[metric.unit]} for metric, _ in values]
        directive = {"Namespace": self._options["NAMESPACE"], "Dimensions": [[*dimensions]], "Metrics": named}
        about = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
        return {"_aws": about, **dimensions, **{metric.name: value for metric, value in values}}


def _dimensions(metric: Metric, labels: Labels) -> tuple[tuple[str, str], ...]:
    return tuple(zip(metric.labels, labels, strict=True))


def _statistics(histogram: Histogram, found: Distribution) -> dict[str, Any]:
    values = list(_values(histogram, found))
    return {
        "Values": [value for value, _ in values],
        "Counts": [count for _, count in values],
        "Min": values[0][0],
        "Max": values[-1][0],
        "Sum": found.sum,
        "Count": found.total,
    }


def _values(histogram: Histogram, found: Distribution) -> Iterator[tuple[float, int]]:
    """Each bucket that has something in it as a value and how often it came: the upper bound, so that a percentile is
    never better than it was; the last bucket has none, there it is its lower bound."""
    for bound, count in zip((*histogram.bounds, histogram.bounds[-1]), found.counts, strict=True):
        if count:
            yield bound, count
