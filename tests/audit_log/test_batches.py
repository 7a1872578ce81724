"""Entries of statements that change many rows share a row until they are sealed. They can be read all the time, and
none can be removed unnoticed."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

import duebox
from duebox.audit_log import prune
from duebox.audit_log.seal import BATCHES, seal_all
from duebox.models import AuditBatch, AuditEntry, StoredAuditEntry
from duebox.observe.status import status
from duebox.retention import erase
from duebox.store import audit_triggers
from tests.app.members import Club, Member
from tests.audit_log.support import entries, flaw, found, sql
from tests.support import analyze

pytestmark = pytest.mark.django_db

MANY = audit_triggers.MANY


@pytest.fixture
def club():
    return Club.objects.create()


@pytest.fixture
def make(club):
    """So many members, by one statement."""

    def made(count=MANY):
        Member.objects.bulk_create([Member(club=club) for _ in range(count)], batch_size=count)

    seal_all("default")
    return made


def sizes():
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(ids) FROM duebox_audit_batch ORDER BY writer_number")
        return [row[0] for row in cursor.fetchall()]


def test_a_large_statement_writes_a_row_for_a_thousand_entries(make):
    make(2 * MANY + 1)
    assert sizes() == [MANY, MANY, 1]
    assert not StoredAuditEntry.objects.filter(entity_type="app.member").exists()


def test_the_entries_of_a_batch_are_read_as_any_other(make, club):
    make()
    member = Member.objects.latest("pk")
    [entry] = AuditEntry.objects.about(member)
    assert (entry.action, entry.organization) == ("member.created", str(club.pk))
    assert entry.changes["role"] == [None, member.role]
    assert (found().unsealed, flaw()) == (MANY, None)


def test_sealing_stores_them_as_they_were_read(make):
    make(MANY + 5)
    before = [
        {field.attname: getattr(entry, field.attname) for field in AuditEntry._meta.concrete_fields}
        for entry in entries(entity_type="app.member")
    ]
    assert seal_all("default")[0] == MANY + 5
    assert not AuditBatch.objects.exists()
    after = list(StoredAuditEntry.objects.filter(entity_type="app.member").order_by("id").values())
    assert after == before
    assert (found().unsealed, flaw()) == (0, None)


def test_what_the_same_session_writes_before_and_after_a_batch_is_sealed_in_its_order(make):
    duebox.audit("member.removed", ("member", 1))
    make((BATCHES + 2) * MANY)
    duebox.audit("member.removed", ("member", 2))
    make()
    duebox.audit("member.removed", ("member", 3))
    assert seal_all("default")[0] == (BATCHES + 3) * MANY + 3
    assert (found().unsealed, flaw()) == (0, None)
    sealed = AuditEntry.objects.filter(seal__isnull=False).order_by("seal__sequence")
    numbers = list(sealed.values_list("writer_number", flat=True))
    assert numbers == sorted(numbers)


def test_batches_are_unpacked_a_few_at_a_time(make, monkeypatch):
    make((BATCHES + 1) * MANY)
    seen = []
    unpack = duebox.store.audit.unpack

    def noted(using, limit):
        before = AuditBatch.objects.count()
        unpack(using, limit)
        seen.append(before - AuditBatch.objects.count())

    monkeypatch.setattr("duebox.store.audit.unpack", noted)
    seal_all("default")
    assert seen == [BATCHES, 1]


def test_a_batch_ends_where_its_entries_are_large(make):
    make()
    seal_all("default")
    Member.objects.update(role="x" * 9_000)
    assert len(sizes()) == 1  # 9 MB
    Member.objects.update(role="y" * 9_999)
    assert len(sizes()) == 3  # with the old values, 19 MB more
    assert seal_all("default")[0] == 2 * MANY
    assert flaw() is None


@pytest.mark.parametrize("gone", ["first", "middle", "last", "all"])
def test_a_batch_that_is_removed_is_found_then_and_afterwards(make, gone, caplog):
    make(3 * MANY)
    places = {"first": "LIMIT 1", "middle": "OFFSET 1 LIMIT 1", "last": "OFFSET 2", "all": ""}
    chosen = f"SELECT id FROM duebox_audit_batch ORDER BY writer_number {places[gone]}"
    count = sql(f"DELETE FROM duebox_audit_batch WHERE id IN ({chosen})") * MANY
    assert flaw().startswith(f"{count} entries were removed before being sealed")
    with caplog.at_level(logging.CRITICAL, "duebox.audit"):
        seal_all("default")
    seal_all("default")
    [said] = AuditEntry.objects.doing("audit.entries_missing")
    assert said.metadata["last"] - said.metadata["first"] + 1 == count
    assert f"records that {count} entries were removed before being sealed" in flaw()


@pytest.mark.parametrize("place", [1, 500, MANY])
def test_an_entry_that_is_taken_out_of_a_batch_is_found(make, place, caplog):
    make(2 * MANY)
    columns = ("ids", "organizations", "actions", "entity_types", "entity_ids", "changes")
    cut = ", ".join(f"{name} = {name}[:{place - 1}] || {name}[{place + 1}:]" for name in columns)
    sql(f"UPDATE duebox_audit_batch SET {cut} WHERE id = (SELECT min(id) FROM duebox_audit_batch)")
    assert flaw().startswith("1 entry was removed before being sealed")
    with caplog.at_level(logging.CRITICAL, "duebox.audit"):
        seal_all("default")
    seal_all("default")
    assert "records that 1 entry was removed before being sealed" in flaw()


@pytest.mark.parametrize(
    "change", ["writer = 999999", "writer_number = writer_number + 7000000", "writer_number = writer_number - 3000"]
)
def test_a_batch_that_no_writer_has_numbered_is_found_and_never_sealed(make, change):
    make()
    seal_all("default")
    make()
    sql("CREATE TEMPORARY TABLE forged ON COMMIT DROP AS SELECT * FROM duebox_audit_batch")
    seal_all("default")
    sql(f"UPDATE forged SET {change}")
    sql("INSERT INTO duebox_audit_batch SELECT * FROM forged")
    for _ in range(2):
        assert (found().flaws, found().unsealed) == (MANY, 0)
        assert "was not written by Duebox: no writer has numbered it" in flaw()
        seal_all("default")


@pytest.mark.parametrize("deed", ["UPDATE duebox_audit_batch SET ip = ''", "DELETE FROM duebox_audit_batch"])
def test_batches_are_append_only(make, deed):
    make()
    with connection.cursor() as cursor, pytest.raises(IntegrityError, match="is append-only"), transaction.atomic():
        cursor.execute(deed)
    assert sizes() == [MANY]


def test_the_values_of_entries_in_a_batch_can_be_erased(make):
    make()
    member = Member.objects.latest("pk")
    assert erase(member).audit_entries == 1
    [entry] = AuditEntry.objects.about(member).filter(action="member.created")
    assert entry.changes["role"] == [None, "(erased)"]
    seal_all("default")
    assert flaw() is None


def test_entries_in_a_batch_are_pruned_by_age(make):
    make()
    sql("UPDATE duebox_audit_batch SET recorded_at = recorded_at - %s", timedelta(days=800))
    assert prune("default", years=1).entries == MANY
    assert not AuditEntry.objects.filter(entity_type="app.member").exists()
    assert flaw() is None


def test_the_status_knows_how_long_a_batch_waits(make):
    make()
    sql("UPDATE duebox_audit_batch SET recorded_at = recorded_at - %s", timedelta(minutes=10))
    assert status().unsealed == MANY
    assert 600 <= status().oldest_unsealed_seconds < 660


def test_the_newest_entries_are_read_by_index_while_there_are_batches(make):
    """Of ten thousand entries in rows none but the wanted ones are read."""
    for _ in range(10):
        make()
    seal_all("default")
    make()
    analyze("duebox_audit", "duebox_audit_seal", "duebox_audit_batch")
    newest = AuditEntry.objects.select_related("seal").order_by("-id")[:20]
    assert "Seq Scan on duebox_audit " not in newest.explain()
