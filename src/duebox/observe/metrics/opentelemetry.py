"""Metrics for OpenTelemetry, as observable instruments of a meter provider, by default the global one.

The API takes histograms one value at a time, which would cost more than the delivery that is measured. So a histogram
is three counters, as Prometheus has them: `.bucket` with the attribute `le`, `.sum` and `.count`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any

from duebox.context.metrics import COUNTERS, HISTOGRAMS, Counter, Histogram, Labels, Metric
from duebox.exceptions import NotReady
from duebox.observe.metrics.gauges import GAUGES, DatabaseGauges, Gauge

try:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider
except ImportError as error:
    raise NotReady(
        "DUEBOX['METRICS'] has 'opentelemetry', but opentelemetry-api is not installed; "
        "run: pip install 'duebox[opentelemetry]'"
    ) from error

UNITS = {"seconds": "s", "percent": "%", "": "1"}

Callback = Callable[[CallbackOptions], Iterable[Observation]]


class OpenTelemetryExporter:
    """Instruments cannot be removed, so a provider gets them once. They show the gauges of the exporter that was
    started last, and none after it was stopped."""

    _running: OpenTelemetryExporter | None = None
    _providers: list[MeterProvider] = []

    def __init__(self, gauges: DatabaseGauges, options: dict[str, Any], provider: MeterProvider | None = None) -> None:
        self.gauges = gauges
        self._provider = provider

    def start(self) -> None:
        OpenTelemetryExporter._running = self
        provider = self._provider or get_meter_provider()
        if not any(each is provider for each in self._providers):
            self._providers.append(provider)
            _instrument(provider)

    def stop(self) -> None:
        """The code that created a provider shuts it down; values counted until then are sent."""
        if OpenTelemetryExporter._running is self:
            OpenTelemetryExporter._running = None


def _instrument(provider: MeterProvider) -> None:
    meter = provider.get_meter("duebox")
    for counter in COUNTERS:
        meter.create_observable_counter(_name(counter), [_observing(counter, _counted)], "1", counter.help)
    for histogram in HISTOGRAMS:
        for part, read in (("bucket", _buckets), ("sum", _sums), ("count", _counts)):
            unit = UNITS[histogram.unit] if part == "sum" else "1"
            name = f"{_name(histogram)}.{part}"
            meter.create_observable_counter(name, [_observing(histogram, read)], unit, histogram.help)
    for gauge in GAUGES:
        meter.create_observable_gauge(_name(gauge), [_observing(gauge, _read)], UNITS[gauge.unit], gauge.help)


def _name(metric: Metric) -> str:
    return f"duebox.{metric.name}"


def _observing(metric: Any, read: Callable[[Any], Iterator[Observation]]) -> Callback:
    return lambda options: list(read(metric))


def _counted(counter: Counter) -> Iterator[Observation]:
    for labels, value in counter.read().items():
        yield Observation(value, _attributes(counter, labels))


def _buckets(histogram: Histogram) -> Iterator[Observation]:
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for labels, found in histogram.read().items():
        for bound, count in zip(bounds, accumulate(found.counts), strict=True):
            yield Observation(count, {**_attributes(histogram, labels), "le": bound})


def _sums(histogram: Histogram) -> Iterator[Observation]:
    for labels, found in histogram.read().items():
        yield Observation(found.sum, _attributes(histogram, labels))


def _counts(histogram: Histogram) -> Iterator[Observation]:
    for labels, found in histogram.read().items():
        yield Observation(found.total, _attributes(histogram, labels))


def _read(gauge: Gauge) -> Iterator[Observation]:
    running = OpenTelemetryExporter._running
    for labels, value in running.gauges.read().get(gauge, {}).items() if running else ():
        yield Observation(value, _attributes(gauge, labels))


def _attributes(metric: Metric, labels: Labels) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))
