"""The exporters that DUEBOX["METRICS"] names, from the start of a worker to its end."""

from __future__ import annotations

from typing import Any, Protocol

from duebox.conf import conf, exporters
from duebox.observe.metrics.gauges import DatabaseGauges


class Exporter(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


class Exporters:
    """The packages are imported here and not before. Raises NotReady if one is missing."""

    def __init__(self, gauges: DatabaseGauges) -> None:
        named = exporters(conf().METRICS)
        self._exporters = [_make(name, gauges, options) for name, options in named.items()]

    def start(self) -> None:
        for each in self._exporters:
            each.start()

    def stop(self) -> None:
        for each in self._exporters:
            each.stop()


def _make(name: str, gauges: DatabaseGauges, options: dict[str, Any]) -> Exporter:
    if name == "prometheus":
        from duebox.observe.metrics.prometheus import PrometheusExporter

        return PrometheusExporter(gauges, options)
    if name == "opentelemetry":
        from duebox.observe.metrics.opentelemetry import OpenTelemetryExporter

        return OpenTelemetryExporter(gauges, options)
    from duebox.observe.metrics.push import EmfExporter, StatsdExporter

    return StatsdExporter(gauges, options) if name == "statsd" else EmfExporter(gauges, options)
