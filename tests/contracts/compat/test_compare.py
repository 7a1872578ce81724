"""What a verdict says: where, why, and by which event."""

from __future__ import annotations

import pytest

from duebox.contracts.compat import compare
from duebox.exceptions import InvalidContract
from tests.contracts.compat.pairs import NUMBER, TEXT, WHOLE, event, one


def backward(old, new):
    return [(each.what, each.witness) for each in compare(old, new).backward]


def forward(old, new):
    return [(each.what, each.witness) for each in compare(old, new).forward]


def test_a_new_required_property_is_shown_by_an_event_without_it():
    [(what, witness)] = backward(event("a", a=TEXT), event("a", "b", a=TEXT, b=TEXT))
    assert what == "`b` is new and required; an old event without it is refused by the new schema"
    assert witness == {"a": "a"}


def test_an_optional_property_that_became_required_is_said_so():
    [(what, witness)] = backward(event(a=TEXT), event("a", a=TEXT))
    assert what == "`a` became required; an old event without it is refused by the new schema"
    assert witness == {}


def test_a_removed_required_property_is_missed_by_old_readers():
    [(what, witness)] = forward(event("a", "b", a=TEXT, b=WHOLE), event("b", b=WHOLE))
    assert what == "`a` was removed; a new event without it is refused by the old schema, which requires it"
    assert witness == {"b": 1}


def test_a_requirement_that_is_gone_is_missed_by_old_readers():
    [(what, _)] = forward(event("a", a=TEXT), event(a=TEXT))
    assert (
        what == "`a` is not required any more; a new event without it is refused by the old schema, which requires it"
    )


def test_a_new_property_is_refused_by_a_closed_old_schema():
    old, new = ({**event(**names), "additionalProperties": False} for names in ({"a": TEXT}, {"a": TEXT, "b": TEXT}))
    [(what, witness)] = forward(old, new)
    assert what == (
        "`b` is new; a new event with it is refused by the old schema, which allows declared properties only"
    )
    assert witness == {"b": "a"}


@pytest.mark.parametrize(
    ("old", "new", "what", "value"),
    [
        (one(**NUMBER), one(**WHOLE), "`it`: `type` went from number to integer", 1.5),
        (one(type=["string", "null"]), one(**TEXT), "`it`: `type` went from null or string to string", None),
        (one(**TEXT), one(**TEXT, maxLength=3), "`it`: `maxLength` 3 was added", "aaaa"),
        (one(**WHOLE, minimum=0), one(**WHOLE, minimum=2), "`it`: `minimum` went from 0 to 2", 1),
        (one(enum=["a", "b"]), one(enum=["a", "c"]), '`it`: values were added "c" and removed "b"', "b"),
        (one(**TEXT), one(**TEXT, pattern="^[A-Z]{3}$"), '`it`: `pattern` "^[A-Z]{3}$" was added', "a"),
        (one(oneOf=[TEXT, WHOLE]), one(oneOf=[TEXT]), "`it` has other variants (`oneOf`)", 1),
    ],
)  # fmt: skip
def test_a_narrower_property_is_shown_by_a_value_that_was_possible(old, new, what, value):
    [(told, witness)] = backward(old, new)
    assert told.startswith(f"{what}; an old event with ")
    assert told.endswith(" there is refused by the new schema")
    assert witness == {"it": value}


def test_a_place_deep_inside_is_named_by_its_path():
    def order(count):
        return event("lines", lines={"type": "array", "items": event("count", count=count)})

    [found] = compare(order(WHOLE), order({**WHOLE, "maximum": 99})).backward
    assert (found.path, found.keyword) == ("lines[].count", "maximum")
    assert found.witness == {"lines": [{"count": 100}]}


def test_a_place_behind_a_reference_and_a_union_is_named_by_its_path():
    def order(**words):
        return {**event(to={"anyOf": [{"$ref": "#/$defs/To"}, {"type": "null"}]}), "$defs": {"To": event(zip=words)}}

    [found] = compare(order(**TEXT), order(**TEXT, maxLength=2)).backward
    assert (found.path, found.witness) == ("to.zip", {"to": {"zip": "aaa"}})


def test_every_break_is_told_and_each_once():
    old = event("a", a=TEXT, b=WHOLE, c=NUMBER)
    new = event("a", "d", a={**TEXT, "maxLength": 2}, b=TEXT, c=NUMBER, d=TEXT)
    verdict = compare(old, new)
    assert sorted((each.path, each.keyword) for each in verdict.backward) == [
        ("a", "maxLength"), ("b", "type"), ("d", "required"),
    ]  # fmt: skip
    assert [(each.path, each.keyword) for each in verdict.forward] == [("b", "type")]


def test_a_witness_is_as_small_as_can_be():
    names = [f"p{number}" for number in range(30)]
    old = event("p0", **dict.fromkeys(names, TEXT))
    new = {**old, "properties": {**old["properties"], "p29": {**TEXT, "maxLength": 1}}}
    assert backward(old, new)[0][1] == {"p0": "a", "p29": "aa"}


def test_a_combination_that_only_a_condition_refuses_is_found():
    old = event("kind", kind={"enum": ["card", "sepa", "cash"]}, iban=TEXT, amount=NUMBER)
    new = {**old, "allOf": [{"if": {"properties": {"kind": {"const": "sepa"}}}, "then": {"required": ["iban"]}}]}
    assert backward(old, new) == [
        ("`iban` became required; an old event without it is refused by the new schema", {"kind": "sepa"})
    ]


def test_a_value_that_two_variants_take_is_found():
    old = one(oneOf=[{**WHOLE, "maximum": 5}, {**WHOLE, "minimum": 6}])
    new = one(oneOf=[{**WHOLE, "maximum": 5}, {**WHOLE, "minimum": 5}])
    assert backward(old, new)[0][1] == {"it": 5}


def test_a_schema_that_holds_itself_is_compared_and_comes_to_an_end():
    def tree(most, **name):
        return event("name", name=name, inner={"type": "array", "items": {"$ref": "#"}, "maxItems": most})

    [found] = compare(tree(3, **TEXT), tree(2, **TEXT)).backward
    assert (found.path, found.witness) == ("inner", {"name": "a", "inner": [{"name": "a"}] * 3})
    assert compare(tree(3, **TEXT), tree(3, **TEXT, maxLength=1)).backward[0].witness == {"name": "aa"}


def test_a_schema_that_no_event_satisfies_breaks_nobody():
    impossible = event("a", a={"$ref": "#"})
    assert compare(impossible, event("b", b=TEXT)).backward_compatible


def test_definitions_that_hold_each_other_come_to_an_end():
    def pair(**name):
        inner = {
            "A": event("b", b={"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]}),
            "B": event(a={"$ref": "#/$defs/A"}, name=name),
        }
        return {"$ref": "#/$defs/A", "$defs": inner}  # fmt: skip

    assert compare(pair(**TEXT), pair(**WHOLE)).backward[0].witness == {"b": {"name": "a"}}


def test_a_large_schema_is_compared_as_a_whole():
    def level(depth, **leaf):
        inner = {"next": level(depth - 1, **leaf)} if depth else {}
        return event("p0", **{f"p{number}": TEXT for number in range(30)}, **inner, last=leaf)

    [found] = compare(level(2, **TEXT), {**level(2, **TEXT, maxLength=1)}).backward[-1:]
    assert found.path == "next.next.last"
    assert {each.path for each in compare(level(2, **TEXT), level(2, **WHOLE)).forward} == {
        "last", "next.last", "next.next.last",
    }  # fmt: skip


def test_a_format_is_an_annotation_for_readers_who_do_not_assert_it():
    verdict = compare(one(**TEXT), one(**TEXT, format="email"))
    assert (verdict.backward_compatible, verdict.forward_compatible, verdict.additive_only) == (True, True, False)


def test_a_format_refuses_events_for_readers_who_assert_it():
    comes = compare(one(**TEXT), one(**TEXT, format="date"), formats=True)
    assert [(each.what, each.witness) for each in comes.backward] == [
        ('`it`: `format` "date" was added; an old event with "a" there is refused by the new schema', {"it": "a"})
    ]
    assert comes.forward_compatible
    goes = compare(one(**TEXT, format="date"), one(**TEXT), formats=True)
    assert (goes.backward_compatible, goes.forward[0].witness) == (True, {"it": "a"})
    other = compare(one(**TEXT, format="date"), one(**TEXT, format="date-time"), formats=True)
    assert other.backward[0].witness == {"it": "2026-01-31"}
    assert other.forward[0].witness == {"it": "2026-01-31T09:00:00Z"}


def test_a_writer_sends_what_its_format_says_whatever_the_reader_does():
    verdict = compare(one(**TEXT, format="uuid"), one(**TEXT, minLength=36))
    assert verdict.backward_compatible


EUROS = {**TEXT, "default": "EUR"}


def test_a_required_property_with_a_default_breaks_readers_who_do_not_fill_it_in():
    old, new = event("a", a=TEXT), event("a", "currency", a=TEXT, currency=EUROS)
    assert compare(old, new).backward[0].witness == {"a": "a"}
    assert compare(old, new, defaults=True).additive_only


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (event(a=TEXT, currency=TEXT), event("currency", a=TEXT, currency=EUROS)),
        (event(lines={"type": "array", "items": event("sku", sku=TEXT)}),
         event(lines={"type": "array", "items": event("sku", "currency", sku=TEXT, currency=EUROS)})),
        (event(to=event("city", city=TEXT)), event(to=event("city", "land", city=TEXT, land=EUROS))),
        ({**event(to={"$ref": "#/$defs/to"}), "$defs": {"to": event(city=TEXT)}},
         {**event(to={"$ref": "#/$defs/to"}), "$defs": {"to": event("land", city=TEXT, land=EUROS)}}),
        (event(to={"anyOf": [event(city=TEXT), {"type": "null"}]}),
         event(to={"anyOf": [event("land", city=TEXT, land=EUROS), {"type": "null"}]})),
    ],
    ids=["was optional", "in a list", "in an object", "behind a reference", "in what may be null"],
)  # fmt: skip
def test_a_default_that_is_filled_in_counts_wherever_it_is(old, new):
    assert not compare(old, new).backward_compatible
    verdict = compare(old, new, defaults=True)
    assert verdict.additive_only, verdict


def test_a_default_that_the_schema_itself_refuses_helps_nobody():
    new = event("a", "seats", a=TEXT, seats={**WHOLE, "default": "many"})
    assert compare(event("a", a=TEXT), new, defaults=True).backward[0].path == "seats"


def test_a_default_that_goes_breaks_the_events_that_were_stored_before_it_came():
    old, new = event("a", "currency", a=TEXT, currency=EUROS), event("a", "currency", a=TEXT, currency=TEXT)
    assert compare(old, new).backward_compatible
    assert compare(old, new, defaults=True).backward[0].witness == {"a": "a"}


def test_whoever_has_not_been_upgraded_fills_in_nothing():
    old, new = event("a", "currency", a=TEXT, currency=EUROS), event("a", a=TEXT, currency=EUROS)
    assert compare(old, new, defaults=True).forward[0].witness == {"a": "a"}


@pytest.mark.parametrize("wrong", [{"type": "text"}, {"$ref": "https://example.org/order.json"}])
def test_a_schema_that_cannot_be_used_is_refused(wrong):
    with pytest.raises(InvalidContract):
        compare(event(a=TEXT), event(a=wrong))


def test_a_schema_that_is_combined_of_itself_comes_to_an_end():
    endless = {**event("a", a=TEXT), "anyOf": [{"$ref": "#"}] * 4, "allOf": [{"$ref": "#"}] * 4}
    assert compare(endless, event("a", a=WHOLE)).forward
    assert compare(event("a", a=WHOLE), endless).changes
