from __future__ import annotations

import pytest

from duebox.destinations.envelope import as_dict
from duebox.destinations.routes import FIELDS, read_route
from duebox.exceptions import InvalidDestination, InvalidPattern
from tests.destinations.conformance import a_fact

ALIASES = {"bus": {}, "queue": {}}


def takes(match, type="order.paid", **columns):
    return read_route({"match": match, "to": "bus"}, ALIASES).takes(a_fact(type, **columns).row)


@pytest.mark.parametrize(
    ("match", "taken", "left"),
    [
        ("order.paid", ["order.paid"], ["order.paid.twice", "border.paid", "order.pai"]),
        ("order.*", ["order.paid", "order.line.added"], ["order", "border.paid"]),
        ("*.paid", ["order.paid", "order.line.paid"], ["order.unpaid", "paid"]),
        ("order.*.added", ["order.line.added"], ["order.added", "order.line.removed"]),
        ("*", ["order.paid", "a.b"], []),
    ],
)
def test_a_text_is_exact_or_has_a_star_for_any_words(match, taken, left):
    assert [each for each in taken if not takes(match, each)] == []
    assert [each for each in left if takes(match, each)] == []


def test_a_pattern_looks_at_the_whole_envelope():
    dear = {"event_type": [{"prefix": "order."}], "data": {"total": [{"numeric": [">", 100]}]}}
    assert takes(dear, data={"total": 150})
    assert not takes(dear, data={"total": 50})
    assert not takes(dear, "member.invited", data={"total": 150})
    assert takes({"organization_id": ["7"], "aggregate_type": ["order"]})
    assert not takes({"organization_id": ["8"]})


@pytest.mark.parametrize("type", ["public.order.paid", "duebox.delivery.dead"])
def test_public_and_internal_events_go_only_where_a_route_names_them(type):
    prefix = type.partition(".")[0]
    assert not takes("*", type)
    assert not takes("*.paid", type)
    assert not takes({"data": {"total": [150]}}, type)
    assert not takes({"event_type": [{"suffix": ".paid"}]}, type)
    assert takes(type, type)
    assert takes(f"{prefix}.*", type)
    assert takes({"event_type": [{"prefix": f"{prefix}."}]}, type)


@pytest.mark.parametrize(
    ("route", "message"),
    [
        ("order.*", "is not a route"),
        ({"match": "order.*"}, "is not a route"),
        ({"match": "order.*", "to": "bus", "when": 1}, "is not a route"),
        ({"match": "order.*", "to": "buss"}, "did you mean 'bus'"),
        ({"match": "order.*", "to": ["bus", "moon"]}, "add it to DUEBOX"),
        ({"match": "Order.*", "to": "bus"}, "lower snake case"),
        ({"match": "order.pa*", "to": "bus"}, "lower snake case"),
        ({"match": "", "to": "bus"}, "lower snake case"),
        ({"match": "order.*", "to": 5}, "A route goes to 5; name the alias of a destination, or a list of them."),
        ({"match": "order.*", "to": None}, "A route goes to None; name the alias"),
        ({"match": "order.*", "to": {"bus": 1}}, "A route goes to {'bus': 1}; name the alias"),
        ({"match": "order.*", "to": [["bus"]]}, r"A route goes to \['bus'\], which is not a destination"),
        ({"match": "order.*", "to": []}, "A route has no destination"),
        (
            {"match": {"evnt_type": ["order.paid"]}, "to": "bus"},
            "'evnt_type', which is not a field of the envelope; did you mean 'event_type'?",
        ),
        (
            {"match": {"whatever": {"a": [1]}}, "to": "bus"},
            "'whatever', .*; known are event_id, event_type, .*, metadata",
        ),
        ({"match": {"detail.a": [1]}, "to": "bus"}, "'detail', which is not a field of the envelope"),
        ({"match": {"data": {"a": [1]}, "$or": [{"producer": ["x"]}, {"prodcer": ["x"]}]}, "to": "bus"}, "'prodcer'"),
        ({"match": {"event_type": {"prefix": ["order."]}}, "to": "bus"}, "below 'event_type', which is a single value"),
        ({"match": {"event_type.prefix": ["order."]}, "to": "bus"}, "below 'event_type', which is a single value"),
    ],
)
def test_a_route_that_cannot_be_meant_is_refused(route, message):
    with pytest.raises(InvalidDestination, match=message):
        read_route(route, ALIASES)


def test_a_pattern_may_name_whatever_an_envelope_has():
    assert sorted(FIELDS) == sorted(as_dict(a_fact().row))
    for name in FIELDS:
        takes({name: [{"exists": True}]})
    assert takes({"data.total": [150]}, data={"total": 150})
    assert takes({"$or": [{"event_type": ["order.paid"]}, {"data": {"$or": [{"a": [1]}, {"b": [1]}]}}]})


def test_a_pattern_that_is_none_is_refused_with_its_place():
    with pytest.raises(InvalidPattern, match=r"data\.total"):
        read_route({"match": {"data": {"total": 5}}, "to": "bus"}, ALIASES)


def test_a_route_says_what_decides():
    assert read_route({"match": "order.paid", "to": "bus"}, ALIASES).why("order.paid") == "its type"
    assert read_route({"match": "order.*", "to": "bus"}, ALIASES).why("order.paid") == "its type matches 'order.*'"
    assert "pattern" in read_route({"match": {"event_type": ["order.paid"]}, "to": "bus"}, ALIASES).why("order.paid")


@pytest.mark.parametrize(
    ("match", "reaches"),
    [
        ("public.*", True),
        ("public.order.paid", True),
        ("*", False),
        ("order.*", False),
        ({"event_type": [{"prefix": "public."}]}, True),
        ({"$or": [{"event_type": ["order.paid"]}, {"event_type": ["public.order.paid"]}]}, True),
        ({"event_type": ["order.paid"]}, False),
        ({"data": {"kind": ["public.order.paid"]}}, False),
    ],
)
def test_a_route_knows_whether_it_reaches_public_events(match, reaches):
    assert read_route({"match": match, "to": "bus"}, ALIASES).reaches("public.") is reaches
