"""RabbitMQ, on the real server; what holds for every destination is in test_conformance.py."""

from __future__ import annotations

import json
import select
import threading
import time

import amqp
import pytest
from amqp import spec

from duebox.destinations import rabbitmq
from duebox.destinations.rabbitmq import RabbitMQ, connection_options
from duebox.exceptions import InvalidDestination, Refused, Undelivered
from tests.destinations.conformance import a_fact
from tests.destinations.interrupted import LateProxy
from tests.destinations.proxy import AWAY, PASS, Proxy
from tests.destinations.stages.brokers import in_a_child, unique
from tests.support import eventually

URL = "amqp://guest:guest@127.0.0.1:5672/"

pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")


@pytest.fixture
def channel():
    connection = amqp.Connection("127.0.0.1:5672", connect_timeout=10, read_timeout=10)
    connection.connect()
    yield connection.channel()
    connection.close()


@pytest.fixture
def exchange(channel):
    """With a queue of the same name that takes what begins with `order.`"""
    name = unique()
    channel.exchange_declare(name, "topic", auto_delete=False)
    channel.queue_declare(name, durable=True, auto_delete=False)
    channel.queue_bind(name, name, "order.#")
    yield name
    channel.exchange_delete(name)
    channel.queue_delete(name)


@pytest.fixture
def opened(exchange):
    made = []

    def open_(**options):
        made.append(RabbitMQ("there", **{"url": URL, "exchange": exchange, **options}))
        return made[-1]

    yield open_
    for each in made:
        each.close()


def test_a_message_says_beside_its_body_what_it_is(channel, exchange, opened):
    fact = a_fact()
    assert opened().deliver([fact]) == [None]
    message = channel.basic_get(exchange, no_ack=True)
    told = message.properties
    assert (told["message_id"], told["type"], told["correlation_id"]) == (str(fact.id), "order.paid", str(fact.id))
    assert (told["content_type"], told["delivery_mode"]) == ("application/json", 2)
    assert told["application_headers"]["event_id"] == str(fact.id)
    assert message.delivery_info["routing_key"] == "order.paid"
    assert json.loads(message.body)["data"] == {"total": 150}


def test_what_no_queue_takes_is_tried_again_and_its_neighbours_go(channel, exchange, opened):
    facts = [a_fact(), a_fact("user.left"), a_fact()]
    first, second, third = opened().deliver(facts)
    assert (first, third) == (None, None)
    assert type(second) is Undelivered
    assert "no queue is bound to exchange" in str(second)
    assert "'user.left'" in str(second)
    channel.queue_bind(exchange, exchange, "user.#")
    assert opened().deliver([facts[1]]) == [None]


def test_what_no_queue_takes_may_be_refused_or_be_fine(opened):
    [refused] = opened(unroutable="refuse").deliver([a_fact("user.left")])
    assert type(refused) is Refused
    assert opened(unroutable="accept").deliver([a_fact("user.left")]) == [None]


def test_an_exchange_that_is_missing_may_come(channel, opened):
    name = unique()
    destination = opened(exchange=name, unroutable="accept")
    with pytest.raises(Undelivered, match=r"no such exchange .*declare it, or correct `exchange`"):
        destination.deliver([a_fact(), a_fact()])
    channel.exchange_declare(name, "fanout", auto_delete=False)
    try:
        assert destination.deliver([a_fact(), a_fact()]) == [None, None]
    finally:
        channel.exchange_delete(name)


def test_one_that_is_against_the_rules_is_told_from_its_neighbours(channel, exchange, opened):
    """A delivery tag cannot be asked which message closed the channel; each is sent again alone."""

    class Heavy(RabbitMQ):
        def _publishing(self, fact):
            made = super()._publishing(fact)
            if fact.data.get("bad"):
                made.message.properties["user_id"] = "somebody-else"  # RabbitMQ closes the channel for this
            return made

    destination = Heavy("there", url=URL, exchange=exchange)
    facts = [a_fact(), a_fact(data={"bad": True}), a_fact()]
    first, second, third = destination.deliver(facts)
    destination.close()
    assert (first, third) == (None, None)
    assert type(second) is Refused
    assert "user_id" in str(second)
    arrived = set()
    while message := channel.basic_get(exchange, no_ack=True):
        arrived.add(message.properties["message_id"])
    assert arrived == {str(facts[0].id), str(facts[2].id)}


def test_texts_are_cut_by_bytes_and_between_characters(channel, exchange, opened):
    """AMQP counts the bytes of a short text, 255 at most."""
    channel.queue_bind(exchange, exchange, "#")
    facts = [a_fact(), a_fact(correlation="x" + "ü" * 200, aggregate_id="€" * 100), a_fact()]
    assert opened(routing_key="{aggregate_id}").deliver(facts) == [None] * 3
    _, message, _ = (channel.basic_get(exchange, no_ack=True) for _ in facts)
    assert message.properties["correlation_id"] == "x" + "ü" * 127
    assert message.delivery_info["routing_key"] == "€" * 85
    assert json.loads(message.body)["correlation_id"] == facts[1].correlation_id


def test_what_happened_before_1970_has_no_timestamp_and_goes(channel, exchange, opened):
    facts = [a_fact(), a_fact(occurred=-5.0), a_fact()]
    assert opened().deliver(facts) == [None] * 3
    _, message, _ = (channel.basic_get(exchange, no_ack=True) for _ in facts)
    assert "timestamp" not in message.properties
    assert json.loads(message.body)["occurred_at"] == "1969-12-31T23:59:55.000000Z"


class Unwritable(RabbitMQ):
    """Gives some events a priority that does not fit into its byte."""

    def _publishing(self, fact):
        made = super()._publishing(fact)
        made.message.properties["priority"] = fact.data.get("priority", 1)
        return made


def test_one_that_cannot_be_written_is_refused_alone_and_nothing_of_it_is_sent(channel, exchange):
    destination = Unwritable("there", url=URL, exchange=exchange, timeout=2)
    facts = [a_fact(), a_fact(data={"priority": 999}), a_fact()]
    try:
        first, second, third = destination.deliver(facts)
        assert (first, third) == (None, None)
        assert type(second) is Refused
        assert "cannot be written as a message" in str(second)
        assert destination.deliver([facts[1]])[0] is not None
        assert destination.deliver([a_fact()]) == [None]  # its confirms are still counted rightly
        assert channel.queue_declare(exchange, passive=True).message_count == 3
    finally:
        destination.close()


def test_one_with_headers_that_no_frame_holds_is_refused_alone_and_its_neighbours_go_once(channel, exchange, opened):
    """The broker would close the whole connection, and say nothing about the others."""
    destination = opened(timeout=2)
    long = a_fact(correlation="x" * 200_000)
    first, second, third = destination.deliver([a_fact(), long, a_fact()])
    assert (first, third) == (None, None)
    assert type(second) is Refused
    assert "headers" in str(second)
    assert type(destination.deliver([long])[0]) is Refused
    assert destination.deliver([a_fact()]) == [None]
    assert channel.queue_declare(exchange, passive=True).message_count == 3


def test_a_link_that_was_interrupted_is_never_used_again(exchange, opened):
    """Whatever stopped it: it may wait for confirms of what was never sent."""
    destination = opened(timeout=2)
    destination.deliver([a_fact()])
    [link] = destination._resting
    bad = destination._publishing(a_fact())
    bad.message.properties["priority"] = 999
    with pytest.raises(Exception, match=r"ubyte|format requires"):
        destination._publish(link, [bad], time.monotonic() + 2)
    assert destination._resting == []
    assert destination.deliver([a_fact()]) == [None]


@pytest.fixture
def internal(channel):
    """An exchange that nobody may publish to: the broker answers as it does to a user without the right."""
    name = unique()
    told = (0, name, "topic", False, False, False, True, False, {})
    channel.send_method(spec.Exchange.Declare, "BssbbbbbF", told, wait=spec.Exchange.DeclareOk)
    yield name
    channel.exchange_delete(name)


def test_a_missing_right_may_come(internal, opened):
    for batch in ([a_fact()], [a_fact() for _ in range(3)]):
        for result in opened(exchange=internal).deliver(batch):
            assert type(result) is Undelivered
            assert "ACCESS_REFUSED" in str(result)
            assert "grant its user the right" in str(result)


def test_after_a_fork_the_child_has_connections_of_its_own(channel, exchange, opened):
    destination = opened()
    assert destination.deliver([a_fact()]) == [None]
    first = id(destination._resting[0])
    assert in_a_child(lambda: destination.close() is None)
    assert in_a_child(lambda: destination.deliver([a_fact()]) == [None])
    assert destination.deliver([a_fact()]) == [None]
    assert [id(each) for each in destination._resting] == [first]
    assert channel.queue_declare(exchange, passive=True).message_count == 3


def test_threads_have_connections_of_their_own(channel, exchange, opened):
    destination = opened()
    results = []

    def deliver():
        for _ in range(5):
            results.extend(destination.deliver([a_fact() for _ in range(20)]))

    threads = [threading.Thread(target=deliver) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [None] * 400
    assert 1 <= len(destination._resting) <= 4
    assert channel.queue_declare(exchange, passive=True).message_count == 400


def test_a_connection_that_rested_for_long_is_made_anew(opened, monkeypatch):
    destination = opened()
    destination.deliver([a_fact()])
    [first] = destination._resting
    monkeypatch.setattr(rabbitmq, "REST_SECONDS", 0.0)
    assert destination.deliver([a_fact()]) == [None]
    [second] = destination._resting
    assert second is not first


def test_when_one_connection_breaks_the_others_that_rest_are_not_trusted(opened):
    with Proxy(5672) as proxy:
        destination = opened(url=f"amqp://guest:guest@127.0.0.1:{proxy.port}/", timeout=2)
        links = [destination._link() for _ in range(3)]
        for link in links:
            destination._put_back(link)
        proxy.set(AWAY)
        [result] = destination.deliver([a_fact()])
        assert isinstance(result, Undelivered)
        proxy.set(PASS)
        assert destination.deliver([a_fact()]) == [None]


def test_a_wrong_password_is_said_and_never_quoted(opened):
    with pytest.raises(Undelivered, match="RabbitMQ cannot be reached") as caught:
        opened(url="amqp://guest:hunter2@127.0.0.1:5672/").deliver([a_fact()])
    assert "hunter2" not in str(caught.value)


class Deaf(LateProxy):
    """From the first event on it passes nothing back, and closes nothing."""

    def _step(self, here, there):
        ready, _, _ = select.select([here, there], [], [], 0.05)
        for each in ready:
            sent = each.recv(65536)
            if not sent:
                return False
            if each is here:
                there.sendall(sent)
                self._with_event |= {here} if b"event_id" in sent else set()
            elif here not in self._with_event:
                here.sendall(sent)
        return True


def test_a_batch_is_sent_before_the_first_confirm_is_awaited(channel, exchange, opened):
    with Deaf(5672) as proxy:
        destination = opened(url=f"amqp://guest:guest@127.0.0.1:{proxy.port}/", timeout=2)
        results = destination.deliver([a_fact() for _ in range(100)])
    assert all(type(result) is Undelivered for result in results)
    assert "did not confirm" in str(results[0])
    eventually(lambda: channel.queue_declare(exchange, passive=True).message_count == 100)


@pytest.mark.parametrize(
    ("url", "host", "vhost", "secure"),
    [
        ("amqp://a:b@host", "host:5672", "/", False),
        ("amqp://a:b@host/", "host:5672", "/", False),
        ("amqp://a:b@host:1234/shop", "host:1234", "shop", False),
        ("amqps://a:b@host/%2Fshop", "host:5671", "/shop", True),
    ],
)
def test_an_url_is_read_as_others_read_it(url, host, vhost, secure):
    options = connection_options(url)
    assert (options["host"], options["virtual_host"], bool(options["ssl"])) == (host, vhost, secure)
    if secure:
        assert options["ssl"] == {"context": {"check_hostname": True}, "server_hostname": "host"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://host"}, "url is not an AMQP URL"),
        ({"url": "amqp://"}, "url is not an AMQP URL"),
        ({"url": "amqp://host:port"}, "url is not an AMQP URL"),
        ({"url": "amqp://[host"}, "url is not an AMQP URL"),
        ({"exchange": "ü" * 128}, "exchange has 256 bytes; RabbitMQ allows 255"),
        ({"unroutable": "drop"}, "unroutable is 'drop'; it must be 'retry', 'refuse' or 'accept'"),
        ({"routing_key": "{what}"}, "routing_key='{what}' has a place 'what'"),
        ({"timeout": True}, "timeout is True"),
    ],
)
def test_a_mistake_in_the_options_is_named(options, message):
    with pytest.raises(InvalidDestination, match=message):
        RabbitMQ("there", **{"url": URL, "exchange": "x", **options})


@pytest.mark.parametrize("password", ["p4ss#word", "p4ss/word", "1234#word", "p4ss?word"])
def test_a_password_that_was_not_quoted_is_no_url_and_never_shown(password):
    with pytest.raises(InvalidDestination, match="url is not an AMQP URL") as caught:
        RabbitMQ("there", url=f"amqp://guest:{password}@127.0.0.1:5672/", exchange="x")
    assert password[:4] not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
