"""Duebox as an AWS Lambda function: `duebox.integrations.lambda_handler.handler`.

Each invocation delivers until nothing is due or its time is nearly over. It may be invoked by a schedule, by a database
trigger (`duebox sql trigger`), or by a queue with returned events, which are made due again first. Django is set up at
import: while a function starts, Lambda gives it a whole CPU.
"""

from __future__ import annotations

from typing import Any, Protocol

import django
from django.apps import apps

__all__ = ["handler"]

if not apps.ready:
    django.setup()

# The following imports need Django.
from duebox.integrations.redeliver import take_back
from duebox.worker.supervisor import deliver_in_time


class Context(Protocol):
    """The context that Lambda passes to an invocation."""

    def get_remaining_time_in_millis(self) -> int: ...


def handler(event: Any, context: Context) -> dict[str, Any]:
    """The number of deliveries by outcome; for a queue also the messages that it must keep."""
    records = (event.get("Records") or ()) if isinstance(event, dict) else ()
    # For Lambda an empty id means that the queue keeps all messages.
    came_back = [{"messageId": "", **each} for each in records if each and each.get("eventSource") == "aws:sqs"]
    kept = take_back(came_back)
    result: dict[str, Any] = dict(deliver_in_time(context.get_remaining_time_in_millis() / 1000))
    if came_back:
        result["batchItemFailures"] = [{"itemIdentifier": name} for name in kept]
    return result
