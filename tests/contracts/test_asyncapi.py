"""The event types as an AsyncAPI 3.0 document.

Held to the rules of the specification that matter here: required keys, names, references that lead somewhere, and
operations whose messages belong to their channel.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from duebox.contracts import event_types
from duebox.contracts.asyncapi import asyncapi
from duebox.contracts.event_types import EventType
from duebox.contracts.validation import compiled
from tests.contracts.catalogue import declare_all


@pytest.fixture
def document(declare: Any) -> dict[str, Any]:
    declare_all(declare)
    return asyncapi(event_types.declared(), title="Events of shop")


def references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [each for inner in part for each in references(inner)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
    return own + [each for inner in part.values() for each in references(inner)]


def target(document: Any, reference: str) -> Any:
    found = document
    for step in reference.removeprefix("#/").split("/"):
        found = found[step.replace("~1", "/").replace("~0", "~")]
    return found


def test_it_has_the_parts_that_the_specification_asks_for(document):
    assert document["asyncapi"] == "3.0.0"
    assert document["info"]["title"] == "Events of shop"
    assert document["info"]["version"]
    assert set(document) == {"asyncapi", "info", "defaultContentType", "channels", "operations", "components"}
    for name in (*document["components"]["messages"], *document["components"]["schemas"]):
        assert re.fullmatch(r"[\w.\-]+", name)


def test_every_type_has_a_channel_and_is_sent_there(document):
    assert sorted(document["channels"]) == ["member.invited", "order.paid", "public.member.invited"]
    for name, operation in zip(document["channels"], document["operations"].values(), strict=True):
        assert operation["action"] == "send"
        assert operation["channel"] == {"$ref": f"#/channels/{name}"}
        assert document["channels"][name]["address"] == name
        for message in operation["messages"]:
            assert message["$ref"].startswith(f"#/channels/{name}/messages/")


def test_every_version_is_a_message_of_its_channel(document):
    assert document["channels"]["member.invited"]["messages"] == {
        "v1": {"$ref": "#/components/messages/member.invited.v1"},
        "v2": {"$ref": "#/components/messages/member.invited.v2"},
    }


def test_every_reference_leads_somewhere(document):
    found = references(document)
    assert "#/components/messages/order.paid.v1/payload/schema/$defs/Line" in found
    assert all(target(document, each) is not None for each in found)


def test_a_reference_to_the_whole_schema_leads_to_it():
    schema = {"type": "object", "properties": {"inner": {"$ref": "#"}}}
    document = asyncapi([EventType(name="order.paid", version=1, schema=schema)], title="x")
    (reference,) = [each for each in references(document) if each.endswith("payload/schema")]
    assert target(document, reference)["type"] == "object"


def test_a_message_carries_its_schema_with_the_name_of_the_dialect_and_an_example_of_it(document):
    message = document["components"]["messages"]["member.invited.v2"]
    assert message["payload"]["schemaFormat"] == "application/schema+json;version=draft-2020-12"
    assert message["payload"]["schema"] == event_types.versions_of("member.invited")[2].schema
    (example,) = message["examples"]
    assert compiled(message["payload"]["schema"]).is_valid(example["payload"])


def test_what_is_around_the_data_are_headers_and_the_correlation_is_among_them(document):
    message = document["components"]["messages"]["order.paid.v1"]
    headers = target(document, message["headers"]["$ref"])
    assert headers["type"] == "object"
    assert {"id", "type", "version", "occurred_at", "correlation_id"} <= set(headers["required"])
    assert message["correlationId"] == {"location": "$message.header#/correlation_id"}
    assert "correlation_id" in headers["properties"]


def test_the_version_changes_with_a_contract_and_with_nothing_else(document, declare):
    again = asyncapi(reversed(event_types.declared()), title="Events of shop")
    assert again == document

    @declare("task.closed")
    class TaskClosed:
        reason: str

    assert asyncapi(event_types.declared(), title="Events of shop")["info"]["version"] != document["info"]["version"]
