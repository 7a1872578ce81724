"""NATS JetStream: each event is a message on a subject; the stream drops duplicates by event id.

"nats": {"BACKEND": "duebox.destinations.nats.NatsJetStream", "OPTIONS": {"url": "nats://localhost:4222"}}
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from typing import Any, TypeVar

from duebox.destinations.base import Destination, Result
from duebox.destinations.envelope import envelope, headers
from duebox.destinations.options import Name, driver, only_known, positive
from duebox.events.fact import Fact
from duebox.events.outcomes import Delivered
from duebox.exceptions import InvalidDestination, Refused, TooLarge, Undelivered

__all__ = ["NatsJetStream"]

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread, started by the first call of `run` from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def run(self, work: Coroutine[Any, Any, T], timeout: float) -> T:
        """Run a coroutine and return its result; TimeoutError if it does not end in time."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    def stop(self, last: Coroutine[Any, Any, None], timeout: float = 5.0) -> None:
        """Run a final coroutine and end the thread; does nothing if the thread never started."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            last.close()
            return
        try:
            asyncio.run_coroutine_threadsafe(_end(last), loop).result(timeout)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout)
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return self._loop


async def _end(last: Coroutine[Any, Any, None]) -> None:
    """Run the final coroutine, and cancel all tasks that would otherwise run in a closed loop."""
    try:
        await last
    finally:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


logger = logging.getLogger("duebox.destinations")

OURS = ("servers", "allow_reconnect", "connect_timeout", "error_cb")
SCHEMES = ("nats", "tls", "ws", "wss")
_NO_ANSWER = "NATS did not answer in time."
_NO_STREAM = (
    "A subscriber that is not a stream answered; add the subject to the subjects of a stream, or correct `subject`."
)
_NOBODY = {"code": 503}  # the answer of the server itself if there is no subscriber
_FRAME_BYTES = 16  # the overhead of the protocol around the headers


class NatsJetStream(Destination):
    """A batch is published in order on one connection, and then all answers are awaited.

    The stream drops messages that are sent again within its duplicate window, two minutes by default. `options` are
    those of nats-py's `connect`, such as `user_credentials`.
    """

    batch_size = 100
    keeps_order = True
    forgets_repeats = True

    def __init__(
        self,
        alias: str,
        *,
        url: str | Sequence[str],
        subject: str = "events.{event_type}",
        timeout: float = 5.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(alias)
        self._nats = driver("nats", "nats")
        if any(character in subject for character in " \t\r\n*>"):
            raise InvalidDestination(f"subject={subject!r} contains a space or a wildcard; correct it.")
        self._subject = Name(subject, option="subject", unsafe=r"[\s*>]")
        self._timeout = positive("timeout", timeout)
        self._servers = _servers(url)
        self._options = self._checked(options or {})
        self._begin()

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        self._leave_to_parent()
        try:
            return self._loop.run(self._publish(batch), self._timeout + 1)
        except (self._nats.errors.Error, OSError, TimeoutError) as error:
            raise Undelivered(f"NATS cannot be reached: {self._reason(error)}") from error

    def close(self) -> None:
        self._leave_to_parent()
        self._loop.stop(self._let_go())

    def _begin(self) -> None:
        self._process = os.getpid()
        self._client: Any = None
        self._trouble: Exception | None = None
        self._connecting = asyncio.Lock()
        self._loop = LoopThread(f"duebox-nats-{self.alias}")

    def _leave_to_parent(self) -> None:
        if self._process != os.getpid():  # after a fork: the thread and the connection belong to the parent
            self._begin()

    async def _publish(self, batch: Sequence[Fact]) -> list[Result]:
        async with asyncio.timeout(self._timeout) as until:
            client = await self._connected()
            answers = _Answers(len(batch))
            inbox = client.new_inbox()
            subscription = await client.subscribe(f"{inbox}.*", cb=answers.take)
        try:
            async with asyncio.timeout_at(until.when()):
                for number, fact in enumerate(batch):
                    await self._send(client, fact, f"{inbox}.{number}", answers, number)
                await answers.complete.wait()
        except (self._nats.errors.Error, OSError, TimeoutError) as error:
            logger.info("NATS answered %d of %d: %s", len(batch) - answers.missing, len(batch), str(error) or "timeout")
        if answers.missing == len(batch):
            await self._let_go()  # it may be half open for minutes
        elif client.is_connected:
            await subscription.unsubscribe()
        return answers.results

    async def _send(self, client: Any, fact: Fact, reply: str, answers: _Answers, number: int) -> None:
        fields = {"Nats-Msg-Id": fact.row.id, **headers(fact)}
        payload = envelope(fact).encode()
        # The limit of the server applies to both together; it closes the connection if a message exceeds the limit.
        size = len(payload) + sum(len(name) + len(value.encode()) + 4 for name, value in fields.items()) + _FRAME_BYTES
        if size > client.max_payload:
            answers.put(number, TooLarge(size, client.max_payload))
        else:
            await client.publish(self._subject.of(fact), payload, reply=reply, headers=fields)

    async def _connected(self) -> Any:
        """The connection of this process. A broken one is replaced; the client's own reconnect would send messages that
        were given up already."""
        async with self._connecting:
            if self._client is None or not self._client.is_connected:
                await self._let_go()
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> Any:
        client, self._trouble = self._nats.NATS(), None
        try:
            await client.connect(
                self._servers, allow_reconnect=False, connect_timeout=self._timeout, error_cb=self._note,
                **self._options,
            )  # fmt: skip
        except BaseException:
            with suppress(Exception):  # closing a connection that was never opened fails, and would hide the reason
                await client.close()
            raise
        return client

    async def _note(self, error: Exception) -> None:
        """Store the last error of the client while it tries to connect; it reports them only to this callback."""
        self._trouble = error
        logger.info("NATS: %s", str(error) or type(error).__name__)

    def _reason(self, error: Exception) -> str:
        vague = isinstance(error, TimeoutError | self._nats.errors.NoServersError)
        known = self._trouble if vague and self._trouble is not None else error
        return str(known) or type(known).__name__

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        for name in OURS:
            if name in options:
                raise InvalidDestination(f"options[{name!r}] is set by Duebox; leave it out.")
        only_known("options", options, list(signature(self._nats.NATS().connect).parameters))
        return dict(options)

    async def _let_go(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class _Answers:
    """The answers of the stream to each message of a batch; they arrive on the inbox of the batch, by number."""

    def __init__(self, count: int) -> None:
        self.results: list[Result] = [Undelivered(_NO_ANSWER) for _ in range(count)]
        self.complete = asyncio.Event()
        self._open = set(range(count))

    @property
    def missing(self) -> int:
        return len(self._open)

    async def take(self, message: Any) -> None:
        number = int(message.subject.rpartition(".")[2])
        if (answer := _answer(message)) is not None:
            self.put(number, _result(answer))
        elif number in self._open:
            # Other subscribers to the subject may answer too. Wait for the stream.
            self.results[number] = Undelivered(_NO_STREAM)

    def put(self, number: int, result: Result) -> None:
        if number in self._open:
            self._open.discard(number)
            self.results[number] = result
        if not self._open:
            self.complete.set()


def _answer(message: Any) -> dict[str, Any] | None:
    """The answer of JetStream, or None if it is from another subscriber."""
    if message.headers and message.headers.get("Status") == "503":
        return {"error": _NOBODY}
    try:
        answer = json.loads(message.data)
    except ValueError:
        return None
    if not isinstance(answer, dict):
        return None
    error = answer.get("error")
    if isinstance(error, dict):
        return answer if type(error.get("err_code")) is int else None
    return answer if isinstance(answer.get("stream"), str) and type(answer.get("seq")) is int else None


def _result(answer: dict[str, Any]) -> Result:
    error = answer.get("error")
    if error is _NOBODY:
        # Also while a stream elects its leader: a retry may help.
        return Undelivered("No stream of NATS has the subject; add it to the subjects of one, or correct `subject`.")
    if error:
        reason = f"{error.get('description')} (code {error.get('err_code')})"
        if error.get("code") == 400:
            return Refused(f"The stream refused the event: {reason}")
        return Undelivered(f"The stream did not accept the event: {reason}")
    return Delivered("the stream had it already") if answer.get("duplicate") else None


def _servers(url: str | Sequence[str]) -> list[str]:
    """Messages quote only the scheme of a URL, which may contain a password."""
    given = [url] if isinstance(url, str) else list(url)
    if not given or "" in given:
        raise InvalidDestination("url is empty; write it as nats://localhost:4222.")
    for each in given:
        if not isinstance(each, str):
            raise InvalidDestination(f"url holds a {type(each).__name__}; write it as nats://localhost:4222.")
        scheme, mark, _ = each.partition("://")
        if mark and scheme not in SCHEMES:
            raise InvalidDestination(f"url begins with '{scheme}://'; it must be nats://, tls://, ws:// or wss://.")
    return given
