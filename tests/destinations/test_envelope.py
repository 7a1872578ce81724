"""What travels beside the message."""

from __future__ import annotations

import json

import pytest

from duebox.destinations.envelope import headers
from tests.destinations.conformance import a_fact

BORN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_trace_that_the_event_was_born_in():
    assert headers(a_fact(metadata=json.dumps({"traceparent": BORN})))["traceparent"] == BORN


@pytest.mark.parametrize("born", ["", "00-1-2-01", f"{BORN}\r\nHost: evil", "x" * 200_000, 7, None, [BORN]])
def test_what_is_no_trace_is_no_header(born):
    assert "traceparent" not in headers(a_fact(metadata=json.dumps({"traceparent": born})))
