"""Small schemas, changed ones, and the small events that they are asked about."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

NAMES = ("a", "b", "c")
SCALARS = [None, True, False, 0, 1, 2, 3, -1, 1.5, 6, "", "a", "b", "ab", "aa", "aaa", "b1"]
ARRAYS = [
    [],
    *([each] for each in SCALARS),
    *map(list, product((1, 2, "a", None), repeat=2)),
    [1, 1, 1],
    ["a", "b", "ab"],
]
PARTS = [None, True, 0, 1, 2, 1.5, "", "a", "aa", "b", [], [1], ["a"], {}, {"a": 1}, {"a": "a"}, {"b": "a"}]
EVENTS = [
    {},
    *({name: each} for name in NAMES for each in (*SCALARS, *ARRAYS, *PARTS)),
    *(
        {one: each, other: more}
        for one, other in (("a", "b"), ("a", "c"), ("b", "c"))
        for each in PARTS
        for more in PARTS
    ),
    *({"a": a, "b": b, "c": c} for a, b, c in product((1, "a", None), (1, "a", 2), ("a", {}, []))),
    *({**each, "z": 1} for each in ({}, {"a": 1}, {"a": "a", "b": "a"})),
]

_numbers = st.fixed_dictionaries(
    {"type": st.sampled_from(["number", "integer"])},
    optional={
        "minimum": st.sampled_from([0, 1, 1.5, 3]), "exclusiveMaximum": st.sampled_from([1, 2, 3]),
        "maximum": st.sampled_from([1, 2, 3]), "multipleOf": st.sampled_from([2, 3, 0.5]),
    },
)  # fmt: skip
_texts = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", ["string", "null"]])},
    optional={
        "minLength": st.sampled_from([1, 2]), "maxLength": st.sampled_from([1, 2, 3]),
        "pattern": st.sampled_from(["^a+$", "b", "^[ab]*$", "^.{2}$", "^a|b$", "(?=aa)", "^(?!b).*$", r"\d"]),
    },
)  # fmt: skip
_values = st.lists(st.sampled_from([None, True, 1, 2, "a", "b", "ab", 1.5, []]), min_size=1, max_size=3)
_leaves = st.one_of(
    st.just({}), _numbers, _texts, st.builds(lambda each: {"enum": each}, _values),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"const": 1}, {"const": "a"}]),
)  # fmt: skip


def _arrays(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner, "prefixItems": st.lists(inner, min_size=1, max_size=2), "contains": inner,
            "minItems": st.sampled_from([1, 2]), "maxItems": st.sampled_from([1, 2, 3]), "uniqueItems": st.just(True),
        },
    )  # fmt: skip


def _objects(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)},
        optional={
            "required": names, "additionalProperties": st.one_of(st.booleans(), inner),
            "minProperties": st.sampled_from([1, 2]), "maxProperties": st.sampled_from([1, 2]),
            "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, min_size=1, max_size=1),
        },
    )  # fmt: skip


def _combined(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    branches = st.lists(st.one_of(inner, _objects(inner)), min_size=1, max_size=3)
    condition = st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from(NAMES), inner, min_size=1)})
    demand = st.one_of(inner, st.builds(lambda name: {"required": [name]}, st.sampled_from(NAMES)))
    words = st.one_of(
        st.builds(lambda word, each: {word: each}, st.sampled_from(["anyOf", "oneOf", "allOf"]), branches),
        st.builds(lambda each, then, other: {"if": each, "then": then, "else": other}, condition, demand, demand),
        st.builds(lambda each: {"not": each}, demand),
    )
    return st.builds(lambda base, more: {**base, **more}, _objects(inner), words)


parts = st.recursive(_leaves, lambda inner: st.one_of(_objects(inner), _arrays(inner), _combined(inner)), max_leaves=6)
schemas = st.one_of(_objects(parts), _combined(parts))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Schema, Schema]:
    """A schema and what became of it: another one, or the same with a part of it replaced."""
    old = draw(schemas)
    if draw(st.booleans()):
        return old, draw(schemas)
    return old, draw(_changed(old))


@st.composite
def _changed(draw: st.DrawFn, schema: Schema) -> Schema:
    copy = dict(schema)
    properties = copy.get("properties", {})
    if properties and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(properties)))
        inner = properties[name]
        is_object = inner.get("type") == "object"
        copy["properties"] = {**properties, name: draw(_changed(inner)) if is_object else draw(parts)}
        return copy
    fresh = draw(schemas)
    word = draw(st.sampled_from(sorted({*copy, *fresh} - {"type"})))
    copy.pop(word, None)
    return {**copy, **({word: fresh[word]} if word in fresh else {})}
