"""What a list in an event means."""

from __future__ import annotations

from duebox.destinations.event_pattern import compile


def test_one_value_of_a_list_is_enough():
    pattern = compile({"tags": ["vip", {"prefix": "gold"}]})
    assert pattern.matches({"tags": ["eu", "vip"]})
    assert pattern.matches({"tags": [1, None, "golden"]})
    assert not pattern.matches({"tags": ["eu", None]})
    assert not pattern.matches({"tags": []})


def test_lists_in_lists_are_looked_through():
    pattern = compile({"m": ["x"]})
    assert pattern.matches({"m": [[["y"], "z"], [["x"]]]})
    assert not pattern.matches({"m": [["y"], []]})


def test_anything_but_is_content_with_one_other_value():
    pattern = compile({"tags": [{"anything-but": "a"}]})
    assert pattern.matches({"tags": ["a", "b"]})
    assert not pattern.matches({"tags": ["a", "a"]})


def test_fields_must_fit_in_the_same_element():
    pattern = compile({"items": {"sku": ["B"], "qty": [2]}})
    assert pattern.matches({"items": [{"sku": "A", "qty": 1}, {"sku": "B", "qty": 2}]})
    assert not pattern.matches({"items": [{"sku": "A", "qty": 2}, {"sku": "B", "qty": 1}]})


def test_fields_must_fit_in_the_same_element_of_every_list_they_share():
    pattern = compile({"a": {"b": {"x": [1], "y": [1]}, "z": [1]}})
    assert pattern.matches({"a": [{"z": 2}, {"z": 1, "b": [{"x": 0}, {"x": 1, "y": 1}]}]})
    assert not pattern.matches({"a": [{"z": 1, "b": [{"x": 1}, {"y": 1}]}]})
    assert not pattern.matches({"a": [{"z": 1, "b": [{"x": 1, "y": 0}]}, {"z": 0, "b": [{"x": 1, "y": 1}]}]})


def test_elements_of_lists_in_lists_are_kept_apart_as_well():
    pattern = compile({"m": {"x": [1], "y": [1]}})
    assert pattern.matches({"m": [[{"x": 1}, {"x": 1, "y": 1}]]})
    assert not pattern.matches({"m": [[{"x": 1}], [{"y": 1}]]})
    assert not pattern.matches({"m": [[{"x": 1}, {"y": 1}]]})


def test_different_lists_do_not_bind_each_other():
    pattern = compile({"a": {"x": [1]}, "b": {"x": [1]}})
    assert pattern.matches({"a": [{"x": 1}, {"x": 2}], "b": [{"x": 2}, {"x": 1}]})


def test_the_same_list_in_two_places_is_two_lists():
    shared = [{"x": 1}, {"x": 2}]
    assert compile({"a": {"x": [1]}, "b": {"x": [2]}}).matches({"a": shared, "b": shared})


def test_plain_values_beside_objects_bind_no_element():
    pattern = compile({"a": ["x"], "a.b": [1]})
    assert pattern.matches({"a": ["x", {"b": 1}]})
    assert not pattern.matches({"a": [["x"], {"b": 1}]})


def test_a_field_is_absent_from_the_element_that_was_chosen():
    pattern = compile({"items": {"a": [1], "b": [{"exists": False}]}})
    assert pattern.matches({"items": [{"a": 1}, {"a": 2, "b": 1}]})
    assert not pattern.matches({"items": [{"a": 1, "b": 1}, {"a": 2}]})


def test_a_field_that_comes_first_must_be_absent_from_all_elements():
    """As the engine has it: fields are looked at by name, and before one is found no element is chosen."""
    pattern = compile({"items": {"a": [{"exists": False}], "b": [1]}})
    assert pattern.matches({"items": [{"b": 1}, {"b": 2}]})
    assert not pattern.matches({"items": [{"b": 1}, {"a": 1}]})


def test_the_work_grows_with_the_event_and_not_with_the_combinations():
    many = [{"x": 1, "y": 1, "z": 1} for _ in range(3000)]
    event = {"a": many, "b": many, "c": many, "d": [{"x": 1}]}
    wanted = {"x": [1], "y": [1], "z": [1]}
    assert not compile({"a": wanted, "b": wanted, "c": wanted, "d": {"x": [2]}}).matches(event)


def test_a_list_may_be_as_deep_as_json_allows():
    deep = "x"
    for _ in range(2000):
        deep = [deep]
    assert compile({"a": ["x"]}).matches({"a": deep})
