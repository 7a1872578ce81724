from __future__ import annotations

import pytest

from duebox.events.wildcards import fits, fits_any, is_pattern_of_types


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("order.paid", ["order.paid"], ["order.paid_late", "shop.order.paid"]),
        ("order.*", ["order.paid", "order.item.added"], ["order", "orders.paid"]),
        ("*.paid", ["order.paid", "shop.order.paid"], ["paid", "order.paid_late"]),
        ("*", ["order.paid"], []),
        ("mail.[ab]?", ["mail.a1", "mail.b2"], ["mail.c1", "mail.a"]),
    ],
)
def test_a_star_stands_for_any_text(pattern, fitting, others):
    assert all(fits(name, pattern) for name in fitting)
    assert not any(fits(name, pattern) for name in others)


def test_one_of_several_patterns_is_enough():
    assert fits_any("order.paid", ["mail.*", "order.*"])
    assert not fits_any("order.paid", [])


@pytest.mark.parametrize("text", ["", "order.", ".paid", "or*der", "a.*.b", "Order.paid", "**"])
def test_other_texts_are_no_patterns_of_event_types(text):
    assert not is_pattern_of_types(text)
