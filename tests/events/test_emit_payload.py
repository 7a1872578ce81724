"""What goes in through emit comes out in the handler, and stays as it was."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from django.db import DatabaseError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duebox
from duebox.models import Attempt, Delivery, Event
from duebox.testing import drain
from tests.support import examples

pytestmark = pytest.mark.django_db

text = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=30)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(text, values, max_size=5), min_size=1, max_size=3))
def test_any_payload_that_json_can_carry_reaches_the_handler_as_it_was(payloads):
    seen = []
    duebox.on("round.trip", name="round.trip", atomic=False)(lambda event: seen.append(event.data))
    try:
        duebox.emit_many(duebox.NewEvent(type="round.trip", data=data) for data in payloads)
        drain()
    finally:
        duebox.events.subscribers.remove("round.trip")
    assert seen == payloads


def test_everyday_types_reach_the_handler_as_text(on):
    seen = []
    on("member.invited", name="it")(lambda event: seen.append(event.data))
    identity = UUID("01920000-0000-7000-8000-000000000001")
    duebox.emit(
        "member.invited",
        {"id": identity, "price": Decimal("1.10"), "at": datetime(2026, 1, 1, tzinfo=UTC), "on": date(2026, 1, 2)},
    )
    drain()
    assert seen == [{"id": str(identity), "price": "1.10", "at": "2026-01-01T00:00:00+00:00", "on": "2026-01-02"}]


@pytest.mark.parametrize("count", [1, 2])
def test_any_printable_text_in_the_envelope_is_stored_as_it_was(on, count):
    nasty = "a\"b\\c{d,e} NULL 'f' %s $1 ünï — 🎂"
    on("member.invited", name="it", ordered=True)(lambda event: None)
    options = {"about": ("member", nasty), "organization": nasty, "actor": nasty, "correlation_id": nasty}
    facts = duebox.emit_many(
        duebox.NewEvent(
            type="member.invited",
            idempotency_key=f"{nasty}{number}",
            data={nasty: nasty},
            metadata={nasty: nasty},
            **options,
        )
        for number in range(count)
    )
    for number, event in enumerate(Event.objects.order_by("id")):
        assert (event.aggregate_id, event.organization, event.actor["id"], event.correlation_id) == (nasty,) * 4
        assert (event.data, event.metadata) == ({nasty: nasty}, {nasty: nasty})
        assert event.idempotency_key == f"{nasty}{number}" == facts[number].idempotency_key
    assert set(Delivery.objects.values_list("stream", flat=True)) == {f"member:{nasty}"}


def test_a_payload_just_under_the_limit_arrives_whole(on):
    seen = []
    on("member.invited", name="it")(lambda event: seen.append(event.data["a"]))
    duebox.emit("member.invited", {"a": "x" * (256 * 1024 - 8)})
    drain()
    assert len(seen[0]) == 256 * 1024 - 8


@pytest.mark.parametrize("row", [Event, Attempt])
def test_events_and_history_cannot_be_updated(on, row):
    on("member.invited", name="it")(lambda event: None)
    duebox.emit("member.invited")
    drain()
    field = "type" if row is Event else "note"
    with pytest.raises(DatabaseError, match="is append-only; emit a new event"), transaction.atomic():
        row.objects.update(**{field: "changed"})
    assert not row.objects.filter(**{field: "changed"}).exists()
