"""The broker of a Celery app: task calls are sent as messages in batches, with a result for each.

Messages are created by `apply_async` or `send_task`, and published by a `kombu.Producer`. Celery mode uses it as well.
"""

from __future__ import annotations

import math
import os
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property, partial
from typing import Any, NamedTuple

from duebox.destinations.base import Problem
from duebox.destinations.options import driver
from duebox.destinations.rabbitmq import NO_RIGHT, NOT_FOUND
from duebox.exceptions import DueboxError, InvalidDestination, Refused, Undelivered

EVENT = "duebox_event_id"
"""A header of each task."""
IDLE_SECONDS = 30.0
"""A connection that was idle for longer is not used again: a firewall may have dropped it."""
FRAME_ERROR = 501
"""RabbitMQ closes the connection with it if headers are longer than a frame."""

Answer = Exception | None


class Message(NamedTuple):
    """The arguments that Celery would pass to `kombu.Producer.publish`."""

    body: Any
    options: dict[str, Any]
    needs: Sequence[Any] = ()
    """Queues and exchanges that must be declared."""

    @property
    def address(self) -> tuple[str, str]:
        exchange = self.options.get("exchange")
        return str(getattr(exchange, "name", exchange) or ""), str(self.options.get("routing_key"))


class Broker:
    """The broker of a Celery app. `send` never takes much longer than `timeout`.

    Its connections are not those of the app's pool: those wait and retry by the app's own settings, for minutes if need
    be. The next thread uses a free connection.
    """

    def __init__(self, app: Any, url: str | None, timeout: float) -> None:
        self._app, self._url, self._timeout = app, url, timeout
        self._idle: list[Line] = []
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._of_thread = threading.local()

    def message(self, name: str, *, headers: Mapping[str, Any], **options: Any) -> Message:
        """A call of a task, with the options of `apply_async`. Raises what a router of the project raises."""
        producer, made = self._collector()
        task = self._app.tasks.get(name)
        call = task.apply_async if task is not None else partial(self._app.send_task, name)
        # The result is not read here: ignore_result keeps Celery from connecting to the result backend. The worker that
        # runs the task uses the header.
        headers = {"ignore_result": bool(getattr(task, "ignore_result", False)), **headers}
        call(**options, headers=headers, producer=producer, retry=False, serializer="json", ignore_result=True)
        if not made:  # a class of the project may have an apply_async of its own
            raise Undelivered(f"apply_async of the task {name!r} has sent nothing.")
        return made[0]  # an event for monitors (task_send_sent_event) may follow it

    def send(self, messages: Sequence[Message]) -> list[Answer]:
        """A result for each: None if the broker has it. Raises Undelivered if the broker cannot be reached."""
        until = time.monotonic() + self._timeout
        with self._line() as line:
            answers = line.send(dict(enumerate(messages)), until)
        for position, message in enumerate(messages):
            if position not in answers:  # the broker closed the connection because of one of them, without naming it
                answers[position] = self._send_alone(message, until)
        return [answers[position] for position in range(len(messages))]

    def problem(self) -> Problem | None:
        """Why it cannot be used, found without a connection."""
        try:
            transport = self._unconnected.transport
        except InvalidDestination as error:
            return str(error), "Correct the URL of the broker."
        except Exception as error:  # an unknown name, or a driver that is not installed
            reason = str(error.args[0]) if error.args else type(error).__name__
            return (
                f"kombu cannot load the broker's transport ({reason}).",
                "Correct the URL, or install its driver, as in: pip install 'celery[redis]' or 'celery[sqlalchemy]'.",
            )
        if transport.driver_name == "librabbitmq":
            return (
                "The driver librabbitmq cannot confirm that RabbitMQ has a task.",
                "Write the URL with pyamqp://, or uninstall librabbitmq.",
            )
        return None

    def untested(self) -> str:
        """The name of the transport if Duebox is not tested with it."""
        if self._app.conf.task_always_eager or self.problem() is not None or self._limits() is not None:
            return ""
        transport = self._unconnected.transport
        if transport.driver_type == "sql":
            return str(self._sql_url.drivername)
        return str(transport.driver_name)

    def close(self) -> None:
        with self._lock:
            self._leave_to_parent()
            idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    def _collector(self) -> tuple[Any, list[Message]]:
        """A producer that appends messages to the list instead of sending them. It never connects."""
        if not hasattr(self._of_thread, "collector"):
            made: list[Message] = []

            def publish(body: Any, *, declare: Sequence[Any] | None = None, **options: Any) -> None:
                made.append(Message(body, options, declare or ()))

            producer = self._app.amqp.Producer(self._unconnected, auto_declare=False)
            producer.publish = publish
            self._of_thread.collector = producer, made
        producer, made = self._of_thread.collector
        made.clear()
        return producer, made

    @cached_property
    def _unconnected(self) -> Any:
        with _readable_url():
            return self._app.connection_for_write(self._url)

    def _connection(self) -> Any:
        """A connection with timeouts, if its transport has options for them."""
        limits, url = self._limits() or {}, self._url
        if limits and self._unconnected.transport.driver_type == "sql":
            given = self._sql_url
            more = {name: str(value) for name, value in limits.items()} | dict(given.query)
            # kombu keeps an engine for each URL, which a forked process must not share; so each process has a URL.
            more["application_name"] = f"duebox-{os.getpid()}"
            url, limits = f"sqla+{given.update_query_dict(more).render_as_string(hide_password=False)}", {}
        with _readable_url():
            return self._app.connection_for_write(url, connect_timeout=self._timeout, transport_options=limits)

    def _limits(self) -> dict[str, Any] | None:
        """None if Duebox has no options for the transport."""
        transport = self._unconnected.transport
        if transport.driver_type == "redis":
            return {"socket_timeout": self._timeout, "socket_connect_timeout": self._timeout}
        if transport.driver_type == "amqp":
            # A line waits for all confirms of a batch at once, instead of for each (confirm_publish). Without
            # capabilities py-amqp does not look for a "blocked" message before each task; a blocked broker does not
            # confirm, which is enough.
            client = {"product": "duebox", "capabilities": {}}
            times = {"read_timeout": self._timeout, "write_timeout": self._timeout}
            return {**times, "client_properties": client, "confirm_publish": False}
        if transport.driver_type == "sql":
            url = self._sql_url
            if url.get_backend_name() == "postgresql" and url.get_driver_name() in ("psycopg", "psycopg2"):
                seconds = max(2, math.ceil(self._timeout))  # the minimum of libpq
                return {"connect_timeout": seconds, "tcp_user_timeout": seconds * 1000}
        return None

    @property
    def _sql_url(self) -> Any:
        return driver("sqlalchemy.engine", "celery").make_url(self._unconnected.hostname)

    @contextmanager
    def _line(self) -> Iterator[Line]:
        line = self._idle_line()
        if line is None:
            try:
                line = Line(self._app, self._connection(), self._timeout)
            except Exception as error:
                raise _undelivered(error) from error
        try:
            yield line
        except BaseException:
            line.broken = True
            raise
        finally:
            self._put_back(line)

    def _send_alone(self, message: Message, until: float) -> Answer:
        if time.monotonic() > until:
            return _late()
        try:
            with self._line() as line:
                return line.send({0: message}, until)[0]
        except DueboxError as error:
            return error

    def _idle_line(self) -> Line | None:
        with self._lock:
            self._leave_to_parent()
            line = self._idle.pop() if self._idle else None
        if line is not None and time.monotonic() - line.idle_since > IDLE_SECONDS:
            line.close()
            return self._idle_line()
        return line

    def _leave_to_parent(self) -> None:
        if self._process != os.getpid():  # after a fork
            self._process, self._idle = os.getpid(), []

    def _put_back(self, line: Line) -> None:
        if line.broken:
            line.close()
            return
        line.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(line)


class Line:
    """A connection with a producer, for one thread at a time; not used again once it is broken.

    RabbitMQ confirms each message, and returns before that what no queue takes. All messages of a batch are sent
    before the first confirm is waited for, which is several times as fast. Redis answers each command, and a batch is
    one pipeline since kombu 5.7. In PostgreSQL each message is a transaction.
    """

    def __init__(self, app: Any, connection: Any, timeout: float) -> None:
        self.broken = False
        self.idle_since = 0.0
        self._connection = connection
        self._confirms = connection.transport.driver_type == "amqp"
        self._more = {"mandatory": True, "timeout": timeout} if self._confirms else {}
        self._unwritable = (
            driver("kombu.exceptions", "celery").EncodeError,
            driver("amqp.exceptions", "celery").FrameSyntaxError,
            struct.error, TypeError, ValueError,
        )  # fmt: skip
        self._declared: set[tuple[type, str]] = set()
        self._answers: dict[int, Answer] = {}
        self._positions: dict[str, int] = {}
        """Positions by the mark of a message."""
        self._sent = 0
        self._waiting: dict[int, int] = {}
        """The positions of messages that are not confirmed yet, by their number on the channel."""
        hosts = len(connection.alt) or 1
        connection.ensure_connection(max_retries=hosts, interval_start=0, interval_step=0, timeout=timeout)
        returned = {"on_return": self._returned} if self._confirms else {}
        self._producer = app.amqp.Producer(connection, auto_declare=False, **returned)
        if self._confirms:
            self._ask_for_confirms(self._producer.channel)

    def send(self, messages: Mapping[int, Message], until: float) -> dict[int, Answer]:
        """Results by position; a single message always has one. In a batch, messages that failed because of another one
        have none."""
        self._answers = {}
        ready = self._declare(messages)
        if not self.broken:
            if self._confirms:
                self._send_and_wait(ready, until)
            else:
                self._send_by_address(ready, until)
        return self._answers

    def close(self) -> None:
        with suppress(Exception):  # it is closed already
            self._connection.collect() if self.broken else self._connection.release()

    def _declare(self, messages: Mapping[int, Message]) -> dict[int, Message]:
        """The messages whose queue exists. A failed declaration closes the channel, so queues are declared before
        anything is sent."""
        failed: dict[tuple[type, str], Answer] = {}
        ready: dict[int, Message] = {}
        for position, message in messages.items():
            for entity in message.needs:
                name = (type(entity), entity.name)
                if name not in self._declared and name not in failed and not self.broken:
                    try:
                        self._producer.maybe_declare(entity)
                        self._declared.add(name)
                    except Exception as error:
                        self.broken = True
                        failed[name] = _undelivered(error)
                        if self._is_lost(error):
                            self._answer_the_rest(messages, error)
                            return {}
                if name in failed:
                    self._answers[position] = failed[name]
            if position not in self._answers:
                ready[position] = message
        return ready

    def _send_and_wait(self, messages: Mapping[int, Message], until: float) -> None:
        self._positions = {_mark(each.options["headers"]): position for position, each in messages.items()}
        try:
            for position, message in messages.items():
                if self._publish(position, message):
                    self._sent += 1
                    self._waiting[self._sent] = position
            while self._waiting:
                self._connection.drain_events(timeout=max(0.001, until - time.monotonic()))
        except Exception as error:
            self.broken = True
            left = [position for position in messages if position not in self._answers]
            if isinstance(error, TimeoutError):
                self._answers |= dict.fromkeys(left, _late())
            elif len(left) == 1:
                self._answers[left[0]] = self._closed(error)

    def _send_by_address(self, messages: Mapping[int, Message], until: float) -> None:
        """A queue that accepts nothing, such as a Redis key that is not a list, does not affect the others."""
        batching = getattr(self._producer, "supports_batch_publish", False)
        groups: dict[Any, list[int]] = {}
        for position, message in messages.items():
            groups.setdefault(message.address if batching else position, []).append(position)
        for group in groups.values():
            if time.monotonic() > until:
                self._answers |= dict.fromkeys(group, _late())
                continue
            try:
                with self._producer.batch() if len(group) > 1 else nullcontext():
                    written = [position for position in group if self._publish(position, messages[position])]
                self._answers |= dict.fromkeys(written, None)
            except Exception as error:
                self.broken = True
                lost = self._is_lost(error)
                self._answer_the_rest(messages if lost else group, error)
                return

    def _publish(self, position: int, message: Message) -> bool:
        """A message that cannot be written fails alone: nothing of it was sent."""
        try:
            self._producer.publish(message.body, **{**message.options, **self._more})
        except self._unwritable as error:
            cause = error.__cause__ or error  # kombu wraps the error of the serializer
            refused = Refused(f"The task cannot be written as a message ({type(cause).__name__}: {cause}).")
            self._answers[position] = refused
            return False
        return True

    def _ask_for_confirms(self, channel: Any) -> None:
        channel.confirm_select()
        channel.events["basic_ack"].add(lambda number, multiple: self._confirmed(number, multiple, None))
        refused = Undelivered("The broker refused the task (nack); its queue may be full.")
        channel.events["basic_nack"].add(lambda number, multiple: self._confirmed(number, multiple, refused))

    def _confirmed(self, number: int, multiple: bool, answer: Answer) -> None:
        for each in [one for one in self._waiting if one <= number] if multiple else [number]:
            position = self._waiting.pop(each, None)
            if position is not None:
                self._answers.setdefault(position, answer)  # RabbitMQ also confirms messages that it has returned

    def _returned(self, error: Exception, exchange: str, routing_key: str, message: Any) -> None:
        position = self._positions[_mark(message.properties["application_headers"])]
        self._answers[position] = Undelivered(
            f"RabbitMQ has no queue for the task (exchange {exchange!r}, routing key {routing_key!r}); declare one."
        )
        self.broken = True  # a new line declares the queue again

    def _closed(self, error: Exception) -> Exception:
        """The broker closed the connection because of a message: a missing queue may be created, an invalid message
        stays invalid."""
        code = getattr(error, "reply_code", None)
        by_message = isinstance(error, self._connection.channel_errors) or code == FRAME_ERROR
        if not by_message or code in (NOT_FOUND, *NO_RIGHT):
            return _undelivered(error)
        if code == FRAME_ERROR:
            return Refused(f"The headers of the task are longer than a frame of RabbitMQ ({error}).")
        return Refused(f"The broker refused the task ({error}).")

    def _answer_the_rest(self, positions: Iterable[int], error: Exception) -> None:
        for position in positions:
            self._answers.setdefault(position, _undelivered(error))

    def _is_lost(self, error: Exception) -> bool:
        return isinstance(error.__cause__ or error, (*self._connection.connection_errors, OSError))


def _mark(headers: Mapping[str, Any]) -> str:
    """The key by which answers of RabbitMQ are matched: two events may have tasks of the same id. A wake-up has no
    event."""
    return str(headers.get(EVENT) or headers["id"])


def _undelivered(error: BaseException) -> Exception:
    if isinstance(error, DueboxError):
        return error
    cause = error.__cause__ or error  # kombu and SQLAlchemy wrap the error of the driver
    lines = str(cause).splitlines() or [""]
    return Undelivered(f"The broker did not accept the task ({type(cause).__name__}: {lines[0]}).")


def _late() -> Exception:
    return Undelivered("The broker did not confirm the task in time.")


@contextmanager
def _readable_url() -> Iterator[None]:
    try:
        yield
    except ValueError:  # it quotes the supposed port, which may be a part of the password
        raise InvalidDestination(
            "broker is not a URL that Celery can parse; in the password, '#' is %23 and '/' is %2F."
        ) from None
