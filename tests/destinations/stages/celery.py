"""CeleryTask with the brokers that it supports. What arrived is read from the queue, as a worker would."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import redis
from kombu import Connection, Queue

from tests.destinations.celery_app import fates, refusal
from tests.destinations.conformance import Arrived, Stage, mode
from tests.destinations.interrupted import CommitProxy, LateProxy
from tests.destinations.proxy import AWAY, HANG, MUTE


class CeleryStage(Stage):
    backend = "duebox.destinations.celery.CeleryTask"
    largest = 20_000
    timeout = 1.0
    wire = LateProxy
    port: int
    url: str

    def __enter__(self) -> CeleryStage:
        self.task = f"stage-{uuid.uuid4().hex}"
        self.proxy = self.wire(self.port, mark=b"argsrepr").__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.proxy.__exit__(None, None, None)

    @property
    def options(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "app": "tests.destinations.celery_app.app",
            "broker": self.url.format(port=self.proxy.port),
            "max_bytes": self.largest,
            "timeout": self.timeout,
        }

    def away(self) -> Any:
        return mode(self.proxy, AWAY)

    def hanging(self) -> Any:
        return mode(self.proxy, HANG)

    def muted(self) -> Any:
        return mode(self.proxy, MUTE)

    @contextmanager
    def failing(self, ids: set[str]) -> Iterator[None]:
        """The queue that the router sends these to does not take them."""
        with self.a_queue_that_takes_nothing() as queue, _fate(ids, queue):
            yield

    def refusing(self, ids: set[str]) -> Any:
        return _fate(ids, refusal())

    def a_queue_that_takes_nothing(self) -> Any:
        raise NotImplementedError


class CeleryOnRedis(CeleryStage):
    port = 6379
    url = "redis://127.0.0.1:{port}/3"

    def __enter__(self) -> CeleryStage:
        self.client = redis.Redis(port=self.port, db=3)
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self.client.delete(self.task)
        self.client.close()

    def arrived(self) -> list[Arrived]:
        found = [json.loads(each) for each in reversed(self.client.lrange(self.task, 0, -1))]
        return [
            _arrived(json.loads(base64.b64decode(each["body"])), each["headers"], each["properties"]) for each in found
        ]

    @contextmanager
    def a_queue_that_takes_nothing(self) -> Iterator[Queue]:
        name = f"{self.task}-no-list"
        self.client.set(name, "a text")
        yield Queue(name, durable=True)
        self.client.delete(name)


class CeleryOnRabbitMQ(CeleryStage):
    port = 5672
    url = "amqp://guest:guest@127.0.0.1:{port}//"

    def __enter__(self) -> CeleryStage:
        self.connection = Connection(self.url.format(port=self.port))
        self.seen: list[Arrived] = []
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        with self.connection as connection:
            Queue(self.task, channel=connection.default_channel).delete()
            Queue(f"{self.task}-full", channel=connection.default_channel).delete()

    def arrived(self) -> list[Arrived]:
        queue = Queue(self.task, channel=self.connection.default_channel)
        queue.declare()
        while (message := queue.get(no_ack=True)) is not None:
            self.seen.append(_arrived(message.payload, message.headers, message.properties))
        return self.seen

    @contextmanager
    def a_queue_that_takes_nothing(self) -> Iterator[Queue]:
        yield Queue(
            f"{self.task}-full", durable=True, queue_arguments={"x-max-length": 0, "x-overflow": "reject-publish"}
        )


class CeleryOnPostgreSQL(CeleryStage):
    """A database with the tables of kombu's transport for SQLAlchemy."""

    port = 5432
    timeout = 8.0  # a full batch is a hundred transactions
    wire = CommitProxy
    server = "postgresql://postgres@127.0.0.1:5432"

    def __enter__(self) -> CeleryStage:
        self.name = f"duebox_celery_{uuid.uuid4().hex}"
        self.url = f"sqla+postgresql://postgres@127.0.0.1:{{port}}/{self.name}?sslmode=disable"
        with psycopg.connect(f"{self.server}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.name}")
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        with psycopg.connect(f"{self.server}/postgres", autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {self.name} WITH (FORCE)")

    def arrived(self) -> list[Arrived]:
        with psycopg.connect(f"{self.server}/{self.name}") as connection:
            query = (
                "SELECT payload FROM kombu_message JOIN kombu_queue ON kombu_queue.id = queue_id WHERE name = %s "
                "ORDER BY kombu_message.id"
            )
            if connection.execute("SELECT to_regclass('kombu_message')").fetchone() == (None,):
                return []
            found = [json.loads(payload) for (payload,) in connection.execute(query, [self.task])]
        return [
            _arrived(json.loads(base64.b64decode(each["body"])), each["headers"], each["properties"]) for each in found
        ]

    @contextmanager
    def a_queue_that_takes_nothing(self) -> Iterator[Queue]:
        """Its rows are refused by a trigger."""
        name = f"{self.task}-none"
        with Connection(self.url.format(port=self.port)) as connection:
            Queue(name, channel=connection.default_channel).declare()
            connection.default_channel.session.close()  # its transaction holds a lock
        with psycopg.connect(f"{self.server}/{self.name}", autocommit=True) as connection:
            connection.execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no rows here'; END $$"
            )
            connection.execute(
                "CREATE TRIGGER refuse BEFORE INSERT ON kombu_message FOR EACH ROW "
                f"WHEN (NEW.payload::text LIKE '%{name}%') EXECUTE FUNCTION refuse()"
            )
            yield Queue(name, durable=True)
            connection.execute("DROP TRIGGER refuse ON kombu_message")


@contextmanager
def _fate(ids: set[str], fate: Any) -> Iterator[None]:
    fates.update(dict.fromkeys(ids, fate))
    try:
        yield
    finally:
        for id in ids:
            del fates[id]


def _arrived(body: Any, headers: dict[str, Any], properties: dict[str, Any]) -> Arrived:
    [envelope], kwargs, _ = body
    assert kwargs == {}
    assert headers["id"] == envelope["event_id"] == headers["duebox_event_id"]
    return Arrived(envelope, {**properties, **headers})


STAGES = [CeleryOnRedis, CeleryOnRabbitMQ, CeleryOnPostgreSQL]
