from __future__ import annotations

import pytest
from django.db import connection

from duebox.audit_log.archive import COLUMNS
from tests.audit_log.support import fill, found, sql

pytestmark = pytest.mark.django_db
THIRD = "id = (SELECT entry_id FROM duebox_audit_seal WHERE sequence = 3)"


def without_null_constraints(table):
    columns = """SELECT attname FROM pg_attribute
        WHERE attrelid = %s::regclass AND attnum > 0 AND attname NOT IN ('id', 'sequence')"""
    with connection.cursor() as cursor:
        cursor.execute(columns, [table])
        for (name,) in cursor.fetchall():
            sql(f"ALTER TABLE {table} ALTER {name} DROP NOT NULL")


@pytest.mark.parametrize("column", [*(each for each in COLUMNS if each != "id"), "writer", "writer_number"])
def test_a_value_that_was_taken_away_is_found(column):
    fill(5)
    without_null_constraints("duebox_audit")
    sql(f"UPDATE duebox_audit SET {column} = NULL WHERE {THIRD}")
    assert found().first.sequence == 3
    assert found().as_dict()["flaws"] == 1


@pytest.mark.parametrize("column", ["entry_id", "entry_hash", "hash"])
def test_a_value_that_was_taken_from_a_link_is_found(column):
    fill(5)
    without_null_constraints("duebox_audit_seal")
    sql(f"UPDATE duebox_audit_seal SET {column} = NULL WHERE sequence = 3")
    assert found().first.sequence == 3


@pytest.mark.parametrize("column", ["sequence", "hash", "pruned_sequence", "pruned_hash", "sealed_at", "signature"])
def test_a_value_that_was_taken_from_the_head_is_found(column):
    fill(5)
    without_null_constraints("duebox_audit_head")
    sql("ALTER TABLE duebox_audit_head ALTER sequence DROP NOT NULL")
    sql(f"UPDATE duebox_audit_head SET {column} = NULL")
    assert found().flaws > 0


@pytest.mark.parametrize("column", ["organization", "writer", "writer_number"])
def test_an_entry_without_a_value_that_was_put_in_by_hand_is_found(column):
    fill(2)
    without_null_constraints("duebox_audit")
    sql("CREATE TEMPORARY TABLE forged ON COMMIT DROP AS SELECT * FROM duebox_audit LIMIT 1")
    sql(
        f"UPDATE forged SET id = id + 1000, writer_number = writer_number + 1000, {column} = NULL"
        if column == "organization"
        else f"UPDATE forged SET id = id + 1000, {column} = NULL"
    )
    sql("INSERT INTO duebox_audit SELECT * FROM forged")
    assert "was not written by Duebox" in str(found().first)


def test_null_and_the_json_null_are_two_things():
    fill(5)
    sql(f"UPDATE duebox_audit SET actor = 'null' WHERE {THIRD}")
    assert found().first.sequence == 3
