"""A task as the broker gets it, written before anything is sent: one that cannot be written fails alone.

In the middle of a batch its error would come when some of its neighbours are sent, and nobody knows whether they
arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from duebox.destinations.celery_message import Message
from duebox.destinations.confirms import header_bytes, header_limit
from duebox.destinations.drivers import driver
from duebox.exceptions import Refused

_OF_SENDING = {
    "exchange", "routing_key", "delivery_mode", "mandatory", "immediate", "priority", "retry", "retry_policy",
    "expiration", "timeout", "confirm_timeout", "headers",
}  # fmt: skip


class Written(NamedTuple):
    """What a producer is given; for RabbitMQ the message itself, as the channel takes it."""

    body: bytes
    options: dict[str, Any]
    needs: tuple[Any, ...]
    """Queues and exchanges that must be there."""
    message: Any = None


class Writing:
    """Stands where Celery expects a producer, and sends nothing."""

    def __init__(self, app: Any, producer: Any, *, amqp: bool) -> None:
        self._app, self._producer = app, producer
        self._dumps = driver("kombu.serialization", "celery").dumps
        self._compress = driver("kombu.compression", "celery").compress
        self._json = driver("kombu.utils.json", "celery").dumps
        self._delivery_mode = driver("kombu.entity", "celery").maybe_delivery_mode
        self._amqp = driver("amqp", "celery") if amqp else None
        self._written: list[Written] = []

    def write(self, message: Message, **sending: Any) -> Written:
        """Raises Refused where it cannot be written, and what Celery raises where it does not know the queue."""
        self._app.amqp.send_task_message(self, message.task, message.content, **sending, **message.sending)
        return self._written.pop()

    def publish(
        self,
        body: Any,
        *,
        headers: dict[str, Any],
        content_type: str | None = None,
        content_encoding: str | None = None,
        serializer: str | None = None,
        compression: str | None = None,
        declare: Iterable[Any] | None = None,
        **options: Any,
    ) -> None:
        """What a producer does until it talks to the broker."""
        with _refusing():
            if not content_type:
                content_type, content_encoding, body = self._dumps(body, serializer=serializer)
            body = body.encode(content_encoding or "utf-8") if isinstance(body, str) else body
        if compression:
            body, headers["compression"] = self._compress(body, compression)
        options |= {"content_type": content_type, "content_encoding": content_encoding, "headers": headers}
        with _refusing():
            message = self._checked(body, headers, options)
        self._written.append(Written(body, options, tuple(declare or ()), message))

    def _checked(self, body: bytes, headers: dict[str, Any], options: dict[str, Any]) -> Any:
        """Raises what the transport would raise."""
        properties = {name: value for name, value in options.items() if name not in _OF_SENDING}
        if self._amqp is None:
            self._json([headers, properties])
            return None
        self._amqp.serialization.dumps("ss", (_name(options.get("exchange")), options.get("routing_key")))
        if (expiration := options.get("expiration")) is not None:
            properties["expiration"] = str(int(expiration * 1000))
        mode, priority = self._delivery_mode(options.get("delivery_mode")), options.get("priority", 0)
        message = self._amqp.Message(
            body, priority=priority, delivery_mode=mode, application_headers=headers, **properties
        )
        size, limit = header_bytes(message), header_limit(self._producer.channel.connection)
        if size > limit:
            raise Refused(f"The task's headers have {size:,} bytes, and a frame of RabbitMQ holds {limit:,}.")
        return message


def to_channel(channel: Any, written: Written) -> None:
    """Send it as a producer would, which would write it once more."""
    told = written.options
    channel.basic_publish(
        written.message, exchange=_name(told.get("exchange")), routing_key=told.get("routing_key"),
        mandatory=told["mandatory"], timeout=told["timeout"],
    )  # fmt: skip


def _name(exchange: Any) -> str:
    """Of an object, or the name itself; none is the default exchange."""
    return str(getattr(exchange, "name", exchange) or "")


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        cause = error.__cause__ or error  # kombu wraps what the serializer said
        raise Refused(f"The task cannot be written as a message ({type(cause).__name__}: {cause}).") from error
