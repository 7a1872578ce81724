"""What holds for every pattern and every event."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from duebox.destinations.event_pattern import compile, hold_together, read_pattern
from duebox.exceptions import InvalidPattern
from tests.support import examples

many = settings(max_examples=examples(60), deadline=None)
names = st.sampled_from(["a", "b", "c", "a.b", "$or"])
fields = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(["", "a", "A", "ab", "b", "*", "10.0.0.1"]) | st.text(max_size=4)
numbers = st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False, width=16)
scalars = texts | numbers | st.booleans() | st.none()
json_values = st.recursive(
    scalars | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
operators = st.sampled_from(
    ["prefix", "suffix", "equals-ignore-case", "wildcard", "anything-but", "numeric", "cidr", "exists"]
)
nearly = st.recursive(
    st.lists(scalars | st.dictionaries(operators, json_values, max_size=2), max_size=3),
    lambda inner: (
        st.dictionaries(names, inner, max_size=3) | st.lists(st.dictionaries(names, inner, max_size=2), max_size=3)
    ),
    max_leaves=8,
)
events = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=3), max_leaves=15
).filter(lambda value: isinstance(value, dict))
entries = st.one_of(
    scalars,
    texts.map(lambda text: {"prefix": text}),
    texts.map(lambda text: {"equals-ignore-case": text}),
    st.integers(-2, 2).map(lambda bound: {"numeric": [">", bound]}),
    st.booleans().map(lambda wanted: {"exists": wanted}),
    texts.map(lambda text: {"anything-but": text}),
)
leaves = st.lists(entries, min_size=1, max_size=2)
patterns = st.recursive(
    st.dictionaries(fields, leaves, min_size=1, max_size=2),
    lambda inner: st.dictionaries(fields, inner | leaves, min_size=1, max_size=2),
    max_leaves=4,
)  # fmt: skip


@many
@given(json_values | nearly, events)
def test_arbitrary_json_is_a_pattern_or_refused(pattern, event):
    try:
        compiled = compile(pattern)
    except InvalidPattern:
        return
    assert compiled.matches(event) in (True, False)
    assert compiled.why(event)


@many
@given(patterns, patterns, events)
def test_or_is_one_or_the_other(one, other, event):
    either = compile({"$or": [one, other]}).matches(event)
    assert either == (compile(one).matches(event) or compile(other).matches(event))


@many
@given(patterns, patterns, events)
def test_fields_of_different_parts_must_both_hold(one, other, event):
    both = compile({"left": one, "right": other})
    expected = compile({"left": one}).matches({"left": event}) and compile({"right": other}).matches({"right": event})
    assert both.matches({"left": event, "right": event}) == expected


@many
@given(scalars, texts | numbers)
def test_anything_but_is_the_complement_among_values(value, unwanted):
    exactly = {"exactly": unwanted} if isinstance(unwanted, str) else unwanted
    assert compile({"x": [{"anything-but": unwanted}]}).matches({"x": value}) != compile({"x": [exactly]}).matches(
        {"x": value}
    )


@many
@given(leaves, scalars)
def test_one_entry_of_a_list_is_enough(entries, value):
    each = [compile({"x": [entry]}).matches({"x": value}) for entry in entries]
    assert compile({"x": entries}).matches({"x": value}) == any(each)


@many
@given(st.lists(entries.filter(lambda entry: entry != {"exists": False}), min_size=1, max_size=2), st.lists(scalars))
def test_one_value_of_a_list_is_enough(entries, values):
    pattern = compile({"x": entries})
    assert pattern.matches({"x": values}) == any(pattern.matches({"x": value}) for value in values)
    assert pattern.matches({"x": [[values]]}) == pattern.matches({"x": values})


@many
@given(patterns, events)
def test_the_short_way_and_the_long_way_agree(pattern, event):
    assert compile(pattern).matches(event) == any(hold_together(each, event) for each in read_pattern(pattern))


@many
@given(patterns, events)
def test_more_fields_in_an_event_change_nothing_unless_they_are_asked_for(pattern, event):
    assert compile(pattern).matches({**event, "unasked": {"a": 1}}) == compile(pattern).matches(event)
