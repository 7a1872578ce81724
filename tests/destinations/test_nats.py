"""NATS JetStream, on the real server; what holds for every destination is in test_conformance.py."""

from __future__ import annotations

import asyncio
import json
import threading

import nats
import pytest

from duebox.destinations.nats import NatsJetStream
from duebox.events.outcomes import Delivered
from duebox.exceptions import InvalidDestination, Undelivered
from tests.destinations.conformance import a_fact, delivered_by_threads
from tests.destinations.stages.brokers import NatsJetStream as Stage
from tests.destinations.stages.brokers import _in_jetstream as in_jetstream
from tests.destinations.stages.brokers import in_a_child, unique


@pytest.fixture
def stage():
    with Stage() as entered:
        yield entered


@pytest.fixture
def opened(stage):
    made = []

    def open_(**options):
        usual = {"url": "nats://127.0.0.1:4222", "subject": f"{stage.name}.{{event_type}}"}
        made.append(NatsJetStream("there", **{**usual, **options}))
        return made[-1]

    yield open_
    for each in made:
        each.close()


def stored(stage, number=1):
    return in_jetstream(lambda stream: stream.get_msg(stage.name, number))


def test_a_message_says_beside_its_body_what_it_is(stage, opened):
    fact = a_fact()
    assert opened().deliver([fact]) == [None]
    message = stored(stage)
    assert message.subject == f"{stage.name}.order.paid"
    assert message.headers["Nats-Msg-Id"] == message.headers["event_id"] == str(fact.id)
    assert message.headers["event_type"] == "order.paid"
    assert json.loads(message.data)["data"] == {"total": 150}


def test_what_comes_again_is_known_by_its_id(stage, opened):
    fact = a_fact()
    destination = opened()
    assert destination.deliver([fact]) == [None]
    assert destination.deliver([fact]) == [Delivered("the stream had it already")]
    assert len(stage.received()) == 1


def test_a_subject_that_no_stream_takes_is_said_with_the_repair(opened):
    [result] = opened(subject="duebox-test-of-nobody.{event_type}").deliver([a_fact()])
    assert type(result) is Undelivered
    assert "No stream of NATS has the subject; add it to the subjects of one" in str(result)


@pytest.fixture
def responder():
    """Somebody who is no stream, and answers to whatever comes on a subject."""
    threads, over = [], threading.Event()

    def respond(subject, answer):
        ready = threading.Event()

        async def reply(message):
            await message.respond(answer)

        async def serve():
            client = await nats.connect("nats://127.0.0.1:4222")
            await client.subscribe(subject, cb=reply)
            await client.flush()
            ready.set()
            await asyncio.to_thread(over.wait)
            await client.close()

        threads.append(threading.Thread(target=lambda: asyncio.run(serve())))
        threads[-1].start()
        assert ready.wait(10)

    yield respond
    over.set()
    for thread in threads:
        thread.join(10)


@pytest.mark.parametrize(
    "answer",
    [
        b'{"ok":true}', b'{"stream":"x"}', b'{"stream":"x","seq":"1"}', b'{"stream":1,"seq":1}', b'{"seq":true}',
        b'{"stream":"x","seq":true}', b"[1]", b"null", b'"taken"', b"taken", b"", b"\xff", b'{"error":"no"}',
        b'{"error":{"code":400}}',
    ],
)  # fmt: skip
def test_an_answer_that_is_not_a_streams_is_no_delivery(responder, opened, answer):
    name = unique()
    responder(f"{name}.>", answer)
    results = opened(subject=f"{name}.{{event_type}}", timeout=0.5).deliver([a_fact(), a_fact()])
    for result in results:
        assert type(result) is Undelivered
        assert "not a stream answered" in str(result)


def test_a_stream_is_heard_although_somebody_else_answers_too(stage, responder, opened):
    responder(f"{stage.name}.>", b'{"ok":true}')
    destination = opened()
    for _ in range(10):  # now one is the first, now the other
        assert destination.deliver([a_fact(), a_fact()]) == [None, None]


def test_after_a_fork_the_child_has_a_connection_of_its_own(stage, opened):
    destination = opened()
    assert destination.deliver([a_fact()]) == [None]
    assert in_a_child(lambda: destination.close() is None)
    assert in_a_child(lambda: destination.deliver([a_fact()]) == [None])
    assert destination.deliver([a_fact()]) == [None]
    assert len(stage.received()) == 3


def test_a_value_cannot_break_a_subject(stage, opened):
    fact = a_fact(aggregate_type="a b*>", aggregate_id="1")
    assert opened(subject=f"{stage.name}.{{aggregate_type}}.{{organization_id}}").deliver([fact]) == [None]
    assert stored(stage).subject == f"{stage.name}.a_b__.7"


def test_threads_share_one_connection(stage, opened):
    assert delivered_by_threads(opened()) == [None] * 600
    assert in_jetstream(lambda stream: stream.stream_info(stage.name)).state.messages == 600
    assert [each.name for each in threading.enumerate()].count("duebox-nats-there") == 1


def test_the_size_of_the_headers_counts(opened):
    """The limit of the server is for both, and it cuts the connection of whoever breaks it."""
    limit = Stage.largest
    empty = len(json.dumps({"text": ""}))
    results = []
    destination = opened()
    for slack in (2000, 700, 500, 300, 100):
        fact = a_fact(data={"text": "x" * (limit - empty - slack)})
        results += destination.deliver([fact])
    assert results[0] is None
    assert [type(each).__name__ for each in results if each is not None] == ["TooLarge"] * (
        len(results) - results.count(None)
    )
    assert results[-1] is not None


def test_closed_it_has_no_thread_left(opened):
    destination = opened()
    destination.deliver([a_fact()])
    destination.close()
    assert "duebox-nats-there" not in [each.name for each in threading.enumerate()]
    assert destination.deliver([a_fact()]) == [None]  # it may be used again


def test_options_of_the_client_are_passed_on(opened):
    destination = opened(options={"name": "shop"})
    destination.deliver([a_fact()])
    assert destination._client.options["name"] == "shop"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": ""}, "url is empty"),
        ({"subject": "a b"}, "contains a space or a wildcard"),
        ({"subject": "a.>"}, "contains a space or a wildcard"),
        ({"subject": "{x}"}, "has a place 'x'"),
        ({"timeout": -1}, "timeout is -1"),
        ({"url": []}, "url is empty; write it as nats://localhost:4222"),
        ({"url": ["nats://a:4222", 5]}, "url holds a int"),
        ({"url": "http://localhost:4222"}, "url begins with 'http://'; it must be nats://, tls://, ws:// or wss://"),
        ({"url": ["nats://a:4222", "amqp://b"]}, "url begins with 'amqp://'"),
        ({"options": {"usr": "x"}}, "options has 'usr', which is not known; did you mean 'user'?"),
        ({"options": {"connect_timeout": 1}}, r"options\['connect_timeout'\] is set by Duebox; leave it out"),
        ({"options": {"servers": "nats://b"}}, r"options\['servers'\] is set by Duebox; leave it out"),
    ],
)
def test_a_mistake_in_the_options_is_named(options, message):
    with pytest.raises(InvalidDestination, match=message):
        NatsJetStream("there", **{"url": "nats://127.0.0.1:4222", **options})


def test_each_mistake_is_said_alone():
    with pytest.raises(InvalidDestination) as caught:
        NatsJetStream("there", url="nats://127.0.0.1:4222", subject="a b")
    assert str(caught.value) == "subject='a b' contains a space or a wildcard; correct it."


@pytest.mark.parametrize("url", ["localhost", "127.0.0.1:4222", "tls://a:4222", ["nats://a", "b:4222"], "wss://a"])
def test_whatever_the_client_takes_is_a_url(url):
    NatsJetStream("there", url=url)


def test_a_password_in_a_url_is_never_shown():
    with pytest.raises(InvalidDestination) as caught:
        NatsJetStream("there", url="http://user:hunter2@host:4222")
    assert "hunter2" not in str(caught.value)


def test_a_server_that_refuses_is_told_with_its_reason(opened):
    with pytest.raises(Undelivered, match=r"NATS cannot be reached: .*Connect call failed") as caught:
        opened(url="nats://127.0.0.1:1", timeout=0.5).deliver([a_fact()])
    assert "127.0.0.1" in str(caught.value)


def test_what_the_client_says_against_an_option_is_not_hidden_by_its_end(opened):
    with pytest.raises(Undelivered, match="callbacks must be coroutine functions"):
        opened(options={"closed_cb": print}).deliver([a_fact()])
