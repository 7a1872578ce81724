from __future__ import annotations

from itertools import pairwise

import pytest
from django.db import connection

from duebox.auditing.export import COLUMNS
from tests.auditing.support import entries, fill, flawed, sql

pytestmark = pytest.mark.django_db


def first():
    return str(flawed()["acme"].first)


def without_null_constraints(table):
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND attname != 'id'"
    with connection.cursor() as cursor:
        cursor.execute(columns, [table])
        for (name,) in cursor.fetchall():
            sql(f"ALTER TABLE {table} ALTER {name} DROP NOT NULL")


@pytest.mark.parametrize("column", [each for each in COLUMNS if each != "id"])
def test_a_value_that_was_taken_away_is_found(column):
    fill(5)
    without_null_constraints("duebox_audit")
    sql(f"UPDATE duebox_audit SET {column} = NULL WHERE sequence IN (3, 5)")
    assert flawed()["acme"].first.sequence == 3
    assert flawed()["acme"].flaws >= 2
    assert flawed()["acme"].as_dict()["flaws"] >= 2


@pytest.mark.parametrize("column", ["sequence", "hash", "pruned_sequence", "pruned_hash", "seal"])
def test_a_value_that_was_taken_from_the_head_is_found(column):
    fill(5)
    without_null_constraints("duebox_audit_head")
    sql(f"UPDATE duebox_audit_head SET {column} = NULL")
    assert flawed()["acme"].flaws > 0


# Not into actor and impersonator, where a text with the separator in it is no JSON.
@pytest.mark.parametrize(
    ("one", "next"), [pair for pair in pairwise(COLUMNS[4:12]) if pair[0] not in ("actor", "impersonator")]
)
def test_two_columns_that_were_pushed_together_are_found(one, next):
    """So that all of them in a row still read as they did."""
    fill(5)
    without_null_constraints("duebox_audit")
    sql(f"UPDATE duebox_audit SET {one} = {one} || chr(31) || {next}, {next} = NULL WHERE sequence = 3")
    assert first() == f"entry 3 (id {entries()[2].id}) is not as it was written"


def test_nothing_and_the_sign_for_nothing_are_found():
    fill(5)
    without_null_constraints("duebox_audit")
    sql("UPDATE duebox_audit SET actor = NULL WHERE sequence = 3")
    assert first().startswith("entry 3 ")
    sql("UPDATE duebox_audit SET actor = 'null' WHERE sequence = 3")
    assert first().startswith("entry 3 ")
