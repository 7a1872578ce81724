"""Two catalogues of schemas, and what must not pass."""

from __future__ import annotations

import pytest

from duebox.contracts.compat import findings
from tests.contracts.compat.pairs import TEXT, WHOLE, event

V1 = event("number", number=TEXT, note=TEXT)
WIDER = event("number", number=TEXT, note={"type": ["string", "null"]})
NARROWER = event("number", "note", number=TEXT, note=TEXT)
WITHOUT = event("number", number=TEXT)
PAID = ("order.paid", 1)


def breaks(old, new, **options):
    return [each for each in findings(old, new, **options) if each.breaks]


def test_a_catalogue_that_stays_the_same_passes_in_silence():
    assert findings({PAID: V1}, {PAID: dict(V1)}) == []


def test_an_addition_passes_in_silence():
    assert findings({PAID: V1}, {PAID: event("number", number=TEXT, note=TEXT, coupon=TEXT)}) == []


def test_a_new_type_and_the_next_version_pass_in_silence():
    assert findings({PAID: V1}, {PAID: V1, ("order.paid", 2): event(total=WHOLE), ("order.sent", 1): V1}) == []


def test_a_break_is_told_with_place_direction_witness_and_repair():
    [found] = findings({PAID: V1}, {PAID: NARROWER})
    assert (found.type, found.version, found.path, found.direction) == ("order.paid", 1, "note", "backward")
    assert found.witness == {"number": "a"}
    assert found.what.startswith("`note` became required")
    assert found.repair == (
        "leave version 1 as it was; make this version 2 and give it an upcaster, or leave it optional or give it a "
        "default"
    )


def test_the_version_that_the_repair_names_is_one_that_is_free():
    [found] = findings({PAID: V1}, {PAID: NARROWER, ("order.paid", 2): V1})
    assert "make this version 3" in found.repair


@pytest.mark.parametrize(
    ("new", "refused_in"),
    [(WIDER, {"forward", "full"}), (NARROWER, {"backward", "full"}), (WITHOUT, {"full"})],
    ids=["wider", "narrower", "without an optional one"],
)
def test_the_mode_says_whom_a_change_must_not_break(new, refused_in):
    assert {
        mode for mode in ("backward", "forward", "full") if breaks({PAID: V1}, {PAID: new}, mode=mode)
    } == refused_in


@pytest.mark.parametrize("mode", ["backward", "forward", "full"])
@pytest.mark.parametrize("new", [WIDER, NARROWER, WITHOUT], ids=["wider", "narrower", "without"])
def test_a_public_type_is_held_to_the_full_mode(new, mode):
    public = ("public.order.paid", 1)
    assert breaks({public: V1}, {public: new}, mode=mode)


def test_a_removed_property_is_told_once_without_a_witness_where_no_event_is_refused():
    [found] = findings({PAID: V1}, {PAID: WITHOUT})
    assert (found.what, found.direction, found.witness) == ("`note` was removed", "", None)
    assert found.repair.endswith("or keep it, marked deprecated")


def test_a_removed_and_required_property_is_told_once():
    [found] = findings({PAID: NARROWER}, {PAID: WITHOUT})
    assert (found.direction, found.path) == ("forward", "note")


def test_a_version_that_vanished_does_not_pass_in_any_mode():
    for mode in ("backward", "forward", "full"):
        [found] = findings({PAID: V1, ("order.paid", 2): V1}, {("order.paid", 2): V1}, mode=mode)
        assert found.breaks
        assert "the version was removed" in found.what
        assert found.repair.startswith("restore order.paid.v1.json")


@pytest.mark.parametrize(
    ("version", "what", "repair"),
    [(4, "version 4 follows version 1", "make it version 2"), (2, None, None)],
)
def test_a_version_that_is_not_the_next_number_is_worth_a_look(version, what, repair):
    found = findings({PAID: V1}, {PAID: V1, ("order.paid", version): V1})
    assert [(each.what, each.repair, each.breaks) for each in found] == ([(what, repair, False)] if what else [])


def test_a_type_that_does_not_begin_with_version_1_is_worth_a_look():
    [found] = findings({}, {("order.paid", 3): V1})
    assert (found.what, found.repair, found.breaks) == ("the first version is 3", "make it version 1", False)


def test_another_description_is_worth_a_look_and_passes():
    old, new = (event(total={**WHOLE, "description": unit}) for unit in ("euros", "cents"))
    [found] = findings({PAID: old}, {PAID: new})
    assert not found.breaks
    assert found.what == '`total`: `description` went from "euros" to "cents"'


def test_a_new_schema_that_cannot_be_used_does_not_pass():
    [found] = findings({PAID: V1}, {PAID: event(number={"type": "text"})})
    assert found.breaks
    assert found.what.startswith("The schema cannot be used")


def test_an_old_schema_that_could_not_be_used_may_be_repaired():
    [found] = findings({PAID: event(number={"type": "text"})}, {PAID: V1})
    assert not found.breaks


def test_what_the_file_says_about_the_type_does_not_count():
    old = {**V1, "title": "order.paid", "x-event": {"owner": "team a"}}
    assert findings({PAID: old}, {PAID: {**V1, "title": "Paid", "x-event": {"owner": "team b"}}}) == []


def test_a_required_field_with_a_default_passes_because_handlers_get_it_filled_in():
    new = event("number", "currency", number=TEXT, note=TEXT, currency={**TEXT, "default": "EUR"})
    assert findings({PAID: V1}, {PAID: new}) == []


def test_it_does_not_pass_in_a_public_event_which_is_read_outside():
    new = event("number", "currency", number=TEXT, note=TEXT, currency={**TEXT, "default": "EUR"})
    [found] = findings({("public.order.paid", 1): V1}, {("public.order.paid", 1): new})
    assert (found.path, found.direction, found.breaks) == ("currency", "backward", True)
    assert "give it a default" not in found.repair


@pytest.mark.parametrize("mode", ["backward", "full"])
def test_a_format_that_comes_is_shown_by_an_event_because_it_is_asserted(mode):
    new = event("number", number={**TEXT, "format": "uuid"}, note=TEXT)
    [found] = findings({PAID: V1}, {PAID: new}, mode=mode)
    assert (found.path, found.direction, found.witness) == ("number", "backward", {"number": "a"})
