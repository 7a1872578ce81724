"""Patterns chosen one by one get the answers that AWS's own engine gave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duebox.destinations.event_pattern import compile
from tests.vectors import eventbridge_patterns

FILE = json.loads((Path(__file__).parent / "handpicked.json").read_text())


@pytest.mark.parametrize("case", FILE["cases"], ids=lambda case: case["id"])
def test_the_answer_is_that_of_the_engine(case):
    assert eventbridge_patterns.failure({"event": FILE["event"], **case}) is None


def test_what_is_remembered_of_events_stays_small():
    pattern = compile({"x": [{"cidr": "10.0.0.0/8"}, "::1"]})
    assert not pattern.matches({"x": "1" * 1_000_000})
    assert not pattern.matches({"x": ":" * 1_000_000})
    assert pattern.matches({"x": "0000:0000:0000:0000:0000:0000:0000:0001"})
