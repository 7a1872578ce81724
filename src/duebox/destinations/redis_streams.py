"""Redis Streams: each event is an entry, its headers and its envelope are the fields.

"stream": {"BACKEND": "duebox.destinations.redis_streams.RedisStreams", "OPTIONS": {"url": "redis://localhost:6379/0"}}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duebox.destinations.base import Destination, Problem, Result
from duebox.destinations.envelope import envelope, headers
from duebox.destinations.options import Name, driver, positive
from duebox.events.fact import Fact
from duebox.exceptions import InvalidDestination, Refused, Undelivered

__all__ = ["RedisStreams"]


class RedisStreams(Destination):
    """A batch is one pipeline: one round trip, in order. An entry that Redis refuses fails alone."""

    batch_size = 100
    keeps_order = True

    def __init__(
        self, alias: str, *, url: str, stream: str = "duebox", maxlen: int | None = None, timeout: float = 5.0
    ) -> None:
        super().__init__(alias)
        self._redis = driver("redis", "redis")
        self._stream = Name(stream, option="stream")
        self._maxlen = int(positive("maxlen", maxlen)) if maxlen is not None else None
        self._client = self._connected(url, positive("timeout", timeout))

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        errors = self._redis.exceptions
        # No MULTI: one refused entry must not fail the others.
        with self._client.pipeline(transaction=False) as pipeline:
            for fact in batch:
                fields = {**headers(fact), "event": envelope(fact)}
                pipeline.xadd(self._stream.of(fact), fields, maxlen=self._maxlen, approximate=True)
            try:
                answers = pipeline.execute(raise_on_error=False)
            except errors.RedisError as error:
                raise Undelivered(f"Redis did not answer: {error}") from error
        if any(isinstance(answer, errors.ReadOnlyError) for answer in answers):
            # The server became a replica. A new connection by its name reaches the new master.
            self._client.connection_pool.disconnect(inuse_connections=False)
        return [self._result(answer) for answer in answers]

    def check(self) -> list[Problem]:
        if self._maxlen is None:
            return []
        if self._maxlen < 1000:  # trimmed by whole nodes, of a hundred entries each
            return [
                (f"maxlen is {self._maxlen}; readers that are offline for a moment miss events.", "Make it larger.")
            ]
        return []

    def close(self) -> None:
        self._client.close()

    def _result(self, answer: Any) -> Result:
        if not isinstance(answer, Exception):
            return None
        if isinstance(answer, self._redis.exceptions.NoPermissionError) or str(answer).startswith("NOPERM"):
            return Undelivered(f"Redis does not allow it: {answer}; grant its user the right to add to the stream.")
        if str(answer).startswith("WRONGTYPE"):
            return Refused(f"Redis refused the entry: {answer}")
        return Undelivered(f"Redis did not accept the entry: {answer}")

    def _connected(self, url: str, timeout: float) -> Any:
        """A client that connects on first use. It does not retry: the engine does that, and counts attempts."""
        retry = driver("redis.retry", "redis").Retry(driver("redis.backoff", "redis").NoBackoff(), 0)
        invalid = InvalidDestination(
            "url is not a Redis URL; write it as redis://user:password@host:6379/0; in a password, '#' is %23, '/' %2F."
        )
        if "#" in str(url):  # everything after it would be ignored
            raise invalid
        try:
            return self._redis.Redis.from_url(
                url, socket_timeout=timeout, socket_connect_timeout=timeout, socket_keepalive=True, retry=retry
            )
        except (ValueError, AttributeError):  # it quotes the supposed port, which may be a part of the password
            raise invalid from None
