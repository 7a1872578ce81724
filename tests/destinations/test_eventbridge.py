from __future__ import annotations

import json
import sys
import threading

import pytest

from duebox.destinations.aws import Entry, EventBridge, in_requests
from duebox.destinations.envelope import envelope
from duebox.destinations.registry import make
from duebox.exceptions import InvalidDestination, Permanent, Refused, Throttled, TooLarge, Undelivered
from tests.destinations.conformance import a_fact
from tests.destinations.stages import aws
from tests.destinations.stages.aws import Failure

pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")


@pytest.fixture
def stage():
    with aws.EventBridge() as entered:
        yield entered


@pytest.fixture
def open_bus(stage):
    """Makes destinations with other options than those of the stage."""
    made = []

    def make_one(**options):
        made.append(EventBridge("bus", **{**stage.options, **options}))
        return made[-1]

    yield make_one
    for each in made:
        each.close()


@pytest.fixture
def bus(open_bus):
    return open_bus()


def ids(facts):
    return [str(fact.id) for fact in facts]


def test_an_event_goes_over_the_bus_and_its_rule_into_the_queue_as_consumers_expect_it(stage, bus):
    fact = a_fact(data={"total": 150})
    assert bus.deliver([fact]) == [None]
    [message] = stage.messages()
    body = json.loads(message["Body"])
    assert body["source"] == "https://shop.example"
    assert body["detail-type"] == "order.paid"
    assert body["detail"] == json.loads(envelope(fact))
    assert body["time"] == f"{fact.occurred_at:%Y-%m-%dT%H:%M:%SZ}"


def test_what_the_rule_does_not_want_stays_out_of_the_queue(stage, bus):
    assert bus.deliver([a_fact("invoice.paid"), a_fact("order.paid")]) == [None, None]
    assert [each.type for each in stage.received()] == ["order.paid"]


def test_source_and_resources_can_be_chosen(stage, open_bus):
    resources = ["arn:aws:s3:::receipts"]
    bus = open_bus(source="shop.orders", resources=resources)
    bus.deliver([a_fact()])
    [content] = stage.filter.contents
    assert content["Source"] == "shop.orders"
    assert content["Resources"] == resources


def test_an_event_without_a_producer_still_has_a_source(stage, bus):
    assert bus.deliver([a_fact(producer="")]) == [None]
    assert stage.filter.contents[0]["Source"] == "duebox"


def test_a_public_event_tells_nothing_internal(stage, open_bus):
    assert open_bus().deliver([a_fact("public.order.paid")]) == [None]
    assert open_bus(source="shop").deliver([a_fact("public.order.paid")]) == [None]
    first, second = stage.filter.contents
    assert (first["Source"], second["Source"]) == ("duebox", "shop")
    assert set(json.loads(first["Detail"])) == {
        "event_id", "event_type", "schema_version", "occurred_at", "workspace_id", "data",
    }  # fmt: skip
    assert "https://shop.example" not in json.dumps(first, default=str)


def test_the_trace_travels_in_the_form_of_x_ray(stage, bus):
    born = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    bus.deliver([a_fact(metadata=json.dumps({"traceparent": born})), a_fact()])
    traced, untraced = stage.filter.contents
    assert traced["TraceHeader"] == "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1"
    assert "TraceHeader" not in untraced


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InternalFailure", Undelivered),
        ("ThrottlingException", Throttled),
        ("AccessDeniedException", Refused),
        ("InvalidArgument", Refused),
        ("MalformedDetail", Refused),
        ("NotAuthorizedForSourceException", Refused),
    ],
)
def test_of_a_batch_each_event_is_judged_by_its_own_error(stage, bus, code, kind):
    facts = [a_fact() for _ in range(5)]
    with stage.filter.failing({str(facts[2].id)}, Failure(code)):
        results = bus.deliver(facts)
    assert [type(each) for each in results] == [type(None), type(None), kind, type(None), type(None)], results
    assert code in str(results[2])
    assert stage.filter.calls == [ids(facts)]


@pytest.mark.parametrize("answer", [(400, "ThrottlingException"), (429, "TooManyRequestsException")])
def test_a_call_that_is_throttled_throttles_all_of_it_and_is_not_repeated_here(stage, bus, answer):
    stage.filter.instead = [answer]
    results = bus.deliver([a_fact(), a_fact()])
    assert [type(each) for each in results] == [Throttled, Throttled]
    assert results[0].status == answer[0]
    assert len(stage.filter.calls) == 1


@pytest.mark.parametrize("answer", [(500, "InternalException"), (400, "AccessDeniedException"), (403, "ExpiredToken")])
def test_a_call_that_fails_for_what_is_around_the_events_can_be_tried_again(stage, bus, answer):
    stage.filter.instead = [answer]
    [result] = bus.deliver([a_fact()])
    assert isinstance(result, Undelivered)
    assert not isinstance(result, Permanent)
    assert answer[1] in str(result)


def test_a_call_that_is_refused_for_its_content_is_sent_event_by_event(stage, bus):
    """The second of them is refused alone as well; it does not spoil the others."""
    facts = [a_fact() for _ in range(3)]
    stage.filter.instead = [(400, "ValidationException")]
    with stage.refusing({str(facts[1].id)}):
        results = bus.deliver(facts)
    assert [type(each) for each in results] == [type(None), Refused, type(None)]
    assert [len(call) for call in stage.filter.calls] == [3, 1, 1, 1]


def test_a_batch_that_is_too_large_together_is_split_and_its_order_kept(stage, bus):
    facts = [a_fact(data={"text": "x" * 6_000}) for _ in range(10)]
    assert bus.deliver(facts) == [None] * 10
    assert [len(call) for call in stage.filter.calls] == [3, 3, 3, 1]
    assert [each.id for each in stage.received()] == ids(facts)


def test_the_size_is_counted_as_aws_counts_it(open_bus):
    """14 bytes for the time, and the bytes, not the characters, of source, type, detail and resources."""
    fact, arn = a_fact(data={"text": "ä" * 100}), "arn:aws:s3:::x"
    raw = fact.row._replace(data=json.dumps(fact.data, ensure_ascii=False))
    fact = type(fact)(raw)
    detail = envelope(fact)
    assert len(detail.encode()) == len(detail) + 100
    size = 14 + len(b"https://shop.example") + len(b"order.paid") + len(detail.encode()) + len(arn)
    exact = open_bus(resources=[arn], largest=size)
    assert exact.deliver([fact]) == [None]
    tight = open_bus(resources=[arn], largest=size - 1)
    [result] = tight.deliver([fact])
    assert isinstance(result, TooLarge)
    assert (result.size, result.limit) == (size, size - 1)


def test_when_aws_is_away_the_rest_of_a_split_batch_does_not_wait_for_it_too(stage, bus):
    stage.filter.instead = [(500, "InternalException")]
    results = bus.deliver([a_fact(data={"text": "x" * 12_000}) for _ in range(4)])
    assert [type(each) for each in results] == [Undelivered] * 4
    assert len(stage.filter.calls) == 1


def test_a_type_that_is_too_long_is_refused_here(stage, bus):
    long = "order." + "x" * 123
    results = bus.deliver([a_fact(long), a_fact()])
    assert isinstance(results[0], Refused)
    assert "129" in str(results[0])
    assert "128" in str(results[0])
    assert results[1] is None


def test_several_threads_share_one_client(stage, open_bus):
    bus = open_bus(timeout=20.0)
    facts = [[a_fact() for _ in range(10)] for _ in range(4)]
    results = []
    threads = [threading.Thread(target=lambda batch=batch: results.extend(bus.deliver(batch))) for batch in facts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [None] * 40
    assert {each.id for each in stage.received()} == {name for batch in facts for name in ids(batch)}


def test_a_source_that_aws_keeps_for_itself_is_a_problem(open_bus):
    bus = open_bus(source="aws.orders")
    [(problem, _)] = bus.check()
    assert "aws.orders" in problem


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"largest": 1_000_001}, "1,000,000"),
        ({"largest": 0}, "largest is 0"),
        ({"bus": "not a bus"}, "'not a bus'"),
        ({"timeout": 0}, "timeout is 0"),
        ({"buss": "mine"}, "known are bus, source, resources, region, endpoint_url, largest, timeout"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, said):
    entry = {"BACKEND": "duebox.destinations.aws.EventBridge", "OPTIONS": {"region": "eu-west-1", **options}}
    with pytest.raises(InvalidDestination, match=said):
        make("bus", entry)


def test_without_a_region_the_repair_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(InvalidDestination, match=r"OPTIONS\['region'\]"):
        EventBridge("bus")


def test_without_boto3_the_repair_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(InvalidDestination, match=r"pip install 'duebox\[aws\]'"):
        EventBridge("bus", region="eu-west-1")


def test_requests_hold_ten_and_no_more_bytes_than_allowed():
    entries = [Entry(place, 10, {}) for place in range(25)]
    assert [len(each) for each in in_requests(entries, 1_000)] == [10, 10, 5]
    assert [len(each) for each in in_requests(entries[:7], 30)] == [3, 3, 1]
    assert list(in_requests([], 30)) == []
