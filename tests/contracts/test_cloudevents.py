"""CloudEvents 1.0, both ways and in both modes; the official SDK says whether it is right."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import quote
from uuid import UUID

import jsonschema_rs
import pytest
from cloudevents.core.bindings import http
from cloudevents.core.v1.event import CloudEvent
from django.test import RequestFactory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duebox
from duebox.contracts import cloudevents
from duebox.contracts.cloudevents import from_header, in_header, is_uri, is_uri_reference
from duebox.events.fact import Actor, Fact, FactRow
from duebox.events.identities import uuid7
from duebox.exceptions import InvalidEvent
from tests.support import examples

SOURCE = "https://shop.example/orders"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CAUSE = "018f0000-0000-7000-8000-000000000000"
MODES = pytest.mark.parametrize("mode", ["structured", "binary"])

some = settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
# What may stand in an attribute: no control characters, no surrogates, no noncharacters.
letters = st.characters(exclude_categories=("Cc", "Cs", "Cn", "Zl", "Zp"))
texts = st.text(letters, min_size=1, max_size=20)
names = st.from_regex(r"[a-z][a-z0-9_]{0,8}(\.[a-z][a-z0-9_]{0,8}){1,3}", fullmatch=True)
json_texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=10)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | json_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(json_texts, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
objects = st.dictionaries(json_texts, json_values, max_size=4)
moments = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC))
extensions = st.dictionaries(
    st.from_regex(r"x[a-z0-9]{0,19}", fullmatch=True),
    texts | st.integers(-(2**31), 2**31 - 1) | st.booleans(),
    max_size=3,
)


def a_fact(**given):
    row = {
        "id": str(uuid7()), "type": "order.paid", "version": 2, "occurred": 1_805_274_000.25,
        "aggregate_type": "order", "aggregate_id": "42", "organization": "acme", "correlation": "abc",
        "causation": CAUSE, "actor": '{"id": "7", "type": "user"}', "producer": SOURCE, "key": "pay:42",
        "data": '{"total":"9.50"}',
        "metadata": json.dumps({"traceparent": TRACE, "secret": "stays"}),
    }  # fmt: skip
    return Fact(FactRow(**{**row, **given}))


actors = st.builds(Actor, st.sampled_from(["user", "service", "robot"]), texts).map(Actor.to_json)


@st.composite
def facts(draw):
    about = draw(st.none() | st.tuples(texts, texts))
    return a_fact(
        type=draw(names),
        version=draw(st.integers(1, 32_767)),
        occurred=draw(moments).timestamp(),
        aggregate_type=about[0] if about else "",
        aggregate_id=about[1] if about else "",
        organization=draw(texts | st.just("")),
        correlation=draw(texts),
        causation=draw(st.none() | st.uuids().map(str)),
        actor=draw(st.none() | actors),
        data=json.dumps(draw(objects)),
        metadata=json.dumps(draw(st.just({}) | st.just({"traceparent": TRACE}))),
    )


def told(fact, mode, **options):
    return cloudevents.binary(fact, **options) if mode == "binary" else cloudevents.structured_message(fact, **options)


def read_actor(actor):
    """As it comes back: a type that CloudEvents does not know is unknown there."""
    if actor is None:
        return None
    return {"type": actor.type if actor.type in ("user", "service") else "unknown", "id": actor.id}


def by_sdk(message, mode):
    read = http.from_binary_event if mode == "binary" else http.from_structured_event
    return read(http.HTTPMessage(message.headers, message.body))


def refused(call, *words):
    with pytest.raises(InvalidEvent) as error:
        call()
    text = str(error.value)
    assert all(word in text for word in words), text
    assert text.isprintable()
    assert ";" in text


def test_an_event_as_a_structured_cloudevent():
    fact = a_fact()
    assert cloudevents.structured(fact, prefix="com.example", schemas_url="https://shop.example/schemas/") == {
        "specversion": "1.0",
        "id": str(fact.id),
        "source": "https://shop.example/orders",
        "type": "com.example.order.paid",
        "time": "2027-03-17T09:00:00.250000Z",
        "datacontenttype": "application/json",
        "dataschema": "https://shop.example/schemas/order.paid.v2.json",
        "subject": "order/42",
        "partitionkey": "42",
        "schemaversion": "2",
        "organizationid": "acme",
        "correlationid": "abc",
        "causationid": CAUSE,
        "authtype": "app_user",
        "authid": "7",
        "traceparent": TRACE,
        "data": {"total": "9.50"},
    }


def test_an_event_as_a_binary_cloudevent():
    fact = a_fact(aggregate_id="Zürich 100%")
    headers, body = cloudevents.binary(fact)
    assert body == b'{"total":"9.50"}'
    assert headers["content-type"] == "application/json"
    assert headers["ce-subject"] == "order/Z%C3%BCrich%20100%25"
    assert headers["ce-type"] == "order.paid"
    assert "ce-datacontenttype" not in headers


def test_what_an_event_does_not_have_is_left_out():
    empty = {
        "aggregate_type": "",
        "aggregate_id": "",
        "organization": "",
        "causation": None,
        "actor": None,
        "metadata": "{}",
    }
    assert set(cloudevents.structured(a_fact(**empty))) == {
        "specversion", "id", "source", "type", "time", "datacontenttype", "schemaversion", "correlationid", "data",
    }  # fmt: skip


def test_the_key_and_the_metadata_stay_inside():
    for message in (told(a_fact(), "structured"), told(a_fact(), "binary")):
        assert "pay:42" not in str(message)
        assert "secret" not in str(message)


@MODES
@some
@given(fact=facts(), extra=extensions, prefix=st.sampled_from(["", "com.example", "com.example."]))
def test_what_is_told_and_read_again_is_the_same(mode, fact, extra, prefix):
    values = cloudevents.read(*told(fact, mode, prefix=prefix, extensions=extra), prefix=prefix)
    metadata = values.pop("metadata")
    assert values == {
        "type": fact.type,
        "data": fact.data,
        "about": fact.about,
        "organization": fact.organization,
        "idempotency_key": f"{SOURCE} {fact.id}",
        "actor": read_actor(fact.actor),
        "version": fact.version,
        "occurred_at": fact.occurred_at,
        "correlation_id": fact.correlation_id,
        "causation_id": fact.causation_id,
    }
    assert metadata.pop("traceparent", None) == fact.metadata.get("traceparent")
    if mode == "binary":  # headers are texts
        extra = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in extra.items()}
    assert metadata == {"cloudevent": {"id": str(fact.id), "source": SOURCE, **extra}}


@MODES
@some
@given(fact=facts(), extra=extensions)
def test_the_sdk_reads_what_is_told(mode, fact, extra):
    event = by_sdk(told(fact, mode, prefix="com.example", schemas_url=SOURCE, extensions=extra), mode)
    assert (event.get_id(), event.get_source(), event.get_type()) == (str(fact.id), SOURCE, f"com.example.{fact.type}")
    assert event.get_time() == fact.occurred_at
    assert event.get_data() == fact.data
    assert event.get_datacontenttype() == "application/json"
    assert event.get_dataschema() == f"{SOURCE}/{fact.type}.v{fact.version}.json"
    assert event.get_extension("correlationid") == fact.correlation_id
    assert event.get_extension("organizationid") == fact.organization
    assert event.get_extension("authid") == (fact.actor.id if fact.actor else None)
    assert event.get_extension("schemaversion") == str(fact.version)
    assert event.get_extension("partitionkey") == (fact.about.id if fact.about else None)
    for name, value in extra.items():
        as_text = str(value).lower() if isinstance(value, bool) else str(value)
        assert event.get_extension(name) == (as_text if mode == "binary" else value)


@MODES
@some
@given(
    identity=texts, type=names, data=objects, subject=st.none() | texts, time=moments,
    offset=st.integers(-14 * 60, 14 * 60), extra=extensions,
)  # fmt: skip
def test_what_the_sdk_tells_is_read(mode, identity, type, data, subject, time, offset, extra):
    time = time.astimezone(timezone(timedelta(minutes=offset)))
    attributes = {"id": identity, "source": SOURCE, "type": type, "time": time, "datacontenttype": "application/json"}
    attributes |= {"subject": subject} if subject else {}
    event = CloudEvent({**attributes, **({} if mode == "binary" else extra)}, data)
    message = http.to_binary_event(event) if mode == "binary" else http.to_structured_event(event)
    values = cloudevents.read(message.headers, message.body)
    assert (values["type"], values["data"], values["occurred_at"]) == (type, data, time)
    kept = values["metadata"]["cloudevent"]
    assert (kept["id"], kept["source"]) == (identity, SOURCE)
    if values["about"] is None:
        assert kept.get("subject") == subject
    if mode == "structured":
        assert {name: kept[name] for name in extra} == extra


@some
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=30))
def test_a_header_holds_every_text_in_printable_ascii(text):
    header = in_header(text)
    assert header.isascii()
    assert not set(header) & set(' "\r\n\t\x00\x7f')
    assert from_header("subject", header) == text
    assert header == quote(text, safe="!#$&'()*+,/:;<=>?@[\\]^_`{|}~-.")


def test_the_example_of_the_binding():
    assert in_header("Euro € 😀") == "Euro%20%E2%82%AC%20%F0%9F%98%80"
    assert (in_header(True), in_header(False), in_header(-5)) == ("true", "false", "-5")


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("plain", "plain"),
        ("%41bc", "Abc"),
        ("%e2%82%ac", "€"),
        ('"a b"', "a b"),
        (r'"a \"b\" \\"', r'a "b" \ '.rstrip()),
        ("%2541", "%41"),
        ("", ""),
    ],
)
def test_a_header_is_unquoted_and_decoded_once(header, text):
    assert from_header("subject", header) == text


@pytest.mark.parametrize("header", ["%C0%A0", "%FF", "café", "a\nb", "\x00"])
def test_a_header_that_is_no_utf8_or_no_ascii_is_refused(header):
    refused(lambda: from_header("subject", header), "Header 'ce-subject' is ", "percent-encode it as UTF-8")


uris = st.text(st.sampled_from("abz09-._~:/?#[]@!$&'()*+,;=%é <>\"{}|\\^`\n"), max_size=12)


@some
@given(uris | st.builds("{}:{}".format, st.sampled_from(["https", "urn", "mailto", "1a", "a+b"]), uris))
def test_a_source_is_a_uri_reference_as_another_implementation_sees_it(text):
    other = jsonschema_rs.validator_for(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string", "format": "uri-reference"},
        validate_formats=True,
    )
    if is_uri_reference(text):
        # An address in brackets is checked more closely there.
        assert other.is_valid(text) or "[" in text or "//" in text
    elif text:
        assert not other.is_valid(text)


@pytest.mark.parametrize("text", ["https://a.example/b?c=d#e", "urn:uuid:1", "mailto:a@b.example", "http://[::1]:80/x"])
def test_an_absolute_uri_is_also_a_reference(text):
    assert is_uri(text)
    assert is_uri_reference(text)


@pytest.mark.parametrize("text", ["/shop", "shop", "../a", "//host/x", "?a", "#a"])
def test_a_reference_may_be_relative(text):
    assert is_uri_reference(text)
    assert not is_uri(text)


def test_an_event_without_a_producer_cannot_be_told_unless_a_source_is_given():
    bare = a_fact(producer="")
    refused(
        lambda: cloudevents.structured(bare), "has no producer", "set DUEBOX['PRODUCER'] to an absolute URI", "source="
    )
    assert cloudevents.structured(bare, source="/shop")["source"] == "/shop"


def test_a_producer_that_is_no_uri_is_refused():
    refused(
        lambda: cloudevents.binary(a_fact(producer="my shop")), "'my shop', which is not a URI", "DUEBOX['PRODUCER']"
    )


@pytest.mark.parametrize(
    "name", ["organization_id", "Region", "", "data", "a-b", "é", "x" * 21, "subject", "authid", 1]
)
def test_an_attribute_of_your_own_has_a_good_name_or_is_refused(name):
    refused(lambda: cloudevents.structured(a_fact(), extensions={name: "x"}), "Attribute ")


@pytest.mark.parametrize("value", [None, 1.5, 2**31, [], {}, "a\nb", "\x7f", "\ufffe", "\U0010ffff", "\ud800"])
def test_an_attribute_of_your_own_has_a_good_value_or_is_refused(value):
    refused(lambda: cloudevents.binary(a_fact(), extensions={"region": value}), "Attribute 'region' is ")


def test_an_identity_that_cloudevents_cannot_carry_is_refused():
    refused(lambda: cloudevents.structured(a_fact(organization="a\ufdd0")), "Attribute 'organizationid' is 'a\\ufdd0'")


def test_a_schemas_url_that_is_no_uri_is_refused():
    refused(
        lambda: cloudevents.structured(a_fact(), schemas_url="schemas"), "schemas_url='schemas' is not an absolute URI"
    )


def test_an_aggregate_with_slashes_comes_back_as_it_was():
    fact = a_fact(aggregate_type="a/b%2F", aggregate_id="/c/d%2F")
    assert cloudevents.structured(fact)["subject"] == "a%2Fb%252F//c/d%2F"
    assert cloudevents.read_structured(cloudevents.structured(fact))["about"] == fact.about


EVENT = {"specversion": "1.0", "id": "1", "source": "/there", "type": "a.b"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[]", "is a list; send one at a time"),
        (b"1", "is a number"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a":NaN}', "NaN is not a JSON number"),
        (b'{"id":"1","id":"2"}', "a name is repeated"),
        ({**EVENT, "specversion": "0.3"}, "specversion '0.3'; send version '1.0'"),
        ({name: value for name, value in EVENT.items() if name != "specversion"}, "specversion 'None'"),
        ({**EVENT, "id": ""}, "Attribute 'id' is ''; it must be a text"),
        ({**EVENT, "id": 1}, "Attribute 'id' is '1'; it must be a text"),
        ({**EVENT, "type": None}, "Attribute 'type' is ''"),
        ({**EVENT, "source": "not a uri"}, "which is not a URI"),
        ({**EVENT, "time": "yesterday"}, "write it like 2027-03-29T09:00:00Z"),
        ({**EVENT, "time": "2027-03-29T09:00:00"}, "not RFC 3339"),
        ({**EVENT, "time": "2027-W01-1T09:00:00Z"}, "not RFC 3339"),
        ({**EVENT, "time": "2027-02-30T09:00:00Z"}, "day is out of range"),
        ({**EVENT, "time": 5}, "Attribute 'time' is '5'"),
        ({**EVENT, "subject": "a\nb"}, "Attribute 'subject' is 'a\\nb', which contains a character"),
        ({**EVENT, "organization_id": "1"}, "Attribute name 'organization_id'"),
        ({**EVENT, "a": {"b": 1}}, "Attribute 'a' is an object; only texts, booleans and 32-bit integers are allowed"),
        ({**EVENT, "a": 1.5}, "Attribute 'a' is a number"),
        ({**EVENT, "data": [1]}, "The data is a list; the data of an event must be an object, so wrap it in one"),
        ({**EVENT, "data": "text"}, "The data is a text"),
        ({**EVENT, "data": "<a/>", "datacontenttype": "application/xml"}, "send application/json"),
        ({**EVENT, "data": {}, "data_base64": ""}, "both data and data_base64"),
        ({**EVENT, "data_base64": "e30="}, "The content type of the data is ''; the data of an event must be JSON"),
        ({**EVENT, "data_base64": "!", "datacontenttype": "application/json"}, "data_base64 cannot be decoded"),
        ({**EVENT, "data_base64": 1, "datacontenttype": "application/json"}, "it is a number"),
    ],
)
def test_a_structured_cloudevent_that_cannot_be_kept_is_refused(given, words):
    refused(lambda: cloudevents.read_structured(given), words)


HEADERS = {f"ce-{name}": value for name, value in EVENT.items()}


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        ({}, b"", "specversion 'None'"),
        ({**HEADERS, "ce-datacontenttype": "application/json"}, b"", "use Content-Type instead"),
        ({**HEADERS, "CE-ID": "2"}, b"", "A header is repeated"),
        ({**HEADERS, "ce-a_b": "2"}, b"", "Attribute name 'a_b'"),
        ({**HEADERS, "ce-subject": "a%0Ab"}, b"", "which contains a character"),
        ({**HEADERS, "ce-subject": "a\r\nb"}, b"", "not printable ASCII"),
        ({**HEADERS, "content-type": "text/plain"}, b"{}", "The content type of the data is 'text/plain'"),
        ({**HEADERS, "content-type": "application/json"}, b"{", "not valid JSON"),
        ({**HEADERS, "content-type": "application/cloudevents+json"}, b"{}", "the data of an event must be JSON"),
    ],
)
def test_a_binary_cloudevent_that_cannot_be_kept_is_refused(headers, body, words):
    refused(lambda: cloudevents.read_binary(headers, body), words)


def test_a_batch_is_refused():
    refused(
        lambda: cloudevents.read({"Content-Type": "application/cloudevents-batch+json"}, b"[]"), "send one at a time"
    )


def test_what_is_null_counts_as_left_out():
    nothing = dict.fromkeys(("subject", "time", "data", "region", "datacontenttype"))
    assert cloudevents.read_structured({**EVENT, **nothing}) == cloudevents.read_structured(EVENT)


def test_json_in_base64_is_data_too():
    packed = base64.b64encode(b'{"a":1}').decode()
    given = {**EVENT, "data_base64": packed, "datacontenttype": "Application/Vnd.Acme+JSON; charset=utf-8"}
    assert cloudevents.read_structured(json.dumps(given))["data"] == {"a": 1}


def test_what_has_no_place_in_an_event_is_kept_in_its_metadata():
    given = {
        "subject": "file.jpg",
        "causationid": "order-123",
        "schemaversion": "2.1",
        "traceparent": "bad",
        "region": 5,
    }
    values = cloudevents.read_structured({**EVENT, **given})
    assert (values["about"], values["causation_id"], values["version"]) == (None, None, None)
    del given["traceparent"]
    assert values["metadata"] == {"cloudevent": {"id": "1", "source": "/there", **given}}


def test_a_long_name_of_an_event_still_makes_a_key():
    keys = [cloudevents.read_structured({**EVENT, "id": "x" * 600 + end})["idempotency_key"] for end in ("a", "b", "a")]
    assert keys[0] == keys[2] != keys[1]
    assert all(len(key) == 71 for key in keys)


@pytest.mark.django_db
@MODES
def test_an_event_of_somebody_else_is_emitted_once(mode):
    message = told(a_fact(), mode, prefix="com.example")
    headers = {name: value for name, value in message.headers.items() if name != "content-type"}
    for created in (True, False):
        request = RequestFactory(headers=headers).post("/", message.body, content_type=message.headers["content-type"])
        fact = duebox.emit(**cloudevents.read(request.headers, request.body, prefix="com.example"))
        assert fact.created is created
    assert (fact.type, fact.data, fact.about) == ("order.paid", {"total": "9.50"}, ("order", "42"))
    assert (fact.organization, fact.actor, fact.correlation_id) == ("acme", Actor("user", "7"), "abc")
    assert fact.causation_id == UUID(CAUSE)
    assert fact.metadata["traceparent"] == TRACE
