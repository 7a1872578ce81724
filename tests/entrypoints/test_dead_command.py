from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

import duebox
from duebox.exceptions import Refused
from duebox.models import Attempt, Delivery, Endpoint, Event
from duebox.testing import drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def letters(on):
    @on("a.*", name="it", retry=duebox.Retry(limit=1, first=0))
    def it(event):
        raise ValueError(f"no luck with {event.type}")

    @on("a.b", name="other")
    def other(event):
        raise duebox.Permanent("no such address")

    duebox.emit("a.b", {"number": 1})
    duebox.emit("a.c", {"number": 2})
    drain(raises=False)
    return {(row.subscriber, number): row.id for number, row in enumerate(Delivery.objects.order_by("id"))}


def ids(letters):
    return list(letters.values())


def test_without_dead_letters_it_says_so(manage):
    assert manage("duebox", "dead") == "No dead letters.\n"


def test_without_dead_letters_json_is_empty(manage):
    assert manage("duebox", "dead", "--json") == ""


def test_dead_letters_are_listed_with_what_happened(manage, letters):
    lines = manage("duebox", "dead").splitlines()
    assert len(lines) == 7
    assert lines[0].split() == [str(ids(letters)[0]), *lines[0].split()[1:3], "a.b", "->", "it"]
    assert lines[1].strip() == "ValueError: no luck with a.b"
    assert lines[3].strip() == "duebox.exceptions.Permanent: no such address"
    assert lines[6] == "3 dead letters."


def test_the_list_can_be_filtered_and_cut(manage, letters):
    assert manage("duebox", "dead", "--type", "a.c").endswith("1 dead letter.\n")
    assert manage("duebox", "dead", "--subscriber", "it").endswith("2 dead letters.\n")
    assert manage("duebox", "dead", "--type", "a.c", "--subscriber", "other") == "No dead letters.\n"
    cut = manage("duebox", "dead", "--limit", "1").splitlines()
    assert (len(cut), cut[-1]) == (3, "3 dead letters.")


def test_the_list_as_json_is_one_letter_a_line(manage, letters):
    lines = [json.loads(line) for line in manage("duebox", "dead", "--json").splitlines()]
    assert [line["id"] for line in lines] == ids(letters)
    assert lines[0]["data"] == {"number": 1}
    assert lines[0]["error"] == "ValueError: no luck with a.b"


def test_one_letter_is_shown_with_its_whole_history_and_the_way_out(manage, letters):
    first = ids(letters)[0]
    shown = manage("duebox", "dead", str(first))
    assert 'data: {"number": 1}' in shown
    assert "attempt 1: retried" in shown
    assert "attempt 2: dead" in shown
    assert "Traceback (most recent call last):" in shown
    assert shown.endswith(f"Another chance: manage.py duebox redrive {first}\n")


def test_one_letter_as_json_has_its_history(manage, letters):
    shown = json.loads(manage("duebox", "dead", str(ids(letters)[0]), "--json"))
    assert [each["outcome"] for each in shown["history"]] == ["retried", "dead"]


@pytest.mark.parametrize("verb", ["dead", "redrive"])
def test_an_id_that_is_no_dead_letter_is_refused_with_where_to_look(manage, verb):
    with pytest.raises(CommandError, match="No dead letter has the id 999; `duebox dead` lists them"):
        manage("duebox", verb, "999")


def test_a_redrive_without_saying_which_is_refused(manage, letters):
    with pytest.raises(CommandError, match=r"Say which ones: ids, --type, --subscriber, .*or --all"):
        manage("duebox", "redrive")
    assert Delivery.objects.dead().count() == 3


def test_letters_are_redriven_by_id_and_the_history_says_by_whom(manage, letters):
    one, two, _ = ids(letters)
    assert manage("duebox", "redrive", str(one), str(two)) == "2 due again.\n"
    assert Delivery.objects.dead().count() == 1
    told = Attempt.objects.filter(outcome="redriven")
    assert {each.delivery_id for each in told} == {one, two}
    assert all(each.note.startswith("redriven by ") for each in told)


def test_one_wrong_id_among_many_redrives_none(manage, letters):
    with pytest.raises(CommandError, match="id 999"):
        manage("duebox", "redrive", str(ids(letters)[0]), "999")
    assert Delivery.objects.dead().count() == 3


@pytest.mark.parametrize(
    ("words", "left"),
    [(["--type", "a.b"], 1), (["--subscriber", "it"], 1), (["--type", "a.b", "--subscriber", "it"], 2), (["--all"], 0)],
)
def test_letters_are_redriven_by_filter(manage, letters, words, left):
    assert manage("duebox", "redrive", *words) == f"{3 - left} due again.\n"
    assert Delivery.objects.dead().count() == left


def test_a_dry_run_only_says_how_many_and_shows_one(manage, letters):
    assert manage("duebox", "redrive", "--all", "--dry-run").splitlines() == [
        "3 would be due again.",
        f"The first of them is {ids(letters)[0]}, a.b to it: ValueError: no luck with a.b",
        "Dry run: nothing was changed.",
    ]
    assert Delivery.objects.dead().count() == 3


def test_a_redrive_as_json_lists_the_ids(manage, letters):
    told = json.loads(manage("duebox", "redrive", "--all", "--json"))
    assert (sorted(told["redriven"]), told["dry_run"]) == (ids(letters), False)


def test_a_redriven_letter_is_delivered_once_the_handler_is_repaired(manage, letters, on):
    duebox.subscribers.remove("other")
    on("a.b", name="other")(lambda event: None)
    manage("duebox", "redrive", "--subscriber", "other")
    assert drain().delivered == 1


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_can_be_looked_at(manage, letters):
    assert manage("duebox", "dead", "--database", "other") == "No dead letters.\n"


def test_groups_are_listed_with_their_count_a_sample_and_the_error(manage, letters):
    lines = manage("duebox", "dead", "--groups").splitlines()
    assert lines[0].split() == [
        "count",
        "event",
        "subscriber",
        "first,",
        "utc",
        "last,",
        "utc",
        "sample",
        "group",
        "error",
    ]
    assert len(lines) == 5
    assert any(line.split()[:3] == ["1", "a.c", "it"] and "ValueError: no luck with a.c" in line for line in lines)
    assert lines[-1] == "Another chance for a group: manage.py duebox redrive --group GROUP"


def test_groups_as_json_are_one_a_line(manage, letters):
    found = [json.loads(line) for line in manage("duebox", "dead", "--groups", "--json").splitlines()]
    assert {(each["event_type"], each["subscriber"]) for each in found} == {
        ("a.b", "it"),
        ("a.b", "other"),
        ("a.c", "it"),
    }
    assert all(each["count"] == 1 and each["sample"] in ids(letters) for each in found)


def test_without_dead_letters_there_are_no_groups(manage):
    assert manage("duebox", "dead", "--groups") == "No dead letters.\n"
    assert manage("duebox", "dead", "--parked") == "No parked letters.\n"


@pytest.fixture
def alike(on):
    """Dead letters of one cause, in four groups: two types, each to two subscribers."""

    def broken(event):
        raise duebox.Permanent("no luck")

    for name in ("one", "two"):
        on("b.*", name=name)(broken)
    for _ in range(2):
        duebox.emit("b.came")
        duebox.emit("b.went")
    drain(raises=False)
    assert len(set(Delivery.objects.dead().values_list("fingerprint", flat=True))) == 1


def groups(manage, *words):
    return [json.loads(line) for line in manage("duebox", "dead", "--groups", "--json", *words).splitlines()]


@pytest.mark.parametrize(
    ("verb", "said"),
    [(["redrive"], "due again"), (["park", "--note", "x"], "parked"), (["discard", "--reason", "x"], "discarded")],
)
def test_a_group_is_dealt_with_by_its_id_and_nothing_else_is(manage, alike, verb, said):
    (one,) = groups(manage, "--type", "b.came", "--subscriber", "one")
    assert one["group"] in manage("duebox", "dead", "--groups")
    assert manage("duebox", *verb, "--group", one["group"]) == f"2 {said}.\n"
    left = {(each["event_type"], each["subscriber"]): each["count"] for each in groups(manage)}
    assert left == {("b.came", "two"): 2, ("b.went", "one"): 2, ("b.went", "two"): 2}


def test_the_way_out_of_a_part_of_a_group_names_that_part(manage, alike):
    manage("duebox", "park", "--type", "b.came", "--note", "x")
    told = manage("duebox", "dead", "--groups", "--parked", "--since", "2020-01-01 10:00")
    assert told.endswith("redrive --group GROUP --since '2020-01-01 10:00' --parked\n")


def test_a_letter_says_its_group(manage, alike):
    letter = json.loads(manage("duebox", "dead", "--json", "--limit", "1"))
    assert f"group: {letter['group']}\n" in manage("duebox", "dead", str(letter["id"]))
    found = manage("duebox", "dead", "--group", letter["group"], "--json").splitlines()
    assert [json.loads(line)["group"] for line in found] == [letter["group"]] * 2
    assert [each["group"] for each in groups(manage, "--group", letter["group"])] == [letter["group"]]


@pytest.mark.parametrize(
    "words", [["dead"], ["dead", "--groups"], ["redrive"], ["park", "--note", "x"], ["discard", "--reason", "x"]]
)
def test_a_group_that_is_not_there_is_refused_with_where_to_look(manage, alike, words):
    with pytest.raises(CommandError, match="No dead letter is in the group 'abc'; `duebox dead --groups` lists them"):
        manage("duebox", *words, "--group", "abc")
    assert Delivery.objects.dead().count() == 8


def test_a_group_of_parked_letters_is_asked_for_as_such(manage, alike):
    group = groups(manage)[0]["group"]
    manage("duebox", "park", "--group", group, "--note", "x")
    with pytest.raises(CommandError, match="No dead letter is in the group"):
        manage("duebox", "redrive", "--group", group)
    assert manage("duebox", "dead", "--parked", "--group", group).endswith("2 parked letters.\n")
    assert manage("duebox", "redrive", "--parked", "--group", group) == "2 due again.\n"
    with pytest.raises(CommandError, match=r"No parked letter is in the group .*`duebox dead --groups --parked` lists"):
        manage("duebox", "redrive", "--parked", "--group", group)


@pytest.mark.parametrize(
    "words", [["dead"], ["dead", "--groups"], ["redrive"], ["park", "--note", "x"], ["discard", "--reason", "x"]]
)
def test_a_subscriber_that_nobody_knows_is_refused_with_a_hint(manage, letters, words):
    with pytest.raises(CommandError, match="Nobody is known as 'othr'; did you mean 'other'"):
        manage("duebox", *words, "--subscriber", "othr")
    assert Delivery.objects.dead().count() == 3


@pytest.mark.parametrize(
    "words", [["dead"], ["dead", "--groups"], ["redrive"], ["park", "--note", "x"], ["discard", "--reason", "x"]]
)
@pytest.mark.parametrize(("given", "near"), [("order.piad", "order.paid"), ("oder.*", "order.paid"), ("a.bb", "a.b")])
def test_a_type_that_nobody_knows_is_refused_with_a_hint(manage, letters, declare, words, given, near):
    declare("order.paid")(type("OrderPaid", (), {}))
    said = f"No event type is like {given!r}, neither a declared one nor that of a dead letter; did you mean {near!r}?"
    with pytest.raises(CommandError, match=f"^{re.escape(said)}$"):
        manage("duebox", *words, "--type", given)
    assert Delivery.objects.dead().count() == 3


@pytest.mark.parametrize("given", ["order.paid", "order.*", "*.paid", "a.shipped", "duebox.delivery.dead", "duebox.*"])
def test_a_type_that_is_known_and_of_which_nothing_died_is_no_mistake(manage, letters, declare, on, given):
    declare("order.paid")(type("OrderPaid", (), {}))
    on("a.shipped", name="third")(lambda event: None)
    assert manage("duebox", "redrive", "--type", given) == "0 due again.\n"


def test_the_type_of_a_parked_letter_is_known(manage, letters):
    manage("duebox", "park", "--type", "a.c", "--note", "x")
    assert manage("duebox", "redrive", "--type", "a.c") == "0 due again.\n"
    assert manage("duebox", "redrive", "--type", "a.c", "--parked") == "1 due again.\n"


@pytest.fixture
def hooks(letters, settings):
    """The first letter is a public event to an endpoint."""
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {"hooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks"}},
    }
    row = Endpoint.objects.create(organization="7", url="https://example.com/", types=["*"], secret="encrypted")
    first = Delivery.objects.get(id=ids(letters)[0])
    event = Event.objects.create(type="public.order.paid", organization="7", occurred_at=timezone.now())
    Delivery.objects.filter(id=first.id).update(event_id=event.id, subscriber=f"to:hooks/{row.pk}")
    return row


@pytest.mark.parametrize("given", ["order.paid", "public.order.paid", "order.*", "*.paid", "*"])
def test_for_an_endpoint_the_type_of_a_public_event_may_be_written_without_its_prefix(manage, hooks, given):
    for name in ("hooks", f"hooks/{hooks.pk}"):
        assert manage("duebox", "dead", "--subscriber", name, "--type", given).endswith("1 dead letter.\n")


def test_letters_of_a_disabled_endpoint_are_left_where_they_are_with_the_way_out(manage, letters, hooks):
    Endpoint.objects.update(disabled_at=timezone.now())
    first, *rest = ids(letters)
    left = f"1 left: 'to:hooks/{hooks.pk}' is disabled; enable it first: manage.py duebox endpoints enable {hooks.pk}\n"
    dry = manage("duebox", "redrive", "--all", "--dry-run")
    assert dry.startswith("2 would be due again.\n")
    assert left in dry
    assert manage("duebox", "redrive", str(first)) == f"0 due again.\n{left}"
    assert json.loads(manage("duebox", "redrive", "--all", "--json")) == {
        "redriven": rest,
        "left": [first],
        "dry_run": False,
    }
    assert Delivery.objects.dead().get().id == first
    assert manage("duebox", "park", str(first), "--note", "x") == "1 parked.\n"
    assert manage("duebox", "discard", str(first), "--reason", "x") == "1 discarded.\n"


def test_a_subscriber_that_is_gone_from_the_code_is_known_by_its_letters(manage, letters):
    duebox.subscribers.remove("other")
    assert manage("duebox", "dead", "--subscriber", "other").endswith("1 dead letter.\n")


def test_a_destination_is_named_with_or_without_its_prefix(manage, letters, settings):
    settings.DUEBOX = {"UNDECLARED": "allow", "DESTINATIONS": {"bus": {"BACKEND": "tests.app.outside.Post"}}}
    first = ids(letters)[0]
    assert manage("duebox", "dead", "--subscriber", "bus") == "No dead letters.\n"
    for stored in ("to:bus", "to:bus/part", "to:gone", "to:gone/part"):
        Delivery.objects.filter(id=first).update(subscriber=stored)
        for name in (stored, stored.removeprefix("to:")):
            assert json.loads(manage("duebox", "dead", "--subscriber", name, "--json"))["id"] == first


def test_what_somebody_answered_cannot_steer_the_terminal(manage, on):
    @on("a.b", name="it")
    def it(event):
        raise Refused("The answer was 500. \x1b[31mred\n\x1b]0;title\x07", status=500)

    duebox.emit("a.b")
    drain(raises=False)
    shown = manage("duebox", "dead", str(Delivery.objects.get().id))
    assert "\x1b" not in shown + manage("duebox", "dead") + manage("duebox", "dead", "--groups")
    assert "    \\x1b]0;title\\x07" in shown


def test_letters_are_redriven_by_the_time_of_their_death(manage, letters):
    tomorrow = (timezone.now() + timedelta(days=1)).isoformat()
    assert manage("duebox", "redrive", "--since", tomorrow) == "0 due again.\n"
    assert manage("duebox", "redrive", "--since", "2020-01-01") == "3 due again.\n"


def test_no_more_are_redriven_than_the_limit_says_and_so_many_a_second(manage, letters):
    assert manage("duebox", "redrive", "--all", "--limit", "2", "--rate", "0.01") == "2 due again.\n"
    one, two = Delivery.objects.filter(status="pending").order_by("id")
    assert 90 < (two.due_at - one.due_at).total_seconds() < 110
    assert Delivery.objects.dead().count() == 1


def test_a_letter_is_parked_with_a_note_and_listed_apart(manage, letters):
    first = str(ids(letters)[0])
    assert manage("duebox", "park", first, "--note", "asks the supplier") == "1 parked.\n"
    assert manage("duebox", "dead").endswith("2 dead letters.\n")
    listed = manage("duebox", "dead", "--parked").splitlines()
    assert listed[1].strip() == "ValueError: no luck with a.b"
    assert listed[2].strip().startswith("parked by ")
    assert listed[2].endswith(": asks the supplier")
    assert listed[-1] == "1 parked letter."
    assert json.loads(manage("duebox", "dead", "--parked", "--json"))["note"].endswith(": asks the supplier")
    assert "parked by" in manage("duebox", "dead", first)
    assert manage("duebox", "redrive", "--all") == "2 due again.\n"
    assert manage("duebox", "redrive", "--parked") == "1 due again.\n"


def test_letters_are_discarded_with_a_reason(manage, letters):
    one, two, three = map(str, ids(letters))
    manage("duebox", "park", one, "--note", "aside")
    assert json.loads(manage("duebox", "discard", one, two, "--reason", "too old", "--json")) == {
        "discarded": [int(one), int(two)],
        "dry_run": False,
    }
    assert list(Delivery.objects.values_list("id", flat=True)) == [int(three)]
    assert all(each.note.endswith(": too old") for each in Attempt.objects.filter(outcome="discarded"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["park", "--note", "x"], "Say which ones"),
        (["discard", "--reason", "x"], "Say which ones"),
        (["park", "{first}"], "--note"),
        (["discard", "{first}"], "--reason"),
        (["discard", "{first}", "--reason", " "], "Say why in a few words"),
        (["discard", "{first}", "999", "--reason", "x"], "No dead letter has the id 999"),
        (["redrive", "--all", "--rate", "no"], "'no' is not a number above 0"),
        (["redrive", "--since", "soon"], "--since"),
    ],
)
def test_what_cannot_be_meant_changes_nothing(manage, letters, words, problem):
    with pytest.raises(CommandError, match=problem):
        manage("duebox", *(word.format(first=ids(letters)[0]) for word in words))
    assert Delivery.objects.dead().count() == 3


def test_a_dry_run_of_park_and_discard_changes_nothing(manage, letters):
    first = str(ids(letters)[0])
    assert manage("duebox", "park", first, "--note", "x", "--dry-run").startswith("1 would be parked.\n")
    assert manage("duebox", "discard", "--type", "a.*", "--reason", "x", "--dry-run").startswith(
        "3 would be discarded."
    )
    assert Delivery.objects.dead().count() == 3
