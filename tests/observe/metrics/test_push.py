"""StatsD over a real socket, and lines for CloudWatch."""

from __future__ import annotations

import json
import socket

import pytest

from duebox.conf import EXPORTERS, exporters
from duebox.context import metrics
from duebox.observe.metrics.exporters import Exporters
from duebox.observe.metrics.gauges import DatabaseGauges
from duebox.observe.metrics.push import DATAGRAM_BYTES, EmfExporter, StatsdExporter

pytestmark = pytest.mark.django_db


@pytest.fixture
def server():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.bind(("127.0.0.1", 0))
        line.settimeout(5)
        yield line


@pytest.fixture
def statsd(server):
    def make(**options):
        known = {**EXPORTERS["statsd"], "PORT": server.getsockname()[1], **options}
        return StatsdExporter(DatabaseGauges("default"), known)

    return make


def received(server):
    """All lines that have come."""
    lines = []
    server.settimeout(5)
    while True:
        try:
            datagram = server.recv(65_536)
        except TimeoutError:
            return lines
        assert len(datagram) <= DATAGRAM_BYTES
        lines += datagram.decode().split("\n")
        server.settimeout(0.05)


def test_counters_are_sent_as_what_was_added_since_the_last_time(server, statsd):
    exporter = statsd()
    metrics.PUBLISHED.add_many({("order.paid",): 3})
    exporter.push()
    first = received(server)
    metrics.PUBLISHED.add_many({("order.paid",): 2})
    exporter.push()
    second = received(server)
    assert "duebox.events.published:3|c|#event_type:order.paid" in first
    assert "duebox.events.published:2|c|#event_type:order.paid" in second
    assert "duebox.events.dlq.depth:0|g" in second
    assert "duebox.queue.depth:0|g|#state:due" in second


def test_a_histogram_is_a_line_for_each_bucket_with_how_many_it_stands_for(server, statsd):
    metrics.LATENESS.observe([0.004, 0.003, 0.2, 999.0])
    statsd().push()
    lines = [line for line in received(server) if "lateness" in line]
    assert lines == [
        "duebox.delivery.lateness:5|ms|@0.500000000",
        "duebox.delivery.lateness:250|ms",
        "duebox.delivery.lateness:300000|ms",
    ]


def test_without_tags_the_labels_are_a_part_of_the_name(server, statsd):
    metrics.FAILURE.add_many({("to:bus", "Odd|Error"): 1})
    statsd(TAGS="none", PREFIX="shop").push()
    assert "shop.events.delivery.failure.to_bus.Odd_Error:1|c" in received(server)


def test_many_lines_are_split_into_datagrams_that_pass_any_network(server, statsd):
    metrics.PUBLISHED.add_many({(f"order.paid_{number}",): 1 for number in range(300)})
    statsd().push()
    assert sum("events.published:1|c" in line for line in received(server)) == 300


def test_a_server_that_is_not_there_harms_nobody(statsd, caplog):
    statsd(HOST="no.such.host.invalid").push()
    assert "metrics could not be sent: exporter=statsd" in caplog.text


def test_a_second_worker_of_the_process_sends_nothing_twice(server, statsd):
    metrics.PUBLISHED.add_many({("order.paid",): 3})
    statsd().push()
    statsd().push()
    assert sum("events.published" in line for line in received(server)) == 1


def emf(tmp_path):
    file = tmp_path / "metrics.log"
    exporter = EmfExporter(DatabaseGauges("default"), {**EXPORTERS["emf"], "FILE": str(file)})
    exporter.push()
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_emf_lines_name_their_metrics_and_dimensions_as_cloudwatch_wants_them(tmp_path):
    metrics.SUCCESS.add_many({("mail",): 4})
    metrics.HANDLER_DURATION.observe([0.004, 0.2, 0.2], ("mail",))
    [mail] = [line for line in emf(tmp_path) if line.get("consumer") == "mail"]
    [directive] = mail["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Duebox"
    assert directive["Dimensions"] == [["consumer"]]
    assert {each["Name"]: each["Unit"] for each in directive["Metrics"]} == {
        "events.delivery.success": "Count",
        "handler.duration": "Seconds",
    }
    assert mail["events.delivery.success"] == 4
    assert mail["handler.duration"]["Values"] == [0.005, 0.25]
    assert mail["handler.duration"]["Counts"] == [1, 2]
    assert mail["handler.duration"]["Count"] == 3


def test_every_metric_of_an_emf_line_has_its_value_and_there_are_no_more_than_100(tmp_path):
    lines = emf(tmp_path)
    assert lines
    for line in lines:
        [directive] = line["_aws"]["CloudWatchMetrics"]
        assert isinstance(line["_aws"]["Timestamp"], int)
        assert len(directive["Metrics"]) <= 100
        assert all(each["Name"] in line for each in directive["Metrics"])
        assert all(name in line for name in directive["Dimensions"][0])
    assert any("events.dlq.depth" in line for line in lines)


def test_emf_goes_to_stdout_by_default(capsys):
    EmfExporter(DatabaseGauges("default"), EXPORTERS["emf"]).push()
    assert all("_aws" in json.loads(line) for line in capsys.readouterr().out.splitlines())


@pytest.mark.django_db(transaction=True)
def test_what_is_left_is_sent_when_the_worker_stops(server, settings):
    settings.DUEBOX = {"METRICS": {"statsd": {"PORT": server.getsockname()[1]}}}
    running = Exporters(DatabaseGauges("default"))
    running.start()
    metrics.PUBLISHED.add_many({("order.paid",): 3})
    running.stop()
    assert "duebox.events.published:3|c|#event_type:order.paid" in received(server)


def test_names_and_options_are_read_from_the_setting():
    assert exporters(["prometheus", "statsd"]) == {"prometheus": {}, "statsd": EXPORTERS["statsd"]}
    assert exporters({"statsd": {"HOST": "stats"}}) == {"statsd": {**EXPORTERS["statsd"], "HOST": "stats"}}
