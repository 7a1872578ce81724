from __future__ import annotations

import hashlib
import hmac
import json
import threading
from contextlib import ExitStack

import psycopg
import pytest
from django.db import IntegrityError, connection, connections, transaction

import duebox
from duebox.audit_log.record import write
from duebox.audit_log.seal import seal_all
from duebox.models import AuditHead, AuditSeal, AuditWriter, StoredAuditEntry
from duebox.store import audit
from duebox.store.audit import allow_truncate
from tests.audit_log.support import PLAIN, entries, fill, flaw, found
from tests.support import connection_params, undone

pytestmark = pytest.mark.django_db


def test_sealed_entries_are_counted_without_gaps():
    fill(3, "acme", "bolt", "")
    fill(2)
    assert [(entry.organization, entry.seal.sequence) for entry in entries()] == [
        ("acme", 1), ("bolt", 2), ("", 3), ("acme", 4), ("acme", 5),
    ]  # fmt: skip
    assert str(AuditHead.objects.get()) == "1 to 5"


def test_the_hashes_are_over_all_columns_by_a_key_made_of_the_secret(settings):
    """Said once in plain words, so that somebody else can verify a log as well."""
    fill(2)
    first, second = entries()
    key = hmac.digest(settings.SECRET_KEY.encode(), b"duebox.audit.chain", "sha256")
    micros = int(first.recorded_at.timestamp()) * 1_000_000 + first.recorded_at.microsecond
    columns = [
        first.id, "acme", str(micros), "member.updated", "member", "1", {"id": "ann", "type": "user"},
        {"id": "bob", "type": "user"}, "story-1", "192.0.2.7", "Firefox",
        {"role": ["guest", "admin"]}, {"reason": "promoted"}, first.writer, first.writer_number,
    ]  # fmt: skip
    entry_hash = hmac.new(key, json.dumps(columns).encode(), hashlib.sha256).digest()
    assert first.seal.entry_hash == entry_hash
    assert first.seal.hash == hmac.new(key, bytes(32) + (1).to_bytes(8) + entry_hash, hashlib.sha256).digest()
    following = first.seal.hash + (2).to_bytes(8) + second.seal.entry_hash
    assert second.seal.hash == AuditHead.objects.get().hash == hmac.new(key, following, hashlib.sha256).digest()


def test_a_key_of_its_own_may_be_set(settings):
    fill(1)
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY": "own", "AUDIT_KEY_FALLBACKS": [settings.SECRET_KEY]}
    fill(1)
    assert flaw() is None
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY_FALLBACKS": []}
    assert found().first[:2] == (1, entries()[0].id)
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY": "newer", "AUDIT_KEY_FALLBACKS": ["own", settings.SECRET_KEY]}
    fill(1)
    assert flaw() is None


def test_the_projects_key_may_change_while_the_old_one_is_known(settings):
    fill(1)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "fresh", [settings.SECRET_KEY]
    fill(1)
    assert flaw() is None
    settings.SECRET_KEY_FALLBACKS = []
    assert found().flaws == 2  # the link and the entry under the old key


def test_any_text_and_number_can_be_hashed():
    """PostgreSQL has its own way to write JSON down: numbers, order and repeated names change."""
    strange = {
        "z": 1e300,
        "aa": -0.0,
        "b": [1e-7, 1.10, 10**40, 0.1 + 0.2],
        "é": '\u2028 🎂 \\ " \x7f',
        "a" * 70: None,
        "": {},
    }
    duebox.audit("member.checked", ("member", "ünï 🎂"), after=strange, metadata=strange, organization='{a,"b"}\\')
    write([PLAIN._replace(changes='{"b": [1.50, 2], "a": [1E3, 1], "b": [3, 4]}')], "default")
    seal_all("default")
    assert found().entries == 2
    assert flaw() is None


def test_entries_and_links_cannot_be_updated():
    fill(1)
    repair = "is append-only, so UPDATE is refused; write another entry with duebox.audit"
    with pytest.raises(IntegrityError, match=repair), transaction.atomic():
        StoredAuditEntry.objects.update(actor="eve")
    with pytest.raises(IntegrityError, match=repair), transaction.atomic():
        AuditSeal.objects.update(hash=b"")
    with connection.cursor() as cursor, pytest.raises(IntegrityError, match=repair), transaction.atomic():
        cursor.execute("UPDATE duebox_audit SET actor = '[]' WHERE false")


def test_entries_links_and_the_head_cannot_be_deleted():
    fill(2)
    repair = "so DELETE is refused; entries leave by age, with: manage.py duebox audit prune"
    for model in (StoredAuditEntry, AuditSeal, AuditHead):
        with pytest.raises(IntegrityError, match=repair), transaction.atomic():
            model.objects.all()._raw_delete("default")
    assert len(entries()) == 2


def test_entries_that_are_not_sealed_cannot_be_deleted_either():
    write([PLAIN], "default")
    with pytest.raises(IntegrityError, match="so DELETE is refused"), transaction.atomic():
        StoredAuditEntry.objects.all()._raw_delete("default")


@pytest.mark.parametrize(
    "table", ["duebox_audit", "duebox_audit_seal", "duebox_audit_head", "duebox_event, duebox_audit"]
)
def test_the_tables_cannot_be_emptied(table):
    with connection.cursor() as cursor:
        cursor.execute("SET duebox.audit_allows = ''")
        try:
            repair = "is append-only, so TRUNCATE is refused; if the data is not needed, first run: SET"
            with pytest.raises(IntegrityError, match=repair), transaction.atomic():
                cursor.execute(f"TRUNCATE {table}")
        finally:
            allow_truncate("default")
        cursor.execute(f"TRUNCATE {table}")


def test_a_session_that_is_no_test_run_may_not_empty_them(elsewhere):
    with pytest.raises(psycopg.errors.RestrictViolation, match="TRUNCATE is refused"):
        elsewhere.execute("TRUNCATE duebox_audit")


@pytest.mark.django_db(transaction=True)
def test_no_writer_waits_for_the_open_transaction_of_another():
    """Eight of one organization, while one keeps its transaction open, and a worker seals beside them."""
    done, failures = [], []

    def another():
        try:
            with connections["default"].cursor() as cursor:
                cursor.execute("SET lock_timeout = 1000")
            for _ in range(20):
                duebox.audit("member.updated", ("member", 1), organization="acme")
            done.append(1)
        except Exception as error:
            failures.append(error)
        finally:
            connections["default"].close()

    with transaction.atomic():
        duebox.audit("member.updated", ("member", 1), organization="acme")
        threads = [threading.Thread(target=another) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert (len(done), failures) == (8, [])
    seal_all("default")
    assert (found().entries, flaw()) == (161, None)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_writers_under_a_stricter_isolation_do_not_conflict(level):
    number = "SELECT duebox_audit_number(1)"
    with ExitStack() as stack:
        sessions = [stack.enter_context(psycopg.connect(**connection_params(), autocommit=True)) for _ in range(4)]
        for session in sessions:
            session.execute(number)
        for _ in range(3):
            for session in sessions:
                session.execute(f"BEGIN ISOLATION LEVEL {level}")
                session.execute("SELECT 1 FROM duebox_audit_head")
            for session in sessions:
                session.execute(number)
            for session in sessions:
                session.execute("COMMIT")
    assert [writer.number for writer in AuditWriter.objects.all()] == [4] * 4


@pytest.mark.django_db(transaction=True)
def test_two_processes_that_seal_the_first_entries_at_the_same_time_report_no_missing_head(monkeypatch):
    """The second one finds no head, then the first one commits the head and its seals."""
    fill_without_seal(2)
    read_head, others = audit.head, []

    def seal_elsewhere():
        others.append(seal_all("default")[0])
        connections["default"].close()

    def read_and_let_another_seal(using):
        found = read_head(using)
        if not others:
            others.append(0)
            thread = threading.Thread(target=seal_elsewhere)
            thread.start()
            thread.join(30)
        return found

    monkeypatch.setattr(audit, "head", read_and_let_another_seal)
    count, _ = seal_all("default")
    assert (sum(others), count) == (2, 0)
    assert flaw() is None


@pytest.mark.django_db(transaction=True)
def test_many_writers_and_sealers_make_one_chain_without_gaps_or_flaws():
    """Some commit, some roll back, and three seal meanwhile."""
    failures = []
    barrier = threading.Barrier(9)
    over = threading.Event()

    def run(number):
        barrier.wait(15)
        for turn in range(15):
            if (number + turn) % 4 == 0:
                with undone():
                    fill_without_seal(5)
            else:
                with transaction.atomic():
                    fill_without_seal(3)
                    fill_without_seal(2)

    def seal(number):
        barrier.wait(15)
        while not over.is_set():
            seal_all("default")

    def guarded(deed, number):
        try:
            deed(number)
        except Exception as error:
            failures.append(error)
        finally:
            connections["default"].close()

    writers = [threading.Thread(target=guarded, args=[run, number]) for number in range(6)]
    sealers = [threading.Thread(target=guarded, args=[seal, number]) for number in range(3)]
    for thread in writers + sealers:
        thread.start()
    for thread in writers:
        thread.join(60)
    over.set()
    for thread in sealers:
        thread.join(60)
    assert failures == []
    kept = 5 * sum((number + turn) % 4 != 0 for number in range(6) for turn in range(15))
    seal_all("default")
    assert len(entries()) == kept
    assert list(AuditSeal.objects.order_by("sequence").values_list("sequence", flat=True)) == list(range(1, kept + 1))
    assert (found().entries, flaw()) == (kept, None)


def fill_without_seal(count):
    write([PLAIN] * count, "default")
