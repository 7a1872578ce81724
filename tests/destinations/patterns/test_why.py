"""Why an event is wanted or not, in one line."""

from __future__ import annotations

import pytest

from duebox.destinations.event_pattern import compile

EVENT = {
    "source": "shop",
    "detail-type": "order.paid",
    "detail": {"amount": 150, "tags": ["a", "b", "c", "d"], "items": [{"sku": "A", "qty": 1}, {"sku": "B", "qty": 2}]},
}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ({"source": ["shop"]}, "source is 'shop'"),
        (
            {"detail-type": [{"prefix": "order."}], "detail": {"amount": [{"numeric": [">", 100, "<=", 200]}]}},
            "detail-type is 'order.paid': begins with 'order.'; detail.amount is 150: above 100 and at most 200",
        ),
        ({"nope": [{"exists": False}]}, "nope has no value"),
        ({"detail": {"items": {"sku": ["B"]}}}, "detail.items.sku is 'B'"),
        ({"$or": [{"source": ["crm"]}, {"source": [{"wildcard": "s*p"}]}]}, "source is 'shop': like 's*p'"),
        (
            {"source": [{"anything-but": {"equals-ignore-case": "CRM"}}]},
            "source is 'shop': anything but 'CRM' in any case",
        ),
    ],
)
def test_a_match_names_all_that_made_it(pattern, why):
    assert compile(pattern).matches(EVENT)
    assert compile(pattern).why(EVENT) == why


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ({"source": ["crm", {"suffix": "x"}]}, "source is 'shop'; wanted 'crm' or ends with 'x'"),
        ({"nope": ["x"]}, "nope has no value; wanted 'x'"),
        ({"detail": [{"exists": True}]}, "detail has no value; wanted present"),
        ({"detail": {"tags": ["x"]}}, "detail.tags is 'a', 'b', 'c', …; wanted 'x'"),
        (
            {"detail": {"items": {"sku": ["A"], "qty": [2]}}},
            "detail.items.qty and detail.items.sku never match in the same element of a list",
        ),
        (
            {"$or": [{"source": ["crm"]}, {"detail": {"amount": [{"cidr": "10.0.0.0/8"}]}}]},
            "source is 'shop'; wanted 'crm' | detail.amount is 150; wanted within 10.0.0.0/8",
        ),
        (
            {"$or": [{"source": [name]} for name in "abcde"]},
            "source is 'shop'; wanted 'a' | source is 'shop'; wanted 'b' | source is 'shop'; wanted 'c' | and 2 more",
        ),
    ],
)
def test_a_miss_names_the_first_thing_that_does_not_fit(pattern, why):
    assert not compile(pattern).matches(EVENT)
    assert compile(pattern).why(EVENT) == why
