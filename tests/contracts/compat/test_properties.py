"""Breaks are real, and none is overlooked that a small event shows."""

from __future__ import annotations

from hypothesis import given, settings

from duebox.contracts.compat import compare
from duebox.contracts.json_schema import closed
from duebox.contracts.validation import compiled
from tests.contracts.compat.small_schemas import EVENTS, pairs, schemas

# The same examples each time: the search is bounded, so one schema in some ten thousand may outwit it.
fixed = settings(derandomize=True, deadline=None, max_examples=60)


def both_ways(old, new):
    verdict = compare(old, new)
    return ((old, new, verdict.backward), (new, old, verdict.forward))


@fixed
@given(pairs())
def test_every_witness_may_be_sent_and_is_refused_and_no_break_is_overlooked_that_a_small_event_shows(pair):
    for writer, reader, breaks in both_ways(*pair):
        may_send, takes = compiled(closed(writer)), compiled(reader)
        for each in breaks:
            assert may_send.is_valid(each.witness)
            assert not takes.is_valid(each.witness)
        if not breaks:
            assert [each for each in EVENTS if may_send.is_valid(each) and not takes.is_valid(each)] == []


@fixed
@given(schemas)
def test_a_schema_breaks_nobody_by_moving_behind_a_reference(schema):
    verdict = compare(schema, {"$ref": "#/$defs/it", "$defs": {"it": schema}})
    assert verdict.additive_only
    assert verdict.warnings == ()
