"""One connection to RabbitMQ: publish a batch, then wait for what the broker says about each message.

pika's blocking connection waits for each confirm before it sends the next message, which makes a batch of a hundred a
hundred round trips (1,400 messages a second on a machine where this does 7,000). py-amqp leaves the waiting to us.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from duebox.destinations.drivers import driver
from duebox.exceptions import InvalidDestination

NOT_FOUND = 404
NO_RIGHT = (403, 405)
AROUND_FRAME = 8
BEFORE_PROPERTIES = 12


class Publishing(NamedTuple):
    """A message on its way."""

    id: str
    routing_key: str
    message: Any
    header_bytes: int = 0

    def checked(self) -> Publishing:
        """Raises what py-amqp would raise in the middle of a batch, where some are sent and others are not."""
        return self._replace(header_bytes=header_bytes(self.message))


def header_bytes(message: Any) -> int:
    """What its properties take in the one frame that they must fit into. Raises where they cannot be written."""
    written = message._serialize_properties()
    message._serialize_properties = lambda: written  # py-amqp asks again when it sends; a third of its time goes there
    return BEFORE_PROPERTIES + len(written)


def header_limit(connection: Any) -> int:
    """The broker closes the connection for more, and says nothing of what else it was sent."""
    limit: int = connection.frame_max - AROUND_FRAME
    return limit


class Verdict(NamedTuple):
    """What became of a message: "taken", "nacked", "unroutable", "too long" for a frame and never sent, or "unknown"
    where the broker said nothing."""

    word: str
    reason: str = ""


class Closed(Exception):
    """The broker closed the channel: one of the messages was against its rules, and it does not say which."""

    def __init__(self, code: int, reason: str) -> None:
        self.code = code
        super().__init__(reason)


def connection_options(url: str) -> dict[str, Any]:
    """amqp://user:password@host:5672/vhost, for py-amqp."""
    invalid = InvalidDestination(
        "url is no AMQP URL; write it as amqp://user:password@host:5672/vhost; in a password, '#' is %23, '/' %2F."
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # quotes what it takes for the port, which may be a part of the password
        raise invalid from None
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname or parts.query or parts.fragment:
        raise invalid
    secure = parts.scheme == "amqps"
    return {
        "host": f"{parts.hostname}:{port or (5671 if secure else 5672)}",
        "userid": unquote(parts.username or "guest"),
        "password": unquote(parts.password or "guest"),
        "virtual_host": unquote(parts.path[1:]) or "/",
        "ssl": {"context": {"check_hostname": True}, "server_hostname": parts.hostname} if secure else False,
    }


class Link:
    """A connection with one channel in confirm mode. For one thread at a time; once it failed it is of no more use."""

    def __init__(self, options: dict[str, Any], timeout: float) -> None:
        amqp = driver("amqp", "rabbitmq")
        self._errors = (amqp.AMQPError, OSError)
        self._channel_error = amqp.exceptions.ChannelError
        # No heartbeats: nobody would answer them while the link rests. No "blocked" messages: py-amqp would look for
        # one before each message, and a broker that is blocked does not confirm either.
        self._connection = amqp.Connection(
            **options, connect_timeout=timeout, read_timeout=timeout, write_timeout=timeout, heartbeat=0,
            client_properties={"product": "duebox", "capabilities": {}},
        )  # fmt: skip
        self.broken = False
        self.rests_since = 0.0
        self._tag = 0
        self._waiting: dict[int, int] = {}
        self._verdicts: list[Verdict] = []
        self._positions: dict[str, int] = {}
        self._connection.connect()
        self._channel = self._connection.channel()
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(lambda tag, multiple: self._settle(tag, multiple, "taken"))
        self._channel.events["basic_nack"].add(lambda tag, multiple: self._settle(tag, multiple, "nacked"))
        self._channel.events["basic_return"].add(self._returned)

    def publish(self, batch: Sequence[Publishing], *, exchange: str, mandatory: bool, until: float) -> list[Verdict]:
        """Until all are confirmed, or the monotonic clock shows `until`. Raises Closed if the channel was closed."""
        self._verdicts = [Verdict("unknown", "no confirm came in time")] * len(batch)
        self._positions = {each.id: position for position, each in enumerate(batch)}
        self.broken = True  # until it has ended well: whatever interrupts it, its confirms can no longer be counted
        try:
            self._send(batch, exchange, mandatory, until)
            while self._waiting:
                self._connection.drain_events(timeout=_left(until))
            self.broken = False
        except self._channel_error as error:
            raise Closed(error.reply_code, str(error)) from error
        except self._errors as error:
            for position in self._waiting.values():
                self._verdicts[position] = Verdict("unknown", str(error) or type(error).__name__)
        return self._verdicts

    def left(self) -> list[int]:
        """The positions in the last batch that nothing is known about."""
        return [position for position, verdict in enumerate(self._verdicts) if verdict.word == "unknown"]

    @property
    def verdicts(self) -> list[Verdict]:
        return self._verdicts

    def close(self) -> None:
        with suppress(*self._errors):  # it may be gone already
            self._connection.collect() if self.broken else self._connection.close()

    def _send(self, batch: Sequence[Publishing], exchange: str, mandatory: bool, until: float) -> None:
        sent = self._fitting(batch)
        # All are waited for before the first is sent: whatever breaks, nothing is known of any of them.
        self._waiting = {self._tag + number: position for number, position in enumerate(sent, start=1)}
        self._tag += len(sent)
        for _, routing_key, message, _ in (batch[position] for position in sent):
            self._channel.basic_publish(message, exchange, routing_key, mandatory=mandatory, timeout=_left(until))

    def _fitting(self, batch: Sequence[Publishing]) -> list[int]:
        limit = header_limit(self._connection)
        for position, each in enumerate(batch):
            if each.header_bytes > limit:
                told = f"its headers have {each.header_bytes:,} bytes, and a frame holds {limit:,}"
                self._verdicts[position] = Verdict("too long", told)
        return self.left()

    def _settle(self, tag: int, multiple: bool, word: str) -> None:
        for each in [one for one in self._waiting if one <= tag] if multiple else [tag]:
            position = self._waiting.pop(each, None)
            # What was returned is confirmed as well: the broker has done with it.
            if position is not None and self._verdicts[position].word == "unknown":
                self._verdicts[position] = Verdict(word)

    def _returned(self, error: Exception, exchange: str, routing_key: str, message: Any) -> None:
        position = self._positions[message.properties["message_id"]]
        self._verdicts[position] = Verdict("unroutable", f"no queue of exchange {exchange!r} takes {routing_key!r}")


def _left(until: float) -> float:
    return max(0.001, until - time.monotonic())
