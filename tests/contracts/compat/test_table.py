"""Every row of the table of changes in docs/howto/schema-checks.md, in both directions."""

from __future__ import annotations

import jsonschema
import pytest

from duebox.contracts.compat import compare
from duebox.contracts.json_schema import closed
from tests.contracts.compat.pairs import PAIRS


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_change_is_judged_in_both_directions_and_as_an_addition(pair):
    verdict = compare(pair.old, pair.new)
    found = (verdict.backward_compatible, verdict.forward_compatible, verdict.additive_only)
    assert found == pair.right, verdict


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_witness_may_be_sent_and_is_refused_by_another_validator_too(pair):
    verdict = compare(pair.old, pair.new)
    for writer, reader, breaks in ((pair.old, pair.new, verdict.backward), (pair.new, pair.old, verdict.forward)):
        for each in breaks:
            assert jsonschema.Draft202012Validator(closed(writer)).is_valid(each.witness)
            assert not jsonschema.Draft202012Validator(reader).is_valid(each.witness)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_schema_may_stay_what_it_is(pair):
    for schema in (pair.old, pair.new):
        verdict = compare(schema, schema)
        assert verdict.additive_only
        assert verdict.warnings == ()
