"""The real Redis, RabbitMQ and NATS of this machine, as the other side."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import amqp
import nats
import redis

from tests.destinations.conformance import Arrived, Stage, mode
from tests.destinations.interrupted import NATS, Interrupted, LateProxy
from tests.destinations.proxy import AWAY, HANG, MUTE
from tests.support import eventually


class Brokered(Stage):
    """A stage whose wire is a proxy to a port of this machine."""

    port: int

    def __enter__(self) -> Brokered:
        self.name = unique()
        self.proxy = self.wire().__enter__()
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shut()
        self.proxy.__exit__(None, None, None)

    def wire(self) -> Any:
        return LateProxy(self.port)

    def open(self) -> None: ...

    def shut(self) -> None: ...

    def away(self) -> Any:
        return mode(self.proxy, AWAY)

    def hanging(self) -> Any:
        return mode(self.proxy, HANG)

    def muted(self) -> Any:
        return mode(self.proxy, MUTE)


def unique() -> str:
    return f"duebox-test-{uuid.uuid4().hex[:16]}"


def in_a_child(check: Callable[[], object]) -> bool:
    """Whether a fork of this process finds it true; one that hangs does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # since Python 3.12, where there are threads
        child = os.fork()
    if not child:
        found = False
        try:
            found = bool(check())
        finally:
            os._exit(0 if found else 1)
    ended: list[int] = []

    def has_ended() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        ended.extend([status] if pid else [])
        return bool(pid)

    try:
        eventually(has_ended)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return ended == [0]


class RedisStreams(Brokered):
    """Each event has a stream of its own, so that one alone can be made to fail; MONITOR tells in which order the
    server took them."""

    backend = "duebox.destinations.redis_streams.RedisStreams"
    ordered = True
    port = 6379

    def open(self) -> None:
        self._client = redis.Redis(port=self.port, decode_responses=True)
        self._spoilt: set[str] = set()
        self._seen: list[str] = []
        self._watch = socket.create_connection(("127.0.0.1", self.port))
        self._watch.sendall(b"MONITOR\r\n")
        lines = self._watch.makefile("rb")
        assert lines.readline() == b"+OK\r\n"
        self._thread = threading.Thread(target=self._follow, args=[lines])
        self._thread.start()

    def _follow(self, lines: Any) -> None:
        with lines:
            for line in lines:
                if found := re.search(rf'"XADD" "{self.name}:([0-9a-f-]+)"'.encode(), line):
                    self._seen.append(found[1].decode())

    def shut(self) -> None:
        self._watch.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._watch.close()
        for key in self._client.scan_iter(f"{self.name}:*"):
            self._client.delete(key)
        self._client.close()

    @property
    def options(self) -> dict[str, Any]:
        url = f"redis://127.0.0.1:{self.proxy.port}/0"
        return {"url": url, "stream": f"{self.name}:{{event_id}}", "timeout": 1.0}

    def arrived(self) -> list[Arrived]:
        seen = [one for one in self._seen if one not in self._spoilt]
        entries = {one: self._client.xrange(f"{self.name}:{one}") for one in set(seen)}
        found = [entries[one].pop(0)[1] for one in seen if entries[one]]
        return [Arrived(json.loads(fields.pop("event")), fields) for fields in found]

    def failing(self, ids: set[str]) -> Any:
        """The stream has used up all the numbers there are, until somebody removes it."""
        last = f"{2**64 - 1}-{2**64 - 1}"
        return self._spoiling(ids, lambda key: self._client.xadd(key, {"event": "the last one"}, id=last))

    def refusing(self, ids: set[str]) -> Any:
        """There is something else under the name of the stream."""
        return self._spoiling(ids, lambda key: self._client.set(key, "not a stream"))

    @contextmanager
    def _spoiling(self, ids: set[str], spoil: Any) -> Iterator[None]:
        self._spoilt = ids
        for one in ids:
            spoil(f"{self.name}:{one}")
        yield
        for one in ids:
            self._client.delete(f"{self.name}:{one}")
        self._spoilt = set()


class RabbitMQ(Brokered):
    """Whatever no binding of the exchange takes goes on to the queue that is read here; so a binding for the id of one
    event leads that one astray."""

    backend = "duebox.destinations.rabbitmq.RabbitMQ"
    ordered = True
    port = 5672

    def open(self) -> None:
        self._connection = amqp.Connection(f"127.0.0.1:{self.port}", connect_timeout=10, read_timeout=10)
        self._connection.connect()
        self._channel = self._connection.channel()
        self._found: list[Arrived] = []
        self._channel.exchange_declare(f"{self.name}-rest", "fanout", auto_delete=False)
        self._channel.queue_declare(self.name, durable=True, auto_delete=False)
        self._channel.queue_bind(self.name, f"{self.name}-rest")
        # Nothing is ever bound to this one.
        self._channel.exchange_declare(f"{self.name}-void", "fanout", auto_delete=False)
        self._channel.exchange_declare(
            self.name, "topic", auto_delete=False, arguments={"alternate-exchange": f"{self.name}-rest"}
        )

    def shut(self) -> None:
        for suffix in ("", "-rest", "-void"):
            self._channel.exchange_delete(self.name + suffix)
        self._channel.queue_delete(self.name)
        self._connection.close()

    @property
    def options(self) -> dict[str, Any]:
        url = f"amqp://guest:guest@127.0.0.1:{self.proxy.port}/"
        key = "{event_type}.{event_id}"
        return {"url": url, "exchange": self.name, "routing_key": key, "unroutable": "refuse", "timeout": 1.0}

    def arrived(self) -> list[Arrived]:
        while message := self._channel.basic_get(self.name, no_ack=True):
            self._found.append(Arrived(json.loads(message.body), {**message.delivery_info, **message.properties}))
        return list(self._found)

    @contextmanager
    def failing(self, ids: set[str]) -> Iterator[None]:
        """They are led to a queue that is full, and nacks."""
        full = f"{self.name}-full"
        limits = {"x-max-length": 0, "x-overflow": "reject-publish"}
        self._channel.queue_declare(full, auto_delete=False, arguments=limits)
        for one in ids:
            self._channel.queue_bind(full, self.name, f"#.{one}")
        yield
        self._channel.queue_delete(full)

    @contextmanager
    def refusing(self, ids: set[str]) -> Iterator[None]:
        """They are led to where no queue is."""
        for one in ids:
            self._channel.exchange_bind(f"{self.name}-void", self.name, f"#.{one}")
        yield
        for one in ids:
            self._channel.exchange_unbind(f"{self.name}-void", self.name, f"#.{one}")


class NatsJetStream(Brokered):
    """The stream is reconfigured while a batch is on its way."""

    backend = "duebox.destinations.nats.NatsJetStream"
    ordered = True
    largest = 1024 * 1024  # the server's max_payload, if nobody changed it
    port = 4222

    def wire(self) -> Any:
        return Interrupted(self.port, NATS)

    def open(self) -> None:
        self._settings: dict[str, Any] = {"name": self.name, "subjects": [f"{self.name}.>"], "storage": "memory"}
        _in_jetstream(lambda stream: stream.add_stream(**self._settings))

    def shut(self) -> None:
        _in_jetstream(lambda stream: stream.delete_stream(self.name))

    @property
    def options(self) -> dict[str, Any]:
        url = f"nats://127.0.0.1:{self.proxy.port}"
        return {"url": url, "subject": f"{self.name}.{{event_type}}", "timeout": 1.0}

    def arrived(self) -> list[Arrived]:
        found = _in_jetstream(self._read)
        return [Arrived(json.loads(each.data), {"subject": each.subject, **each.headers}) for each in found]

    async def _read(self, stream: Any) -> list[Any]:
        last = (await stream.stream_info(self.name)).state.last_seq
        return [await stream.get_msg(self.name, number) for number in range(1, last + 1)]

    def failing(self, ids: set[str]) -> Any:
        """For a moment no stream takes the subject."""
        return self._with(ids, subjects=[f"{self.name}-of-nobody"])

    def refusing(self, ids: set[str]) -> Any:
        """For a moment the stream takes no message larger than a byte."""
        return self._with(ids, max_msg_size=1)

    def _with(self, ids: set[str], **other: Any) -> Any:
        def change(**settings: Any) -> Any:
            return _in_jetstream(lambda stream: stream.update_stream(**{**self._settings, **settings}))

        return self.proxy.at(ids, lambda: change(**other), change)


def _in_jetstream(ask: Any) -> Any:
    async def asked() -> Any:
        client = await nats.connect(f"nats://127.0.0.1:{NatsJetStream.port}")
        try:
            return await ask(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(asked())


STAGES: list[type[Stage]] = [RedisStreams, RabbitMQ, NatsJetStream]
