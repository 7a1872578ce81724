"""Metrics for Prometheus, as a collector of `prometheus_client`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from duebox.context.metrics import COUNTERS, HISTOGRAMS, Counter, Distribution, Histogram, Metric
from duebox.exceptions import NotReady
from duebox.observe.metrics.gauges import DatabaseGauges

try:
    import prometheus_client
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
except ImportError as error:
    raise NotReady(
        "DUEBOX['METRICS'] has 'prometheus', but prometheus_client is not installed; "
        "run: pip install 'duebox[prometheus]'"
    ) from error


def family_name(metric: Metric) -> str:
    """The name of a metric in Prometheus; that of a counter ends with `_total`."""
    unit = f"_{metric.unit}" if metric.unit else ""
    return f"duebox_{metric.name.replace('.', '_')}{unit}{'_total' if metric.kind == 'counter' else ''}"


class DueboxCollector:
    """Register it with a registry of `prometheus_client`; a worker does so with the default one."""

    def __init__(self, gauges: DatabaseGauges) -> None:
        self._gauges = gauges

    def describe(self) -> Iterable[Any]:
        """Empty, so that registering it does not read the database."""
        return ()

    def collect(self) -> Iterator[Any]:
        yield from map(_counter, COUNTERS)
        yield from map(_histogram, HISTOGRAMS)
        for gauge, values in self._gauges.read().items():
            family = GaugeMetricFamily(family_name(gauge), gauge.help, labels=gauge.labels)
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family


def _counter(counter: Counter) -> Any:
    family = CounterMetricFamily(family_name(counter), counter.help, labels=counter.labels)
    for labels, value in counter.read().items():
        family.add_metric(labels, value)
    return family


def _histogram(histogram: Histogram) -> Any:
    family = HistogramMetricFamily(family_name(histogram), histogram.help, labels=histogram.labels)
    for labels, found in histogram.read().items():
        family.add_metric(labels, _buckets(histogram, found), found.sum)
    return family


def _buckets(histogram: Histogram, found: Distribution) -> list[tuple[str, int]]:
    bounds = [*(str(bound) for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(found.counts), strict=True))


class PrometheusExporter:
    """While it runs, Duebox's metrics are in the default registry. Two workers in one process are in it once."""

    _registered: PrometheusExporter | None = None
    _lock = threading.Lock()

    def __init__(self, gauges: DatabaseGauges, options: dict[str, Any]) -> None:
        self._collector = DueboxCollector(gauges)

    def start(self) -> None:
        with PrometheusExporter._lock:
            if PrometheusExporter._registered is None:
                prometheus_client.REGISTRY.register(self._collector)
                PrometheusExporter._registered = self

    def stop(self) -> None:
        with PrometheusExporter._lock:
            if PrometheusExporter._registered is self:
                prometheus_client.REGISTRY.unregister(self._collector)
                PrometheusExporter._registered = None


def exposition(gauges: DatabaseGauges | None = None) -> tuple[bytes, str]:
    """The response to a scrape, and its content type: the default registry, or only Duebox's metrics with these
    gauges."""
    registry: Any = prometheus_client.REGISTRY
    if gauges is not None:
        registry = prometheus_client.CollectorRegistry()
        registry.register(DueboxCollector(gauges))
    return prometheus_client.generate_latest(registry), prometheus_client.CONTENT_TYPE_LATEST
