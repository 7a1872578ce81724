from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from duebox.context import metrics
from duebox.observe.metrics.gauges import DatabaseGauges
from duebox.observe.metrics.opentelemetry import OpenTelemetryExporter

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader():
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    exporter = OpenTelemetryExporter(DatabaseGauges("default"), {}, provider)
    exporter.start()
    again = OpenTelemetryExporter(DatabaseGauges("default"), {}, provider)
    again.start()
    yield reader
    again.stop()
    provider.shutdown()


def points(reader):
    [resource] = reader.get_metrics_data().resource_metrics
    [scope] = resource.scope_metrics
    assert scope.scope.name == "duebox"
    return {
        (metric.name, *sorted(point.attributes.items())): point.value
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def test_a_reader_sees_counters_gauges_and_the_buckets_of_histograms(reader):
    metrics.SUCCESS.add_many({("mail",): 4})
    metrics.COMMIT_TO_START.observe([0.004, 0.2])
    found = points(reader)
    assert found["duebox.events.delivery.success", ("consumer", "mail")] == 4
    assert found["duebox.events.dlq.depth",] == 0
    assert found["duebox.database.reachable",] == 1
    assert found["duebox.delivery.commit_to_start.bucket", ("le", "0.005")] == 1
    assert found["duebox.delivery.commit_to_start.bucket", ("le", "+Inf")] == 2
    assert found["duebox.delivery.commit_to_start.count",] == 2
    assert found["duebox.delivery.commit_to_start.sum",] == pytest.approx(0.204)


def test_counters_go_on_from_reading_to_reading(reader):
    metrics.SUCCESS.add_many({("mail",): 4})
    points(reader)
    metrics.SUCCESS.add_many({("mail",): 1})
    assert points(reader)["duebox.events.delivery.success", ("consumer", "mail")] == 5


def test_after_the_worker_has_stopped_nobody_asks_its_database(reader):
    OpenTelemetryExporter._running.stop()
    metrics.SUCCESS.add_many({("mail",): 4})
    found = points(reader)
    assert found["duebox.events.delivery.success", ("consumer", "mail")] == 4
    assert ("duebox.events.dlq.depth",) not in found
