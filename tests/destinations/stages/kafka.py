"""Kafka, played by the mock cluster of librdkafka: see tests/destinations/kafka_mock.py."""

from __future__ import annotations

import json
import logging
import socket
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.destinations.conformance import Arrived, Stage
from tests.destinations.interrupted import KAFKA, Interrupted
from tests.destinations.kafka_mock import Cluster
from tests.destinations.stages.brokers import Brokered

quiet = logging.getLogger("tests.kafka")
quiet.setLevel(logging.CRITICAL)


class Gate(Interrupted):
    """A client may still come when the cluster is closed."""

    def _carry(self, here: socket.socket) -> None:
        try:
            super()._carry(here)
        except ConnectionRefusedError:
            here.close()


class Kafka(Brokered):
    """One record in each request, so that the broker can be told to fail at one of them alone."""

    backend = "duebox.destinations.kafka.Kafka"
    ordered = True
    largest = 1_000_000

    def wire(self) -> Any:
        self.cluster = Cluster()
        return Gate(self.cluster.port, KAFKA)

    def open(self) -> None:
        self.cluster.advertise(self.proxy.port)
        self.cluster.create(self.name)
        self._found: list[Arrived] = []
        self._reader = Consumer({"bootstrap.servers": self.cluster.address, "group.id": self.name}, logger=quiet)
        self._reader.assign([TopicPartition(self.name, 0, 0)])

    def shut(self) -> None:
        self._reader.close()
        self.cluster.close()

    @property
    def options(self) -> dict[str, Any]:
        servers = f"127.0.0.1:{self.proxy.port}"
        return {"servers": servers, "topic": self.name, "timeout": 2.0, "settings": {"batch.num.messages": 1}}

    def arrived(self) -> list[Arrived]:
        for record in self._reader.consume(1000, timeout=0.1):
            if not record.error():
                beside = {"topic": record.topic(), "key": record.key(), **dict(record.headers())}
                self._found.append(Arrived(json.loads(record.value()), beside))
        return list(self._found)

    def failing(self, ids: set[str]) -> Any:
        return self.proxy.at(ids, lambda: self.cluster.fail_next(KafkaError.UNKNOWN), self.cluster.forgive)

    def refusing(self, ids: set[str]) -> Any:
        return self.proxy.at(ids, lambda: self.cluster.fail_next(KafkaError.INVALID_RECORD), self.cluster.forgive)


STAGES: list[type[Stage]] = [Kafka]
