from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from duebox import Fact
from duebox.events.fact import Actor, FactRow

ID = "01920000-0000-7000-8000-000000000001"
ROW = FactRow(
    id=ID,
    type="member.invited",
    version=2,
    occurred=1_790_000_000.25,
    aggregate_type="member",
    aggregate_id="42",
    organization="7",
    correlation="abc",
    causation=ID,
    actor='{"id": "9", "type": "user"}',
    producer="clinic",
    key="invite:1",
    data='{"role":"admin"}',
    metadata='{"ip":"::1"}',
)


def test_a_fact_shows_every_field_in_its_own_type():
    fact = Fact(ROW, attempt=3)
    assert fact.id == UUID(ID)
    assert (fact.type, fact.version, fact.about) == ("member.invited", 2, ("member", "42"))
    assert fact.occurred_at == datetime(2026, 9, 21, 14, 13, 20, 250_000, tzinfo=UTC)
    assert (fact.organization, fact.correlation_id, fact.causation_id) == ("7", "abc", UUID(ID))
    assert (fact.actor, fact.producer, fact.idempotency_key) == (Actor("user", "9"), "clinic", "invite:1")
    assert (fact.data, fact.metadata) == ({"role": "admin"}, {"ip": "::1"})
    assert (fact.attempt, fact.created) == (3, True)


def test_what_was_not_given_is_none():
    fact = Fact(ROW._replace(aggregate_type="", aggregate_id="", organization="", causation=None, actor=None, key=None))
    assert (fact.about, fact.organization, fact.causation_id, fact.actor, fact.idempotency_key) == (None,) * 5


def test_two_facts_are_equal_when_they_are_the_same_event():
    other = Fact(ROW._replace(id=ID[:-1] + "2"))
    assert Fact(ROW) == Fact(ROW, attempt=2)
    assert len({Fact(ROW), Fact(ROW), other}) == 2
    assert Fact(ROW) != ID


def test_the_envelope_cannot_be_changed():
    with pytest.raises(AttributeError):
        Fact(ROW).type = "member.removed"


def test_the_representation_names_type_version_aggregate_and_id():
    assert repr(Fact(ROW)) == f"<member.invited v2 about member:42 {ID}>"
    assert repr(Fact(ROW._replace(aggregate_type=""))) == f"<member.invited v2 {ID}>"
