from __future__ import annotations

import json
from hashlib import sha256

import pytest

import duebox
from duebox.destinations.aws import SQS, SQSFifo, as_group
from duebox.destinations.envelope import ordering_key
from duebox.destinations.registry import read_entry
from duebox.exceptions import InvalidDestination, Refused, Throttled, TooLarge, Undelivered
from duebox.models import Attempt, Delivery
from tests.destinations.conformance import a_fact
from tests.destinations.stages import aws
from tests.destinations.stages.aws import Failure
from tests.support import eventually

pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")


@pytest.fixture
def stage():
    with aws.SQS() as entered:
        yield entered


@pytest.fixture
def queue(stage):
    made = SQS("queue", **stage.options)
    yield made
    made.close()


@pytest.fixture
def fifo_stage():
    with aws.SQSFifo() as entered:
        yield entered


@pytest.fixture
def fifo(fifo_stage):
    made = SQSFifo("queue", **fifo_stage.options)
    yield made
    made.close()


def ids(facts):
    return [str(fact.id) for fact in facts]


def stored(data, **columns):
    """With its data as PostgreSQL writes it."""
    return a_fact(**{**columns, "data": None})._row._replace(data=json.dumps(data, ensure_ascii=False))


def test_what_consumers_route_drop_and_trace_by_is_beside_the_message(stage, queue):
    born = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
    fact = a_fact(metadata=json.dumps({"traceparent": born}))
    assert queue.deliver([fact]) == [None]
    [message] = stage.messages()
    told = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
    assert told == {
        "event_id": str(fact.id), "event_type": "order.paid", "schema_version": "1", "organization_id": "7",
        "correlation_id": fact.correlation_id, "traceparent": born,
    }  # fmt: skip
    [content] = stage.filter.contents
    assert content["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"] == (
        "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=0"
    )


def test_on_a_standard_queue_the_organization_is_the_group_that_is_served_fairly(stage, queue):
    queue.deliver([a_fact(organization="acme"), a_fact(organization="")])
    assert [each.get("MessageGroupId") for each in stage.filter.contents] == ["acme", None]


def test_what_xml_cannot_hold_arrives_all_the_same(stage, queue):
    """SQS refuses a message with a raw U+FFFF in it; inside of JSON it can be written with letters and digits."""
    text = "a\uffffb\ufffec\x01\x1fd\x7f\U0001f600"
    fact = duebox.Fact(stored({"text": text}, organization="o\x02\uffff"))
    assert queue.deliver([fact]) == [None]
    [content] = stage.filter.contents
    sent = content["MessageBody"] + content["MessageAttributes"]["organization_id"]["StringValue"]
    assert [sign for sign in sent if sign < " " or sign in "\ufffe\uffff"] == []
    [received] = stage.received()
    assert received.data == {"text": text}


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure("InternalError"), Undelivered),
        (Failure("InternalError", ours=True), Undelivered),
        (Failure("SomethingNew"), Undelivered),
        (Failure("RequestThrottled", ours=True), Throttled),
        (Failure("KMS.ThrottlingException", ours=True), Throttled),
        (Failure("InvalidMessageContents", ours=True), Refused),
        (Failure("InvalidParameterValue", ours=True), Refused),
    ],
)
def test_of_a_batch_each_event_is_judged_by_its_own_error(stage, queue, failure, kind):
    facts = [a_fact() for _ in range(4)]
    with stage.filter.failing({str(facts[0].id)}, failure):
        results = queue.deliver(facts)
    assert [type(each) for each in results] == [kind, type(None), type(None), type(None)]
    assert failure.code in str(results[0])


def test_a_call_that_is_throttled_throttles_all_of_it(stage, queue):
    stage.filter.instead = [(400, "com.amazonaws.sqs#RequestThrottled")]
    assert [type(each) for each in queue.deliver([a_fact(), a_fact()])] == [Throttled, Throttled]


def test_a_queue_that_is_gone_may_come_back(stage):
    made = SQS("queue", **{**stage.options, "queue_url": f"{stage.queue_url}-gone"})
    [result] = made.deliver([a_fact()])
    made.close()
    assert isinstance(result, Undelivered)


def test_a_batch_that_is_too_large_together_is_split(stage, queue):
    facts = [a_fact(data={"text": "x" * 6_000}) for _ in range(10)]
    assert queue.deliver(facts) == [None] * 10
    assert [len(call) for call in stage.filter.calls] == [3, 3, 3, 1]


def test_attributes_count_as_part_of_a_message(stage, queue):
    fact = a_fact()
    queue.deliver([fact])
    [content] = stage.filter.contents
    beside = [name + value["StringValue"] + "String" for name, value in content["MessageAttributes"].items()]
    size = len(content["MessageBody"]) + len("".join(beside))
    tight = SQS("queue", **{**stage.options, "largest": size - 1})
    [result] = tight.deliver([fact])
    tight.close()
    assert isinstance(result, TooLarge)
    assert result.size == size


def test_a_fifo_queue_groups_by_aggregate_and_drops_repeats_by_the_id_of_the_event(fifo_stage, fifo):
    fact, alone = a_fact(), a_fact(aggregate_type="", aggregate_id="")
    assert fifo.deliver([fact, alone]) == [None, None]
    assert fifo.deliver([fact]) == [None]
    first, second = fifo_stage.messages()
    assert first["Attributes"]["MessageGroupId"] == "order:42"
    assert first["Attributes"]["MessageDeduplicationId"] == str(fact.id)
    assert second["Attributes"]["MessageGroupId"] == str(alone.id)


def test_public_events_of_an_aggregate_are_a_group_that_does_not_name_it(fifo_stage, fifo):
    facts = [a_fact("public.order.paid"), a_fact("public.order.packed")]
    assert fifo.deliver(facts) == [None, None]
    first, second = fifo_stage.messages()
    assert first["Attributes"]["MessageGroupId"] == second["Attributes"]["MessageGroupId"] == ordering_key(facts[0].row)
    assert json.loads(first["Body"])["workspace_id"] == "7"
    assert "order:42" not in json.dumps(first)


def test_a_group_that_sqs_would_not_take_is_hashed():
    assert as_group("order:42") == "order:42"
    assert as_group("x" * 128) == "x" * 128
    for odd in ("x" * 129, "order:a b", "order:ä", "order:\x01"):
        assert as_group(odd) == sha256(odd.encode()).hexdigest()


def test_no_call_to_a_fifo_queue_holds_two_events_of_a_group(fifo_stage, fifo):
    numbers = [1, 2, 1, 3, 1, 2]
    facts = [a_fact(aggregate_id=str(number)) for number in numbers]
    assert fifo.deliver(facts) == [None] * 6
    assert fifo_stage.filter.calls == [ids(facts[:2]), ids(facts[2:4]), ids(facts[4:])]
    assert [each.id for each in fifo_stage.received()] == ids(facts)


def test_when_a_call_fails_nothing_of_its_groups_overtakes_it(fifo_stage, fifo):
    fifo_stage.filter.instead = [(400, "ThrottlingException")]
    assert [type(each) for each in fifo.deliver([a_fact(), a_fact()])] == [Throttled, Throttled]
    assert fifo_stage.received() == []


def test_a_fifo_queue_is_served_in_order_without_being_asked():
    entry = {"BACKEND": "duebox.destinations.aws.SQSFifo", "OPTIONS": {"queue_url": "https://x/q.fifo"}}
    assert read_entry("queue", entry, ())[0].ordered
    assert not read_entry("queue", {**entry, "ORDERED": False}, ())[0].ordered


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("orders", "each", "share"), [(8, 20, 0.1), pytest.param(100, 100, 0.05, marks=pytest.mark.soak)]
)
def test_two_workers_keep_the_order_of_each_aggregate_while_events_fail(
    fifo_stage, settings, hire, orders, each, share
):
    entry = {**fifo_stage.entry(), "OPTIONS": {**fifo_stage.options, "timeout": 20.0}}
    settings.DUEBOX = {
        "UNDECLARED": "allow", "DESTINATIONS": {"queue": entry}, "ROUTES": [{"match": "order.*", "to": "queue"}],
    }  # fmt: skip
    told = [(order, number) for number in range(each) for order in range(orders)]
    duebox.emit_many(
        duebox.NewEvent(type="order.changed", data={"order": order, "number": number}, about=("order", order))
        for order, number in told
    )
    fifo_stage.filter.share_failing = share
    # moto walks over all that is in a queue for every message that comes: it must not grow long.
    fifo_stage.filter.after = fifo_stage.messages
    hire(threads=1)
    hire(threads=1)
    eventually(lambda: not Delivery.objects.exists(), 300)
    arrived = {}
    for received in fifo_stage.received():
        arrived.setdefault(received.data["order"], []).append(received.data["number"])
    assert arrived == {order: list(range(each)) for order in range(orders)}
    assert Attempt.objects.filter(outcome="retried").count() > orders * each * share / 3
    assert max(map(len, fifo_stage.filter.calls)) > 1


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (SQS, {"queue_url": "https://sqs.eu-west-1.amazonaws.com/1/q.fifo"}, r"set BACKEND to '.*SQSFifo'"),
        (
            SQSFifo,
            {"queue_url": "https://sqs.eu-west-1.amazonaws.com/1/q"},
            r"no FIFO queue; set BACKEND to '.*SQS'",
        ),
        (SQS, {"queue_url": "q"}, "queue_url is 'q'"),
        (SQS, {"queue_url": "https://sqs.eu-west-1.amazonaws.com/1/q", "largest": 2**21}, "1,048,576"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(kind, options, said):
    with pytest.raises(InvalidDestination, match=said):
        kind("queue", **options)


def test_the_region_is_read_from_the_url_of_the_queue(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    queue = SQS("queue", queue_url="https://sqs.eu-north-1.amazonaws.com/123456789012/orders")
    assert queue.client.meta.region_name == "eu-north-1"
    queue.close()
