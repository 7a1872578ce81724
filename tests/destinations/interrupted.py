"""Wires that misbehave at one event: the answer to it is lost, or the server changes its mind just for it."""

from __future__ import annotations

import select
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.destinations.proxy import MUTE, PASS, Proxy


class LateProxy(Proxy):
    """MUTE begins with the first event on a connection, known by its mark: greetings are still answered, so that there
    is something to lose the answer of."""

    def __init__(self, target: int, mark: bytes = b"event_id") -> None:
        super().__init__(target)
        self._mark = mark
        self._with_event: set[socket.socket] = set()

    def _step(self, here: socket.socket, there: socket.socket) -> bool:
        if self.mode != MUTE:
            return super()._step(here, there)
        ready, _, _ = select.select([here, there], [], [], 0.05)
        for each in ready:
            sent = each.recv(65536)
            if not sent or (each is there and here in self._with_event):
                return False
            if each is here and self._hands_over(here, sent):
                self._with_event.add(here)
            (there if each is here else here).sendall(sent)
        return True

    def _hands_over(self, here: socket.socket, sent: bytes) -> bool:
        return self._mark in sent


class CommitProxy(LateProxy):
    """The same for a database: what counts is the commit after the row with the event."""

    def __init__(self, target: int, mark: bytes) -> None:
        super().__init__(target, mark)
        self._inserted: set[socket.socket] = set()

    def _hands_over(self, here: socket.socket, sent: bytes) -> bool:
        if self._mark in sent:
            self._inserted.add(here)
        return here in self._inserted and b"COMMIT" in sent


class Wire(NamedTuple):
    """As much of a protocol as is needed to tell one message from the next."""

    split: Callable[[bytes], tuple[list[bytes], bytes]]
    """What is complete, and the rest."""
    asks: Callable[[bytes], bool]
    answers: Callable[[bytes], bool]


class Interrupted(LateProxy):
    """Inside of `at`: when an event with one of the ids comes by, what went before it is answered first, then `before`
    does something to the server, the event goes on, and when it was answered `after` undoes it."""

    def __init__(self, target: int, wire: Wire) -> None:
        super().__init__(target)
        self._wire = wire
        self._ids: frozenset[bytes] = frozenset()
        self._rest: dict[socket.socket, bytes] = {}
        self._asked: Counter[socket.socket] = Counter()

    @contextmanager
    def at(self, ids: set[str], before: Callable[[], Any], after: Callable[[], Any]) -> Iterator[None]:
        self._before, self._after = before, after
        self._ids = frozenset(one.encode() for one in ids)
        yield
        self._ids = frozenset()

    def _step(self, here: socket.socket, there: socket.socket) -> bool:
        if self.mode != PASS or not self._ids:
            return super()._step(here, there)
        # Answers first: to pass on the event reads them too, and then there would be nothing left to wait for.
        ready, _, _ = select.select([there, here], [], [], 0.05)
        for each in ready:
            sent = each.recv(65536)
            if not sent:
                return False
            if each is there:
                self._give_back(here, there, sent)
                continue
            for message in self._messages(here, sent):
                self._pass_on(message, here, there)
        return True

    def _messages(self, side: socket.socket, sent: bytes) -> list[bytes]:
        messages, self._rest[side] = self._wire.split(self._rest.get(side, b"") + sent)
        return messages

    def _pass_on(self, message: bytes, here: socket.socket, there: socket.socket) -> None:
        meant = any(one in message for one in self._ids)
        if meant:
            self._until_answered(here, there)
            self._before()
        self._asked[here] += self._wire.asks(message)
        there.sendall(message)
        if meant:
            self._until_answered(here, there)
            self._after()

    def _give_back(self, here: socket.socket, there: socket.socket, sent: bytes) -> None:
        self._asked[here] -= sum(map(self._wire.answers, self._messages(there, sent)))
        here.sendall(sent)

    def _until_answered(self, here: socket.socket, there: socket.socket) -> None:
        while self._asked[here] > 0:
            if not (sent := there.recv(65536)):
                raise ConnectionResetError("the server went before it answered")
            self._give_back(here, there, sent)


def split_nats(buffer: bytes) -> tuple[list[bytes], bytes]:
    """Lines; those that carry something say with their last word how much."""
    found = []
    while (end := buffer.find(b"\r\n") + 2) > 1:
        words = buffer[:end].split()
        if words[0] in (b"PUB", b"HPUB", b"MSG", b"HMSG"):
            end += int(words[-1]) + 2
        if end > len(buffer):
            break
        found.append(buffer[:end])
        buffer = buffer[end:]
    return found, buffer


def split_kafka(buffer: bytes) -> tuple[list[bytes], bytes]:
    """Four bytes say how long each message is."""
    found = []
    while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "big")):
        found.append(buffer[:end])
        buffer = buffer[end:]
    return found, buffer


NATS = Wire(split_nats, lambda sent: sent.startswith(b"HPUB"), lambda sent: sent.startswith((b"MSG", b"HMSG")))
KAFKA = Wire(split_kafka, lambda sent: True, lambda sent: True)
