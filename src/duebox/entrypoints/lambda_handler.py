"""Duebox as an AWS Lambda function: `duebox.entrypoints.lambda_handler.handler`.

Whatever invokes it, it delivers what is due, until nothing is or its time is nearly over: a schedule, the ping of a
database trigger (`duebox sql trigger`), or a queue with events that came back, which are first taken back.
Django is set up with the module: while a function starts, Lambda gives it a whole CPU.
"""

from __future__ import annotations

from typing import Any, Protocol

import django
from django.apps import apps

if not apps.ready:
    django.setup()

# What follows needs Django.
from duebox.entrypoints.in_time import deliver_in_time
from duebox.entrypoints.take_back import take_back


class Context(Protocol):
    """What Lambda says about this invocation."""

    def get_remaining_time_in_millis(self) -> int: ...


def handler(event: Any, context: Context) -> dict[str, Any]:
    """How many deliveries ended in which way; for a queue also which messages it must keep."""
    records = (event.get("Records") or ()) if isinstance(event, dict) else ()
    # One without an id cannot be named; to Lambda an empty name means that the queue keeps all of them.
    came_back = [{"messageId": "", **each} for each in records if each and each.get("eventSource") == "aws:sqs"]
    kept = take_back(came_back)
    result: dict[str, Any] = dict(deliver_in_time(context.get_remaining_time_in_millis() / 1000))
    if came_back:
        result["batchItemFailures"] = [{"itemIdentifier": name} for name in kept]
    return result
