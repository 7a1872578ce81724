"""Kafka, played by the mock cluster of librdkafka: there is no Kafka server here. It speaks the protocol on real
sockets, and a consumer of its own reads what was produced; what only a real cluster has (authorization, replication,
retention) is not shown. What holds for every destination is in test_conformance.py.
"""

from __future__ import annotations

import json
import logging
import socket

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from duebox.destinations.envelope import ordering_key
from duebox.destinations.kafka import Kafka, Seldom
from duebox.exceptions import InvalidDestination, Refused, TooLarge, Undelivered
from tests.destinations.conformance import a_fact, delivered_by_threads
from tests.destinations.kafka_mock import Cluster
from tests.destinations.stages.brokers import in_a_child
from tests.destinations.stages.kafka import quiet
from tests.support import eventually


@pytest.fixture
def cluster():
    made = Cluster()
    made.create("events")
    yield made
    made.close()


@pytest.fixture
def opened(cluster):
    made = []

    def open_(**options):
        made.append(Kafka("there", **{"servers": cluster.address, "topic": "events", "timeout": 5.0, **options}))
        return made[-1]

    yield open_
    for each in made:
        each.close()


@pytest.fixture
def read(cluster):
    """The records of a topic, once there are so many."""
    readers = []

    def read_(topic, count, partitions=1):
        reader = Consumer({"bootstrap.servers": cluster.address, "group.id": "tests"}, logger=quiet)
        readers.append(reader)
        reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found = []
        eventually(lambda: found.extend(reader.consume(1000, timeout=0.1)) or len(found) >= count)
        return found

    yield read_
    for reader in readers:
        reader.close()


def test_a_record_has_the_aggregate_as_key_and_the_headers(cluster, opened, read):
    fact = a_fact()
    assert opened().deliver([fact]) == [None]
    [record] = read("events", 1)
    assert record.key() == b"order:42"
    assert dict(record.headers())["event_id"] == str(fact.id).encode()
    assert record.timestamp()[1] == 1_794_736_800_250
    assert json.loads(record.value())["data"] == {"total": 150}


def test_the_key_of_a_public_event_does_not_name_the_aggregate(opened, read):
    fact = a_fact("public.order.paid")
    assert opened().deliver([fact]) == [None]
    [record] = read("events", 1)
    assert record.key() == ordering_key(fact.row).encode()
    assert dict(record.headers())["workspace_id"] == b"7"


def test_an_event_without_an_aggregate_has_no_key(opened, read):
    opened().deliver([a_fact(aggregate_type="", aggregate_id="")])
    assert read("events", 1)[0].key() is None


def test_a_topic_can_be_named_after_the_event_and_is_always_a_name(cluster, opened, read):
    cluster.create("shop.an_order_.order.paid")
    destination = opened(topic="shop.{aggregate_type}.{event_type}")
    assert destination.deliver([a_fact(aggregate_type="an order!")]) == [None]
    assert len(read("shop.an_order_.order.paid", 1)) == 1


def test_each_aggregate_keeps_its_order_over_many_batches(cluster, opened, read):
    cluster.create("many", partitions=4)
    destination = opened(topic="many")
    facts = [a_fact(data={"number": number}, aggregate_id=str(number % 7)) for number in range(2000)]
    for start in range(0, 2000, 500):
        assert destination.deliver(facts[start : start + 500]) == [None] * 500
    by_key: dict[bytes, list[int]] = {}
    for record in read("many", 2000, partitions=4):
        by_key.setdefault(record.key(), []).append(json.loads(record.value())["data"]["number"])
    assert len(by_key) == 7
    assert all(found == sorted(found) for found in by_key.values())


def test_one_refused_record_does_not_take_its_neighbours_along(cluster, opened, read):
    """The broker answers for a whole request. The second answer is for the records alone."""
    destination = opened(settings={"linger.ms": 200})
    cluster.fail_next(KafkaError.INVALID_RECORD)
    facts = [a_fact(data={"number": number}) for number in range(3)]
    assert destination.deliver(facts) == [None] * 3
    assert len(read("events", 3)) == 3


def test_what_is_refused_alone_is_refused(cluster, opened):
    cluster.fail_next(KafkaError.INVALID_RECORD)
    [result] = opened().deliver([a_fact()])
    assert type(result) is Refused
    assert "INVALID_RECORD" in str(result)


def test_what_the_client_can_repair_itself_is_not_felt(cluster, opened, read):
    cluster.fail_next(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.REQUEST_TIMED_OUT)
    assert opened().deliver([a_fact()]) == [None]
    assert len(read("events", 1)) == 1


def test_a_right_that_is_missing_may_come(cluster, opened):
    cluster.set_error("events", KafkaError.TOPIC_AUTHORIZATION_FAILED)
    destination = opened(timeout=2)
    [result] = destination.deliver([a_fact()])
    assert type(result) is Undelivered
    assert "grant its user the right" in str(result)
    cluster.set_error("events", KafkaError.NO_ERROR)
    eventually(lambda: destination.deliver([a_fact()]) == [None])


def test_a_topic_that_does_not_exist_may_come(cluster, opened):
    cluster.set_error("events", KafkaError.UNKNOWN_TOPIC_OR_PART)
    [result] = opened(timeout=1, settings={"topic.metadata.propagation.max.ms": 0}).deliver([a_fact()])
    assert type(result) is Undelivered


def test_a_limit_of_the_client_is_said(opened):
    large, small = a_fact(data={"text": "x" * 5000}), a_fact()
    first, second = opened(settings={"message.max.bytes": 2000}).deliver([large, small])
    assert isinstance(first, TooLarge)
    assert first.limit == 2000
    assert second is None


def test_threads_share_a_producer(opened, read):
    assert delivered_by_threads(opened()) == [None] * 600
    assert len(read("events", 600)) == 600


@pytest.mark.parametrize(
    ("code", "fatal", "kind"),
    [
        (KafkaError._MSG_TIMED_OUT, False, Undelivered),
        (KafkaError._ALL_BROKERS_DOWN, False, Undelivered),
        (KafkaError.NOT_ENOUGH_REPLICAS, False, Undelivered),
        (KafkaError._UNKNOWN_TOPIC, False, Undelivered),
        (KafkaError.INVALID_PRODUCER_EPOCH, True, Undelivered),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False, Undelivered),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, False, Undelivered),
        (KafkaError.MSG_SIZE_TOO_LARGE, False, Refused),
        (KafkaError.POLICY_VIOLATION, False, Refused),
    ],
)
def test_errors_are_told_apart(opened, code, fatal, kind):
    destination = opened()
    assert type(destination._result(KafkaError(code, fatal=fatal), destination._running())) is kind


def test_after_a_fatal_error_there_is_another_producer(opened):
    destination = opened()
    destination.deliver([a_fact()])
    first = destination._producer
    fatal = KafkaError(KafkaError._FENCED, fatal=True)
    destination._result(fatal, first)
    assert destination.deliver([a_fact()]) == [None]
    second = destination._producer
    assert second is not first
    destination._result(fatal, first)  # another thread hears of it late
    assert destination._producer is second


def test_after_a_fork_the_child_has_a_producer_of_its_own(opened, read):
    destination = opened()
    assert destination.deliver([a_fact()]) == [None]
    assert in_a_child(lambda: destination.close() is None)
    assert in_a_child(lambda: destination.deliver([a_fact()]) == [None])
    assert destination.deliver([a_fact()]) == [None]
    assert len(read("events", 3)) == 3


@pytest.mark.parametrize("name", ["acks", "enable.idempotence", "bootstrap.servers", "message.timeout.ms"])
def test_what_makes_it_safe_cannot_be_turned_off(name):
    with pytest.raises(InvalidDestination, match="is set by Duebox; leave it out"):
        Kafka("there", servers="x", settings={name: "0"})


def test_a_setting_that_the_client_does_not_know_is_named(opened):
    with pytest.raises(InvalidDestination, match="cannot use `settings`: No such configuration property"):
        opened(settings={"colour": "red"}).deliver([a_fact()])


def test_a_broker_that_is_away_is_one_line_in_the_log_and_not_one_for_each_try(caplog):
    caplog.set_level("INFO", logger="duebox.destinations")
    destination = Kafka("away", servers="127.0.0.1:1", timeout=2)
    for _ in range(2):
        [result] = destination.deliver([a_fact()])
        assert type(result) is Undelivered
    refused = [each for each in caplog.messages if "Connection refused" in each and each.startswith("FAIL")]
    assert len(refused) == 1


def test_what_the_client_says_of_something_else_is_told_all_the_same():
    said = logging.LogRecord("x", logging.ERROR, "", 0, "%s [%s] %s", ("FAIL", "duebox-a#producer-1", "refused"), None)
    other = logging.LogRecord("x", logging.ERROR, "", 0, "%s [%s] %s", ("FATAL", "duebox-a#producer-1", "fenced"), None)
    seldom = Seldom(seconds=60)
    assert [seldom.filter(each) for each in (said, said, other, said)] == [True, False, True, False]
    assert Seldom(seconds=0).filter(said)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bogus.x": 1}, 'No such configuration property: "bogus.x"'),
        ({"linger.ms": "soon"}, "Invalid value"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/of/nobody.pem"}, "ssl.ca.location"),
    ],
)
def test_a_setting_that_cannot_be_used_is_a_problem_before_anything_is_sent(settings, words):
    [(message, hint)] = Kafka("there", servers="127.0.0.1:1", settings=settings).check()
    assert message.startswith("The Kafka client cannot use `settings`: ")
    assert words in message
    assert "librdkafka" in hint


def test_to_look_for_problems_talks_to_nobody():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        assert Kafka("there", servers=f"127.0.0.1:{server.getsockname()[1]}").check() == []
        with pytest.raises(TimeoutError):
            server.accept()
