"""The mock cluster of librdkafka: brokers that speak Kafka's protocol on real sockets, and fail when told to.

There is no Kafka here; this is what the authors of the client test it with. It keeps records in memory and answers
Produce and Fetch, but knows no authorization, no retention and no replication.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import confluent_kafka

PRODUCE = 0
_PRODUCER = 0


@cache
def _library() -> Any:
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    [path] = folder.glob("librdkafka-*.so*")
    library = ctypes.CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class Cluster:
    """One broker, in memory, until `close`."""

    def __init__(self) -> None:
        self._library = library = _library()
        why = ctypes.create_string_buffer(512)
        handle = library.rd_kafka_new(_PRODUCER, ctypes.c_void_p(library.rd_kafka_conf_new()), why, len(why))
        assert handle, why.value
        self._handle = ctypes.c_void_p(handle)
        self._cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(self._handle, 1))
        self.address: str = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self.port = int(self.address.rpartition(":")[2])

    def advertise(self, port: int) -> None:
        """Clients are told to come to this port of this machine."""
        self._check(self._library.rd_kafka_mock_broker_set_host_port(self._cluster, 1, b"127.0.0.1", port))

    def create(self, topic: str, partitions: int = 1) -> None:
        self._check(self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1))

    def set_error(self, topic: str, code: int) -> None:
        """Whoever asks for the topic gets this error."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), code)

    def fail_next(self, *codes: int) -> None:
        """The next requests to produce get these errors."""
        array = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(PRODUCE), ctypes.c_size_t(len(codes)), array
        )

    def forgive(self) -> None:
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, ctypes.c_int16(PRODUCE))

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)

    @staticmethod
    def _check(code: int) -> None:
        assert code == 0, f"librdkafka says {code}"
