"""What a superuser with the triggers off may do to a log: one deed each, at random, and where it has to be found."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tests.auditing.support import entries, sql

TEXTS = ("action", "entity_type", "entity_id", "correlation_id", "ip", "user_agent")


class Deed(NamedTuple):
    what: str
    organization: str
    sequence: int
    """Of the first bad row."""


def tamper(dice: Random) -> Deed:
    deed = dice.choice([edit, edit, edit_json, edit_number, edit_hash, remove, remove_last, insert, append, swap, move])
    return deed(dice, dice.choice(entries()))


def edit(dice, entry):
    column = dice.choice(TEXTS)
    sql(f"UPDATE duebox_audit SET {column} = {column} || 'x' WHERE id = %s", entry.id)
    return Deed(f"edit {column}", entry.organization, entry.sequence)


def edit_json(dice, entry):
    column = dice.choice(["actor", "impersonator", "changes", "metadata"])
    sql(f"""UPDATE duebox_audit SET {column} = {column} || '{{"x": 1}}' WHERE id = %s""", entry.id)
    return Deed(f"edit {column}", entry.organization, entry.sequence)


def edit_number(dice, entry):
    what = dice.choice(["recorded_at = recorded_at + interval '1 microsecond'", "id = id + 1000000"])
    sql(f"UPDATE duebox_audit SET {what} WHERE id = %s", entry.id)
    return Deed(f"edit {what}", entry.organization, entry.sequence)


def edit_hash(dice, entry):
    column = dice.choice(["previous_hash", "hash"])
    sql(f"UPDATE duebox_audit SET {column} = sha256({column}) WHERE id = %s", entry.id)
    return Deed(f"edit {column}", entry.organization, entry.sequence)


def remove(dice, entry):
    sql("DELETE FROM duebox_audit WHERE id = %s", entry.id)
    return Deed("remove", entry.organization, entry.sequence)


def remove_last(dice, entry):
    count = dice.randint(1, 3)
    end = entries(organization=entry.organization)[-1].sequence
    sql("DELETE FROM duebox_audit WHERE organization = %s AND sequence > %s", entry.organization, end - count)
    return Deed(f"remove last {count}", entry.organization, end - count + 1)


def insert(dice, entry):
    """One more in the middle, the others moved on by one, everything chained up as well as can be without the key."""
    sql("ALTER TABLE duebox_audit DROP CONSTRAINT duebox_audit_one_chain")
    where = (entry.organization, entry.sequence)
    sql("UPDATE duebox_audit SET sequence = sequence + 1 WHERE organization = %s AND sequence >= %s", *where)
    _copy(entry.id, entry.sequence)
    sql("UPDATE duebox_audit_head SET sequence = sequence + 1 WHERE organization = %s", entry.organization)
    return Deed("insert", *where)


def append(dice, entry):
    end = entries(organization=entry.organization)[-1]
    _copy(end.id, end.sequence + 1)
    moved = dice.random() < 0.5
    if moved:
        sql("UPDATE duebox_audit_head SET sequence = sequence + 1 WHERE organization = %s", entry.organization)
    return Deed("append and move the head" if moved else "append", entry.organization, end.sequence + 1)


def swap(dice, entry):
    """Two entries change places."""
    other = dice.choice([each for each in entries(organization=entry.organization) if each.id != entry.id])
    sql("UPDATE duebox_audit SET sequence = 1e9 WHERE id = %s", entry.id)
    sql("UPDATE duebox_audit SET sequence = %s WHERE id = %s", entry.sequence, other.id)
    sql("UPDATE duebox_audit SET sequence = %s WHERE id = %s", other.sequence, entry.id)
    return Deed("swap", entry.organization, min(entry.sequence, other.sequence))


def move(dice, entry):
    """The last entry of one organization into the log of another."""
    taken = entries(organization=entry.organization)[-1]
    other = dice.choice([each for each in entries() if each.organization != entry.organization]).organization
    end = entries(organization=other)[-1].sequence
    sql("UPDATE duebox_audit SET organization = %s, sequence = %s WHERE id = %s", other, end + 1, taken.id)
    return Deed("move away", taken.organization, taken.sequence)


def _copy(source, sequence):
    sql("DROP TABLE IF EXISTS forged")
    sql("CREATE TEMPORARY TABLE forged AS SELECT * FROM duebox_audit WHERE id = %s", source)
    sql("UPDATE forged SET id = id + 5000000, sequence = %s, previous_hash = hash, hash = sha256(hash)", sequence)
    sql("INSERT INTO duebox_audit SELECT * FROM forged")
