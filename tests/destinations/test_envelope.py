"""What travels, and what travels beside it."""

from __future__ import annotations

import json

import pytest

import duebox
from duebox.conf import PUBLIC_ENVELOPE
from duebox.conf import mistakes as conf_mistakes
from duebox.destinations.envelope import as_dict, envelope, headers, ordering_key
from duebox.destinations.routes import read_route
from duebox.models import Event
from tests.destinations.conformance import a_fact

BORN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_trace_that_the_event_was_born_in():
    assert headers(a_fact(metadata=json.dumps({"traceparent": BORN})))["traceparent"] == BORN


@pytest.mark.parametrize("born", ["", "00-1-2-01", f"{BORN}\r\nHost: evil", "x" * 200_000, 7, None, [BORN]])
def test_what_is_no_trace_is_no_header(born):
    assert "traceparent" not in headers(a_fact(metadata=json.dumps({"traceparent": born})))


# Public events

CAUSE = "0198c9d0-0000-7000-8000-000000000001"
PUBLIC = a_fact("public.order.paid", causation=CAUSE)
OPEN = {"event_id", "event_type", "schema_version", "occurred_at", "workspace_id", "data"}


def test_a_public_event_has_the_workspace_and_nothing_internal():
    sent = json.loads(envelope(PUBLIC))
    assert set(sent) == OPEN
    assert (sent["workspace_id"], sent["data"]) == ("7", {"total": 150})


def test_beside_a_public_event_travels_the_workspace():
    assert set(headers(PUBLIC)) == {"event_id", "event_type", "schema_version", "workspace_id", "correlation_id"}
    assert headers(PUBLIC)["workspace_id"] == headers(a_fact())["organization_id"] == "7"


def test_a_public_event_is_not_followed_by_the_id_of_the_event_that_it_was_made_from(settings):
    alone = a_fact("public.order.paid", causation=CAUSE, correlation=CAUSE)
    assert "correlation_id" not in headers(alone)
    assert headers(a_fact("public.order.paid", causation=CAUSE, correlation="req-1"))["correlation_id"] == "req-1"
    assert headers(a_fact(causation=CAUSE, correlation=CAUSE))["correlation_id"] == CAUSE
    settings.DUEBOX = {**settings.DUEBOX, "PUBLIC_ENVELOPE": ["correlation_id"]}
    assert headers(alone)["correlation_id"] == CAUSE


def test_an_event_of_the_project_has_no_workspace():
    assert "workspace_id" not in json.loads(envelope(a_fact())).keys() | headers(a_fact()).keys()


def test_of_the_rest_a_public_event_has_what_the_setting_allows(settings):
    settings.DUEBOX = {**settings.DUEBOX, "PUBLIC_ENVELOPE": ["aggregate_id", "correlation_id", "causation_id"]}
    sent = json.loads(envelope(PUBLIC))
    assert set(sent) == OPEN | {"aggregate_id", "correlation_id", "causation_id"}
    assert sent["aggregate_id"] == "42"
    assert set(json.loads(envelope(PUBLIC.as_version(1, "{}")))) >= OPEN


@pytest.mark.parametrize("name", PUBLIC_ENVELOPE)
def test_each_field_can_be_allowed(settings, name):
    settings.DUEBOX = {**settings.DUEBOX, "PUBLIC_ENVELOPE": [name]}
    assert conf_mistakes() == []
    assert set(json.loads(envelope(PUBLIC))) == OPEN | {name}


def test_a_field_that_nobody_knows_is_a_mistake_in_the_settings(settings):
    settings.DUEBOX = {**settings.DUEBOX, "PUBLIC_ENVELOPE": ["actor_id"]}
    [(message, hint)] = conf_mistakes()
    assert message == "DUEBOX['PUBLIC_ENVELOPE'] has 'actor_id'."
    assert "aggregate_id" in hint


def test_the_key_of_a_public_event_keeps_the_order_and_tells_nothing():
    key = ordering_key(PUBLIC.row)
    assert key == ordering_key(a_fact("public.order.packed").row) != ordering_key(a_fact().row) == "order:42"
    assert "42" not in bytes.fromhex(key).decode("latin-1")
    assert len(key) == 64
    assert ordering_key(a_fact("public.order.paid", aggregate_type="", aggregate_id="").row) is None


def test_a_route_may_look_at_the_workspace_and_at_what_is_not_sent():
    assert as_dict(PUBLIC.row)["workspace_id"] == as_dict(PUBLIC.row)["organization_id"] == "7"
    assert as_dict(a_fact().row)["workspace_id"] is None
    route = read_route({"match": {"actor": {"type": ["user"]}}, "to": "bus"}, {"bus": {}})
    assert route.takes(a_fact().row)
    assert not route.takes(a_fact(actor=None).row)


@pytest.mark.django_db
def test_who_did_it_is_public_only_if_allowed_and_without_an_email(settings, declare):
    declare("order.paid", public={"total"})(type("OrderPaid", (), {"__annotations__": {"total": int}}))
    actor = {"type": "user", "id": "42", "email": "ada@example.com"}
    for allowed in ([], ["actor"]):
        settings.DUEBOX = {**settings.DUEBOX, "PUBLIC_ENVELOPE": allowed}
        duebox.emit("order.paid", {"total": 1}, organization=7, actor=actor)
    hidden, shown = Event.objects.filter(type="public.order.paid").order_by("id")
    assert (hidden.actor, shown.actor) == (None, {"type": "user", "id": "42"})
