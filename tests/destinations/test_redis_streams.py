"""Redis Streams, on the real server; what holds for every destination is in test_conformance.py."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest
import redis

from duebox.destinations.redis_streams import RedisStreams
from duebox.destinations.registry import make
from duebox.exceptions import InvalidDestination, Refused, Undelivered
from tests.destinations.conformance import a_fact
from tests.destinations.stages.brokers import unique
from tests.support import eventually

URL = "redis://127.0.0.1:6379/0"

BORN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def server():
    with redis.Redis.from_url(URL, decode_responses=True) as client:
        yield client


@pytest.fixture
def name(server):
    name = unique()
    yield name
    for key in server.scan_iter(f"{name}*"):
        server.delete(key)


@pytest.fixture
def opened():
    """Makes destinations, and closes them."""
    made = []

    def open_(**options):
        made.append(RedisStreams("there", **{"url": URL, **options}))
        return made[-1]

    yield open_
    for each in made:
        each.close()


def test_an_entry_has_the_headers_and_the_envelope_as_fields(server, name, opened):
    fact = a_fact(metadata=json.dumps({"traceparent": BORN}))
    assert opened(stream=name).deliver([fact]) == [None]
    [(_, fields)] = server.xrange(name)
    assert json.loads(fields.pop("event"))["data"] == {"total": 150}
    assert fields == {
        "event_id": str(fact.id), "event_type": "order.paid", "schema_version": "1", "organization_id": "7",
        "correlation_id": str(fact.id), "traceparent": BORN,
    }  # fmt: skip


def test_a_stream_can_be_named_after_the_event(server, name, opened):
    destination = opened(stream=f"{name}.{{aggregate_type}}.{{event_type}}")
    destination.deliver([a_fact(), a_fact("order.shipped"), a_fact(aggregate_type="", aggregate_id="")])
    found = sorted(key.removeprefix(name) for key in server.scan_iter(f"{name}*"))
    assert found == [".none.order.paid", ".order.order.paid", ".order.order.shipped"]


def test_a_stream_keeps_the_order_of_a_batch(server, name, opened):
    facts = [a_fact(data={"number": number}) for number in range(100)]
    opened(stream=name).deliver(facts)
    assert [fields["event_id"] for _, fields in server.xrange(name)] == [str(fact.id) for fact in facts]


def test_a_stream_can_be_kept_short(server, name, opened):
    destination = opened(stream=name, maxlen=1000)
    for _ in range(25):
        destination.deliver([a_fact() for _ in range(100)])
    assert 1000 <= server.xlen(name) < 1300


def test_a_right_that_is_missing_may_come(server, name, opened):
    server.acl_setuser(name, enabled=True, nopass=True, keys=["allowed"], commands=["+xadd"])
    try:
        destination = opened(url=f"redis://{name}:any@127.0.0.1:6379/0", stream=name)
        [result] = destination.deliver([a_fact()])
        assert type(result) is Undelivered
        assert "no permissions" in str(result).lower()
        assert "grant its user the right" in str(result)
        server.acl_setuser(name, enabled=True, nopass=True, keys=["*"], commands=["+xadd"])
        assert destination.deliver([a_fact()]) == [None]
    finally:
        server.acl_deluser(name)


@pytest.fixture
def replica(tmp_path):
    """A Redis whose master is nowhere; the port it listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen([*words, "--replicaof", "127.0.0.1", "1"], stdout=subprocess.DEVNULL)
    with redis.Redis(port=port) as client:
        eventually(lambda: _answers(client))
    yield port
    process.terminate()
    process.wait(10)


def _answers(client):
    try:
        return client.ping()
    except redis.exceptions.ConnectionError:
        return False


def test_a_connection_to_what_became_a_replica_is_not_used_again(replica, name, opened):
    """After a failover the name of the server means another one; whoever stays connected never gets there."""
    destination = opened(url=f"redis://127.0.0.1:{replica}/0", stream=name)
    with redis.Redis(port=replica, decode_responses=True) as client:
        for _ in range(2):
            [result] = destination.deliver([a_fact()])
            assert type(result) is Undelivered
            assert "read only replica" in str(result)
        eventually(lambda: [each["cmd"] for each in client.client_list()] == ["client|list"])
        client.replicaof("NO", "ONE")
        assert destination.deliver([a_fact()]) == [None]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (redis.exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), Undelivered),
        (redis.exceptions.ReadOnlyError("You can't write against a read only replica."), Undelivered),
        (redis.exceptions.BusyLoadingError("Redis is loading the dataset in memory"), Undelivered),
        (redis.exceptions.ResponseError("CLUSTERDOWN The cluster is down"), Undelivered),
        (redis.exceptions.ResponseError("WRONGTYPE Operation against a key"), Refused),
        (redis.exceptions.NoPermissionError("this user has no permissions"), Undelivered),
        (redis.exceptions.ResponseError("NOPERM this user has no permissions"), Undelivered),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_errors_are_told_apart(opened, error, kind):
    assert type(opened()._result(error)) is kind


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://x"}, "url is not a Redis URL"),
        ({"stream": ""}, "stream is empty"),
        ({"stream": "a{type}"}, "has a place 'type'; known are event_id, event_type"),
        ({"stream": "a{"}, "cannot be read"),
        ({"stream": "a{event_type!r}"}, "has a place"),
        ({"timeout": 0}, "timeout is 0; it must be a number above 0"),
        ({"maxlen": -1}, "maxlen is -1"),
        ({"streams": "x"}, "OPTIONS do not fit RedisStreams .*known are url, stream, maxlen, timeout"),
    ],
)
def test_a_mistake_in_the_options_is_named(options, message):
    entry = {"BACKEND": "duebox.destinations.redis_streams.RedisStreams", "OPTIONS": {"url": URL, **options}}
    with pytest.raises(InvalidDestination, match=message):
        make("there", entry)


def test_a_password_is_not_quoted():
    with pytest.raises(InvalidDestination) as caught:
        RedisStreams("there", url="reddis://:hunter2@host")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("password", ["p4ss/word", "p4ss#word", "1234#word"])
def test_a_password_that_was_not_quoted_is_no_url_and_never_shown(password):
    with pytest.raises(InvalidDestination, match="url is not a Redis URL") as caught:
        RedisStreams("there", url=f"redis://user:{password}@host:6379/0")
    assert password[:4] not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_missing_driver_is_named_with_the_repair(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(InvalidDestination, match=r"'redis' is not installed; run: pip install 'duebox\[redis\]'"):
        RedisStreams("there", url=URL)


def test_a_stream_that_is_kept_too_short_is_a_problem(opened):
    [(message, _)] = opened(maxlen=10).check()
    assert "maxlen is 10" in message
