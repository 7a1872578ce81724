"""What goes around a handler when somebody listens: the context of structlog, a span of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable
from sys import modules
from typing import Any

from duebox.fact import Fact
from duebox.logs import in_structlog, story_of
from duebox.tracing import handling_span


def is_watched() -> bool:
    """Whether a library is loaded that wants to know. Asked for every event, so it is two looks into a dict."""
    return "structlog.contextvars" in modules or "opentelemetry.trace" in modules


def watched(handler: Callable[..., Any], fact: Fact, subscriber: str, *data: Any) -> Any:
    with in_structlog(**story_of(fact)), handling_span(fact, subscriber):
        return handler(fact, *data)
