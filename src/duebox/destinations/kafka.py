"""Kafka: each event is a record with its aggregate as the key, so that the events of an aggregate stay in order.

"kafka": {
    "BACKEND": "duebox.destinations.kafka.Kafka",
    "OPTIONS": {"servers": "broker-1:9092,broker-2:9092", "topic": "shop.{aggregate_type}"},
}
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from duebox.destinations.base import Destination, Problem, Result
from duebox.destinations.envelope import envelope, headers, ordering_key
from duebox.destinations.options import Name, driver, positive
from duebox.events.fact import Fact
from duebox.exceptions import DueboxError, InvalidDestination, Refused, TooLarge, Undelivered

__all__ = ["Kafka"]

OURS = ("bootstrap.servers", "enable.idempotence", "acks", "message.timeout.ms")
_WHERE = ("bootstrap.servers", "metadata.broker.list")
_FOR_GOOD = (
    "MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP", "POLICY_VIOLATION", "TOPIC_EXCEPTION",
)  # fmt: skip
_NO_RIGHT = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
_NO_TOPIC = ("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART")
_POLL_SECONDS = 0.05
_TOLD_EVERY = 60.0
_SLACK_SECONDS = 1.5  # the client checks timeouts once a second
_of_parents: list[Any] = []
"""Producers from before a fork. Destroying one would wait for its threads, which exist only in the parent process."""


class Seldom(logging.Filter):
    """While a broker is down the client logs every attempt to connect, several times a second: this passes one line of
    each kind, and then none for a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._told: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.args[:2] if isinstance(record.args, tuple) else record.msg  # such as FAIL, and the client's name
        now = time.monotonic()
        if now < self._told.get(kind, now):
            return False
        self._told[kind] = now + self._seconds
        return True


logger = logging.getLogger("duebox.destinations.kafka")
logger.addFilter(Seldom(_TOLD_EVERY))


class Kafka(Destination):
    """An idempotent producer, shared by all threads: records that the client sends again are stored once.

    `settings` are those of librdkafka, such as `security.protocol` and `sasl.mechanisms`.
    """

    batch_size = 500
    keeps_order = True

    def __init__(
        self,
        alias: str,
        *,
        servers: str,
        topic: str = "duebox",
        timeout: float = 10.0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(alias)
        self._kafka = driver("confluent_kafka", "kafka")
        self._topic = Name(topic, option="topic", unsafe=r"[^a-zA-Z0-9._-]")
        self._timeout = positive("timeout", timeout)
        self._settings = self._complete(servers, settings or {})
        self._for_good = {getattr(self._kafka.KafkaError, name) for name in _FOR_GOOD}
        self._no_right = {getattr(self._kafka.KafkaError, name) for name in _NO_RIGHT}
        self._no_topic = {getattr(self._kafka.KafkaError, name) for name in _NO_TOPIC}
        self._producer: Any = None
        self._process = os.getpid()
        self._lock = threading.Lock()

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        until = time.monotonic() + self._timeout
        results = self._produce(batch)
        suspects = [number for number, result in enumerate(results) if isinstance(result, Refused)]
        if len(batch) > 1:
            # The broker answers for several records at once: they are sent again one by one to find the one at fault.
            for number in suspects:
                in_time = time.monotonic() < until
                results[number] = self._produce([batch[number]])[0] if in_time else Undelivered(str(results[number]))
        return results

    def check(self) -> list[Problem]:
        alone = {name: value for name, value in self._settings.items() if name not in _WHERE}
        try:
            self._made(alone)  # without a server address it does not connect
        except InvalidDestination as error:
            return [(str(error), "See the configuration of librdkafka for the names and their values.")]
        return []

    def close(self) -> None:
        with self._lock:
            self._leave_to_parent()
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush(self._timeout)

    def _produce(self, batch: Sequence[Fact]) -> list[Result]:
        producer, reports = self._running(), _Reports(len(batch))
        for number, fact in enumerate(batch):
            reports.put(number, self._start(producer, fact, reports.taker(number)))
        until = time.monotonic() + self._timeout + _SLACK_SECONDS
        while reports.missing and time.monotonic() < until:
            producer.poll(
                _POLL_SECONDS
            )  # other threads may receive the reports of this batch, so it must not wait for long
        return [self._result(report, producer) for report in reports.errors]

    def _start(self, producer: Any, fact: Fact, report: Any) -> Any:
        """Pass a record to the client; returns the error if the client refuses it."""
        row = fact.row
        value, named = envelope(fact).encode(), headers(fact)
        size = len(value) + sum(len(name) + len(text.encode()) for name, text in named.items())
        if size > (limit := int(self._settings["message.max.bytes"])):
            return TooLarge(size, limit)
        try:
            producer.produce(
                self._topic.of(fact),
                value,
                key=ordering_key(row),
                headers=[(name, text.encode()) for name, text in named.items()],
                timestamp=int(row.occurred * 1000),
                on_delivery=report,
            )
        except BufferError:
            return Undelivered("The queue of the Kafka client is full; the broker does not keep up.")
        except self._kafka.KafkaException as error:
            return error.args[0]
        return None

    def _result(self, report: Any, producer: Any) -> Result:
        if report is None or isinstance(report, DueboxError):
            return report  # accepted, or classified already
        reason = f"{report.str()} ({report.name()})"
        if report.fatal():
            self._give_up(producer)
            return Undelivered(f"The Kafka producer failed: {reason}")
        if report.code() in self._for_good:
            return Refused(f"Kafka refused the record: {reason}")
        if report.code() in self._no_right:
            return Undelivered(f"Kafka does not allow it: {reason}; grant its user the right to write there.")
        if report.code() in self._no_topic:
            return Undelivered(f"Kafka has no such topic: {reason}; create it, or correct `topic`.")
        return Undelivered(f"Kafka did not accept the record: {reason}")

    def _give_up(self, producer: Any) -> None:
        """Drop a producer that failed for good. Threads that still wait for its reports keep it; another one may exist
        already."""
        with self._lock:
            if self._producer is producer:
                self._producer = None

    def _leave_to_parent(self) -> None:
        if self._process != os.getpid():
            _of_parents.append(self._producer)
            self._process, self._producer = os.getpid(), None

    def _running(self) -> Any:
        with self._lock:
            self._leave_to_parent()
            if self._producer is None:
                self._producer = self._made(self._settings)
            return self._producer

    def _made(self, settings: dict[str, Any]) -> Any:
        try:
            return self._kafka.Producer(settings, logger=logger)
        except self._kafka.KafkaException as error:
            why = error.args[0].str()
            raise InvalidDestination(f"The Kafka client cannot use `settings`: {why}") from error

    def _complete(self, servers: str, given: Mapping[str, Any]) -> dict[str, Any]:
        for name in OURS:
            if name in given:
                raise InvalidDestination(f"settings[{name!r}] is set by Duebox; leave it out.")
        return {
            "client.id": f"duebox-{self.alias}",
            "message.max.bytes": 1_000_000,
            "partitioner": "murmur2_random",  # as clients in Java do, so that all agree on the partition of a key
            "reconnect.backoff.max.ms": 1000,
            **given,
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": int(self._timeout * 1000),
        }


class _Reports:
    """The result of each record of a batch: None if it was delivered, otherwise an error."""

    def __init__(self, count: int) -> None:
        self.errors: list[Any] = [Undelivered("Kafka did not answer in time.") for _ in range(count)]
        self._open = set(range(count))

    @property
    def missing(self) -> bool:
        return bool(self._open)

    def taker(self, number: int) -> Any:
        return lambda error, message: self._take(number, error)

    def put(self, number: int, error: Any) -> None:
        """The record was not sent."""
        if error is not None:
            self._take(number, error)

    def _take(self, number: int, error: Any) -> None:
        self.errors[number] = error
        self._open.discard(number)
