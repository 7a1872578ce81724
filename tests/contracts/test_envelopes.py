"""The schema of the whole envelope, held against events as they are sent."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

import duebox
from duebox.contracts import event_types, schema_files
from duebox.contracts.compat import compare
from duebox.contracts.enforce import with_public_events
from duebox.contracts.examples import example
from duebox.contracts.json_schema import closed
from duebox.contracts.validation import compiled
from duebox.destinations.envelope import envelope_of
from duebox.models import Event
from tests.destinations.conformance import a_fact

INTERNAL_FIELDS = [
    "aggregate_type", "aggregate_id", "organization_id", "correlation_id", "causation_id", "actor", "producer",
]  # fmt: skip


@pytest.fixture
def paid(declare: Any) -> Any:
    @declare("order.paid", public={"total"})
    class OrderPaid:
        total: int
        email: str = ""

    return OrderPaid


def sent(row: Any) -> dict[str, Any]:
    return dict(json.loads(envelope_of(row)))


def takes(schema: dict[str, Any], event: dict[str, Any]) -> bool:
    """By our own validator, with nothing in it that the schema does not name, and by another one."""
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    other = jsonschema.Draft202012Validator(schema, format_checker=checker).is_valid(event)
    assert compiled(schema).is_valid(event) == other
    return compiled(closed(schema)).is_valid(event)


@pytest.mark.django_db
def test_an_event_with_all_there_is_to_know_fits_the_schema(paid):
    first = duebox.emit(paid(total=1), organization=7)
    actor = {"type": "user", "id": "42", "email": "ada@example.com"}
    fact = duebox.emit(
        paid(total=1), about=("order", 42), organization=7, actor=actor, causation_id=first.id, metadata={"ip": "::1"}
    )
    event = sent(fact.row)
    assert takes(schema_files.envelope_schema(), event)
    assert event.keys() >= set(schema_files.envelope_schema()["required"])
    assert not takes(schema_files.public_envelope_schema(), event)


@pytest.mark.django_db
def test_an_event_of_which_little_is_known_fits_it_as_well(declare):
    declare("task.closed")(type("Closed", (), {}))
    assert takes(schema_files.envelope_schema(), sent(duebox.emit("task.closed").row))


@pytest.mark.django_db
@pytest.mark.parametrize("allowed", [[], ["actor"], INTERNAL_FIELDS])
def test_a_public_event_fits_the_schema_of_public_ones_and_no_other(paid, settings, allowed):
    settings.DUEBOX = {**settings.DUEBOX, "PUBLIC_ENVELOPE": allowed}
    fact = duebox.emit(paid(total=1), about=("order", 42), organization=7, actor={"type": "user", "id": "42"})
    [_, twin] = with_public_events([fact.row])
    event = sent(twin)
    assert event["workspace_id"] == "7"
    assert takes(schema_files.public_envelope_schema(), event)
    assert [name for name in INTERNAL_FIELDS if name in schema_files.public_envelope_schema()["properties"]] == (
        [name for name in INTERNAL_FIELDS if name in allowed]
    )
    assert not takes(schema_files.envelope_schema(), event)
    stored = Event.objects.get(type="public.order.paid")
    assert stored.data == event["data"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"event_id": "1"},
        {"event_type": "OrderPaid"},
        {"schema_version": 0},
        {"occurred_at": "2027-01-01T00:00:00"},
        {"causation_id": "x"},
        {"actor": "42"},
        {"actor": {"type": "user"}},
        {"organization_id": 7},
        {"data": []},
        {"data": None},
    ],
)
def test_what_is_no_envelope_does_not_fit(wrong):
    event = sent(a_fact().row)
    assert takes(schema_files.envelope_schema(), event)
    assert not takes(schema_files.envelope_schema(), {**event, **wrong})
    for name in schema_files.envelope_schema()["required"]:
        assert not takes(schema_files.envelope_schema(), {each: value for each, value in event.items() if each != name})


def test_a_public_event_without_a_workspace_does_not_fit():
    event = sent(a_fact("public.order.paid").row)
    assert takes(schema_files.public_envelope_schema(), event)
    assert not takes(schema_files.public_envelope_schema(), {**event, "workspace_id": None})
    assert not takes(
        schema_files.public_envelope_schema(), {each: value for each, value in event.items() if each != "workspace_id"}
    )


@pytest.mark.parametrize("schema", [schema_files.envelope_schema, schema_files.public_envelope_schema])
def test_it_is_a_schema_as_others_are(schema):
    made = example({word: value for word, value in schema().items() if word != "$schema"})
    assert compiled(schema()).is_valid(made)
    assert compare(schema(), schema()).additive_only


def test_it_is_written_beside_the_schemas_of_data_and_is_no_type(paid, tmp_path):
    kinds = [each for each in event_types.declared() if each.name in ("order.paid", "public.order.paid")]
    schema_files.write(tmp_path, kinds)
    assert schema_files.at(tmp_path / "envelope.v1.json") == schema_files.envelope_schema()
    assert schema_files.at(tmp_path / "public_envelope.v1.json") == schema_files.public_envelope_schema()
    assert sorted(schema_files.paths(tmp_path)) == [("order.paid", 1), ("public.order.paid", 1)]
    assert schema_files.misnamed(tmp_path) == []
    assert schema_files.load(tmp_path) == []
    assert schema_files.differences(tmp_path, kinds) == []
    (tmp_path / "envelope.v1.json").write_text("{}")
    assert [(each.path.name, each.what) for each in schema_files.differences(tmp_path, kinds)] == [
        ("envelope.v1.json", "out of date")
    ]


def test_without_public_events_there_is_no_schema_of_them(declare, tmp_path):
    declare("task.closed")(type("Closed", (), {}))
    schema_files.write(tmp_path, event_types.versions_of("task.closed").values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["envelope.v1.json", "task.closed.v1.json"]
