"""RabbitMQ: events are published to an exchange, in batches with publisher confirms.

pika's blocking connection waits for each confirm before it sends the next message, which makes a batch of a hundred a
hundred round trips (1,400 messages a second on a machine where this does 7,000). py-amqp does not wait.

"rabbit": {
    "BACKEND": "duebox.destinations.rabbitmq.RabbitMQ",
    "OPTIONS": {"url": "amqp://user:password@host:5672/vhost", "exchange": "events"},
}
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from duebox.destinations.base import Destination, Result
from duebox.destinations.envelope import correlation, envelope, headers
from duebox.destinations.options import Name, driver, positive
from duebox.events.fact import Fact
from duebox.exceptions import InvalidDestination, Refused, Undelivered

__all__ = ["RabbitMQ"]

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
        """Raise the errors that py-amqp would raise in the middle of a batch, after some messages were sent."""
        return self._replace(header_bytes=header_bytes(self.message))


def header_bytes(message: Any) -> int:
    """The size of its properties, which must fit into one frame. Raises an error if they cannot be serialized."""
    written = message._serialize_properties()
    message._serialize_properties = lambda: (
        written
    )  # py-amqp serializes them again when it sends, which takes a third of its time
    return BEFORE_PROPERTIES + len(written)


def header_limit(connection: Any) -> int:
    """The broker closes the connection if a message has more, without an answer for the other messages."""
    limit: int = connection.frame_max - AROUND_FRAME
    return limit


class Confirmation(NamedTuple):
    """The result of a message: "taken", "nacked", "unroutable", "too long" for a frame and never sent, or "unknown" if
    the broker did not answer."""

    word: str
    reason: str = ""


class Closed(Exception):
    """The broker closed the channel because of an invalid message, without naming it."""

    def __init__(self, code: int, reason: str) -> None:
        self.code = code
        super().__init__(reason)


def connection_options(url: str) -> dict[str, Any]:
    """amqp://user:password@host:5672/vhost, for py-amqp."""
    invalid = InvalidDestination(
        "url is not an AMQP URL; write it as amqp://user:password@host:5672/vhost; in a password, '#' is %23, '/' %2F."
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # it quotes the supposed port, which may be a part of the password
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
    """A connection with one channel in confirm mode. For one thread at a time; it is not used again after a failure."""

    def __init__(self, options: dict[str, Any], timeout: float) -> None:
        amqp = driver("amqp", "rabbitmq")
        self._errors = (amqp.AMQPError, OSError)
        self._channel_error = amqp.exceptions.ChannelError
        # No heartbeats: nothing would answer them while the link is idle. No "blocked" messages: py-amqp would check
        # for one before each message, and a blocked broker does not confirm either.
        self._connection = amqp.Connection(
            **options, connect_timeout=timeout, read_timeout=timeout, write_timeout=timeout, heartbeat=0,
            client_properties={"product": "duebox", "capabilities": {}},
        )  # fmt: skip
        self.broken = False
        self.rests_since = 0.0
        self._tag = 0
        self._waiting: dict[int, int] = {}
        self._verdicts: list[Confirmation] = []
        self._positions: dict[str, int] = {}
        self._connection.connect()
        self._channel = self._connection.channel()
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(lambda tag, multiple: self._settle(tag, multiple, "taken"))
        self._channel.events["basic_nack"].add(lambda tag, multiple: self._settle(tag, multiple, "nacked"))
        self._channel.events["basic_return"].add(self._returned)

    def publish(
        self, batch: Sequence[Publishing], *, exchange: str, mandatory: bool, until: float
    ) -> list[Confirmation]:
        """Publish until all are confirmed, or until the monotonic time `until`. Raises Closed if the channel was
        closed."""
        self._verdicts = [Confirmation("unknown", "no confirm came in time")] * len(batch)
        self._positions = {each.id: position for position, each in enumerate(batch)}
        self.broken = True  # until it has succeeded: after an interruption its confirms can no longer be counted
        try:
            self._send(batch, exchange, mandatory, until)
            while self._waiting:
                self._connection.drain_events(timeout=_left(until))
            self.broken = False
        except self._channel_error as error:
            raise Closed(error.reply_code, str(error)) from error
        except self._errors as error:
            for position in self._waiting.values():
                self._verdicts[position] = Confirmation("unknown", str(error) or type(error).__name__)
        return self._verdicts

    def left(self) -> list[int]:
        """The positions in the last batch without an answer."""
        return [position for position, verdict in enumerate(self._verdicts) if verdict.word == "unknown"]

    @property
    def verdicts(self) -> list[Confirmation]:
        return self._verdicts

    def close(self) -> None:
        with suppress(*self._errors):  # it may be closed already
            self._connection.collect() if self.broken else self._connection.close()

    def _send(self, batch: Sequence[Publishing], exchange: str, mandatory: bool, until: float) -> None:
        sent = self._fitting(batch)
        # All are registered before the first is sent: after a failure the result of none of them is known.
        self._waiting = {self._tag + number: position for number, position in enumerate(sent, start=1)}
        self._tag += len(sent)
        for _, routing_key, message, _ in (batch[position] for position in sent):
            self._channel.basic_publish(message, exchange, routing_key, mandatory=mandatory, timeout=_left(until))

    def _fitting(self, batch: Sequence[Publishing]) -> list[int]:
        limit = header_limit(self._connection)
        for position, each in enumerate(batch):
            if each.header_bytes > limit:
                reason = f"its headers have {each.header_bytes:,} bytes, and a frame holds {limit:,}"
                self._verdicts[position] = Confirmation("too long", reason)
        return self.left()

    def _settle(self, tag: int, multiple: bool, word: str) -> None:
        for each in [one for one in self._waiting if one <= tag] if multiple else [tag]:
            position = self._waiting.pop(each, None)
            # Returned messages are confirmed as well.
            if position is not None and self._verdicts[position].word == "unknown":
                self._verdicts[position] = Confirmation(word)

    def _returned(self, error: Exception, exchange: str, routing_key: str, message: Any) -> None:
        position = self._positions[message.properties["message_id"]]
        self._verdicts[position] = Confirmation(
            "unroutable", f"no queue is bound to exchange {exchange!r} for {routing_key!r}"
        )


def _left(until: float) -> float:
    return max(0.001, until - time.monotonic())


SHORT_BYTES = 255
"""AMQP has one byte for the length of a short text."""
REST_SECONDS = 60.0
"""A connection that was idle for longer is replaced: a firewall may have dropped it silently."""


class RabbitMQ(Destination):
    """A batch is published on one channel, in order; a message that the broker refuses fails alone.

    `unroutable` decides about an event for which no queue is bound: "retry" (a queue that is bound later receives it),
    "refuse" (a dead letter at once) or "accept" (the event is dropped).
    """

    batch_size = 100
    keeps_order = True

    def __init__(
        self,
        alias: str,
        *,
        url: str,
        exchange: str,
        routing_key: str = "{event_type}",
        unroutable: str = "retry",
        timeout: float = 5.0,
    ) -> None:
        super().__init__(alias)
        self._message_class = driver("amqp", "rabbitmq").Message
        self._options = connection_options(url)
        if (size := len(exchange.encode())) > SHORT_BYTES:
            raise InvalidDestination(f"exchange has {size} bytes; RabbitMQ allows {SHORT_BYTES}.")
        self._exchange = exchange
        self._routing_key = Name(routing_key, option="routing_key")
        self._timeout = positive("timeout", timeout)
        if unroutable not in ("retry", "refuse", "accept"):
            raise InvalidDestination(f"unroutable is {unroutable!r}; it must be 'retry', 'refuse' or 'accept'.")
        self._unroutable = unroutable
        self._resting: list[Link] = []
        self._process = os.getpid()
        self._lock = threading.Lock()

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        until = time.monotonic() + self._timeout
        results: list[Result] = [None] * len(batch)
        publishings: dict[int, Publishing] = {}
        for position, fact in enumerate(batch):
            try:
                publishings[position] = self._publishing(fact).checked()
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                results[position] = Refused(f"The event cannot be written as a message of RabbitMQ ({why}).")
        if publishings:
            answers = self._deliver(list(publishings.values()), until)
            for position, answer in zip(publishings, answers, strict=True):
                results[position] = answer
        return results

    def close(self) -> None:
        with self._lock:
            self._leave_to_parent()
            resting, self._resting = self._resting, []
        for link in resting:
            link.close()

    def _deliver(self, batch: list[Publishing], until: float) -> list[Result]:
        link = self._link()
        try:
            return [self._result(each) for each in self._publish(link, batch, until)]
        except Closed as error:
            if error.code == NOT_FOUND:
                raise Undelivered(
                    f"RabbitMQ has no such exchange ({error}); declare it, or correct `exchange`."
                ) from error
            return [_closed(error)] if len(batch) == 1 else self._one_by_one(link, batch, until)

    def _one_by_one(self, link: Link, batch: list[Publishing], until: float) -> list[Result]:
        """The broker closed the channel because of one message; publish them one by one to find it."""
        results: list[Result] = [self._result(each) for each in link.verdicts]
        for position in link.left():
            if time.monotonic() < until:
                try:
                    [results[position]] = self._deliver([batch[position]], until)
                except Undelivered as error:  # the others may have been sent
                    results[position] = error
        return results

    def _publish(self, link: Link, publishings: list[Publishing], until: float) -> list[Confirmation]:
        try:
            mandatory = self._unroutable != "accept"
            return link.publish(publishings, exchange=self._exchange, mandatory=mandatory, until=until)
        finally:
            self._put_back(link)

    def _link(self) -> Link:
        """An idle link, or a new one: there are as many as concurrent calls."""
        with self._lock:
            self._leave_to_parent()
            link = self._resting.pop() if self._resting else None
        if link is not None and time.monotonic() - link.rests_since < REST_SECONDS:
            return link
        if link is not None:
            link.close()
        amqp = driver("amqp", "rabbitmq")
        try:
            return Link(self._options, self._timeout)
        except (amqp.AMQPError, OSError) as error:
            raise Undelivered(f"RabbitMQ cannot be reached: {str(error) or type(error).__name__}") from error

    def _leave_to_parent(self) -> None:
        if self._process != os.getpid():  # after a fork
            self._process, self._resting = os.getpid(), []

    def _put_back(self, link: Link) -> None:
        link.rests_since = time.monotonic()
        if not link.broken:
            with self._lock:
                self._resting.append(link)
            return
        link.close()
        self.close()  # if one is broken, the other idle ones are probably broken too

    def _publishing(self, fact: Fact) -> Publishing:
        row = fact.row
        message: Any = self._message_class(
            envelope(fact).encode(),
            content_type="application/json",
            content_encoding="utf-8",
            delivery_mode=2,  # written to disk by queues that are durable
            message_id=row.id,
            correlation_id=_short(correlation(row)) or None,
            type=_short(row.type),
            timestamp=int(row.occurred) if row.occurred >= 0 else None,  # AMQP has no time before 1970
            application_headers=headers(fact),
        )
        return Publishing(row.id, _short(self._routing_key.of(fact)), message)

    def _result(self, verdict: Confirmation) -> Result:
        match verdict:
            case Confirmation("taken"):
                return None
            case Confirmation("unroutable", reason) if self._unroutable == "refuse":
                return Refused(f"RabbitMQ cannot route the event: {reason}.")
            case Confirmation("unroutable", reason):
                return Undelivered(f"RabbitMQ cannot route the event: {reason}; bind one, or set `unroutable`.")
            case Confirmation("too long", reason):
                return Refused(f"The event cannot be written as a message of RabbitMQ: {reason}.")
            case Confirmation("nacked"):
                return Undelivered("RabbitMQ did not accept the event (nack): a queue is full, or broken.")
            case Confirmation(_, reason):
                return Undelivered(f"RabbitMQ did not confirm the event: {reason}")


def _closed(error: Closed) -> Result:
    if error.code in NO_RIGHT:
        return Undelivered(f"RabbitMQ does not allow it ({error}); grant its user the right to write there.")
    return Refused(f"RabbitMQ refused the event: {error}")


def _short(text: str) -> str:
    """The text cut to fit, in whole characters."""
    return text.encode()[:SHORT_BYTES].decode(errors="ignore")
