from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DataError, ProgrammingError, connections

import duebox
from duebox.store import leases, operations
from duebox.store.deliveries import seconds_to_next
from duebox.store.run_sql import number_array, run, statement, text_array
from duebox.testing import drain


def test_a_statement_is_loaded_without_its_comments():
    assert "--" not in statement("destination_claim")
    assert "FOR UPDATE OF d SKIP LOCKED" in statement("destination_claim")


def test_a_statement_that_does_not_exist_is_an_error():
    with pytest.raises(FileNotFoundError):
        statement("guess")


TEXTS = ["", "NULL", 'a"b', "back\\slash", "{curly,comma}", "new\nline", " spaces ", '","', "ünï 🎂"]


@pytest.mark.django_db
@pytest.mark.parametrize("texts", [TEXTS, [*TEXTS, None], [], [""], [None, None], ['"', '"'], ['\\"', "\\"]])
def test_array_literals_carry_any_text_and_number(texts):
    numbers = [0, -1, 2**62, 1.5, 1e-300, 1790000000.123456]
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT %s::text[], %s::float8[]", [text_array(texts), number_array(numbers)])
        assert cursor.fetchone() == (texts, numbers)


@pytest.mark.django_db
@pytest.mark.parametrize("texts", [["a", "b\0c"], ["\0", "\0"], ["\0", None]])
def test_a_text_with_a_nul_is_refused_and_not_taken_for_two(texts):
    with pytest.raises((DataError, ValueError)), connections["default"].cursor() as cursor:
        cursor.execute("SELECT %s::text[]", [text_array(texts)])


@pytest.mark.django_db(databases=["other"], transaction=True)
def test_everything_works_with_parameters_bound_by_the_server(on, monkeypatch):
    """Django's option server_side_binding: the server sees $1, not the value, and must find out its type."""
    connections["other"].close()
    monkeypatch.setitem(connections["other"].settings_dict, "OPTIONS", {"server_side_binding": True})

    @on("a.b", name="it", ordered=True, retry=duebox.Retry(limit=0))
    def handler(event):
        if event.data["what"] == "no":
            raise ValueError
        return duebox.Snooze(timedelta(days=1)) if event.data["what"] == "later" else None

    try:
        for number, what in enumerate(("fine", "later", "no")):
            duebox.emit("a.b", {"what": what}, about=("x", number), idempotency_key=what, using="other")
        again = [
            duebox.NewEvent(type="a.b", data={"what": what}, about=("x", 0), idempotency_key=what)
            for what in ("fine", "fresh")
        ]
        assert [fact.created for fact in duebox.emit_many(again, using="other")] == [False, True]
        drained = drain(using="other", raises=False)
        assert (drained.delivered, drained.dead, drained.outcome_counts.snoozed) == (2, 1, 1)
        (letter,) = operations.find("other", states=["dead"])
        assert operations.retry("other", [letter.id], note="again").ids == [letter.id]
        leases.rescue("other", 3, always=True)
        assert seconds_to_next("other", ["it"]).delivery > 80_000
    finally:
        connections["other"].close()


@pytest.mark.django_db
def test_a_mistake_that_is_no_missing_table_passes_as_it_is():
    with pytest.raises(ProgrammingError):
        run("next_due", "default", {"subscribers": 5, "now": None})
