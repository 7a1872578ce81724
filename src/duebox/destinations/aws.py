"""Amazon EventBridge, SQS and SQS FIFO: one client, the meaning of its errors, batches of ten within the size limit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from duebox.context.tracing import parse
from duebox.destinations.base import Destination, DestinationPolicy, Problem, Result
from duebox.destinations.envelope import envelope, headers, ordering_key, producer, traceparent
from duebox.events.fact import Fact, FactRow
from duebox.exceptions import InvalidDestination, Permanent, Refused, Throttled, TooLarge, Undelivered

__all__ = ["SQS", "EventBridge", "SQSFifo"]

DEFAULT_BYTES = 256 * 1024
"""AWS may allow more by now, but old queues, and many targets of an event bus, accept no more than this."""

CONNECTIONS = 50
_PASSING = {
    "InternalFailure",
    "InternalException",
    "InternalError",
    "ServiceUnavailable",
    "ServiceUnavailableException",
}
_TOO_MANY = {"RequestLimitExceeded", "TooManyRequestsException", "OverLimit", "SlowDown", "BandwidthLimitExceeded"}
_BLAMES_CONTENT = {
    "ValidationException", "ValidationError", "RequestEntityTooLargeException", "BatchRequestTooLong",
    "InvalidMessageContents", "InvalidParameterValue", "InvalidAttributeValue",
}  # fmt: skip


def client(service: str, *, region: str | None, endpoint_url: str | None, timeout: float) -> Any:
    """A client for all threads. It does not retry: the retry policy of the destination does."""
    try:
        import boto3  # type: ignore[import-untyped]
        from botocore.config import Config  # type: ignore[import-untyped]
        from botocore.exceptions import NoRegionError  # type: ignore[import-untyped]
    except ImportError as error:
        raise InvalidDestination(f"boto3 is missing ({error}); run: pip install 'duebox[aws]'") from error
    if not 0 < timeout < 1e6:
        raise InvalidDestination(f"timeout is {timeout!r}; it must be a number of seconds above 0.")
    config = Config(
        connect_timeout=timeout,
        read_timeout=timeout,
        retries={"total_max_attempts": 1},
        tcp_keepalive=True,
        max_pool_connections=CONNECTIONS,
        user_agent_extra="duebox",
    )
    try:
        return boto3.Session().client(service, region_name=region, endpoint_url=endpoint_url, config=config)
    except NoRegionError as error:
        raise InvalidDestination(f"{service} needs a region; set OPTIONS['region'], or AWS_DEFAULT_REGION.") from error


def limited(largest: int, hard: int) -> int:
    """The option `largest`, validated."""
    if isinstance(largest, bool) or not isinstance(largest, int) or not 1 <= largest <= hard:
        raise InvalidDestination(f"largest is {largest!r}; it must be a number of bytes from 1 to {hard:,}.")
    return largest


def of_call(error: Exception) -> Undelivered | Refused:
    """The error for a call that failed as a whole. Only errors about the content of the call can be the fault of an
    event. A missing permission or queue is not: once that is repaired, the same event can be sent.
    """
    answer = getattr(error, "response", None)
    if not isinstance(answer, dict):
        return Undelivered(f"no answer from AWS ({type(error).__name__}: {error})")
    details = answer.get("Error", {})
    code, status = str(details.get("Code", "")), answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    reason = f"{code}: {details.get('Message', '')}"
    if is_throttling(code) or status == 429:
        return Throttled(reason, status=status)
    if _bare(code) in _BLAMES_CONTENT or status == 413:
        return Refused(reason, status=status)
    return Undelivered(reason, status=status)


def of_entry(code: str, message: str, *, ours: bool = True) -> Undelivered | Refused:
    """The error for one entry of a batch that AWS did not accept; `ours` if AWS says that the sender is at fault."""
    reason = f"{code}: {message}"
    if is_throttling(code):
        return Throttled(reason)
    return Refused(reason) if ours and _bare(code) not in _PASSING else Undelivered(reason)


def is_throttling(code: str) -> bool:
    return "Throttl" in code or _bare(code) in _TOO_MANY


def _bare(code: str) -> str:
    """`AWS.SimpleQueueService.BatchRequestTooLong` is also known as `BatchRequestTooLong`."""
    return code.rpartition(".")[2]


def trace_header(fact: Fact) -> str:
    """The trace in which the event was emitted, in the format of X-Ray; empty without one."""
    born = parse(traceparent(fact))
    if born is None:
        return ""
    sampled = int(born.flags, 16) & 1
    return f"Root=1-{born.trace_id[:8]}-{born.trace_id[8:]};Parent={born.span_id};Sampled={sampled}"


def size_of(text: str) -> int:
    """The size in bytes, as it is sent."""
    return len(text) if text.isascii() else len(text.encode())


TEN = 10


class Entry(NamedTuple):
    """An event as it is put into a request."""

    place: int
    """The position in the batch of the worker."""
    size: int
    content: dict[str, Any]
    group: str = ""
    """A request never contains two entries of the same group."""


class AwsBatch(Destination):
    """Splits a batch into requests, and maps the answers back to the events."""

    batch_size = TEN
    hard_limit = 1024 * 1024

    def __init__(self, alias: str, *, largest: int) -> None:
        super().__init__(alias)
        self.largest = limited(largest, self.hard_limit)
        self.client: Any = None

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        results: list[Result] = [None] * len(batch)
        entries: list[Entry] = []
        for place, fact in enumerate(batch):
            try:
                entries.append(self._fitting(place, fact))
            except Permanent as error:
                results[place] = error
        trouble: Undelivered | None = None
        for request in in_requests(entries, self.largest):
            # If AWS cannot be reached, the rest fails too: each further request would wait for its own timeout.
            if trouble is None:
                try:
                    answers = self._send(request)
                except Undelivered as error:
                    trouble = error
            for entry, answer in zip(request, answers if trouble is None else [trouble] * len(request), strict=True):
                results[entry.place] = answer
        return results

    def close(self) -> None:
        self.client.close()

    def entry(self, place: int, fact: Fact) -> Entry:
        """The event, ready to be sent; raises `Permanent` for one that can never be sent."""
        raise NotImplementedError

    def call(self, entries: list[Entry]) -> list[Result]:
        """Send one request, and return an answer for each entry. An error of the client concerns all of them."""
        raise NotImplementedError

    def _fitting(self, place: int, fact: Fact) -> Entry:
        made = self.entry(place, fact)
        if made.size > self.largest:
            raise TooLarge(made.size, self.largest, f"Event {fact.type!r}, as it is sent to {self.alias!r},")
        return made

    def _send(self, request: list[Entry]) -> list[Result]:
        """A request that is refused because of its content is sent again event by event, so that one event does not
        fail the others."""
        try:
            return self.call(request)
        except Undelivered:
            raise
        except Exception as error:
            judged = of_call(error)
            if not isinstance(judged, Refused):
                raise judged from error
            if len(request) == 1:
                return [judged]
        return [answer for entry in request for answer in self._send([entry])]


def in_requests(entries: Sequence[Entry], largest: int) -> Iterator[list[Entry]]:
    """Split where a request would have too many entries, too many bytes, or two of a group; the order stays."""
    request: list[Entry] = []
    size = 0
    groups: set[str] = set()
    for entry in entries:
        if request and (len(request) == TEN or size + entry.size > largest or entry.group in groups):
            yield request
            request, size, groups = [], 0, set()
        request.append(entry)
        size += entry.size
        if entry.group:
            groups.add(entry.group)
    if request:
        yield request


LONGEST_TYPE = 128
_BUS = re.compile(r"(arn:aws[\w-]*:events:[a-z]+-[a-z]+-[\w-]+:[0-9]{12}:event-bus/)?[.\-_A-Za-z0-9]{1,256}")
_TIME_BYTES = 14  # AWS counts this for the time, in any format


class EventBridge(AwsBatch):
    """`source` is by default the producer of the event, or "duebox" for a public event; the detail type is its type,
    the detail its envelope.

    AWS may deliver an event more than once and in any order. `largest` is for a whole request, counted as AWS does.
    """

    hard_limit = 1_000_000

    def __init__(
        self,
        alias: str,
        *,
        bus: str = "default",
        source: str = "",
        resources: Sequence[str] = (),
        region: str | None = None,
        endpoint_url: str | None = None,
        largest: int = DEFAULT_BYTES,
        timeout: float = 10.0,
    ) -> None:
        super().__init__(alias, largest=largest)
        if not isinstance(bus, str) or not _BUS.fullmatch(bus):
            raise InvalidDestination(f"bus is {bus!r}; it must be the name or the ARN of an event bus.")
        self._bus, self._source, self._resources = bus, source, list(resources)
        self._resources_size = sum(map(size_of, self._resources))
        self.client = client("events", region=region, endpoint_url=endpoint_url, timeout=timeout)

    def check(self) -> list[Problem]:
        if self._source.startswith("aws."):
            return [(f"source is {self._source!r}.", "Choose another: AWS reserves names that begin with 'aws.'.")]
        return []

    def entry(self, place: int, fact: Fact) -> Entry:
        row = fact.row
        if len(row.type) > LONGEST_TYPE:
            raise Refused(f"{row.type!r} has {len(row.type)} characters; EventBridge allows {LONGEST_TYPE} at most.")
        source, detail = self._source or producer(row) or "duebox", envelope(fact)
        content: dict[str, Any] = {
            "EventBusName": self._bus,
            "Source": source,
            "DetailType": row.type,
            "Detail": detail,
            "Time": fact.occurred_at,
        }
        if self._resources:
            content["Resources"] = self._resources
        if trace := trace_header(fact):
            content["TraceHeader"] = trace
        size = _TIME_BYTES + size_of(source) + size_of(row.type) + size_of(detail) + self._resources_size
        return Entry(place, size, content)

    def call(self, entries: list[Entry]) -> list[Result]:
        answer = self.client.put_events(Entries=[entry.content for entry in entries])
        said = answer["Entries"]
        if len(said) != len(entries):
            raise Undelivered(f"EventBridge answered for {len(said)} of {len(entries)} events")
        return [
            of_entry(each["ErrorCode"], each.get("ErrorMessage", "")) if "ErrorCode" in each else None for each in said
        ]


FIFO = ".fifo"
_REGION_OF_URL = re.compile(r"https://(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com")
_GROUP = re.compile(r"[!-~]{1,128}")  # letters, digits and punctuation
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_TEXT = "String"


class SQS(AwsBatch):
    """The body is the envelope; consumers use the attributes to route, deduplicate and trace messages.

    On a standard queue the organization is the message group, so that a busy organization does not delay the others.
    `largest` is for a message and for all messages of a request together, counted as AWS does.
    """

    fifo = False

    def __init__(
        self,
        alias: str,
        *,
        queue_url: str,
        region: str | None = None,
        endpoint_url: str | None = None,
        largest: int = DEFAULT_BYTES,
        timeout: float = 10.0,
    ) -> None:
        super().__init__(alias, largest=largest)
        self._queue_url = self._fitting_queue(queue_url)
        region = region or _region_of(queue_url)
        self.client = client("sqs", region=region, endpoint_url=endpoint_url, timeout=timeout)

    def entry(self, place: int, fact: Fact) -> Entry:
        body = _NOT_IN_XML.sub(_escaped, envelope(fact))
        attributes = {name: _NOT_IN_XML.sub("\ufffd", value) for name, value in headers(fact).items()}
        content: dict[str, Any] = {
            "Id": str(place),
            "MessageBody": body,
            "MessageAttributes": {
                name: {"DataType": _TEXT, "StringValue": value} for name, value in attributes.items()
            },
        }
        if trace := trace_header(fact):
            content["MessageSystemAttributes"] = {"AWSTraceHeader": {"DataType": _TEXT, "StringValue": trace}}
        beside = sum(len(name) + len(_TEXT) + size_of(value) for name, value in attributes.items())
        return self._grouped(Entry(place, size_of(body) + beside, content), fact.row)

    def call(self, entries: list[Entry]) -> list[Result]:
        answer = self.client.send_message_batch(QueueUrl=self._queue_url, Entries=[each.content for each in entries])
        taken = {each["Id"] for each in answer.get("Successful", ())}
        failed = {each["Id"]: each for each in answer.get("Failed", ())}
        return [None if (name := each.content["Id"]) in taken else _failure(failed.get(name)) for each in entries]

    def _grouped(self, entry: Entry, row: FactRow) -> Entry:
        if row.organization:
            entry.content["MessageGroupId"] = as_group(row.organization)
        return entry

    def _fitting_queue(self, url: str) -> str:
        if not isinstance(url, str) or not url.startswith(("https://", "http://")):
            raise InvalidDestination(f"queue_url is {url!r}; it must be the URL of a queue, as SQS shows it.")
        if url.endswith(FIFO) != self.fifo:
            fitting = SQS if self.fifo else SQSFifo
            raise InvalidDestination(
                f"queue_url {url!r} is {'no' if self.fifo else 'a'} FIFO queue; "
                f"set BACKEND to '{fitting.__module__}.{fitting.__name__}'."
            )
        return url


class SQSFifo(SQS):
    """Ordered for each aggregate, which is the message group; SQS drops an event that is sent again within five
    minutes, by its id. An event without an aggregate has a group of its own. ORDERED preserves the order: it sends one
    event of an aggregate at a time, and the next once SQS has it.
    """

    fifo = True
    keeps_order = True
    forgets_repeats = True
    policy = DestinationPolicy(ordered=True)

    def _grouped(self, entry: Entry, row: FactRow) -> Entry:
        group = as_group(ordering_key(row) or row.id)
        entry.content.update(MessageGroupId=group, MessageDeduplicationId=row.id)
        return entry._replace(group=group)


def as_group(text: str) -> str:
    """The message group for a text: itself, or its hash if SQS would not accept it."""
    return text if _GROUP.fullmatch(text) else sha256(text.encode()).hexdigest()


def _failure(said: dict[str, Any] | None) -> Exception:
    if said is None:
        return Undelivered("SQS did not say whether it accepted the event")
    return of_entry(said["Code"], said.get("Message", ""), ours=said.get("SenderFault", True))


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _region_of(url: str) -> str | None:
    found = _REGION_OF_URL.match(url)
    return found and (found[1] or found[2])
