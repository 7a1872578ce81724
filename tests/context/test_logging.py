"""Which story a log line belongs to: in a request, in a script, in a handler; in stdlib logging and in structlog."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from django.core.handlers.asgi import ASGIHandler
from django.test import Client

import duebox
from duebox.context import bound
from duebox.context.logging import CorrelationFilter, is_watched
from duebox.testing import drain
from tests.servers import ask_asgi

ROOT = Path(__file__).parents[2]
HEADER = "X-Correlation-ID"
logger = logging.getLogger("tests.logs")


@pytest.fixture
def lines():
    """What a handler with the filter writes, one text per record of any logger."""
    written = []

    class Memory(logging.Handler):
        def emit(self, record):
            written.append(self.format(record))

    memory = Memory()
    memory.setFormatter(logging.Formatter("%(message)s [%(correlation_id)s|%(event_id)s|%(causation_id)s]"))
    memory.addFilter(CorrelationFilter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(memory)
    root.setLevel(logging.INFO)
    yield written
    root.removeHandler(memory)
    root.setLevel(before)


@pytest.fixture
def structured():
    """What structlog writes, one dict per line."""
    capture = structlog.testing.LogCapture()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    yield capture.entries
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture
def middleware(settings):
    settings.MIDDLEWARE = ["duebox.middleware.CorrelationMiddleware"]


def test_a_line_that_belongs_to_nothing_has_empty_fields(lines):
    logger.info("alone")
    assert lines == ["alone [||]"]


def test_lines_of_a_request_carry_its_id(middleware, lines):
    Client(headers={HEADER: "abc"}).get("/tell?name=one")
    logger.info("after")
    assert lines == ["told by one [abc||]", "after [||]"]


def test_the_line_about_a_refused_id_is_one_line_also_when_it_is_formatted(middleware, lines):
    Client().get("/tell", HTTP_X_CORRELATION_ID="abc\nERROR forged")
    refused = [line for line in lines if "refused" in line]
    assert len(refused) == 1
    assert refused[0].isprintable()


def test_lines_of_requests_at_the_same_time_do_not_mix(middleware, lines):
    async def all_of_them():
        handler = ASGIHandler()
        await asyncio.gather(
            *(
                ask_asgi(handler, f"/{'a' * (n % 2)}tell?name=n{n}", (HEADER.encode(), f"n{n}".encode()))
                for n in range(40)
            )
        )

    asyncio.run(all_of_them())
    assert sorted(lines) == sorted(f"told by n{n} [n{n}||]" for n in range(40))


def test_lines_of_a_script_carry_what_it_bound(lines):
    with bound(correlation_id="import-1"):
        logger.info("inside")
    assert lines == ["inside [import-1||]"]


def test_what_a_line_says_itself_stays(lines):
    with bound(correlation_id="import-1"):
        logger.info("inside", extra={"correlation_id": "mine"})
    assert lines == ["inside [mine||]"]


@pytest.mark.django_db
@pytest.mark.parametrize("is_async", [True, False])
def test_lines_of_a_handler_carry_the_event_and_what_caused_it(on, lines, is_async):
    @on("order.paid", name="first")
    def first(event):
        logger.info("first")
        duebox.emit("receipt.written")

    def second(event):
        logger.info("second")

    async def asecond(event):
        logger.info("second")

    on("receipt.written", name="second")(asecond if is_async else second)
    paid = duebox.emit("order.paid", correlation_id="abc")
    drain()
    written = duebox.models.Event.objects.get(type="receipt.written")
    assert [line for line in lines if "[abc" in line] == [
        f"first [abc|{paid.id}|]",
        f"second [abc|{written.id}|{paid.id}]",
    ]


@pytest.mark.django_db
def test_a_handler_belongs_to_its_event_and_not_to_the_request_that_runs_it(on, lines):
    on("order.paid", name="it")(lambda event: logger.info("handled"))
    duebox.emit("order.paid", correlation_id="earlier")
    with bound(correlation_id="now"):
        drain()
        logger.info("drained")
    assert [line.partition("|")[0] for line in lines] == ["handled [earlier", "drained [now"]


def test_structlog_carries_the_id_of_a_request_and_forgets_it(middleware, structured, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.context.test_logging.say_it_with_structlog"]
    Client(headers={HEADER: "abc"}).get("/tell")
    structlog.get_logger().info("after")
    assert structured == [
        {"event": "inside", "log_level": "info", "correlation_id": "abc"},
        {"event": "after", "log_level": "info"},
    ]


def say_it_with_structlog(get_response):
    def answer(request):
        structlog.get_logger().info("inside")
        return get_response(request)

    return answer


def test_what_was_bound_to_structlog_before_comes_back(structured):
    structlog.contextvars.bind_contextvars(correlation_id="mine", other=1)
    with bound(correlation_id="abc"):
        structlog.get_logger().info("inside")
    structlog.get_logger().info("after")
    assert [(line["correlation_id"], line["other"]) for line in structured] == [("abc", 1), ("mine", 1)]


@pytest.mark.django_db
@pytest.mark.parametrize("fails", [True, False])
def test_structlog_carries_the_event_in_a_handler_and_forgets_it(on, structured, fails):
    @on("order.paid", name="it")
    def handle(event):
        structlog.get_logger().info("inside")
        if fails:
            raise ValueError

    fact = duebox.emit("order.paid", correlation_id="abc", causation_id="018f0000-0000-7000-8000-000000000000")
    drain(raises=False)
    structlog.get_logger().info("after")
    inside = {
        "event": "inside",
        "log_level": "info",
        "correlation_id": "abc",
        "event_id": str(fact.id),
        "causation_id": "018f0000-0000-7000-8000-000000000000",
    }
    assert structured == [inside, {"event": "after", "log_level": "info"}]


def test_nobody_watches_where_neither_library_is_loaded(monkeypatch):
    assert is_watched()
    monkeypatch.delitem(sys.modules, "structlog.contextvars")
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    assert not is_watched()


def python(code):
    environment = {**os.environ, "PYTHONPATH": "src:.", "DJANGO_SETTINGS_MODULE": "tests.settings"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )


def test_the_filter_can_stand_in_the_settings_which_are_read_before_the_apps():
    done = python("""
from django.conf import settings
import tests.settings as project, django, logging, sys
project.LOGGING = {
    "version": 1,
    "filters": {"correlation": {"()": "duebox.context.logging.CorrelationFilter"}},
    "formatters": {"line": {"format": "%(levelname)s [%(correlation_id)s] %(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["correlation"]}},
    "root": {"handlers": ["out"], "level": "INFO"},
}
django.setup()
from duebox.context import bound
with bound(correlation_id="abc"):
    logging.getLogger("anybody").info("said")
loaded = {"structlog", "opentelemetry"} & set(sys.modules)
assert not loaded, loaded
""")
    assert (done.returncode, done.stderr) == (0, "INFO [abc] said\n")
