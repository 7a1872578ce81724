"""Which events a pattern wants."""

from __future__ import annotations

from collections import UserDict
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType

import pytest

from duebox.destinations.event_pattern import compile


def matches(entries, value, **more):
    """Whether a field with this value fits the entries of its list."""
    return compile({"x": entries}).matches({"x": value, **more})


@pytest.mark.parametrize(
    ("entries", "value"),
    [
        (["a"], "a"),
        ([1], 1),
        ([150], 150.0),
        ([3e2], 300),
        ([-0.0], 0),
        ([True], True),
        ([None], None),
        ([""], ""),
        ([12345678901234567890], 12345678901234567890),
        ([20000000000000000000000000], 2e25),
        ([2e25], 20000000000000000000000000),
        ([1e308], 1e308),
        ([{"exactly": "a"}], "a"),
    ],
)
def test_a_value_equals_itself(entries, value):
    assert matches(entries, value)


@pytest.mark.parametrize(
    ("entries", "value"),
    [
        (["a"], "A"),
        (["1"], 1),
        ([1], "1"),
        ([1], True),
        ([0], False),
        ([True], 1),
        (["true"], True),
        ([None], "null"),
        ([None], ""),
        ([""], None),
        ([1], 2),
        ([12345678901234567890], 12345678901234567891),
    ],
)
def test_values_of_other_types_and_cases_are_different(entries, value):
    assert not matches(entries, value)


@pytest.mark.parametrize(
    ("entry", "yes", "no"),
    [
        ({"prefix": "order."}, ["order.", "order.paid"], ["Order.paid", "an order.", "order", 1, None]),
        ({"prefix": ""}, ["", "a"], [1, None, True]),
        ({"prefix": {"equals-ignore-case": "ORDER"}}, ["order.paid", "OrDeR"], ["rder", 1]),
        ({"suffix": ".paid"}, [".paid", "order.paid"], [".PAID", "paid.", 1]),
        ({"suffix": {"equals-ignore-case": ".Paid"}}, ["x.pAID"], ["paid", "x.paids"]),
        ({"equals-ignore-case": "Straße"}, ["STRASSE", "straße", "STRAßE"], ["strasse", "strass", "straßen"]),
        ({"equals-ignore-case": "k"}, ["k", "K"], ["\u212a", ""]),
        ({"equals-ignore-case": "a.c"}, ["A.C"], ["abc", "a\nc"]),
        ({"wildcard": "*"}, ["", "anything\nat all"], [1, None]),
        ({"wildcard": "a*"}, ["a", "abc"], ["", "ba"]),
        ({"wildcard": "*a"}, ["a", "bca"], ["", "ab"]),
        ({"wildcard": "a*b*c"}, ["abc", "aXbYc", "abbcc", "abcbc"], ["acb", "ab", "xabc"]),
        ({"wildcard": "aba*aba"}, ["abaaba", "abaXaba"], ["ababa", "aba"]),
        ({"wildcard": "*a*a*"}, ["aa", "xaya"], ["a", "xax"]),
        ({"wildcard": "plain"}, ["plain"], ["plains"]),
        ({"wildcard": r"1\*2"}, ["1*2"], ["1x2", r"1\*2"]),
        ({"wildcard": r"a\\*"}, ["a\\", "a\\b"], ["ab"]),
        ({"numeric": ["=", 5]}, [5, 5.0], [6, "5", True, None]),
        ({"numeric": ["<", 1]}, [0, -1.5], [1, True, False]),
        ({"numeric": ["<=", 1]}, [1], [1.1]),
        ({"numeric": [">", 0.1]}, [0.2], [0.1]),
        ({"numeric": [">=", 1]}, [1, 10**15], [0, 9007199254740993, float("nan"), float("inf"), 10**400]),
        ({"numeric": [">", 0, "<=", 5]}, [1, 5], [0, 5.01]),
        ({"numeric": [">", 1]}, [1e308, 1.7976931348623157e308, 10**25], [-1e308, 5e-324]),
        ({"numeric": ["<", 1e308]}, [1, -1e308, 9e307, 10**25], [1e308, 1.1e308]),
        ({"numeric": ["=", 9 * 10**24]}, [9e24, 9 * 10**24], [9.1e24]),
        ({"anything-but": 8 * 10**24}, [8.1e24, "8e24"], [8e24, 8 * 10**24]),
        ({"cidr": "10.0.0.0/24"}, ["10.0.0.0", "10.0.0.255", "::ffff:a00:1"], ["10.0.1.0", "x", "10.0.0", 10]),
        ({"cidr": "10.0.0.33/24"}, ["10.0.0.1"], ["10.1.0.33"]),
        ({"cidr": "2001:db8::/32"}, ["2001:DB8::5"], ["2001:db9::", "10.0.0.1"]),
        ({"anything-but": "a"}, ["b", "", 1, None, True], ["a"]),
        ({"anything-but": 1}, [2, "1", True, None], [1, 1.0]),
        ({"anything-but": ["a", "b"]}, ["c"], ["a", "b"]),
        ({"anything-but": [1, 2]}, [3, "1"], [1, 2.0]),
        ({"anything-but": {"prefix": "a"}}, ["b", 1, None], ["a", "ab"]),
        ({"anything-but": {"prefix": ["a", "b"]}}, ["c"], ["ab", "ba"]),
        ({"anything-but": {"suffix": ["a", "b"]}}, ["c"], ["ab", "ba"]),
        ({"anything-but": {"equals-ignore-case": ["A", "B"]}}, ["c", "ab"], ["a", "b", "B"]),
        ({"anything-but": {"wildcard": ["*.a", "b.*"]}}, ["c"], ["x.a", "b.x"]),
        ({"exists": True}, ["", 0, None, False], []),
        ({"exists": False}, [], ["", 0, None, False]),
    ],
)  # fmt: skip
def test_an_operator_takes_what_it_says(entry, yes, no):
    assert [value for value in yes if not matches([entry], value)] == []
    assert [value for value in no if matches([entry], value)] == []


@pytest.mark.parametrize("entries", [["::1"], [{"exists": False}, "::1"]])
def test_an_address_is_the_same_in_another_spelling(entries):
    assert matches(entries, "0:0:0:0:0:0:0:1")
    assert not matches(entries, "::2")
    assert not compile({"x": [{"exactly": "::1"}]}).matches({"x": "0:0:0:0:0:0:0:1"})


def test_one_entry_of_a_list_is_enough():
    entries = ["a", 1, None, {"prefix": "b"}, {"numeric": [">", 10]}]
    assert all(matches(entries, value) for value in ("a", 1, None, "bc", 11))
    assert not any(matches(entries, value) for value in ("c", 2, True, 10))


def test_all_fields_must_fit():
    pattern = compile({"a": [1], "b": {"c": [2]}})
    assert pattern.matches({"a": 1, "b": {"c": 2, "d": 3}, "e": 4})
    assert not pattern.matches({"a": 1, "b": {"c": 3}})
    assert not pattern.matches({"a": 1, "b": 2})
    assert not pattern.matches({"b": {"c": 2}})


def test_only_what_holds_a_value_exists():
    there, missing = compile({"a": [{"exists": True}]}), compile({"a": [{"exists": False}]})
    for event in ({}, {"a": {}}, {"a": {"b": 1}}, {"a": []}, {"a": [[], [{}]]}):
        assert not there.matches(event)
        assert missing.matches(event)
    for event in ({"a": None}, {"a": ""}, {"a": [1]}, {"a": [[None]]}):
        assert there.matches(event)
        assert not missing.matches(event)


def test_a_field_may_be_absent_or_have_a_value():
    pattern = compile({"a": ["x", {"exists": False}]})
    assert pattern.matches({})
    assert pattern.matches({"a": "x"})
    assert not pattern.matches({"a": "y"})


def test_anything_but_needs_a_value():
    pattern = compile({"a": [{"anything-but": "x"}]})
    assert not pattern.matches({})
    assert not pattern.matches({"a": {}})
    assert not pattern.matches({"a": []})


def test_one_alternative_of_or_is_enough_and_the_rest_must_hold_too():
    pattern = compile({"a": [1], "$or": [{"b": [1]}, {"c": {"$or": [{"d": [1]}, {"e": [1]}]}}]})
    assert pattern.matches({"a": 1, "b": 1})
    assert pattern.matches({"a": 1, "c": {"d": 1}})
    assert pattern.matches({"a": 1, "c": {"e": 1}})
    assert not pattern.matches({"a": 1, "c": {"f": 1}})
    assert not pattern.matches({"b": 1})


def test_a_dot_in_a_name_is_the_same_as_nesting():
    event = {"a.b": {"c": 1}}
    assert compile({"a": {"b": {"c": [1]}}}).matches(event)
    assert compile({"a.b.c": [1]}).matches(event)
    assert compile({"a": {"b.c": [1]}}).matches({"a": {"b": {"c": 1}}})
    both = compile({"a": {"b": [1], "c": [1]}})
    assert both.matches({"a.b": 1, "a": {"c": 1}})
    assert both.matches({"a.b": 1, "a": {"b": 2, "c": 1}})
    assert not both.matches({"a.b": 2, "a": {"c": 1}})


class Status(StrEnum):
    PAID = "paid"


@pytest.mark.parametrize("wrap", [UserDict, MappingProxyType])
def test_events_of_other_types_are_read_too(wrap):
    pattern = compile({"a": {"b": ["paid"]}, "t": [{"prefix": "v"}]})
    assert pattern.matches(wrap({"a": wrap({"b": Status.PAID}), "t": ("vip", "eu")}))
    assert not pattern.matches(wrap({"a": wrap({"b": "open"}), "t": ("vip",)}))


def test_what_json_does_not_know_exists_and_equals_nothing():
    event = {"a": Decimal(1), "b": [{1, 2}]}
    assert not compile({"a": [1]}).matches(event)
    assert compile({"a": [{"exists": True}], "b": [{"anything-but": 1}]}).matches(event)


def test_a_pattern_of_a_stranger_cannot_make_the_wildcard_slow():
    pattern = compile({"x": [{"wildcard": "*".join(["", *"a" * 200, "b", ""])}]})
    assert not pattern.matches({"x": "a" * 100_000})
