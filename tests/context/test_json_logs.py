"""Log lines as JSON, for programs that collect them."""

from __future__ import annotations

import json
import logging
import re
import signal
import sys

import pytest

import duebox
from duebox.context import bound
from duebox.context.logging import CorrelationFilter, JsonFormatter
from duebox.events.outcomes import Snooze
from duebox.exceptions import Permanent
from duebox.testing import drain
from tests.cli.conftest import start  # noqa: F401 - a fixture
from tests.support import eventually

SECRET = "4111-1111-1111-1111"


def formatted(message="said", *args, level=logging.INFO, exc_info=None, **extra):
    record = logging.getLogger("shop").makeRecord("shop", level, "f.py", 1, message, args, exc_info, extra=extra)
    return json.loads(JsonFormatter().format(record))


@pytest.fixture
def lines():
    """What the formatter writes for each record of Duebox, read again."""
    written = []

    class Memory(logging.Handler):
        def emit(self, record):
            text = self.format(record)
            assert "\n" not in text
            assert SECRET not in text
            written.append(json.loads(text))

    memory = Memory()
    memory.setFormatter(JsonFormatter())
    ours, deliveries = logging.getLogger("duebox"), logging.getLogger("duebox.worker.deliveries")
    before = deliveries.level
    ours.addHandler(memory)
    deliveries.setLevel(logging.INFO)
    yield written
    ours.removeHandler(memory)
    deliveries.setLevel(before)


def test_a_line_has_time_level_logger_and_message():
    line = formatted("%s is %d", "answer", 42)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("timestamp"))
    assert line == {"level": "INFO", "logger": "shop", "message": "answer is 42"}


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")


class Array:
    """Compares each element, as the arrays of numpy do."""

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise ValueError("The truth value of an array is ambiguous")

    def __repr__(self):
        return "[1 2]"


def test_no_value_makes_a_line_get_lost():
    circle = []
    circle.append(circle)
    line = formatted(order=7, pairs={(1, 2): 3}, circle=circle, share=float("nan"), array=Array(), odd=Unprintable())
    assert (line["message"], line["order"]) == ("said", 7)
    assert (line["pairs"], line["circle"], line["share"]) == ("{(1, 2): 3}", "[[...]]", "nan")
    assert (line["array"], line["odd"]) == ("[1 2]", "<Unprintable>")


def test_what_is_given_with_extra_is_a_field_and_cannot_hide_another():
    line = formatted(order=7, level_of="x", odd={1}, logger="liar", nothing=None)
    assert (line["order"], line["level_of"], line["odd"], line["logger"]) == (7, "x", "{1}", "shop")
    assert "nothing" not in line


def test_an_exception_is_a_text_in_the_same_line():
    try:
        raise ValueError("two\nlines")
    except ValueError:
        line = formatted(exc_info=sys.exc_info())
    assert line["exception"].startswith("Traceback (most recent call last):")
    assert line["exception"].endswith("ValueError: two\nlines")


def test_the_correlation_id_is_there_with_the_filter_and_without():
    with bound(correlation_id="import-1"):
        assert formatted()["correlation_id"] == "import-1"
        record = logging.makeLogRecord({"msg": "said"})
        CorrelationFilter().filter(record)
        line = json.loads(JsonFormatter().format(record))
    assert line["correlation_id"] == "import-1"
    assert "event_id" not in line


@pytest.mark.django_db
def test_deliveries_retries_and_deaths_have_their_fields_and_never_the_payload(on, lines):
    on("order.paid", name="fine")(lambda event: None)
    on("order.paid", name="later")(lambda event: Snooze(duebox.models.Event.objects.get().occurred_at))

    @on("order.paid", name="fails")
    def fails(event):
        raise ValueError("try again")

    @on("order.paid", name="dies")
    def dies(event):
        raise Permanent("never")

    fact = duebox.emit("order.paid", {"card": SECRET}, correlation_id="abc")
    with pytest.raises(duebox.exceptions.EndlessDrain):
        drain(raises=False, limit=8)
    told = {line["subscriber"]: line for line in lines if "subscriber" in line}
    for name, outcome in (("fine", "delivered"), ("later", "snoozed"), ("fails", "retried"), ("dies", "dead")):
        line = told[name]
        assert line["outcome"] == outcome
        assert (line["event_id"], line["event_type"], line["correlation_id"]) == (str(fact.id), "order.paid", "abc")
        assert line["attempt"] == 1
        assert line["took_ms"] >= 0
    assert (told["fails"]["error_type"], told["fails"]["level"]) == ("ValueError", "WARNING")
    assert told["fails"]["retry_in"] > 0
    assert "Traceback" in told["fails"]["exception"]
    assert (told["dies"]["error_type"], told["dies"]["level"]) == ("Permanent", "ERROR")


@pytest.mark.django_db(transaction=True)
def test_one_setting_makes_the_terminal_of_a_worker_json(start):  # noqa: F811
    settings = json.dumps({"LOG_FORMAT": "json", "POLL_SECONDS": 0.2, "LEASE_SECONDS": 3})
    duebox.emit("ledger.posted", {"account": 1, "sequence": 0}, about=("account", 1))
    worker = start("duebox", "worker", DUEBOX_TEST_SETTINGS=settings, DUEBOX_TEST_LOGGING="none")
    eventually(lambda: not duebox.models.Delivery.objects.exists())
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=120)
    lines = [json.loads(line) for line in err.splitlines()]
    [started] = [line for line in lines if line["message"].startswith("started: ")]
    [stopped] = [line for line in lines if line["message"].startswith("stopped: ")]
    assert (started["mode"], started["database"]) == ("worker", "default")
    assert started["worker_run_id"] == stopped["worker_run_id"]
    assert (stopped["delivered"], stopped["dead"]) == (3, 0)
    assert 0 < stopped["seconds"] < 60
    assert sum(line.get("outcome") == "delivered" for line in lines) == 3
