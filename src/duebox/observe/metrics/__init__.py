"""Metrics: gauges from the database, and exporters for them and for the counters of this process.

gauges         the numbers that are read from the database, cached for some seconds
prometheus     for `prometheus_client`, whose registry is scraped
opentelemetry  for the meter provider of OpenTelemetry
push           EMF lines for CloudWatch and datagrams for StatsD, sent every few seconds
exporters      those that DUEBOX["METRICS"] names

The counters themselves are in `duebox.context.metrics`, where the engine can add to them.
"""

from __future__ import annotations
