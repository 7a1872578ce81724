from __future__ import annotations

import json
import logging
from pathlib import Path
from random import Random

import psycopg
import pytest
from django.db import connections, transaction

import duebox
from duebox.audit_log.record import write
from duebox.audit_log.seal import HeadsOutside, accept_head, seal_all
from duebox.audit_log.verify import read_receipts
from duebox.exceptions import AuditHeadChanged, InvalidAudit
from duebox.models import AuditEntry, AuditHead, AuditWriter, AuditWriterSealed, Event, StoredAuditEntry
from duebox.store import audit
from tests.audit_log.support import PLAIN, entries, fill, flaw, found, sql, write_some
from tests.support import connection_params, undone

pytestmark = pytest.mark.django_db


def test_an_entry_is_written_in_one_round_trip_and_sealed_later(django_assert_num_queries):
    with django_assert_num_queries(1):
        duebox.audit("member.removed", ("member", 1))
    assert not hasattr(entries()[0], "seal")
    assert (found().entries, found().unsealed, flaw()) == (0, 1, None)
    assert seal_all("default")[0] == 1
    assert (found().entries, found().unsealed, flaw()) == (1, 0, None)


def test_nothing_to_seal_is_fine():
    assert seal_all("default") == (0, None)
    assert not AuditHead.objects.exists()


def test_what_was_rolled_back_leaves_no_gap():
    write_some(1)
    with undone():
        write_some(2)
    write_some(1)
    assert [entry.writer_number for entry in entries()] == [1, 2]
    seal_all("default")
    assert flaw() is None


def test_many_are_sealed_in_batches(monkeypatch):
    monkeypatch.setattr("duebox.audit_log.seal.BATCH", 4)
    write_some(11)
    assert seal_all("default")[0] == 11
    assert (found().entries, flaw()) == (11, None)


@pytest.mark.parametrize("gone", [[1], [3], [5], [2, 3], [1, 5], [1, 2, 3, 4, 5]])
def test_an_entry_that_is_removed_before_it_is_sealed_is_found_then_and_afterwards(gone, caplog):
    write_some(5)
    ids = [entry.id for number, entry in enumerate(entries(), start=1) if number in gone]
    sql("DELETE FROM duebox_audit WHERE id = ANY(%s)", ids)
    count = len(gone)
    assert flaw().startswith("1 entry was removed" if count == 1 else f"{count} entries were removed")
    with caplog.at_level(logging.ERROR, "duebox.audit"):
        seal_all("default")
    assert all(message.startswith("audit entries are missing: writer=") for message in caplog.messages)
    seal_all("default")
    said = [entry.metadata for entry in AuditEntry.objects.doing("audit.entries_missing")]
    assert sorted(number for each in said for number in range(each["first"], each["last"] + 1)) == gone
    assert "before being sealed" in flaw()
    assert found().unsealed == 0


def test_an_entry_that_is_put_in_by_hand_is_found():
    fill(2)
    entry = entries()[-1]
    for number in (entry.writer_number + 1, 7_000_000):
        StoredAuditEntry.objects.bulk_create([StoredAuditEntry(**_columns(entry) | {"writer_number": number})])
    StoredAuditEntry.objects.bulk_create([StoredAuditEntry(**_columns(entry) | {"writer": 999_999})])
    assert found().flaws == 3
    assert flaw() == f"entry with id {entries()[2].id} was not written by Duebox: no writer has numbered it"
    seal_all("default")
    assert found().flaws == 3


def _columns(entry):
    names = [field.attname for field in AuditEntry._meta.concrete_fields if field.attname != "id"]
    return {name: getattr(entry, name) for name in names}


def test_an_entry_with_the_number_of_another_one_is_not_sealed():
    sql("ALTER TABLE duebox_audit DROP CONSTRAINT duebox_audit_numbered_once")
    write_some(2)
    StoredAuditEntry.objects.bulk_create([StoredAuditEntry(**_columns(entries()[0]))])
    seal_all("default")
    assert (found().entries, found().flaws) == (2, 1)
    assert "was not written by Duebox" in flaw()


def cut_off_the_last():
    sql("DELETE FROM duebox_audit WHERE id = (SELECT entry_id FROM duebox_audit_seal WHERE sequence = 3)")
    sql("DELETE FROM duebox_audit_seal WHERE sequence = 3")
    sql("UPDATE duebox_audit_head h SET sequence = 2, hash = s.hash FROM duebox_audit_seal s WHERE s.sequence = 2")


CHANGES = {
    "cut off": cut_off_the_last,
    "signature": lambda: sql("UPDATE duebox_audit_head SET signature = ''"),
    "time": lambda: sql("UPDATE duebox_audit_head SET sealed_at = now() + interval '1 day'"),
    "gone": lambda: sql("DELETE FROM duebox_audit_head"),
    "new": lambda: sql("DELETE FROM duebox_audit_head") and audit.make_head("default"),
    "last link": lambda: sql("DELETE FROM duebox_audit_seal WHERE sequence = 3"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_sealed_behind_a_head_that_somebody_changed(change):
    """Or the next link would cover the traces. Writers do not notice."""
    fill(3)
    CHANGES[change]()
    write_some(1)
    with pytest.raises(AuditHeadChanged, match="nothing is sealed until it is accepted"), transaction.atomic():
        seal_all("default")
    assert flaw() is not None
    assert not hasattr(entries()[-1], "seal")


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_head_can_be_accepted_and_the_chain_says_so(change):
    fill(3)
    CHANGES[change]()
    accept_head("default", actor="root", reason="restored a backup")
    fill(2)
    [said] = AuditEntry.objects.doing("audit.head_accepted")
    assert (said.actor, said.metadata["reason"]) == ({"type": "user", "id": "root"}, "restored a backup")
    assert flaw() is not None
    assert found().unsealed == 0


def test_a_head_under_a_key_that_is_not_known_here_is_left_to_who_knows_it(settings):
    """As in a deployment that changes the key, while a worker with the old one still runs."""
    fill(1)
    old = settings.DUEBOX
    settings.DUEBOX = new = {**old, "AUDIT_KEY": "new", "AUDIT_KEY_FALLBACKS": [settings.SECRET_KEY]}
    fill(1)
    settings.DUEBOX = old
    write_some(1)
    with pytest.raises(AuditHeadChanged, match="signed with a key that is not known here"), transaction.atomic():
        seal_all("default")
    settings.DUEBOX = new
    seal_all("default")
    assert (found().entries, flaw()) == (3, None)


@pytest.mark.django_db(transaction=True)
def test_one_process_seals_at_a_time(elsewhere):
    write_some(1)
    seal_all("default")
    write_some(1)
    elsewhere.execute("SELECT FROM duebox_audit_head FOR UPDATE")
    assert seal_all("default") == (0, None)
    elsewhere.rollback()
    assert seal_all("default")[0] == 1


@pytest.mark.django_db(transaction=True)
def test_writers_whose_sessions_have_ended_are_forgotten():
    with psycopg.connect(**connection_params()) as other:
        other.execute("INSERT INTO duebox_audit_writer (process_id, number) VALUES (99999999, 0)")
    write_some(2)
    seal_all("default")
    sql_now = "UPDATE duebox_audit_writer SET process_id = 99999998 WHERE number = 2"
    with connections["default"].cursor() as cursor:
        cursor.execute(sql_now)
    audit.forget_writers("default")
    assert [writer.number for writer in AuditWriter.objects.all()] == [0]  # nothing of it was sealed
    assert not AuditWriterSealed.objects.exists()
    write_some(1)
    seal_all("default")
    assert flaw() is None


@pytest.mark.django_db(transaction=True)
def test_a_session_whose_counter_is_held_by_a_prepared_transaction_takes_another(elsewhere):
    """The row of this session is locked by another transaction, as a prepared one of its own would lock it."""
    write_some(1)
    elsewhere.execute("SELECT FROM duebox_audit_writer FOR UPDATE")
    write_some(1)
    elsewhere.rollback()
    write_some(1)
    assert len({entry.writer for entry in entries()}) == 2
    seal_all("default")
    assert (found().entries, flaw()) == (3, None)


def test_heads_are_appended_to_a_file_and_prove_what_was_before(settings, tmp_path):
    path = tmp_path / "heads.jsonl"
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_HEAD_FILE": str(path)}
    outside = HeadsOutside("default")
    write_some(2)
    outside.send(seal_all("default")[1])
    write_some(1)
    outside.send(seal_all("default")[1])  # within the same minute
    [line] = path.read_text().splitlines()
    assert json.loads(line)["sequence"] == 2
    receipts = read_receipts([line])
    assert flaw(receipts=receipts) is None
    sql("DELETE FROM duebox_audit")
    sql("DELETE FROM duebox_audit_seal")
    sql("DELETE FROM duebox_audit_head")
    sql("DELETE FROM duebox_audit_writer")
    sql("DELETE FROM duebox_audit_writer_sealed")
    assert flaw() is None
    assert flaw(receipts=receipts) == "entry 1 and all up to 2 are missing"


def test_a_head_that_had_to_wait_is_told_when_the_minute_is_over_or_the_worker_stops(settings, tmp_path, monkeypatch):
    path = tmp_path / "heads.jsonl"
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_HEAD_FILE": str(path)}
    outside = HeadsOutside("default")
    for _ in range(2):
        write_some(1)
        outside.send(seal_all("default")[1])
    outside.send(None)
    assert len(path.read_text().splitlines()) == 1
    outside.send(None, now=True)
    outside.send(None, now=True)
    assert [json.loads(line)["sequence"] for line in path.read_text().splitlines()] == [1, 2]


def test_a_worker_does_not_go_on_behind_an_older_head_that_was_put_back():
    """It is signed, and fits the last link; but the worker has seen a later one."""
    fill(2)
    sql("CREATE TEMPORARY TABLE old_head ON COMMIT DROP AS SELECT * FROM duebox_audit_head")
    write_some(1)
    _, seen = seal_all("default")
    sql("DELETE FROM duebox_audit_seal WHERE sequence = 3")
    sql("DELETE FROM duebox_audit_head")
    sql("INSERT INTO duebox_audit_head SELECT * FROM old_head")
    write_some(1)
    with pytest.raises(AuditHeadChanged, match="was set back from 3 to 2, or replaced"), transaction.atomic():
        seal_all("default", seen=seen)
    accept_head("default")
    assert seal_all("default", seen=seen)[0] > 0


@pytest.mark.parametrize(
    "action", ["audit.entries_missing", "audit.head_accepted", "audit.pruned", "audit.x", "duebox.erased"]
)
def test_actions_of_the_log_itself_cannot_be_written_by_others(action):
    with pytest.raises(InvalidAudit, match="begins as the entries of Duebox itself do"):
        duebox.audit(action, ("member", 1))


def test_a_file_that_cannot_be_written_is_reported_and_stops_nothing(settings, caplog):
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_HEAD_FILE": str(Path("/nowhere/heads.jsonl"))}
    write_some(1)
    HeadsOutside("default").send(seal_all("default")[1])
    assert caplog.messages == ["AUDIT_HEAD_FILE cannot be written: /nowhere/heads.jsonl: No such file or directory"]


def test_a_handler_or_a_route_may_take_the_heads(on):
    HeadsOutside("default").send(_sealed_head())
    assert not Event.objects.exists()

    @on("duebox.audit.sealed", name="keeper")
    def keeper(event):
        pass

    HeadsOutside("default").send(_sealed_head())
    event = Event.objects.get()
    assert event.type == "duebox.audit.sealed"
    assert (event.data["sequence"], event.data["hash"]) == (2, AuditHead.objects.get().hash.hex())


def _sealed_head():
    write([PLAIN], "default")
    return seal_all("default")[1]


def test_large_entries_are_sealed_in_smaller_batches(monkeypatch):
    monkeypatch.setattr(audit, "MOST_BYTES", 10_000)
    text = Random(1).randbytes(3_000).hex()  # which cannot be compressed
    write([PLAIN._replace(changes=json.dumps({"text": [None, f"{n} {text}"]})) for n in range(20)], "default")
    assert 1 <= len(audit.unsealed("default", 5_000)) < 20
    assert seal_all("default")[0] == 20
    assert len(audit.read("default", after=0, until=20, organization=None, limit=5_000)) < 20
    assert (found().entries, flaw()) == (20, None)


def test_one_entry_that_is_larger_than_a_batch_is_sealed(monkeypatch):
    monkeypatch.setattr(audit, "MOST_BYTES", 10)
    write_some(3)
    assert seal_all("default")[0] == 3
    assert flaw() is None
