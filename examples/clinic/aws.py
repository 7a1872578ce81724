"""EventBridge and SQS on a local AWS server, which the package moto has. Nothing of it leaves this machine.

Events of appointments go to an event bus, whose rule passes them on to a queue, and to a FIFO queue directly.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings

REGION = "eu-central-1"
BUS, BEHIND_BUS, QUEUE = "clinic", "clinic-behind-the-bus", "clinic-appointments.fifo"
# Nobody checks them, but a client does not sign without.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "demo"}
# moto has one account.
ACCOUNT = "123456789012"
KEPT = 30


def destinations(address: str) -> dict[str, Any]:
    """For DUEBOX['DESTINATIONS']."""
    where = {"region": REGION, "endpoint_url": address, "timeout": 5.0}
    return {
        "bus": {"BACKEND": "duebox.destinations.aws.EventBridge", "OPTIONS": {"bus": BUS, **where}},
        "queue": {
            "BACKEND": "duebox.destinations.aws.SQSFifo",
            "OPTIONS": {"queue_url": _queue_url(address, QUEUE), **where},
        },
    }


ROUTES = [{"match": "appointment.*", "to": ["bus", "queue"]}]


def create(address: str) -> None:
    """The bus, its rule, and the queues."""
    sqs, events = _client("sqs", address), _client("events", address)
    sqs.create_queue(QueueName=QUEUE, Attributes={"FifoQueue": "true"})
    sqs.create_queue(QueueName=BEHIND_BUS)
    events.create_event_bus(Name=BUS)
    pattern = {"source": ["clinic"], "detail-type": [{"prefix": "appointment."}]}
    events.put_rule(Name="appointments", EventBusName=BUS, EventPattern=json.dumps(pattern))
    target = {"Id": "queue", "Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{BEHIND_BUS}"}
    events.put_targets(Rule="appointments", EventBusName=BUS, Targets=[target])


@dataclass(frozen=True, slots=True)
class Message:
    event_type: str
    event_id: str
    beside: dict[str, str]
    """What the service adds to the envelope."""
    body: str


class Consumer:
    """Takes messages from the queues whenever somebody looks, and remembers the last ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, deque[Message]] = {name: deque(maxlen=KEPT) for name in (BEHIND_BUS, QUEUE)}

    def from_bus(self) -> list[Message]:
        return self._latest(BEHIND_BUS)

    def from_queue(self) -> list[Message]:
        return self._latest(QUEUE)

    def _latest(self, name: str) -> list[Message]:
        """The newest first."""
        with self._lock:
            while found := _take(name):
                self._seen[name].extendleft(map(_read, found))
            return list(self._seen[name])


def _take(name: str) -> list[dict[str, Any]]:
    sqs, url = _client("sqs", settings.AWS_ADDRESS), _queue_url(settings.AWS_ADDRESS, name)
    asked = {"MaxNumberOfMessages": 10, "AttributeNames": ["All"]}
    found: list[dict[str, Any]] = sqs.receive_message(QueueUrl=url, **asked).get("Messages", [])
    done = [{"Id": str(place), "ReceiptHandle": each["ReceiptHandle"]} for place, each in enumerate(found)]
    if done:
        sqs.delete_message_batch(QueueUrl=url, Entries=done)
    return found


def _read(message: dict[str, Any]) -> Message:
    """EventBridge wraps the envelope; a FIFO queue has attributes beside it."""
    body = json.loads(message["Body"])
    envelope = body.get("detail", body)
    if envelope is body:
        names = ("MessageGroupId", "MessageDeduplicationId")
        beside = {name: message["Attributes"][name] for name in names}
    else:
        beside = {name: str(body[name]) for name in ("source", "detail-type", "time")}
    return Message(envelope["event_type"], envelope["event_id"], beside, json.dumps(body, indent=2, ensure_ascii=False))


def _queue_url(address: str, name: str) -> str:
    return f"{address}/{ACCOUNT}/{name}"


@cache
def _client(service: str, address: str) -> Any:
    import boto3

    session = boto3.Session(
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )
    return session.client(service, region_name=REGION, endpoint_url=address)


consumer = Consumer()
