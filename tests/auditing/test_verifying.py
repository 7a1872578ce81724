from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from duebox.auditing import receipts, verify
from duebox.auditing.retention import prune
from duebox.exceptions import InvalidAudit
from duebox.models import AuditEntry
from duebox.testing import travel
from tests.auditing.support import entries, fill, flawed, sql
from tests.auditing.tampering import tamper
from tests.support import undone

pytestmark = pytest.mark.django_db
START = datetime(2026, 1, 1, tzinfo=UTC)


def first(organization="acme", **options):
    return str(flawed(**options)[organization].first)


def test_a_log_that_nobody_touched_is_as_written():
    fill(10, "acme", "bolt", "")
    assert [(each.organization, each.entries, each.flaws) for each in verify("default")] == [
        ("", 3, 0), ("acme", 4, 0), ("bolt", 3, 0),
    ]  # fmt: skip


def test_an_empty_log_is_fine():
    assert list(verify("default")) == []


def test_a_verdict_tells_where_the_chain_ends():
    fill(3)
    [verdict] = verify("default")
    assert verdict.as_dict() == {
        "organization": "acme",
        "entries": 3,
        "sequence": 3,
        "hash": entries()[-1].hash.hex(),
        "flaws": 0,
        "first": None,
    }


def test_one_organization_can_be_looked_at_alone():
    fill(4, "acme", "bolt", "")
    sql("UPDATE duebox_audit SET actor = '[]' WHERE organization = 'acme' AND sequence = 2")
    assert set(flawed()) == {"acme"}
    assert flawed(organization="bolt") == {}
    assert [each.entries for each in verify("default", organization="acme")] == [2]
    assert [each.organization for each in verify("default", organization="")] == [""]
    assert list(verify("default", organization="nobody")) == []


@pytest.mark.parametrize(
    ("deed", "found"),
    [
        ("UPDATE duebox_audit SET actor = '[]' WHERE sequence = 3", "entry 3 (id {3}) is not as it was written"),
        ("UPDATE duebox_audit SET hash = '' WHERE sequence = 3", "entry 3 (id {3}) is not as it was written"),
        ("DELETE FROM duebox_audit WHERE sequence = 3", "entry 3 is missing"),
        ("DELETE FROM duebox_audit WHERE sequence IN (2, 3, 4)", "entry 2 and all up to 4 are missing"),
        ("DELETE FROM duebox_audit WHERE sequence = 1", "entry 1 is missing"),
        ("DELETE FROM duebox_audit WHERE sequence >= 4", "entry 4 and all up to 5 are missing"),
        ("DELETE FROM duebox_audit", "entry 1 and all up to 5 are missing"),
        ("DELETE FROM duebox_audit_head", "entry 1 (id {1}) belongs to a chain whose head is gone"),
        ("UPDATE duebox_audit_head SET sequence = 4", "entry 5 (id {5}) is unknown to the head"),
        ("UPDATE duebox_audit_head SET hash = seal", "entry 5 (id {5}) is not the one that the head knows as the last"),
        ("UPDATE duebox_audit_head SET seal = hash", "entry 5 ends a chain whose head was changed"),
        ("UPDATE duebox_audit_head SET seal = ''", "entry 5 ends a chain whose head was changed"),
        ("UPDATE duebox_audit_head SET pruned_sequence = 1", "entry 1 (id {1}) is out of place"),
        (
            "UPDATE duebox_audit SET recorded_at = 'infinity' WHERE sequence = 3",
            "entry 3 (id {3}) is not as it was written",
        ),
    ],
)
def test_what_was_done_is_found_and_named(deed, found):
    fill(5)
    ids = {entry.sequence: entry.id for entry in entries()}
    assert sql(deed) > 0
    for number, identity in ids.items():
        found = found.replace(f"{{{number}}}", str(identity))
    assert first() == found


def keep(name):
    """A copy of the tables as they are, for whoever wants to put something back."""
    sql(f"CREATE TEMPORARY TABLE entries_{name} ON COMMIT DROP AS SELECT * FROM duebox_audit")
    sql(f"CREATE TEMPORARY TABLE head_{name} ON COMMIT DROP AS SELECT * FROM duebox_audit_head")


def put_back_head(name):
    sql("DELETE FROM duebox_audit_head")
    sql(f"INSERT INTO duebox_audit_head SELECT * FROM head_{name}")


def test_true_entries_that_were_put_behind_another_one_are_found():
    """The log is set back, goes on, and then the entries of before come back behind the new one."""
    fill(2)
    keep("two")
    fill(3)
    keep("five")
    sql("DELETE FROM duebox_audit WHERE sequence > 2")
    put_back_head("two")
    fill(1)
    sql("INSERT INTO duebox_audit SELECT * FROM entries_five WHERE sequence > 3")
    put_back_head("five")
    verdict = flawed()["acme"]
    assert (verdict.first.sequence, verdict.first.what) == (4, "does not follow from the one before it")
    assert verdict.flaws == 1


def test_a_checkpoint_that_was_forged_to_hide_what_was_removed_is_found():
    fill(5)
    second = "FROM duebox_audit second WHERE second.sequence = 2"
    sql(f"UPDATE duebox_audit_head SET pruned_sequence = 2, pruned_hash = second.hash {second}")
    sql("DELETE FROM duebox_audit WHERE sequence <= 2")
    assert first() == "entry 5 ends a chain whose head was changed"


def test_an_entry_written_past_duebox_is_found():
    fill(2)
    model = entries()[-1]
    model.id, model.sequence = model.id + 1, 3
    AuditEntry.objects.bulk_create([model])
    assert first() == f"entry 3 (id {model.id}) does not follow from the one before it"


def test_of_several_flaws_the_first_is_named_and_all_are_counted():
    fill(20, "acme", "bolt")
    sql("UPDATE duebox_audit SET actor = '[]' WHERE organization = 'acme' AND sequence IN (4, 7, 9)")
    sql("DELETE FROM duebox_audit WHERE organization = 'bolt' AND sequence = 5")
    found = flawed()
    assert {name: (each.first.sequence, each.flaws) for name, each in found.items()} == {"acme": (4, 3), "bolt": (5, 1)}


def test_it_can_be_looked_at_from_some_time_on():
    with travel(START) as clock:
        fill(4, "acme", "bolt")
        clock.by(timedelta(days=30))
        fill(4, "acme", "bolt")
        since = clock.now
        sql("UPDATE duebox_audit SET actor = '[]' WHERE organization = 'acme' AND sequence = 1")
        assert set(flawed()) == {"acme"}
        assert flawed(since=since) == {}
        assert [each.entries for each in verify("default", since=since)] == [3, 3]
        assert [each.entries for each in verify("default", since=since, organization="bolt")] == [3]
        sql("UPDATE duebox_audit SET actor = '[]' WHERE organization = 'acme' AND sequence = 4")
        assert first(since=since).startswith("entry 4 ")


@pytest.mark.parametrize(
    ("deed", "found"),
    [
        ("DELETE FROM duebox_audit WHERE sequence > 2", "entry 3 and all up to 4 are missing"),
        ("DELETE FROM duebox_audit WHERE sequence = 3", "entry 3 is missing"),
        ("DELETE FROM duebox_audit WHERE sequence < 4", "entry 1 and all up to 3 are missing"),
        ("UPDATE duebox_audit_head SET seal = ''", "entry 4 ends a chain whose head was changed"),
        ("DELETE FROM duebox_audit_head", "belongs to a chain whose head is gone"),
    ],
)
def test_what_was_removed_since_is_found_also_where_only_that_is_looked_at(deed, found):
    with travel(START) as clock:
        fill(2)
        clock.by(timedelta(days=30))
        fill(2)
        sql(deed)
        assert first(since=clock.now).endswith(found)


def test_large_logs_are_read_in_batches(monkeypatch):
    monkeypatch.setattr("duebox.auditing.verifying.BATCH", 4)
    fill(30, *"abcdefg")
    counted = []
    assert sum(each.entries for each in verify("default", progress=counted.append)) == 30
    assert counted == [4] * 7 + [2]
    assert flawed() == {}
    sql("UPDATE duebox_audit SET actor = '[]' WHERE organization = 'g' AND sequence = 4")
    assert set(flawed()) == {"g"}


def test_what_is_pruned_while_it_is_read_is_no_flaw(monkeypatch):
    monkeypatch.setattr("duebox.auditing.verifying.BATCH", 2)
    with travel(START) as clock:
        fill(8)
        clock.by(timedelta(days=366))
        fill(3)
        pruned = []

        def meanwhile(count):
            pruned.extend(prune("default", years=1) if not pruned else ())

        assert flawed(progress=meanwhile) == {}
        assert pruned[0].entries == 8


def test_what_is_added_while_it_is_read_is_no_flaw(monkeypatch):
    monkeypatch.setattr("duebox.auditing.verifying.BATCH", 2)
    fill(6, "acme", "bolt")
    added = []

    def meanwhile(count):
        if not added:
            added.append(fill(5, "acme", "bolt", "cone"))

    found = list(verify("default", progress=meanwhile))
    assert [each.flaws for each in found] == [0, 0, 0]


def kept():
    """What `verify --json` would have printed now."""
    return {each.organization: receipts.Receipt(each.sequence, each.hash) for each in verify("default")}


def test_receipts_that_are_still_true_are_no_flaw():
    fill(4, "acme", "bolt")
    before = kept()
    fill(4, "acme", "bolt", "cone")
    assert flawed(receipts=before) == {}


def test_a_log_that_was_set_back_as_a_whole_is_found_by_its_receipts():
    """The old head with the old seal, and no entry after it: the database alone cannot tell."""
    fill(2)
    keep("two")
    fill(3)
    before = kept()
    sql("DELETE FROM duebox_audit WHERE sequence > 2")
    put_back_head("two")
    assert flawed() == {}
    assert first(receipts=before) == "entry 3 and all up to 5 are missing"
    fill(4)
    assert flawed() == {}
    assert first(receipts=before).startswith("entry 5 ")
    assert first(receipts=before).endswith("is another one than the receipt knows")


def test_an_organization_that_was_removed_as_a_whole_is_found_by_its_receipt():
    fill(4, "acme", "bolt")
    before = kept()
    sql("DELETE FROM duebox_audit WHERE organization = 'bolt'")
    sql("DELETE FROM duebox_audit_head WHERE organization = 'bolt'")
    assert flawed() == {}
    assert first("bolt", receipts=before) == "entry 1 and all up to 2 are missing"
    assert flawed(receipts=before, organization="acme") == {}
    assert set(flawed(receipts=before, organization="bolt")) == {"bolt"}


def test_a_receipt_of_what_was_pruned_since_is_no_flaw():
    with travel(START) as clock:
        fill(3)
        before = kept()
        clock.by(timedelta(days=366))
        list(prune("default", years=1))
        assert flawed(receipts=before) == {}


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"organization": "a"}', '{"organization": "a", "sequence": 1, "hash": 5}']
)
def test_receipts_that_are_none_are_refused_with_their_line(line):
    good = '{"organization": "a", "sequence": 1, "hash": "00"}'
    assert receipts.read([good]) == {"a": receipts.Receipt(1, b"\0")}
    with pytest.raises(InvalidAudit, match="Line 2 of the receipts is none"):
        receipts.read([good, line])


def find_each_of(deeds, count, seed):
    dice = Random(seed)
    organizations = [f"organization-{number}" for number in range(7)] + [""]
    for start in range(0, count, 500):
        fill(min(500, count - start), *organizations)
    assert flawed() == {}
    for number in range(deeds):
        with undone():
            deed = tamper(dice)
            found = flawed()
            assert deed.organization in found, f"{number}: {deed}"
            verdict = found[deed.organization]
            assert verdict.first.sequence == deed.sequence, f"{number}: {deed}, found: {verdict.first}"
    assert flawed() == {}


def test_each_of_some_random_tamperings_is_found_and_its_first_bad_row_named():
    find_each_of(deeds=50, count=300, seed=1)


@pytest.mark.soak
def test_each_of_fifty_random_tamperings_with_ten_thousand_entries_is_found():
    find_each_of(deeds=50, count=10_000, seed=2)
