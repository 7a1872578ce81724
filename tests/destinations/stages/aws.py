"""EventBridge and SQS as moto plays them, one server for a test process, and a filter in front of it.

moto takes whatever it is given. The filter keeps single entries of a batch from it and answers for them as AWS does.
"""

from __future__ import annotations

import json
import logging
import os
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, NamedTuple

import boto3
from moto.server import ThreadedMotoServer

from tests.destinations.conformance import Arrived, Stage, mode
from tests.destinations.proxy import AWAY, HANG, MUTE, Proxy

REGION = "eu-central-1"
# Nobody checks them, but a client does not sign without.
os.environ.setdefault("AWS_ACCESS_KEY_ID", "testing")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "testing")


@cache
def moto_port() -> int:
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for each request otherwise
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    return server.get_host_and_port()[1]


@cache
def moto(service: str) -> Any:
    """A client that goes to moto directly."""
    return boto3.Session().client(service, region_name=REGION, endpoint_url=f"http://127.0.0.1:{moto_port()}")


class Failure(NamedTuple):
    """Why AWS does not take an entry."""

    code: str
    ours: bool = False
    message: str = "told by the filter"


PASSING = Failure("InternalFailure")
REFUSED = Failure("InvalidArgument", ours=True)


class Filter:
    """An HTTP server in front of moto."""

    def __init__(self) -> None:
        self.failures: dict[str, Failure] = {}
        """By the id of the event."""
        self.share_failing = 0.0
        """So many of all entries are not taken, at random."""
        self.after: Callable[[], Any] | None = None
        """Called after each batch that moto took, one at a time."""
        self.one_at_a_time = threading.Lock()
        self.instead: list[tuple[int, str]] = []
        """Status and code of answers to whole calls, each used once."""
        self.calls: list[list[str]] = []
        """The ids of every batch that came."""
        self.contents: list[dict[str, Any]] = []
        """Every entry that came."""
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"filter": self}))
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Filter:
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def failure_of(self, name: str) -> Failure | None:
        return PASSING if random.random() < self.share_failing else self.failures.get(name)

    @contextmanager
    def failing(self, ids: set[str], failure: Failure) -> Iterator[None]:
        self.failures = dict.fromkeys(ids, failure)
        try:
            yield
        finally:
            self.failures = {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked is gone: its wire was cut, or its time was over."""


class _Handler(BaseHTTPRequestHandler):
    filter: Filter
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        entries = asked["Entries"]
        ids = [_event_id(entry) for entry in entries]
        self.filter.calls.append(ids)
        self.filter.contents += entries
        if self.filter.instead:
            status, code = self.filter.instead.pop(0)
            self._answer(status, {"__type": code, "message": "told by the filter"})
            return
        found = {place: self.filter.failure_of(name) for place, name in enumerate(ids)}
        bad = {place: failure for place, failure in found.items() if failure}
        asked["Entries"] = [entry for place, entry in enumerate(entries) if place not in bad]
        status, said = self._hand_over(asked) if asked["Entries"] else (200, {})
        if bad and status == 200:
            merge = _of_bus if "PutEvents" in self.headers["X-Amz-Target"] else _of_queue
            said = merge(said, bad, entries)
        self._answer(status, said)

    def _hand_over(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.filter.after is None:
            return self._pass_on(asked)
        with self.filter.one_at_a_time:
            answer = self._pass_on(asked)
            self.filter.after()
        return answer

    def _pass_on(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        there = HTTPConnection("127.0.0.1", moto_port())
        kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "content-length")}
        there.request("POST", self.path, json.dumps(asked), kept)
        answer = there.getresponse()
        said = json.loads(answer.read())
        there.close()
        return answer.status, said

    def _answer(self, status: int, said: dict[str, Any]) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None: ...


def _event_id(entry: dict[str, Any]) -> str:
    return str(json.loads(entry.get("Detail") or entry["MessageBody"])["event_id"])


def _of_bus(said: dict[str, Any], bad: dict[int, Failure], entries: list[Any]) -> dict[str, Any]:
    """An answer for each place, in the order of the request."""
    taken = iter(said.get("Entries", []))
    told = [
        {"ErrorCode": bad[place].code, "ErrorMessage": bad[place].message} if place in bad else next(taken)
        for place in range(len(entries))
    ]
    return {"FailedEntryCount": len(bad), "Entries": told}


def _of_queue(said: dict[str, Any], bad: dict[int, Failure], entries: list[Any]) -> dict[str, Any]:
    failed = [
        {"Id": entries[place]["Id"], "Code": why.code, "SenderFault": why.ours, "Message": why.message}
        for place, why in bad.items()
    ]
    return {"Successful": said.get("Successful", []), "Failed": failed}


class Aws(Stage):
    """What its two services share: a queue at the far end, and the wire to it."""

    largest: ClassVar[int | None] = 20_000
    fifo: ClassVar[bool] = False

    def __enter__(self) -> Aws:
        self.name = f"test-{uuid.uuid4().hex[:12]}"
        self._open = ExitStack()
        self.filter = self._open.enter_context(Filter())
        self.proxy = self._open.enter_context(Proxy(self.filter.port))
        self._sqs = moto("sqs")
        attributes = {"FifoQueue": "true"} if self.fifo else {}
        name = f"{self.name}.fifo" if self.fifo else self.name
        self.queue_url = self._sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        self._arrived: list[dict[str, Any]] = []
        return self

    def __exit__(self, *exc: object) -> None:
        self._sqs.delete_queue(QueueUrl=self.queue_url)
        self._open.close()

    @property
    def wire(self) -> dict[str, Any]:
        return {"endpoint_url": f"http://127.0.0.1:{self.proxy.port}", "region": REGION, "timeout": 5.0}

    def messages(self) -> list[dict[str, Any]]:
        """Whatever is in the queue, in the order of arrival."""
        while found := self._take():
            self._arrived += found
        return self._arrived

    def arrived(self) -> list[Arrived]:
        return [self.opened({**each}) for each in self.messages()]

    def opened(self, message: dict[str, Any]) -> Arrived:
        return Arrived(json.loads(message.pop("Body")), message)

    def away(self) -> Any:
        return mode(self.proxy, AWAY)

    def hanging(self) -> Any:
        return mode(self.proxy, HANG)

    def muted(self) -> Any:
        return mode(self.proxy, MUTE)

    def failing(self, ids: set[str]) -> Any:
        return self.filter.failing(ids, PASSING)

    def refusing(self, ids: set[str]) -> Any:
        return self.filter.failing(ids, REFUSED)

    def _take(self) -> list[dict[str, Any]]:
        asked = {"MaxNumberOfMessages": 10, "AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
        found: list[dict[str, Any]] = self._sqs.receive_message(QueueUrl=self.queue_url, **asked).get("Messages", [])
        done = [{"Id": str(place), "ReceiptHandle": each["ReceiptHandle"]} for place, each in enumerate(found)]
        if done:
            self._sqs.delete_message_batch(QueueUrl=self.queue_url, Entries=done)
        return found


class EventBridge(Aws):
    """A bus, a rule for a prefix of the type, and the queue behind it."""

    backend = "duebox.destinations.aws.EventBridge"

    def __enter__(self) -> EventBridge:
        super().__enter__()
        self._events = moto("events")
        self._events.create_event_bus(Name=self.name)
        pattern = json.dumps({"detail-type": [{"prefix": "order."}, {"prefix": "public.order."}]})
        self._events.put_rule(Name=self.name, EventBusName=self.name, EventPattern=pattern)
        arn = self._sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=["QueueArn"])
        target = {"Id": "queue", "Arn": arn["Attributes"]["QueueArn"]}
        self._events.put_targets(Rule=self.name, EventBusName=self.name, Targets=[target])
        return self

    @property
    def options(self) -> dict[str, Any]:
        return {"bus": self.name, "largest": self.largest, **self.wire}

    def opened(self, message: dict[str, Any]) -> Arrived:
        of_bus, beside = super().opened(message)
        return Arrived(of_bus.pop("detail"), {**of_bus, **beside})


class SQS(Aws):
    backend = "duebox.destinations.aws.SQS"

    @property
    def options(self) -> dict[str, Any]:
        return {"queue_url": self.queue_url, "largest": self.largest, **self.wire}


class SQSFifo(SQS):
    backend = "duebox.destinations.aws.SQSFifo"
    fifo = True
    ordered = True


STAGES = [EventBridge, SQS, SQSFifo]
