"""Events in a queue of Amazon SQS: standard or FIFO."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from duebox.destinations.aws import DEFAULT_BYTES, client, of_entry, size_of, trace_header
from duebox.destinations.aws_batch import AwsBatch, Entry
from duebox.destinations.base import Result
from duebox.destinations.envelope import envelope, headers, ordering_key
from duebox.destinations.terms import Terms
from duebox.exceptions import InvalidDestination, Undelivered
from duebox.fact import Fact, FactRow

FIFO = ".fifo"
_REGION_OF_URL = re.compile(r"https://(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com")
_GROUP = re.compile(r"[!-~]{1,128}")  # letters, digits and punctuation
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_TEXT = "String"


class SQS(AwsBatch):
    """The body is the envelope, the attributes are what consumers route, drop and trace by.

    On a standard queue the organization is the message group, so that one that is busy does not delay the others.
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
    """In order for each aggregate, which is the message group; an event that comes again within five minutes is
    dropped by SQS, by its id. Events without an aggregate stand alone.

    The order is kept by ORDERED, which hands over one event of an aggregate at a time, the next once SQS has it.
    """

    fifo = True
    keeps_order = True
    forgets_repeats = True
    terms = Terms(ordered=True)

    def _grouped(self, entry: Entry, row: FactRow) -> Entry:
        group = as_group(ordering_key(row) or row.id)
        entry.content.update(MessageGroupId=group, MessageDeduplicationId=row.id)
        return entry._replace(group=group)


def as_group(text: str) -> str:
    """A message group for it: itself, or its hash where SQS would not take it."""
    return text if _GROUP.fullmatch(text) else sha256(text.encode()).hexdigest()


def _failure(said: dict[str, Any] | None) -> Exception:
    if said is None:
        return Undelivered("SQS did not say whether it took the event")
    return of_entry(said["Code"], said.get("Message", ""), ours=said.get("SenderFault", True))


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _region_of(url: str) -> str | None:
    found = _REGION_OF_URL.match(url)
    return found and (found[1] or found[2])
