"""What a superuser with the triggers off may do to a sealed log: one deed each, at random, and where it is found."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from duebox.models import AuditEntry
from tests.audit_log.support import sql

TEXTS = ("organization", "action", "entity_type", "entity_id", "correlation_id", "ip", "user_agent")


class Deed(NamedTuple):
    what: str
    sequence: int | None
    """Of the first bad link; None where it is an entry that is not in the chain."""


def tamper(dice: Random, log: list[AuditEntry]) -> Deed:
    """With one of the entries of a log, which is given as it was sealed."""
    deeds = [
        edit,
        edit,
        edit_json,
        edit_number,
        edit_hash,
        remove,
        remove_both,
        remove_last,
        insert,
        append,
        swap,
        relabel,
    ]
    return dice.choice(deeds)(dice, log, dice.choice(log))


def edit(dice, log, entry):
    column = dice.choice(TEXTS)
    sql(f"UPDATE duebox_audit SET {column} = {column} || 'x' WHERE id = %s", entry.id)
    return Deed(f"edit {column}", entry.seal.sequence)


def edit_json(dice, log, entry):
    column = dice.choice(["actor", "impersonator", "changes", "metadata"])
    sql(f"""UPDATE duebox_audit SET {column} = {column} || '{{"x": 1}}' WHERE id = %s""", entry.id)
    return Deed(f"edit {column}", entry.seal.sequence)


def edit_number(dice, log, entry):
    what = dice.choice(
        ["recorded_at = recorded_at + interval '1 microsecond'", "id = id + 1000000", "writer_number = -writer_number"]
    )
    sql(f"UPDATE duebox_audit SET {what} WHERE id = %s", entry.id)
    return Deed(f"edit {what}", entry.seal.sequence)


def edit_hash(dice, log, entry):
    column = dice.choice(["entry_hash", "hash"])
    sql(f"UPDATE duebox_audit_seal SET {column} = sha256({column}) WHERE entry_id = %s", entry.id)
    return Deed(f"edit {column}", entry.seal.sequence)


def remove(dice, log, entry):
    sql("DELETE FROM duebox_audit WHERE id = %s", entry.id)
    return Deed("remove", entry.seal.sequence)


def remove_both(dice, log, entry):
    """The entry with its link, and the others moved up."""
    sequence = entry.seal.sequence
    sql("DELETE FROM duebox_audit WHERE id = %s", entry.id)
    sql("DELETE FROM duebox_audit_seal WHERE sequence = %s", sequence)
    if dice.random() < 0.5 and log[-1].seal.sequence > sequence:
        sql("UPDATE duebox_audit_seal SET sequence = -sequence WHERE sequence > %s", sequence)
        sql("UPDATE duebox_audit_seal SET sequence = -sequence - 1 WHERE sequence < 0")
        sql("UPDATE duebox_audit_head SET sequence = sequence - 1")
    return Deed("remove with its link", sequence)


def remove_last(dice, log, entry):
    """With the head set back to the link before."""
    count = dice.randint(1, 3)
    end = log[-1].seal.sequence
    removed = "SELECT entry_id FROM duebox_audit_seal WHERE sequence > %s"
    sql(f"DELETE FROM duebox_audit WHERE id IN ({removed})", end - count)
    sql("DELETE FROM duebox_audit_seal WHERE sequence > %s", end - count)
    if dice.random() < 0.5:
        last = "FROM duebox_audit_seal last WHERE last.sequence = %s"
        sql(f"UPDATE duebox_audit_head SET sequence = last.sequence, hash = last.hash {last}", end - count)
        return Deed(f"remove last {count} and set the head back", end - count)
    return Deed(f"remove last {count}", end - count + 1)


def insert(dice, log, entry):
    """One more in the middle, the others moved on, everything chained up as well as can be without the key."""
    sequence = entry.seal.sequence
    sql("UPDATE duebox_audit_seal SET sequence = -sequence WHERE sequence >= %s", sequence)
    sql("UPDATE duebox_audit_seal SET sequence = 1 - sequence WHERE sequence < 0")
    _forge(entry, sequence)
    sql("UPDATE duebox_audit_head SET sequence = sequence + 1")
    return Deed("insert", sequence)


def append(dice, log, entry):
    end = log[-1]
    _forge(end, end.seal.sequence + 1)
    moved = dice.random() < 0.5
    if moved:
        sql("UPDATE duebox_audit_head SET sequence = sequence + 1")
    return Deed("append and move the head" if moved else "append", end.seal.sequence + 1)


def swap(dice, log, entry):
    """Two entries change places."""
    other = dice.choice([each for each in log if each.id != entry.id])
    one, two = entry.seal.sequence, other.seal.sequence
    sql("UPDATE duebox_audit_seal SET sequence = 1e9 WHERE sequence = %s", one)
    sql("UPDATE duebox_audit_seal SET sequence = %s WHERE sequence = %s", one, two)
    sql("UPDATE duebox_audit_seal SET sequence = %s WHERE sequence = 1e9", two)
    return Deed("swap", min(one, two))


def relabel(dice, log, entry):
    """A link that points to another entry; that one is not sealed twice, since a link is unique to its entry."""
    other = dice.choice([each for each in log if each.id != entry.id])
    sql("UPDATE duebox_audit_seal SET entry_id = -1 WHERE entry_id = %s", entry.id)
    sql("UPDATE duebox_audit_seal SET entry_id = %s WHERE entry_id = %s", entry.id, other.id)
    sql("UPDATE duebox_audit_seal SET entry_id = %s WHERE entry_id = -1", other.id)
    return Deed("relabel", min(entry.seal.sequence, other.seal.sequence))


def _forge(source, sequence):
    sql("DROP TABLE IF EXISTS forged")
    sql("CREATE TEMPORARY TABLE forged AS SELECT * FROM duebox_audit WHERE id = %s", source.id)
    sql("UPDATE forged SET id = id + 5000000, writer_number = writer_number + 5000000")
    sql("INSERT INTO duebox_audit SELECT * FROM forged")
    sql(
        "INSERT INTO duebox_audit_seal (sequence, entry_id, entry_hash, hash) "
        "SELECT %s, entry_id + 5000000, entry_hash, sha256(hash) FROM duebox_audit_seal WHERE entry_id = %s",
        sequence, source.id,
    )  # fmt: skip
