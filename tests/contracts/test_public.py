"""Nothing leaves that is not on the list."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from duebox.contracts.public import projected, schema_of
from duebox.contracts.validation import compiled
from duebox.exceptions import InvalidContract

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "customer": {"$ref": "#/$defs/person"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "gift_note": {"type": "string", "x-pii": True}},
                "required": ["sku", "gift_note"],
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "anything": {},
        "bag": {"type": "object"},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "maybe": {"anyOf": [{"$ref": "#/$defs/person"}, {"type": "null"}], "description": "If there is one"},
        "names": {"type": ["array", "null"], "items": {"type": "string"}},
    },
    "required": ["id", "customer", "lines"],
    "$defs": {
        "person": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "email": {"type": "string", "x-pii": "drop"}},
            "required": ["id", "email"],
        }
    },
}
DATA = {
    "id": "o1",
    "customer": {"id": 7, "email": "a@example.com", "surprise": "x"},
    "lines": [{"sku": "s", "gift_note": "love"}],
    "labels": {"a": "b"},
    "anything": {"secret": 1},
    "maybe": {"id": 8, "email": "b@example.com"},
}


def seen(*allowed: str) -> Any:
    return projected(DATA, schema_of(ORDER, allowed))


def test_only_the_named_fields_are_kept():
    assert seen("id") == {"id": "o1"}
    assert seen("id", "labels") == {"id": "o1", "labels": {"a": "b"}}


def test_personal_data_inside_of_a_named_field_is_left_out():
    assert seen("customer", "lines", "maybe") == {
        "customer": {"id": 7},
        "lines": [{"sku": "s"}],
        "maybe": {"id": 8},
    }


def test_a_part_of_a_field_can_be_named():
    assert seen("customer.id") == {"customer": {"id": 7}}
    with pytest.raises(InvalidContract, match=r"'customer\.email', which is personal data"):
        seen("customer.email")
    with pytest.raises(InvalidContract, match=r"'customer\.phone', which is not declared"):
        seen("customer.phone")


@pytest.mark.parametrize("name", ["anything", "bag", "either"])
def test_a_field_that_could_hold_anything_cannot_be_public(name):
    with pytest.raises(InvalidContract, match="has no exact type"):
        seen(name)


def test_what_is_kept_fits_the_public_schema():
    for allowed in (["id"], ["customer", "lines", "maybe"], ["customer.id", "labels"]):
        schema = schema_of(ORDER, allowed)
        assert not [*compiled(schema).errors(projected(DATA, schema))]


def test_the_public_schema_mentions_nothing_private():
    text = repr(schema_of(ORDER, ["id", "customer", "lines", "maybe"]))
    assert "email" not in text
    assert "gift_note" not in text
    assert "$defs" not in text


# Words that could carry something private

TEXT = {"type": "string"}
MARKED = {"type": "string", "x-pii": True}
LINES = {"type": "array", "items": {"type": "object", "properties": {"sku": TEXT, "note": MARKED}}}


def an_event(root: Any = None, definitions: Any = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **(root or {}), "$defs": definitions or {}}


@pytest.mark.parametrize(
    ("word", "root"),
    [
        ("if", {"if": {"required": ["kind"]}, "then": {"properties": {"contact": MARKED}}}),
        ("allOf", {"allOf": [{"properties": {"contact": MARKED}}]}),
        ("anyOf", {"anyOf": [{"properties": {"contact": MARKED}}, {"type": "null"}]}),
        ("$ref", {"$ref": "#/$defs/base"}),
        ("patternProperties", {"patternProperties": {"^con": MARKED}}),
        ("dependentSchemas", {"dependentSchemas": {"kind": {"properties": {"contact": MARKED}}}}),
    ],
)
def test_a_schema_with_other_words_about_its_fields_has_no_public_twin(word, root):
    schema = an_event(root, {"base": {"properties": {"contact": MARKED}}}, kind=TEXT, contact=TEXT)
    with pytest.raises(InvalidContract, match=re.escape(f"The schema uses {word!r} beside its properties")):
        schema_of(schema, ["contact"])


def test_an_event_that_is_personal_as_a_whole_has_no_public_twin():
    with pytest.raises(InvalidContract, match="the whole event is personal data"):
        schema_of(an_event({"x-pii": True}, contact=TEXT), ["contact"])


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("propertyNames", {"type": "object", "additionalProperties": TEXT, "propertyNames": {"x-pii": True}}),
        ("properties", {"$ref": "#/$defs/person", "properties": {"email": TEXT}}),
        ("allOf", {"anyOf": [TEXT, {"type": "null"}], "allOf": [{"x-pii": True}]}),
        ("oneOf", {"anyOf": [TEXT, {"type": "null"}], "oneOf": [{"x-pii": True}]}),
        ("allOf", {"type": "string", "allOf": [{"x-pii": True}]}),
        ("additionalProperties", {"const": "a", "additionalProperties": {"x-pii": True}}),
        ("contains", {**LINES, "contains": {"required": ["note"]}}),
        ("patternProperties", {"type": "object", "properties": {"a": TEXT}, "patternProperties": {"a": MARKED}}),
        ("if", {"type": "object", "properties": {"a": TEXT}, "if": {}, "then": {"properties": {"a": MARKED}}}),
        ("surprise", {"type": "string", "surprise": 1}),
    ],
)
def test_a_public_field_may_use_plain_words_only(word, part):
    schema = an_event(definitions={"person": ORDER["$defs"]["person"]}, field=part)
    with pytest.raises(InvalidContract, match=rf"The public field 'field' uses {word!r}.*leave {word!r} out"):
        schema_of(schema, ["field"])


@pytest.mark.parametrize("part", [{"enum": ["x", {"a": 1}]}, {"enum": [[1]]}, {"const": {"e": "a@example.com"}}])
def test_the_values_of_a_public_field_are_plain(part):
    with pytest.raises(InvalidContract, match=r"The public field 'field' lists the value .*declare its parts instead"):
        schema_of(an_event(field=part), ["field"])


def test_a_field_with_properties_says_that_it_is_an_object():
    """Otherwise a text would be valid, and leave as it is."""
    with pytest.raises(InvalidContract, match="has no exact type"):
        schema_of(an_event(field={"properties": {"sku": TEXT, "note": MARKED}}), ["field"])


@pytest.mark.parametrize(
    ("definitions", "field"),
    [
        ({"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, {"$ref": "#/$defs/a"}),
        ({"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}, {"$ref": "#/$defs/a"}),
        ({"a": {"type": "object", "properties": {x: {"$ref": "#/$defs/a"} for x in "abcdef"}}}, {"$ref": "#/$defs/a"}),
        ({}, {"$ref": "#"}),
    ],
)
def test_a_field_that_holds_itself_cannot_be_public(definitions, field):
    with pytest.raises(InvalidContract, match=r"The public field 'field.*which contains itself; name the parts of it"):
        schema_of(an_event(definitions=definitions, field=field), ["field"])


def test_a_part_of_a_field_that_holds_itself_can_be_public():
    node = {"type": "object", "properties": {"name": TEXT, "inner": {"$ref": "#/$defs/node"}}}
    schema = schema_of(an_event(definitions={"node": node}, field={"$ref": "#/$defs/node"}), ["field.name"])
    assert projected({"field": {"name": "a", "inner": {"name": "b"}}}, schema) == {"field": {"name": "a"}}


def test_values_in_annotations_stay_inside():
    """They are whole values, private parts included."""
    private = {"examples": [[{"note": "love"}]], "default": [{"note": "love"}], "$comment": "love", "x-note": "love"}
    text = repr(schema_of(an_event({"examples": [{"field": "love"}]}, field={**LINES, **private}), ["field"]))
    assert "love" not in text


def test_what_a_field_means_is_said_to_everybody():
    said = {"description": "For whom", "title": "Name", "deprecated": True}
    schema = schema_of(
        an_event(definitions={"text": TEXT}, a={**TEXT, **said}, b={"$ref": "#/$defs/text", **said}), ["a", "b"]
    )
    assert schema["properties"] == {"a": {**TEXT, **said}, "b": {**TEXT, **said}}
    assert schema_of(ORDER, ["maybe"])["properties"]["maybe"]["description"] == "If there is one"


def test_words_about_the_number_of_fields_are_left_out_with_the_fields():
    counted = {"minProperties": 2, "maxProperties": 2, "dependentRequired": {"sku": ["note"]}}
    line = {"type": "object", "properties": {"sku": TEXT, "note": MARKED}, "additionalProperties": False, **counted}
    schema = schema_of(an_event(counted, line=line), ["line"])
    assert not [*compiled(schema).errors(projected({"line": {"sku": "a", "note": "b"}}, schema))]


def test_a_list_that_may_be_null_can_be_public():
    schema = schema_of(ORDER, ["names"])
    assert [projected({"names": value}, schema) for value in (["a"], None)] == [{"names": ["a"]}, {"names": None}]


def test_a_broken_schema_is_refused_as_such():
    with pytest.raises(InvalidContract, match="cannot be used"):
        schema_of({"type": "object", "properties": {"a": {"enum": 1}}}, ["a"])


# A hundred thousand random events


class Maker:
    """Random schemas in which every leaf and key of the data knows its own path, so that what slipped through is seen.

    Marks of personal data stand where a schema can hold them: on the part, beside a reference, behind it, in a
    combination at the root or further down, on the names of a mapping.
    """

    def __init__(self, luck: random.Random) -> None:
        self.luck = luck
        self.definitions: dict[str, Any] = {}
        self.paths: list[str] = []

    def event(self) -> dict[str, Any]:
        self.definitions, self.paths = {}, []
        schema = self.combined(self.schema(3), 0.1)
        return {**schema, "$defs": self.definitions}

    def schema(self, depth: int) -> dict[str, Any]:
        names = self.luck.sample("abcdefgh", self.luck.randint(1, 5))
        required = self.luck.sample(names, self.luck.randint(0, len(names)))
        return {"type": "object", "properties": {name: self.part(depth) for name in names}, "required": required}

    def part(self, depth: int) -> dict[str, Any]:
        kinds = ["text", "number", "nullable"] + (["object", "list", "mapping", "choice", "reference"] if depth else [])
        match self.luck.choice(kinds):
            case "text":
                found: dict[str, Any] = {"type": "string", "examples": ["LEAK"]}
            case "number":
                found = {"type": ["integer", "null"]}
            case "nullable":
                found = {"anyOf": [{"type": "string"}, {"type": "null"}]}
            case "object":
                found = self.combined(self.schema(depth - 1), 0.05)
            case "list":
                found = {"type": "array", "items": self.part(depth - 1), "default": ["LEAK"]}
            case "mapping":
                found = {"type": "object", "additionalProperties": self.part(depth - 1)}
                found |= {"propertyNames": self.marked({"minLength": 1}, 0.5)} if self.luck.random() < 0.1 else {}
            case "choice":
                found = {"anyOf": [self.schema(depth - 1), {"type": "null"}]}
            case _:
                found = self.reference(depth)
        return self.marked(found, 0.2)

    def reference(self, depth: int) -> dict[str, Any]:
        name = f"d {len(self.definitions)}"
        self.definitions[name] = {}
        self.definitions[name] = self.part(depth - 1)
        found = {"$ref": f"#/$defs/{name.replace(' ', '%20')}", "description": "Somewhere else"}
        own = self.definitions[name].get("properties")
        if own and self.luck.random() < 0.1:
            return {**found, "properties": {each: self.marked({}, 0.5) for each in own}}
        return found

    def combined(self, schema: dict[str, Any], chance: float) -> dict[str, Any]:
        if self.luck.random() >= chance:
            return schema
        name = self.luck.choice(sorted(schema["properties"]))
        says = {"properties": {name: self.marked({}, 0.7)}}
        more: list[dict[str, Any]] = [
            {"allOf": [says]}, {"if": {"required": [name]}, "then": says}, {"anyOf": [says, {"type": "null"}]},
            {"dependentSchemas": {name: says}}, {"patternProperties": {f"^{name}$": says["properties"][name]}},
        ]  # fmt: skip
        return {**schema, **self.luck.choice(more)}

    def marked(self, schema: dict[str, Any], chance: float) -> dict[str, Any]:
        return {**schema, "x-pii": True} if self.luck.random() < chance else schema

    def behind(self, schema: dict[str, Any]) -> dict[str, Any]:
        return self.definitions[schema["$ref"].rpartition("/")[2].replace("%20", " ")]

    def data(self, schema: dict[str, Any], path: str = "") -> Any:
        """What a careless writer might store: undeclared names among the others, everywhere."""
        if "$ref" in schema:
            return self.data(self.behind(schema), path)
        if "properties" in schema:
            found = {name: self.data(part, f"{path}.{name}") for name, part in schema["properties"].items()}
            return {**found, f"x{self.luck.randint(0, 9)}": f"LEAK {path}"} if self.luck.random() < 0.5 else found
        if "additionalProperties" in schema:
            values = schema["additionalProperties"]
            return {f"{path}.# {each}": self.data(values, f"{path}.*") for each in range(2)}
        if "items" in schema:
            return [self.data(schema["items"], f"{path}[]") for _ in range(self.luck.randint(0, 2))]
        if "anyOf" in schema:
            return self.data(schema["anyOf"][0], path) if self.luck.random() < 0.8 else None
        if schema["type"] == "string":
            return path
        self.paths.append(path)
        return len(self.paths) - 1

    def allowed(self, schema: dict[str, Any]) -> list[str]:
        names = sorted(schema["properties"])
        return self.luck.sample(names, self.luck.randint(1, len(names)))

    def leaves(self, value: Any) -> list[str]:
        """The paths of all that data holds, as it says itself."""
        if isinstance(value, dict):
            keys = [key.split(" ")[0] for key in value if "#" in key]
            return [*keys, *(leaf for part in value.values() for leaf in self.leaves(part))]
        if isinstance(value, list):
            return [leaf for part in value for leaf in self.leaves(part)]
        return [] if value is None else [self.paths[value] if isinstance(value, int) else value]

    def personal(self, schema: dict[str, Any], path: str = "") -> set[str]:
        """Every path that any word of the schema marks. Written apart from the code that it judges."""
        found = {path} if schema.get("x-pii") else set()
        found |= self.personal(self.behind(schema), path) if "$ref" in schema else set()
        for name, part in [*schema.get("properties", {}).items(), *schema.get("patternProperties", {}).items()]:
            found |= self.personal(part, f"{path}.{name.strip('^$')}")
        for word, step in (("items", "[]"), ("additionalProperties", ".*"), ("propertyNames", ".#"), ("then", "")):
            found |= self.personal(schema[word], path + step) if word in schema else set()
        inside = [*schema.get("allOf", ()), *schema.get("anyOf", ()), *schema.get("dependentSchemas", {}).values()]
        return found.union(*(self.personal(each, path) for each in inside))


def may_leave(path: str, allowed: list[str], personal: set[str]) -> bool:
    steps = re.findall(r"\.[^.\[]+|\[\]", path)
    above = {"".join(steps[:count]) for count in range(len(steps) + 1)}
    return "LEAK" not in path and steps[0][1:] in allowed and not above & personal


@pytest.mark.large
def test_of_a_hundred_thousand_random_events_nothing_leaves_that_is_not_allowed():
    maker, projections, kept, refused = Maker(random.Random(20261116)), 0, 0, 0
    while projections < 100_000:
        schema = maker.event()
        allowed, personal = maker.allowed(schema), maker.personal(schema)
        try:
            public = schema_of(schema, allowed)
        except InvalidContract:
            refused += 1
            continue
        assert "LEAK" not in repr(public)
        fits, may = compiled(public).is_valid, {}
        for _ in range(100):
            seen = projected(maker.data(schema), public)
            assert fits(seen), (schema, allowed, seen)
            for path in maker.leaves(seen):
                if path not in may:
                    may[path] = may_leave(path, allowed, personal)
                assert may[path], (schema, allowed, path)
                kept += 1
            projections += 1
    assert kept > 100_000
    assert refused > 100
