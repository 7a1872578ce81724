"""Log records as JSON, and log records and structlog context with the correlation id of the current event, request or
job.

The filter reads the context when a line is written, so it costs nothing otherwise. If structlog is loaded, its context
is filled too while the request, job or handler runs.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from sys import modules
from typing import Any

from duebox.context.current import correlation_id, handling
from duebox.context.tracing import handling_span
from duebox.events.fact import Fact

__all__ = ["CorrelationFilter", "JsonFormatter"]


class CorrelationFilter(logging.Filter):
    """Adds `correlation_id`, `event_id` and `causation_id` to every record; empty where there is none.

    Put it on the handlers of `LOGGING`, so that it sees the records of all loggers. Values from `extra=` are not
    replaced.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        current = handling.get()
        about_event = log_fields_of(current.fact) if current else {}
        own = vars(record)
        own.setdefault("correlation_id", correlation_id())
        own.setdefault("event_id", about_event.get("event_id", ""))
        own.setdefault("causation_id", about_event.get("causation_id", ""))
        return True


_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "color_message"}
"""The attributes of every record; any other attribute comes from `extra=`."""


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `timestamp` in UTC, `level`, `logger`, `message`, the values of `extra=`, and the
    traceback as `exception`.

    Without `CorrelationFilter` it finds the correlation id and the event by itself. Fields without a value are left
    out.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "timestamp": moment.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        current = handling.get()
        known = log_fields_of(current.fact) if current else {"correlation_id": correlation_id()}
        given = {name: value for name, value in vars(record).items() if name not in _STANDARD and name not in line}
        line.update({name: value for name, value in {**known, **given}.items() if not _is_empty(value)})
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return _dumped(line)


def _is_empty(value: object) -> bool:
    """Not with `==`, which compares the elements if the value is an array."""
    return value is None or (isinstance(value, str) and not value)


def _dumped(line: dict[str, Any]) -> str:
    """A field that cannot be written as JSON is written as text: the line must not be lost."""
    try:
        return json.dumps(line, default=str, allow_nan=False)
    except Exception:
        return json.dumps({name: _plain(value) for name, value in line.items()})


def _plain(value: object) -> object:
    try:
        return json.loads(json.dumps(value, default=str, allow_nan=False))
    except Exception:
        try:
            return str(value)
        except Exception:
            return f"<{type(value).__name__}>"


def log_fields_of(fact: Fact) -> dict[str, str]:
    """The values for log lines from the event that is being handled."""
    values = {"correlation_id": fact.correlation_id, "event_id": str(fact.id)}
    return values if fact.causation_id is None else {**values, "causation_id": str(fact.causation_id)}


@contextmanager
def in_structlog(**values: str) -> Iterator[None]:
    """Bind these values to the context of structlog, if this process uses it."""
    contextvars = sys.modules.get("structlog.contextvars")
    if contextvars is None:
        yield
        return
    tokens = contextvars.bind_contextvars(**values)
    try:
        yield
    finally:
        contextvars.reset_contextvars(**tokens)


def is_watched() -> bool:
    """Whether structlog or OpenTelemetry is loaded. Called for every event, so it is only two dict lookups."""
    return "structlog.contextvars" in modules or "opentelemetry.trace" in modules


def watched(handler: Callable[..., Any], fact: Fact, subscriber: str, *data: Any) -> Any:
    with in_structlog(**log_fields_of(fact)), handling_span(fact, subscriber):
        return handler(fact, *data)
