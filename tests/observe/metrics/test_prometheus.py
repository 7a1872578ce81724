from __future__ import annotations

import sys

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from duebox.context import metrics
from duebox.exceptions import NotReady
from duebox.observe.metrics.exporters import Exporters
from duebox.observe.metrics.gauges import DatabaseGauges
from duebox.observe.metrics.prometheus import exposition
from tests.observe.metrics.samples import sample_names

pytestmark = pytest.mark.django_db


def scraped(body):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


@pytest.fixture
def gauges():
    return DatabaseGauges("default")


def test_counters_gauges_and_histograms_can_be_parsed_by_a_client(gauges):
    metrics.PUBLISHED.add_many({("order.paid",): 3})
    metrics.FAILURE.add_many({("mail", 'Odd"Error\n'): 1})
    metrics.LATENESS.observe([0.004, 0.2, 999.0])
    found = scraped(exposition(gauges)[0])
    assert found["duebox_events_published_total", ("event_type", "order.paid")] == 3
    assert found["duebox_events_delivery_failure_total", ("consumer", "mail"), ("error", 'Odd"Error\n')] == 1
    assert found["duebox_delivery_lateness_seconds_bucket", ("le", "0.001")] == 0
    assert found["duebox_delivery_lateness_seconds_bucket", ("le", "0.005")] == 1
    assert found["duebox_delivery_lateness_seconds_bucket", ("le", "+Inf")] == 3
    assert found["duebox_delivery_lateness_seconds_count",] == 3
    assert found["duebox_delivery_lateness_seconds_sum",] == pytest.approx(999.204)
    assert found["duebox_events_dlq_depth",] == 0
    assert found["duebox_queue_depth", ("state", "due")] == 0
    assert found["duebox_retry_rate_percent",] == 0


def test_all_names_follow_the_rules_of_prometheus(gauges):
    metrics.PUBLISHED.add_many({("order.paid",): 1})
    names = {key[0] for key in scraped(exposition(gauges)[0]) if not key[0].endswith("_created")}
    assert names <= sample_names()
    assert all(name.startswith("duebox_") and name.replace("_", "").isalnum() for name in sample_names())


def test_while_it_runs_the_default_registry_has_them_once(settings, gauges):
    settings.DUEBOX = {"METRICS": ["prometheus"]}
    running, other = Exporters(gauges), Exporters(gauges)
    running.start()
    other.start()
    try:
        text = prometheus_client.generate_latest().decode()
        assert text.count("# TYPE duebox_events_dlq_depth gauge") == 1
    finally:
        other.stop()
        assert b"duebox_events_dlq_depth" in prometheus_client.generate_latest()
        running.stop()
    assert b"duebox_" not in prometheus_client.generate_latest()


@pytest.mark.parametrize(
    ("name", "package", "module"),
    [
        ("prometheus", "prometheus_client", "duebox.observe.metrics.prometheus"),
        ("opentelemetry", "opentelemetry.metrics", "duebox.observe.metrics.opentelemetry"),
    ],
)
def test_a_missing_package_is_an_error_that_names_the_extra(settings, monkeypatch, gauges, name, package, module):
    settings.DUEBOX = {"METRICS": [name]}
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(NotReady, match=rf"pip install 'duebox\[{name}\]'"):
        Exporters(gauges)
