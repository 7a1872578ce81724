from __future__ import annotations

import json
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from uuid import UUID

import pytest

from duebox.events.payload import encode
from duebox.exceptions import InvalidEvent, InvalidPayload


def encoded(data, *, limit=10_000, depth=8, **options):
    return json.loads(encode(data, limit=limit, depth=depth, **options))


def refusal(data, **options):
    with pytest.raises(InvalidPayload) as caught:
        encoded(data, **options)
    return caught.value


def test_no_payload_is_an_empty_one():
    assert encoded(None) == {}


def test_the_types_of_json_travel_as_they_are():
    data = {"text": "Zoë 🎂", "whole": -3, "real": 1.5, "yes": True, "none": None, "list": [1, [2]], "": {"a": {}}}
    assert encoded(data) == data


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (UUID("01920000-0000-7000-8000-000000000001"), "01920000-0000-7000-8000-000000000001"),
        (Decimal("12.50"), "12.50"),
        (datetime(2026, 3, 29, 2, 30, tzinfo=UTC), "2026-03-29T02:30:00+00:00"),
        (datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=9))), "2026-03-29T02:30:00+09:00"),
        (date(2026, 2, 28), "2026-02-28"),
        ((1, 2), [1, 2]),
    ],
)
def test_everyday_types_travel_as_text_or_lists(value, stored):
    assert encoded({"a": value}) == {"a": stored}


def test_subclasses_of_plain_types_travel_as_their_plain_value():
    class Role(StrEnum):
        ADMIN = "admin"

    class Level(IntEnum):
        HIGH = 3

    assert encoded(OrderedDict(role=Role.ADMIN, level=Level.HIGH)) == {"role": "admin", "level": 3}
    assert encoded({Role.ADMIN: 1}) == {"admin": 1}


def test_a_large_float_travels_as_the_exact_whole_number_it_is():
    assert encoded({"a": 1e23}) == {"a": 99999999999999991611392}
    assert encode({"a": 1e23}, limit=100, depth=2) == '{"a":99999999999999991611392}'


class Thing:
    pass


@pytest.mark.parametrize(
    ("data", "path", "fact"),
    [
        ({"a": {"b": [1, float("nan")]}}, "data.a.b[1]", "is nan"),
        ({"a": float("-inf")}, "data.a", "is -inf"),
        ({"a": Decimal("NaN")}, "data.a", "Decimal('NaN')"),
        ({"a": Decimal("Infinity")}, "data.a", "Decimal('Infinity')"),
        ({"a": ["x\x00y"]}, "data.a[0]", "NUL character"),
        ({"a": "half \ud83d"}, "data.a", "a lone surrogate"),
        ({"a": {"\x00": 1}}, "data.a key", "NUL character"),
        ({"a": datetime(2026, 1, 1, 9)}, "data.a", "is a naive datetime; make it aware"),
        ({"a": [{"b": {1, 2}}]}, "data.a[0].b", "is a builtins.set"),
        ({"a": Thing()}, "data.a", "is a tests.events.test_payload.Thing"),
        ({"a": b"raw"}, "data.a", "is a builtins.bytes"),
        ({"a": timedelta(1)}, "data.a", "is a datetime.timedelta"),
        ({"a": {"b": {3: "x"}}}, "data.a.b", "has the key 3, which is not a string"),
        ({None: 1}, "data", "has the key None"),
        ({"a": 10**1000}, "data.a", "over 1,000 digits"),
        (["a"], "data", "is a list"),
        ("text", "data", "is a str"),
    ],
)
def test_what_cannot_travel_is_refused_with_its_path(data, path, fact):
    refused = refusal(data)
    assert refused.path == path
    assert str(refused).startswith(f"{path}: ")
    assert fact in str(refused)


def test_a_refusal_is_a_value_error_that_says_the_repair():
    refused = refusal({"at": datetime(2026, 1, 1)})
    assert isinstance(refused, InvalidEvent)
    assert isinstance(refused, ValueError)
    assert str(refused).endswith("make it aware with django.utils.timezone.")


def test_too_deep_is_refused_where_it_becomes_too_deep():
    assert encoded({"a": {"b": 1}}, depth=2) == {"a": {"b": 1}}
    refused = refusal({"a": {"b": {"c": 1}}}, depth=2)
    assert refused.path == "data.a.b"
    assert "DUEBOX['PAYLOAD_DEPTH']" in str(refused)


def test_a_payload_that_holds_itself_is_refused_as_too_deep():
    data = {}
    data["me"] = [data]
    assert refusal(data, depth=4).path == "data.me[0].me[0]"


def test_the_size_counts_bytes_and_not_characters():
    assert encoded({"a": "é" * 10}, limit=28)
    refused = refusal({"a": "é" * 10}, limit=27)
    assert str(refused) == (
        "data: is 28 bytes as JSON, over the limit of 27; store it elsewhere and send a reference, "
        "or raise DUEBOX['PAYLOAD_LIMIT_BYTES']."
    )


def test_ten_megabytes_are_refused():
    assert "10,485,768 bytes" in str(refusal({"a": "x" * 10 * 1024 * 1024}, limit=256 * 1024))


def test_the_path_begins_with_the_name_of_the_field():
    assert refusal({"a": {1}}, root="metadata").path == "metadata.a"
