"""RabbitMQ: events to an exchange, with publisher confirms.

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
from typing import Any

from duebox.destinations.base import Destination, Result
from duebox.destinations.confirms import NO_RIGHT, NOT_FOUND, Closed, Link, Publishing, Verdict, connection_options
from duebox.destinations.drivers import driver, positive
from duebox.destinations.envelope import correlation, envelope, headers
from duebox.destinations.naming import Name
from duebox.exceptions import InvalidDestination, Refused, Undelivered
from duebox.fact import Fact

SHORT_BYTES = 255
"""AMQP has one byte for the length of a short text."""
REST_SECONDS = 60.0
"""A connection that was not used for so long is made anew: something in between may have dropped it silently."""


class RabbitMQ(Destination):
    """A batch goes out on one channel, in order; what the broker does not take fails alone.

    `unroutable` says what it means that no queue takes an event: "retry" (a queue that is bound later gets it; until
    then it is not lost), "refuse" (a dead letter at once) or "accept" (nobody wants it, and that is fine).
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
            raise InvalidDestination(f"exchange has {size} bytes; RabbitMQ takes {SHORT_BYTES}.")
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
        """The broker closed the channel because of one of them; so it is found out which."""
        results: list[Result] = [self._result(each) for each in link.verdicts]
        for position in link.left():
            if time.monotonic() < until:
                try:
                    [results[position]] = self._deliver([batch[position]], until)
                except Undelivered as error:  # the others may have gone
                    results[position] = error
        return results

    def _publish(self, link: Link, publishings: list[Publishing], until: float) -> list[Verdict]:
        try:
            mandatory = self._unroutable != "accept"
            return link.publish(publishings, exchange=self._exchange, mandatory=mandatory, until=until)
        finally:
            self._put_back(link)

    def _link(self) -> Link:
        """One that rests, or a new one: as many as there are calls at the same time."""
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
        self.close()  # where one broke, the others that rest are most likely broken too

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
            timestamp=int(row.occurred) if row.occurred >= 0 else None,  # AMQP knows no time before 1970
            application_headers=headers(fact),
        )
        return Publishing(row.id, _short(self._routing_key.of(fact)), message)

    def _result(self, verdict: Verdict) -> Result:
        match verdict:
            case Verdict("taken"):
                return None
            case Verdict("unroutable", reason) if self._unroutable == "refuse":
                return Refused(f"RabbitMQ cannot route the event: {reason}.")
            case Verdict("unroutable", reason):
                return Undelivered(f"RabbitMQ cannot route the event: {reason}; bind one, or set `unroutable`.")
            case Verdict("too long", reason):
                return Refused(f"The event cannot be written as a message of RabbitMQ: {reason}.")
            case Verdict("nacked"):
                return Undelivered("RabbitMQ did not take the event (nack): a queue is full, or broken.")
            case Verdict(_, reason):
                return Undelivered(f"RabbitMQ did not confirm the event: {reason}")


def _closed(error: Closed) -> Result:
    if error.code in NO_RIGHT:
        return Undelivered(f"RabbitMQ does not allow it ({error}); give its user the right to write there.")
    return Refused(f"RabbitMQ refused the event: {error}")


def _short(text: str) -> str:
    """As much of it as fits, in whole characters."""
    return text.encode()[:SHORT_BYTES].decode(errors="ignore")
