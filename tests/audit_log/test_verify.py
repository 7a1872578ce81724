from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from duebox.audit_log import verify
from duebox.audit_log.archive import prune
from duebox.audit_log.seal import seal_all
from duebox.audit_log.verify import Receipt, read_receipts
from duebox.exceptions import InvalidAudit
from duebox.store import audit
from duebox.testing import travel
from tests.audit_log.support import entries, fill, flaw, found, sql, write_some
from tests.audit_log.tampering import tamper
from tests.support import undone

pytestmark = pytest.mark.django_db
START = datetime(2026, 1, 1, tzinfo=UTC)
SIGNATURE = "entry 5 is the last, but the signature of the head is wrong"
OUTSIDE = "entry 1 (id {1}) is outside of the range that the head names"
WRITTEN = "entry 3 (id {3}) is not as it was written"
FOLLOWS = "entry 3 (id {3}) does not follow from the one before it"
ENTRY = "id = (SELECT entry_id FROM duebox_audit_seal WHERE sequence = {})"


def test_a_log_that_nobody_touched_is_as_written():
    fill(10, "acme", "bolt", "")
    assert (found().entries, found().flaws, found().sequence) == (10, 0, 10)


def test_an_empty_log_is_fine():
    assert (found().entries, found().flaws) == (0, 0)


def test_a_verdict_says_where_the_chain_ends():
    fill(3)
    write_some(2)
    last = entries()[2].seal
    verdict = verify("default")
    assert verdict.as_dict() == {
        "entries": 3,
        "unsealed": 2,
        "sequence": 3,
        "hash": last.hash.hex(),
        "sealed_at": verdict.sealed_at.isoformat(),
        "flaws": 0,
        "first": None,
    }


def test_the_entries_of_one_organization_can_be_looked_at_alone():
    fill(4, "acme", "bolt", "")
    sql(f"UPDATE duebox_audit SET actor = '[]' WHERE {ENTRY.format(4)}")
    assert flaw().startswith("entry 4 ")
    assert flaw(organization="acme").startswith("entry 4 ")
    assert flaw(organization="bolt") is None
    assert found(organization="acme").entries == 2
    assert found(organization="").entries == 1
    assert found(organization="nobody").entries == 0


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (f"UPDATE duebox_audit SET actor = '[]' WHERE {ENTRY.format(3)}", WRITTEN),
        ("UPDATE duebox_audit_seal SET entry_hash = '' WHERE sequence = 3", FOLLOWS),
        ("UPDATE duebox_audit_seal SET hash = '' WHERE sequence = 3", FOLLOWS),
        (f"DELETE FROM duebox_audit WHERE {ENTRY.format(3)}", "entry 3 (id {3}) is missing"),
        ("DELETE FROM duebox_audit_seal WHERE sequence = 3", "entry 3 is missing"),
        ("DELETE FROM duebox_audit_seal WHERE sequence IN (2, 3, 4)", "entry 2 and all up to 4 are missing"),
        ("DELETE FROM duebox_audit_seal WHERE sequence = 1", "entry 1 is missing"),
        ("DELETE FROM duebox_audit_seal WHERE sequence >= 4", "entry 4 and all up to 5 are missing"),
        ("DELETE FROM duebox_audit_seal", "entry 1 and all up to 5 are missing"),
        ("DELETE FROM duebox_audit", "entry 1 (id {1}) is missing"),
        ("UPDATE duebox_audit_head SET sequence = 4", "entry 4 is the last, but the signature of the head is wrong"),
        ("UPDATE duebox_audit_head SET hash = signature", SIGNATURE),
        ("UPDATE duebox_audit_head SET signature = hash", SIGNATURE),
        ("UPDATE duebox_audit_head SET signature = ''", SIGNATURE),
        ("UPDATE duebox_audit_head SET pruned_sequence = 1", OUTSIDE),
        (f"UPDATE duebox_audit SET recorded_at = 'infinity' WHERE {ENTRY.format(3)}", WRITTEN),
    ],
)  # fmt: skip
def test_what_was_done_is_found_and_named(deed, said):
    fill(5)
    for entry in entries():
        said = said.replace(f"{{{entry.seal.sequence}}}", str(entry.id))
    assert sql(deed) > 0
    assert flaw() == said


def test_a_head_that_is_gone_is_found():
    fill(2)
    sql("DELETE FROM duebox_audit_head")
    assert (flaw(), found().flaws) == (f"entry 1 (id {entries()[0].id}) is outside of the range that the head names", 3)


TABLES = ("duebox_audit", "duebox_audit_seal", "duebox_audit_head", "duebox_audit_writer", "duebox_audit_writer_sealed")


def keep(name):
    """A copy of the tables as they are, for whoever wants to put something back."""
    for table in TABLES:
        sql(f"CREATE TEMPORARY TABLE {table}_{name} ON COMMIT DROP AS SELECT * FROM {table}")


def put_back(name, *tables):
    for table in tables or TABLES:
        sql(f"DELETE FROM {table}")
        sql(f"INSERT INTO {table} SELECT * FROM {table}_{name}")


def test_true_entries_that_were_put_behind_another_one_are_found():
    """The log is set back, goes on, and then the entries of before come back behind the new one."""
    fill(2)
    keep("two")
    fill(3)
    keep("five")
    put_back("two")
    fill(1)
    sql("DELETE FROM duebox_audit_seal WHERE sequence > 3")
    sql("INSERT INTO duebox_audit SELECT * FROM duebox_audit_five ON CONFLICT DO NOTHING")
    sql("INSERT INTO duebox_audit_seal SELECT * FROM duebox_audit_seal_five WHERE sequence > 3")
    put_back("five", "duebox_audit_head")
    assert found().first.sequence in (3, 4)


def test_a_beginning_that_was_forged_to_hide_what_was_removed_is_found():
    fill(5)
    second = "FROM duebox_audit_seal second WHERE second.sequence = 2"
    sql(f"UPDATE duebox_audit_head SET pruned_sequence = 2, pruned_hash = second.hash {second}")
    sql("DELETE FROM duebox_audit WHERE id IN (SELECT entry_id FROM duebox_audit_seal WHERE sequence <= 2)")
    sql("DELETE FROM duebox_audit_seal WHERE sequence <= 2")
    assert flaw() == SIGNATURE


def test_of_several_flaws_the_first_is_named_and_all_are_counted():
    fill(20, "acme", "bolt")
    sql("UPDATE duebox_audit SET actor = '[]' FROM duebox_audit_seal WHERE entry_id = id AND sequence IN (4, 7, 9)")
    assert (found().first.sequence, found().flaws) == (4, 3)


def test_it_can_be_looked_at_from_some_time_on():
    with travel(START) as clock:
        fill(4, "acme", "bolt")
        clock.by(timedelta(days=30))
        fill(4, "acme", "bolt")
        since = clock.now
        sql(f"UPDATE duebox_audit SET actor = '[]' WHERE {ENTRY.format(1)}")
        assert flaw().startswith("entry 1 ")
        assert flaw(since=since) is None
        assert found(since=since).entries == 4
        assert found(since=since, organization="bolt").entries == 2
        assert found(since=since + timedelta(days=1)).entries == 0
        sql(f"UPDATE duebox_audit SET actor = '[]' WHERE {ENTRY.format(6)}")
        assert flaw(since=since).startswith("entry 6 ")


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("DELETE FROM duebox_audit_seal WHERE sequence > 2", "entry 3 and all up to 4 are missing"),
        ("DELETE FROM duebox_audit_seal WHERE sequence = 3", "entry 3 is missing"),
        ("UPDATE duebox_audit_head SET signature = ''", "entry 4 is the last, but the signature of the head is wrong"),
    ],
)
def test_what_was_removed_since_is_found_also_where_only_that_is_looked_at(deed, said):
    with travel(START) as clock:
        fill(2)
        clock.by(timedelta(days=30))
        fill(2)
        sql(deed)
        assert flaw(since=clock.now) == said


def test_large_logs_are_read_in_batches(monkeypatch):
    monkeypatch.setattr(sys.modules["duebox.audit_log.verify"], "BATCH", 4)
    fill(30, *"abcdefg")
    counted = []
    assert found(progress=counted.append).entries == 30
    assert counted == [4] * 7 + [2]


def test_what_is_pruned_while_it_is_read_is_no_flaw(monkeypatch):
    monkeypatch.setattr(sys.modules["duebox.audit_log.verify"], "BATCH", 2)
    with travel(START) as clock:
        fill(8)
        clock.by(timedelta(days=366))
        fill(3)
        pruned = []

        def meanwhile(count):
            if not pruned:
                pruned.append(prune("default", years=1))

        assert flaw(progress=meanwhile) is None
        assert pruned[0].entries == 8


def test_what_is_sealed_while_it_is_read_is_no_flaw(monkeypatch):
    monkeypatch.setattr(sys.modules["duebox.audit_log.verify"], "BATCH", 2)
    fill(6)
    assert flaw(progress=lambda count: fill(5)) is None


def kept():
    """What `verify --json` would have printed now."""
    verdict = verify("default")
    return [Receipt(verdict.sequence, verdict.hash)]


def test_receipts_that_are_still_true_are_no_flaw():
    fill(4, "acme", "bolt")
    before = kept()
    fill(4, "acme", "bolt", "cone")
    assert flaw(receipts=[*before, *kept()]) is None


def test_a_log_that_was_set_back_as_a_whole_is_found_by_its_receipts():
    """The old head with the old signature, and no entry after it: the database alone cannot tell."""
    fill(2)
    keep("two")
    fill(3)
    before = kept()
    put_back("two")
    assert flaw() is None
    assert flaw(receipts=before) == "entry 3 and all up to 5 are missing"
    fill(4)
    assert flaw() is None
    assert flaw(receipts=before).startswith("entry 5 ")
    assert flaw(receipts=before).endswith("has another hash than the receipt")


def test_of_two_receipts_for_one_place_both_are_compared():
    """The log was set back and went on: the second receipt is true, and the first one shows it."""
    fill(2)
    keep("two")
    fill(3)
    before = kept()
    put_back("two")
    fill(3)
    assert flaw(receipts=kept()) is None
    assert flaw(receipts=[*before, *kept()]).endswith("has another hash than the receipt")


def test_batches_that_are_pruned_between_two_looks_are_no_flaw(monkeypatch):
    """One before links are read, another one before the head is asked for."""
    with travel(START) as clock:
        fill(9)
        clock.by(timedelta(days=366))
        fill(1)
        monkeypatch.setattr(sys.modules["duebox.audit_log.verify"], "BATCH", 3)
        monkeypatch.setattr(sys.modules["duebox.audit_log.archive"], "BATCH", 3)
        read, asked = audit.read, []

        def meanwhile(using, **options):
            links = read(using, **options)
            if options["organization"] == "acme" and not asked:
                asked.append(prune("default", years=1))
            return links

        monkeypatch.setattr(audit, "read", meanwhile)
        assert flaw(organization="acme") is None
        assert asked[0].entries == 9


def test_a_number_of_a_writer_that_was_set_back_is_found():
    fill(3)
    sql("UPDATE duebox_audit_writer SET number = 2")
    assert "is below that of its sealed entries" in flaw()


def test_a_receipt_of_what_was_pruned_since_is_no_flaw():
    with travel(START) as clock:
        fill(3)
        before = kept()
        clock.by(timedelta(days=366))
        prune("default", years=1)
        seal_all("default")
        assert flaw(receipts=before) is None


@pytest.mark.parametrize("line", ["{", "[]", '{"sequence": 1}', '{"sequence": 1, "hash": 5}'])
def test_receipts_that_are_none_are_refused_with_their_line(line):
    good = '{"sequence": 1, "hash": "00"}'
    assert read_receipts([good]) == [Receipt(1, b"\0")]
    with pytest.raises(InvalidAudit, match="Line 2 is not a receipt"):
        read_receipts([good, line])


def find_each_of(deeds, count, seed):
    dice = Random(seed)
    organizations = [f"organization-{number}" for number in range(7)] + [""]
    for start in range(0, count, 500):
        fill(min(500, count - start), *organizations)
    assert flaw() is None
    log = entries()
    for number in range(deeds):
        with undone():
            deed = tamper(dice, log)
            verdict = found()
            assert verdict.flaws, f"{number}: {deed}"
            assert verdict.first.sequence == deed.sequence, f"{number}: {deed}, found: {verdict.first}"
    assert flaw() is None


@pytest.mark.large
def test_each_of_some_random_tamperings_is_found_and_its_first_bad_row_named():
    find_each_of(deeds=50, count=300, seed=1)


@pytest.mark.soak
def test_each_of_fifty_random_tamperings_with_ten_thousand_entries_is_found():
    find_each_of(deeds=50, count=10_000, seed=2)
