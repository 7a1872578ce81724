from __future__ import annotations

import hashlib
import hmac
import logging
import threading

import psycopg
import pytest
from django.db import IntegrityError, connection, connections, transaction

import duebox
from duebox.auditing.record import write
from duebox.models import AuditEntry, AuditHead
from duebox.store.audits import allow_truncate
from tests.auditing.support import PLAIN, entries, fill, flawed, sql
from tests.support import connection_params, eventually, undone

pytestmark = pytest.mark.django_db


def test_each_organization_counts_for_itself_without_gaps():
    fill(7, "acme", "bolt", "")
    assert [(entry.organization, entry.sequence) for entry in entries()] == [
        ("acme", 1), ("bolt", 1), ("", 1), ("acme", 2), ("bolt", 2), ("", 2), ("acme", 3),
    ]  # fmt: skip
    assert {head.organization: head.sequence for head in AuditHead.objects.all()} == {"acme": 3, "bolt": 2, "": 2}


def test_each_entry_holds_the_hash_of_the_one_before():
    fill(3)
    first, second, third = entries()
    assert (first.previous_hash, second.previous_hash, third.previous_hash) == (bytes(32), first.hash, second.hash)
    assert AuditHead.objects.get().hash == third.hash


def test_the_hash_is_over_all_columns_by_a_key_made_of_the_secret(settings):
    """Said once in plain words, so that somebody else can verify a log as well."""
    fill(1)
    [entry] = entries()
    key = hmac.digest(settings.SECRET_KEY.encode(), b"duebox.audit.chain", "sha256")
    micros = int(entry.recorded_at.timestamp()) * 1_000_000 + entry.recorded_at.microsecond
    columns = [
        entry.id, "acme", 1, micros, "member.updated", "member", "1", '{"id": "ann", "type": "user"}',
        '{"id": "bob", "type": "user"}', "story-1", "192.0.2.7", "Firefox",
        '{"role": ["guest", "admin"]}', '{"reason": "promoted"}',
    ]  # fmt: skip
    text = "\x1f".join(map(str, columns)).encode()
    assert entry.hash == hmac.new(key, bytes(32) + text, hashlib.sha256).digest()


def test_a_key_of_its_own_may_be_set(settings):
    fill(1)
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY": "own", "AUDIT_KEY_FALLBACKS": [settings.SECRET_KEY]}
    fill(1)
    assert flawed() == {}
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY_FALLBACKS": []}
    assert flawed()["acme"].first[:2] == (1, entries()[0].id)
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY": "newer", "AUDIT_KEY_FALLBACKS": ["own", settings.SECRET_KEY]}
    fill(1)
    assert flawed() == {}


def test_the_projects_key_may_change_while_the_old_one_is_known(settings):
    fill(1)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "fresh", [settings.SECRET_KEY]
    fill(1)
    assert flawed() == {}
    settings.SECRET_KEY_FALLBACKS = []
    assert flawed()["acme"].flaws == 1


def test_any_text_and_number_can_be_hashed_before_it_is_stored():
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
    assert flawed() == {}


def cut_off_the_last():
    sql("DELETE FROM duebox_audit WHERE sequence = 3")
    sql("UPDATE duebox_audit_head h SET sequence = 2, hash = a.hash FROM duebox_audit a WHERE a.sequence = 2")


def test_that_somebody_changed_the_head_is_written_into_the_chain(caplog):
    """Or the next entry would cover the traces of those that were cut off."""
    fill(3)
    cut_off_the_last()
    with caplog.at_level(logging.ERROR, "duebox.audit"):
        assert duebox.audit("member.removed", ("member", 5), organization="acme").sequence == 4
    assert caplog.messages == [
        "audit head is in doubt: organization=acme; find out what happened with: manage.py duebox audit verify"
    ]
    fill(2)
    assert [entry.action for entry in entries()[2:4]] == ["audit.head_doubted", "member.removed"]
    verdict = flawed()["acme"]
    assert (verdict.entries, verdict.sequence, verdict.flaws) == (6, 6, 1)
    assert str(verdict.first) == f"entry 3 (id {entries()[2].id}) was written after somebody changed the head"


def test_a_doubt_cannot_be_talked_away():
    fill(3)
    cut_off_the_last()
    fill(1)
    for deed in ("metadata = '{}'", "metadata = '[]'", 'metadata = metadata || \'{"seal": "xy"}\'', "action = 'a'"):
        with undone():
            sql(f"UPDATE duebox_audit SET {deed} WHERE sequence = 3")
            assert flawed()["acme"].first.sequence == 3


def test_a_head_sealed_with_a_key_that_is_not_known_here_is_no_flaw_for_who_knows_it(settings):
    """As in a deployment that changes the key, while processes with the old one still run."""
    fill(1)
    old = settings.DUEBOX
    settings.DUEBOX = new = {**old, "AUDIT_KEY": "new", "AUDIT_KEY_FALLBACKS": [settings.SECRET_KEY]}
    fill(1)
    settings.DUEBOX = old
    fill(1)
    assert flawed()["acme"].first.sequence == 2
    settings.DUEBOX = new
    fill(1)
    assert [entry.action for entry in entries() if entry.action != "member.updated"] == ["audit.head_doubted"]
    assert flawed() == {}


def test_entries_cannot_be_updated():
    fill(1)
    repair = "duebox_audit is append-only, so UPDATE is refused; write another entry with duebox.audit"
    with pytest.raises(IntegrityError, match=repair), transaction.atomic():
        AuditEntry.objects.update(actor="eve")
    with connection.cursor() as cursor, pytest.raises(IntegrityError, match=repair), transaction.atomic():
        cursor.execute("UPDATE duebox_audit SET actor = '[]' WHERE false")


def test_entries_cannot_be_deleted():
    fill(2)
    repair = "so DELETE is refused; entries leave by age, with: manage.py duebox audit prune"
    with pytest.raises(IntegrityError, match=repair), transaction.atomic():
        AuditEntry.objects.all().delete()
    with pytest.raises(IntegrityError, match=repair), transaction.atomic():
        AuditHead.objects.all().delete()
    assert len(entries()) == 2


@pytest.mark.parametrize("table", ["duebox_audit", "duebox_audit_head", "duebox_event, duebox_audit"])
def test_the_tables_cannot_be_emptied(table):
    with connection.cursor() as cursor:
        cursor.execute("SET duebox.audit_allows = ''")
        try:
            repair = "is append-only, so TRUNCATE is refused; where nothing is worth keeping, first run: SET"
            with pytest.raises(IntegrityError, match=repair), transaction.atomic():
                cursor.execute(f"TRUNCATE {table}")
        finally:
            allow_truncate("default")
        cursor.execute(f"TRUNCATE {table}")


def test_a_session_that_is_no_test_run_may_not_empty_them(elsewhere):
    with pytest.raises(psycopg.errors.RestrictViolation, match="TRUNCATE is refused"):
        elsewhere.execute("TRUNCATE duebox_audit")


@pytest.mark.django_db(transaction=True)
def test_writers_of_one_organization_take_turns_and_others_do_not_wait(elsewhere):
    done = threading.Event()

    def another():
        with connections["default"].cursor() as cursor:
            cursor.execute("SET application_name = 'another'")
        fill(1, "acme")
        done.set()
        connections["default"].close()

    with transaction.atomic():
        fill(1, "acme")
        thread = threading.Thread(target=another)
        thread.start()
        waits = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'another' AND wait_event_type = 'Lock'"
        eventually(lambda: elsewhere.execute(waits).fetchone() or elsewhere.rollback())
        with psycopg.connect(**connection_params()) as third:
            third.execute("SET lock_timeout = 1000")
            third.execute("SELECT * FROM duebox_audit_open('{bolt}')")
        assert not done.is_set()
    thread.join(15)
    assert done.is_set()
    assert [entry.sequence for entry in entries(organization="acme")] == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_many_writers_make_chains_without_gaps_or_flaws():
    """Some commit, some roll back, some write for several organizations at once."""
    names, failures = ["acme", "bolt", "", "dent"], []
    barrier = threading.Barrier(6)

    def run(number):
        try:
            barrier.wait(15)
            for turn in range(15):
                chosen = [names[(number + turn + step) % 4] for step in range(1 + turn % 3)]
                if (number + turn) % 4 == 0:
                    with undone():
                        fill(5, *chosen)
                else:
                    fill(5, *chosen)
        except Exception as error:
            failures.append(error)
        finally:
            connections["default"].close()

    threads = [threading.Thread(target=run, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    kept = sum((number + turn) % 4 != 0 for number in range(6) for turn in range(15))
    assert len(entries()) == 5 * kept
    for name in names:
        found = entries(organization=name)
        assert [entry.sequence for entry in found] == list(range(1, len(found) + 1))
        assert [entry.recorded_at for entry in found] == sorted(entry.recorded_at for entry in found)
    assert flawed() == {}
