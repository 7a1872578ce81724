"""A connection to Celery's broker that says of each task whether the broker has it, and never takes longer than told.

Not one from the app's pool: those wait and try again by the app's own settings, for minutes if need be. RabbitMQ
confirms each message, and gives back before that what no queue takes; all of a batch are sent before the first confirm
is waited for (3,500 a second, against 1,200).
Redis answers each command, and a batch is one pipeline where kombu knows how to (since 5.7).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from duebox.destinations.celery_message import EVENT, Message
from duebox.destinations.celery_writing import Writing, Written, to_channel
from duebox.destinations.confirms import NO_RIGHT, NOT_FOUND
from duebox.exceptions import DueboxError, InvalidDestination, Refused, Undelivered

RESTS_AT_MOST = 30.0
"""What stands between may have forgotten a connection that rested for longer."""

Answer = Exception | None


class Line:
    """For one thread at a time; once it is broken it is of no more use."""

    def __init__(self, app: Any, broker: str | None, timeout: float) -> None:
        self._app, self._timeout = app, timeout
        self._connection = app.connection_for_write(broker, connect_timeout=timeout)
        self._confirms = self._connection.transport.driver_type == "amqp"
        self._connection.transport_options = {**self._connection.transport_options, **self._limits()}
        self.broken = False
        self.rests_since = 0.0
        self._tag = 0
        self._waiting: dict[int, int] = {}
        self._positions: dict[str, int] = {}
        self._astray: set[int] = set()
        self._answers: list[Answer] = []
        hosts = len(self._connection.alt) or 1
        self._connection.ensure_connection(max_retries=hosts, interval_start=0, interval_step=0, timeout=timeout)
        self._producer = app.amqp.Producer(self._connection, auto_declare=False)
        self._writing = Writing(app, self._producer, amqp=self._confirms)
        self._sending = {"retry": False, "timeout": timeout, **({"mandatory": True} if self._confirms else {})}
        if self._confirms:
            self._ask_for_confirms(self._producer.channel)

    def send(self, batch: Sequence[Message]) -> list[Answer]:
        """An answer for each: None where the broker has it."""
        until = time.monotonic() + self._timeout
        self._answers = [Undelivered("The broker did not confirm the task in time.")] * len(batch)
        written = self._write(batch)
        if self._confirms:
            self._send_and_wait(written, until)
        else:
            self._send_in_groups(batch, written)
        return self._answers

    def close(self) -> None:
        with suppress(Exception):  # it is gone already
            self._connection.collect() if self.broken else self._connection.release()

    def _limits(self) -> dict[str, Any]:
        if self._confirms:
            # No "blocked" messages: py-amqp would look for one before each task, and a blocked broker does not confirm.
            known = {"product": "duebox", "capabilities": {}}
            within = {"read_timeout": self._timeout, "write_timeout": self._timeout}
            return {**within, "client_properties": known, "confirm_publish": False}
        return {"socket_timeout": self._timeout, "socket_connect_timeout": self._timeout}

    def _ask_for_confirms(self, channel: Any) -> None:
        channel.confirm_select()
        channel.events["basic_ack"].add(lambda tag, multiple: self._settle(tag, multiple, None))
        refused = Undelivered("The broker refused the task (nack); its queue may be full.")
        channel.events["basic_nack"].add(lambda tag, multiple: self._settle(tag, multiple, refused))
        channel.events["basic_return"].add(self._returned)

    def _write(self, batch: Sequence[Message]) -> dict[int, Written]:
        """By position, all of them before the first is sent; one that cannot be written, or whose queue cannot be
        declared, fails alone."""
        written: dict[int, Written] = {}
        failed: dict[object, Exception] = {}
        there: list[Any] = []
        for position, message in enumerate(batch):
            if (known := failed.get(message.line_up)) is not None:
                self._answers[position] = known
                continue
            try:
                ready = self._writing.write(message, **self._sending)
                self._declare(ready.needs, there)
                written[position] = ready
            except Refused as error:
                self._answers[position] = error
            except Exception as error:
                self._answers[position] = failed[message.line_up] = undelivered(error)
                self.broken = True
                if self._is_lost(error):
                    self._answers = [undelivered(error)] * len(batch)
                    return {}
        return written

    def _declare(self, needs: Iterable[Any], there: list[Any]) -> None:
        try:
            for each in needs:
                if each not in there:  # kombu remembers it as well, and copies it each time to find that out
                    self._producer.maybe_declare(each)
                    there.append(each)
        except self._connection.channel_errors:
            self._open_again()
            raise

    def _open_again(self) -> None:
        """The broker closed the channel, and the connection is as it was."""
        if self._confirms:
            self._producer.revive(self._connection.channel())
            self._tag = 0
            self._ask_for_confirms(self._producer.channel)

    def _send_and_wait(self, written: Mapping[int, Written], until: float) -> None:
        # All are waited for before the first is sent: whatever breaks, nothing is known of any of them.
        self._waiting = {self._tag + number: position for number, position in enumerate(written, start=1)}
        self._tag += len(written)
        self._positions = {_mark(each.options["headers"]): position for position, each in written.items()}
        self._astray = set()
        try:
            for each in written.values():
                to_channel(self._producer.channel, each)
            while self._waiting:
                self._connection.drain_events(timeout=max(0.001, until - time.monotonic()))
        except Exception as error:
            self.broken = True
            closed = isinstance(error, self._connection.channel_errors)
            for position in self._waiting.values():
                self._answers[position] = _closed(error) if closed else undelivered(error)
            if closed and len(written) > 1:
                self._one_by_one({position: written[position] for position in self._waiting.values()}, until)

    def _one_by_one(self, left: Mapping[int, Written], until: float) -> None:
        """The broker closed the channel because of one of them; so it is found out which."""
        for position in left:
            self._answers[position] = Undelivered("The broker did not confirm the task in time.")
        with suppress(Exception):  # the connection is gone as well, and those that are left stay unanswered
            for position, each in left.items():
                if time.monotonic() < until:
                    self._open_again()
                    self._send_and_wait({position: each}, until)

    def _settle(self, tag: int, multiple: bool, answer: Answer) -> None:
        for each in [one for one in self._waiting if one <= tag] if multiple else [tag]:
            position = self._waiting.pop(each, None)
            # What was returned is confirmed as well: the broker has done with it.
            if position is not None and position not in self._astray:
                self._answers[position] = answer

    def _returned(self, error: Exception, exchange: str, routing_key: str, message: Any) -> None:
        position = self._positions[_mark(message.properties["application_headers"])]
        self._astray.add(position)
        self._answers[position] = Undelivered(
            f"RabbitMQ has no queue for the task (exchange {exchange!r}, routing key {routing_key!r}); declare one."
        )
        self.broken = True  # it takes the queue for declared; a new one declares it again

    def _send_in_groups(self, batch: Sequence[Message], written: Mapping[int, Written]) -> None:
        """What goes to one queue fails or goes together; a queue that takes nothing does not hold up the others."""
        for positions in _in_groups(batch, written, one_by_one=not self._may_batch()):
            try:
                with self._producer.batch(len(positions)) if len(positions) > 1 else nullcontext():
                    for position in positions:
                        self._producer.publish(written[position].body, **written[position].options)
                answer: Answer = None
            except Exception as error:
                answer = undelivered(error)
                self.broken = True
                if self._is_lost(error):
                    break  # it is gone for all that follow as well
            for position in positions:
                self._answers[position] = answer

    def _may_batch(self) -> bool:
        return bool(getattr(self._producer, "supports_batch_publish", False))

    def _is_lost(self, error: BaseException) -> bool:
        return isinstance(error.__cause__ or error, (*self._connection.connection_errors, OSError))


def _mark(headers: Mapping[str, Any]) -> str:
    """By what a message is known when it comes back: the id of its event, since two events may have tasks of the same
    id. One that asks Celery to deliver has no event."""
    return str(headers.get(EVENT) or headers["id"])


class Lines:
    """Lines that rest are used again, by whichever thread comes next."""

    def __init__(self, app: Any, broker: str | None, timeout: float) -> None:
        self._made_of = (app, broker, timeout)
        self._resting: list[Line] = []
        self._process = os.getpid()
        self._one_at_a_time = threading.Lock()

    @contextmanager
    def line(self) -> Iterator[Line]:
        """Raises Undelivered where the broker cannot be reached."""
        line = self._rested()
        if line is None:
            try:
                line = Line(*self._made_of)
            except ValueError:  # quotes what it takes for the port, which may be a part of the password
                raise InvalidDestination(
                    "broker is no URL that Celery can read; in the password, '#' is %23 and '/' is %2F."
                ) from None
            except Exception as error:
                raise undelivered(error) from error
        try:
            yield line
        except BaseException:
            line.broken = True
            raise
        finally:
            self._put_back(line)

    def close(self) -> None:
        with self._one_at_a_time:
            self._leave_to_parent()
            resting, self._resting = self._resting, []
        for line in resting:
            line.close()

    def _rested(self) -> Line | None:
        with self._one_at_a_time:
            self._leave_to_parent()
            line = self._resting.pop() if self._resting else None
        if line is not None and time.monotonic() - line.rests_since > RESTS_AT_MOST:
            line.close()
            return self._rested()
        return line

    def _leave_to_parent(self) -> None:
        if self._process != os.getpid():  # after a fork
            self._process, self._resting = os.getpid(), []

    def _put_back(self, line: Line) -> None:
        if line.broken:
            line.close()
            return
        line.rests_since = time.monotonic()
        with self._one_at_a_time:
            self._resting.append(line)


def undelivered(error: BaseException) -> Exception:
    if isinstance(error, DueboxError):
        return error
    cause = error.__cause__ or error  # kombu wraps what the driver said
    return Undelivered(f"The broker did not take the task ({type(cause).__name__}: {cause}).")


def _closed(error: BaseException) -> Exception:
    """The broker closed the channel for a message. What it lacks may come; what is against its rules stays so."""
    if getattr(error, "reply_code", None) in (NOT_FOUND, *NO_RIGHT):
        return undelivered(error)
    return Refused(f"The broker refused the task ({error}).")


def _in_groups(batch: Sequence[Message], positions: Iterable[int], *, one_by_one: bool) -> list[list[int]]:
    groups: dict[Any, list[int]] = {}
    for position in positions:
        groups.setdefault(position if one_by_one else batch[position].line_up, []).append(position)
    return list(groups.values())
