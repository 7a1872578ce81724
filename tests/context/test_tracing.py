"""Traces: what an event remembers, and the new trace of its handlers that is linked to it, never a part of it."""

from __future__ import annotations

import sys

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import duebox
from duebox.context.tracing import TraceParent, parse, traceparent
from duebox.models import Event
from duebox.testing import drain
from tests.support import examples

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{SPAN}-01"


some = hypothesis_settings(max_examples=examples(200), deadline=None)


@pytest.fixture
def spans(monkeypatch):
    """The spans that ended, in a process where OpenTelemetry is set up."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # Only one provider may be set in the life of a process.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter.get_finished_spans


@pytest.fixture
def middleware(settings):
    settings.MIDDLEWARE = ["duebox.middleware.CorrelationMiddleware"]


def asked(header):
    return Client(headers={"traceparent": header}).get("/tell").json()["traceparent"]


def hexadecimal(length, *, least=1):
    return st.integers(least, 16**length - 1).map(lambda number: f"{number:0{length}x}")


@some
@given(hexadecimal(32), hexadecimal(16), hexadecimal(2, least=0))
def test_a_valid_traceparent_is_read_and_written_the_same(trace_id, span_id, flags):
    text = f"00-{trace_id}-{span_id}-{flags}"
    assert parse(text) == TraceParent(trace_id, span_id, flags)
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", None, 1, GIVEN.encode(),
        GIVEN + "\n", " " + GIVEN, GIVEN + "-00", GIVEN[:-1], GIVEN + "0",
        f"{GIVEN},{GIVEN}",
        f"01-{TRACE}-{SPAN}-01", f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01", f"00-{TRACE}-{SPAN}-0G",
        f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
        f"00_{TRACE}_{SPAN}_01", f"00-{TRACE[:-1]}\u0663-{SPAN}-01",
    ],
)  # fmt: skip
def test_everything_else_is_no_traceparent(text):
    assert parse(text) is None


@some
@given(st.text(max_size=60) | st.from_regex(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\s?", fullmatch=True))
def test_what_is_read_is_always_what_was_written(text):
    read = parse(text)
    assert read is None or str(read) == text


def test_the_traceparent_of_a_request_is_ignored_unless_it_is_trusted(middleware, settings):
    assert asked(GIVEN) == ""
    settings.DUEBOX = {"TRUST_TRACEPARENT": True}
    assert asked(GIVEN) == GIVEN


@pytest.mark.parametrize("given", ["", "garbage", f"{GIVEN},{GIVEN}", GIVEN + "\n", "0" * 16_384])
def test_a_bad_one_is_ignored_also_when_it_is_trusted(middleware, settings, given):
    settings.DUEBOX = {"TRUST_TRACEPARENT": True}
    assert asked(given) == ""


def test_the_open_span_goes_before_what_the_client_says(middleware, settings, spans):
    settings.DUEBOX = {"TRUST_TRACEPARENT": True}
    with trace.get_tracer("server").start_as_current_span("GET /tell") as span:
        seen = parse(asked(GIVEN))
    assert int(seen.trace_id, 16) == span.get_span_context().trace_id
    assert int(seen.span_id, 16) == span.get_span_context().span_id


@pytest.mark.django_db
def test_an_event_of_a_request_remembers_its_trace(middleware, settings):
    settings.DUEBOX = {"TRUST_TRACEPARENT": True, "UNDECLARED": "allow"}
    Client(headers={"traceparent": GIVEN}).get("/open")
    assert Event.objects.get().metadata == {"traceparent": GIVEN}


def handled(on, handler=lambda event: None, **options):
    on("order.paid", name="it", **options)(handler)
    fact = duebox.emit("order.paid", correlation_id="abc", metadata={"traceparent": GIVEN})
    drain(raises=False)
    return fact


@pytest.mark.django_db
@pytest.mark.parametrize("atomic", [True, False])
def test_a_handler_runs_in_a_new_trace_that_is_linked_to_the_old_one(on, spans, atomic):
    fact = handled(on, atomic=atomic)
    [span] = spans()
    assert (span.name, span.kind, span.parent) == ("process order.paid", SpanKind.CONSUMER, None)
    assert f"{span.context.trace_id:032x}" != TRACE
    [link] = span.links
    assert f"{link.context.trace_id:032x}-{link.context.span_id:016x}" == f"{TRACE}-{SPAN}"
    assert link.context.is_remote
    assert span.attributes == {
        "messaging.system": "duebox",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "order.paid",
        "messaging.consumer.group.name": "it",
        "messaging.message.id": str(fact.id),
        "messaging.message.conversation_id": "abc",
        "duebox.attempt": 1,
    }


@pytest.mark.django_db
def test_it_is_a_new_trace_also_inside_of_another_span(on, spans):
    with trace.get_tracer("server").start_as_current_span("GET /"):
        handled(on)
    [span] = [span for span in spans() if span.name.startswith("process")]
    assert span.parent is None


@pytest.mark.django_db
@pytest.mark.parametrize("metadata", [{}, {"traceparent": "garbage"}, {"traceparent": 1}, {"traceparent": None}])
def test_an_event_without_a_trace_has_no_link(on, spans, metadata):
    on("order.paid", name="it")(lambda event: None)
    duebox.emit("order.paid", metadata=metadata)
    drain()
    [span] = spans()
    assert span.links == ()


@pytest.mark.django_db
def test_the_span_of_a_handler_that_fails_says_so(on, spans):
    def handler(event):
        raise ValueError("no")

    handled(on, handler)
    [span] = spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.events[0].attributes["exception.type"] == "ValueError"


@pytest.mark.django_db
@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_handler_does_is_part_of_its_trace(on, spans, is_async):
    def work(event):
        with trace.get_tracer("mail").start_as_current_span("send"):
            pass

    async def awork(event):
        work(event)

    handled(on, awork if is_async else work)
    inner, outer = spans()
    assert inner.parent.span_id == outer.context.span_id


@pytest.mark.django_db
def test_an_event_emitted_by_a_handler_belongs_to_the_trace_of_the_handler(on, spans):
    seen = []
    handled(on, lambda event: seen.append(traceparent()))
    [span] = spans()
    assert [parse(text)[:2] for text in seen] == [(f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}")]


@pytest.mark.django_db
@pytest.mark.parametrize("without", ["a provider", "OpenTelemetry"])
def test_where_nobody_traces_the_handler_just_runs_and_the_trace_is_passed_on(on, monkeypatch, without):
    if without == "OpenTelemetry":
        monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    seen = []
    handled(on, lambda event: seen.append(traceparent()))
    assert seen == [GIVEN]
    assert traceparent() == ""
