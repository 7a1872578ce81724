from __future__ import annotations

import json

import pytest
from django.core.management.base import CommandError

import duebox
from duebox.models import Attempt, Delivery
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
    assert manage("duebox", "dead", "--type", "a.x") == "No dead letters.\n"
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
    with pytest.raises(CommandError, match="Say which ones: ids, --type, --subscriber, or --all"):
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


def test_a_dry_run_only_says_how_many(manage, letters):
    assert manage("duebox", "redrive", "--all", "--dry-run") == "3 would be due again.\n"
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
