"""Logs that tell which story they belong to.

The filter looks when a line is written, so it costs nothing when none is. Where structlog is loaded, its own
context is filled too, for as long as the request, the job or the handler runs.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from duebox.context import correlation_id, handling
from duebox.fact import Fact


class CorrelationFilter(logging.Filter):
    """Adds `correlation_id`, `event_id` and `causation_id` to every record; empty where there is none.

    Put it on the handlers of `LOGGING`, so that the records of all loggers pass it. What a line says itself with
    `extra=` stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        current = handling.get()
        about_event = story_of(current.fact) if current else {}
        own = vars(record)
        own.setdefault("correlation_id", correlation_id())
        own.setdefault("event_id", about_event.get("event_id", ""))
        own.setdefault("causation_id", about_event.get("causation_id", ""))
        return True


def story_of(fact: Fact) -> dict[str, str]:
    """What a log line should know of the event that is being handled."""
    story = {"correlation_id": fact.correlation_id, "event_id": str(fact.id)}
    return story if fact.causation_id is None else {**story, "causation_id": str(fact.causation_id)}


@contextmanager
def in_structlog(**values: str) -> Iterator[None]:
    """These values in every line of structlog, if this process uses it."""
    contextvars = sys.modules.get("structlog.contextvars")
    if contextvars is None:
        yield
        return
    tokens = contextvars.bind_contextvars(**values)
    try:
        yield
    finally:
        contextvars.reset_contextvars(**tokens)
