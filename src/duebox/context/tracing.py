"""Traces: an event stores the trace parent of its emit, and its handlers start new traces that are linked to it.

A handler may run a week after the request. As a child of the request's span it would keep that trace open for a week
and break the sampling of whole traces, so it is never a child. Without OpenTelemetry only the trace parent is stored.
"""

from __future__ import annotations

import re
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from duebox.context.current import handling, origin
from duebox.events.fact import Fact

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Tracer, TracerProvider

KEY = "traceparent"
"""The key in the metadata of an event."""

_LENGTH = 55
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class TraceParent(NamedTuple):
    """The W3C header of that name, version 00."""

    trace_id: str
    span_id: str
    flags: str

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def parse(text: object) -> TraceParent | None:
    """None for everything that is not exactly one valid traceparent of version 00."""
    if not isinstance(text, str) or len(text) != _LENGTH:
        return None
    found = _TRACEPARENT.fullmatch(text)
    if not found or not int(found[1], 16) or not int(found[2], 16):
        return None
    return TraceParent(found[1], found[2], found[3])


def traceparent() -> str:
    """The trace parent of an event that is emitted now: the open span, otherwise the trace of the event that is being
    handled, otherwise that of the request; None without tracing."""
    if span := of_open_span():
        return span
    if current := handling.get():
        return str(parse(current.fact.metadata.get(KEY)) or "")
    here = origin.get()
    return here.traceparent if here else ""


def of_open_span() -> str:
    if "opentelemetry.trace" not in sys.modules:
        return ""
    from opentelemetry import trace

    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return ""
    return str(TraceParent(f"{span.trace_id:032x}", f"{span.span_id:016x}", f"{span.trace_flags:02x}"))


def handling_span(fact: Fact, subscriber: str) -> AbstractContextManager[object]:
    """A root span around a handler, linked to the trace in which its event was emitted, if this process traces."""
    tracer = _tracer()
    if tracer is None:
        return nullcontext()
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind

    return tracer.start_as_current_span(
        f"process {fact.type}",
        context=Context(),  # empty, so it has no parent, also when it runs inside of a request
        kind=SpanKind.CONSUMER,
        links=_links(fact),
        attributes=_attributes(fact, subscriber),
    )


def _attributes(fact: Fact, subscriber: str) -> dict[str, str | int]:
    """The names are those of OpenTelemetry's conventions for messaging, which may still change."""
    return {
        "messaging.system": "duebox",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": fact.type,
        "messaging.consumer.group.name": subscriber,
        "messaging.message.id": str(fact.id),
        "messaging.message.conversation_id": fact.correlation_id,
        "duebox.attempt": fact.attempt,
    }


def _links(fact: Fact) -> list[Link]:
    from opentelemetry.trace import Link, SpanContext, TraceFlags

    born = parse(fact.metadata.get(KEY))
    if born is None:
        return []
    flags = TraceFlags(int(born.flags, 16))
    return [Link(SpanContext(int(born.trace_id, 16), int(born.span_id, 16), is_remote=True, trace_flags=flags))]


def _tracer() -> Tracer | None:
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    # The proxy means that no provider is set; its spans would be dropped.
    return None if isinstance(provider, trace.ProxyTracerProvider) else _tracer_of(provider)


@lru_cache(maxsize=1)
def _tracer_of(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("duebox")
