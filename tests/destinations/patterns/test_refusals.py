"""What is not a pattern, and what is said about it."""

from __future__ import annotations

import pytest

from duebox.destinations.event_pattern import compile
from duebox.exceptions import InvalidPattern


def deep(levels):
    pattern = {"x": [1]}
    for _ in range(levels):
        pattern = {"x": pattern}
    return pattern


@pytest.mark.parametrize(
    ("pattern", "path", "words"),
    [
        ([], "pattern", "is not an object"),
        ({}, "pattern", "is an empty object"),
        ({"a": {}}, "a", "is an empty object"),
        ({"a": []}, "a", "is an empty list"),
        ({"a": "x"}, "a", "'x' is not in a list; put it in a list: ['x']"),
        ({"a": None}, "a", "null is not in a list"),
        ({"a": {"b": 1}}, "a.b", "1 is not in a list"),
        ({1: [1]}, "pattern", "has the name 1"),
        ({"a": [[1]]}, "a[0]", "[1] is not a value"),
        ({"a": [1, {1, 2}]}, "a[1]", "set is not a value"),
        ({"a": [float("nan")]}, "a[0]", "nan is not a number that JSON knows"),
        ({"a": [{}]}, "a[0]", "has nothing; name one operator"),
        ({"a": [{"prefix": "x", "suffix": "y"}]}, "a[0]", "has 'prefix', 'suffix'"),
        ({"a": [{"regex": "x"}]}, "a[0]", "'regex' is not an operator; use one of prefix, suffix"),
        ({"a": [{"prefix": 1}]}, "a[0].prefix", "1 is not a text"),
        ({"a": [{"prefix": {"suffix": "x"}}]}, "a[0].prefix", "'suffix' cannot stand here"),
        ({"a": [{"suffix": {"equals-ignore-case": None}}]}, "a[0].suffix.equals-ignore-case", "null is not a text"),
        ({"a": [{"equals-ignore-case": ["x"]}]}, "a[0].equals-ignore-case", "is not a text"),
        ({"a": [{"wildcard": "a**b"}]}, "a[0].wildcard", "two stars in a row"),
        ({"a": [{"wildcard": "a\\b"}]}, "a[0].wildcard", "has a backslash"),
        ({"a": [{"wildcard": "a\\"}]}, "a[0].wildcard", "has a backslash"),
        ({"a": [{"exists": "yes"}]}, "a[0].exists", "is 'yes'; say true or false"),
        ({"a": [{"exists": 1}]}, "a[0].exists", "say true or false"),
        ({"a": [{"cidr": 1}]}, "a[0].cidr", "1 is not a text"),
        ({"a": [{"cidr": "10.0.0.0"}]}, "a[0].cidr", "is not a network; write it as 10.0.0.0/24"),
        ({"a": [{"cidr": "10.0.0.0/32"}]}, "a[0].cidr", "has a mask of 32 bits, but 31 is the maximum"),
        ({"a": [{"cidr": "10.0.0.0/x"}]}, "a[0].cidr", "is not a network"),
        ({"a": [{"cidr": "example.com/8"}]}, "a[0].cidr", "is not a network"),
        ({"a": [{"numeric": ">"}]}, "a[0].numeric", "write a list such as"),
        ({"a": [{"numeric": [">"]}]}, "a[0].numeric", "write a list such as"),
        ({"a": [{"numeric": ["!=", 1]}]}, "a[0].numeric", "'!=' is not a comparison; use one of = < <= > >="),
        ({"a": [{"numeric": [">", "1"]}]}, "a[0].numeric", "'1' is not a number that can be compared"),
        ({"a": [{"numeric": [">", True]}]}, "a[0].numeric", "true is not a number"),
        ({"a": [{"numeric": [">", 2**53 + 1]}]}, "a[0].numeric", "use one of up to 15 digits"),
        ({"a": [{"numeric": [">", float("inf")]}]}, "a[0].numeric", "is not a number that can be compared"),
        ({"a": [{"numeric": ["<", 1, ">", 0]}]}, "a[0].numeric", "a range has > or >= first"),
        ({"a": [{"numeric": ["=", 1, "<", 2]}]}, "a[0].numeric", "a range has > or >= first"),
        ({"a": [{"numeric": [">", 5, "<", 5]}]}, "a[0].numeric", "5 is not below 5; widen the range"),
        ({"a": [{"anything-but": []}]}, "a[0].anything-but", "is an empty list"),
        ({"a": [{"anything-but": None}]}, "a[0].anything-but", "null is neither a text nor a number"),
        ({"a": [{"anything-but": [True]}]}, "a[0].anything-but", "true is neither a text nor a number"),
        ({"a": [{"anything-but": ["x", 1]}]}, "a[0].anything-but", "mixes texts and numbers"),
        ({"a": [{"anything-but": {"exists": True}}]}, "a[0].anything-but", "'exists' cannot stand here"),
        ({"a": [{"anything-but": {"prefix": ""}}]}, "a[0].anything-but.prefix", "is an empty text"),
        ({"a": [{"anything-but": {"suffix": []}}]}, "a[0].anything-but.suffix", "is an empty list"),
        ({"a": [{"anything-but": {"wildcard": ["**"]}}]}, "a[0].anything-but.wildcard", "two stars in a row"),
        ({"$or": {"a": [1]}}, "$or", "write a list of two or more objects"),
        ({"$or": [{"a": [1]}]}, "$or", "write a list of two or more objects"),
        ({"a": {"$or": [{"b": [1]}, "x"]}}, "a.$or[1]", "'x' is not an object"),
        ({"$or": [{"a": [1]}, {}]}, "pattern", "is an empty object"),
        ({"$or": [{"prefix": ["x"]}, {"a": [1]}]}, "prefix", "cannot be a field inside $or"),
        ({"a": [1], "$or": [{"a": [2]}, {"b": [1]}]}, "a", "is repeated"),
        ({"a": {"b": [1]}, "a.b": [2]}, "a.b", "is repeated"),
        (deep(70), "pattern", "nested deeper than 64 levels"),
        ({".".join("x" * 70): [1]}, "pattern", "nested deeper than 64 levels"),
        ({str(n): [1] for n in range(300)}, "pattern", "has 300 fields; keep to 256"),
        ({str(n): {"$or": [{"a": [1]}] * 2} for n in range(10)}, "9.$or", "makes more than 1000 combinations"),
    ],
)  # fmt: skip
def test_it_is_refused_with_the_path_the_fact_and_the_repair(pattern, path, words):
    with pytest.raises(InvalidPattern) as refusal:
        compile(pattern)
    assert refusal.value.path == path
    assert str(refusal.value).startswith(f"{path}: ")
    assert words in str(refusal.value)


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(InvalidPattern) as refusal:
        compile({"a": "x" * 5000})
    assert len(str(refusal.value)) < 200


def test_names_that_or_keeps_for_itself_are_fields_elsewhere():
    assert compile({"prefix": ["x"]}).matches({"prefix": "x"})
