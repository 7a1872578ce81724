from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pytest

from duebox.audit_log import prune, verify
from duebox.audit_log.seal import accept_head, seal_all
from duebox.models import AuditEntry, AuditHead
from duebox.testing import travel
from tests.audit_log.support import entries, fill, flaw, sql, write_some

pytestmark = pytest.mark.django_db
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def clock():
    with travel(START) as traveller:
        yield traveller


def count(**options):
    return prune("default", **options).entries


def sequences():
    return [entry.seal.sequence for entry in entries()]


def test_seven_years_are_kept_unless_told_otherwise(clock):
    fill(3)
    clock.to(datetime(2033, 1, 31, 12, tzinfo=UTC))
    assert count() == 0
    clock.by(timedelta(seconds=1))
    assert count() == 3


def test_the_setting_says_how_many_years_and_the_caller_may_say_otherwise(clock, settings):
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_YEARS": 2}
    fill(1)
    clock.to(datetime(2028, 2, 1, tzinfo=UTC))
    assert count(years=3) == 0
    assert count() == 1


def test_what_is_younger_stays_and_the_chain_begins_there(clock):
    fill(6, "acme", "bolt")
    clock.by(timedelta(days=366))
    fill(4, "acme", "")
    assert count(years=1) == 6
    seal_all("default")
    assert sequences() == [7, 8, 9, 10, 11]
    assert flaw() is None


def test_the_chain_goes_on_where_everything_was_pruned(clock):
    fill(3)
    clock.by(timedelta(days=366))
    count(years=1)
    fill(1)
    assert sequences() == [4, 5]
    assert flaw() is None
    assert str(AuditHead.objects.get()) == "4 to 5"


def test_what_is_not_sealed_yet_is_sealed_first(clock):
    fill(1)
    write_some(2)
    clock.by(timedelta(days=366))
    assert count(years=1) == 3
    seal_all("default")
    assert (sequences(), flaw()) == ([4], None)


def test_behind_a_head_that_was_changed_nothing_is_pruned(clock):
    fill(2)
    sql("UPDATE duebox_audit_head SET signature = ''")
    write_some(1)
    clock.by(timedelta(days=366))
    done = prune("default", years=1)
    assert (done.entries, len(entries())) == (0, 3)
    assert str(done.flaw).startswith("The head of the audit log is not as Duebox left it")


def test_what_is_removed_after_the_pruning_is_still_found(clock):
    fill(3)
    clock.by(timedelta(days=366))
    count(years=1)
    fill(3)
    sql("DELETE FROM duebox_audit_seal WHERE sequence = 5")
    assert flaw() == "entry 5 is missing"


def test_that_it_was_pruned_is_an_entry_too(clock):
    fill(3, "acme", "")
    last = entries()[2].seal.hash
    clock.by(timedelta(days=366))
    prune("default", years=1, actor="root")
    said = AuditEntry.objects.about("audit", "entries").get()
    assert (said.organization, said.action, said.actor, said.metadata) == (
        "", "audit.pruned", {"type": "user", "id": "root"},
        {"entries": 3, "through": 3, "hash": last.hex(), "years": 1},
    )  # fmt: skip


def test_many_are_pruned_in_batches(clock, monkeypatch):
    monkeypatch.setattr(sys.modules["duebox.audit_log.archive"], "BATCH", 4)
    fill(10)
    clock.by(timedelta(days=366))
    assert count(years=1) == 10
    assert [entry.metadata["entries"] for entry in entries()] == [4, 4, 2]
    seal_all("default")
    assert flaw() is None


def test_a_dry_run_only_counts(clock):
    fill(3, "acme", "bolt")
    clock.by(timedelta(days=366))
    assert count(years=1, dry_run=True) == 3
    assert len(entries()) == 3


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (
            "UPDATE duebox_audit SET actor = '[]' FROM duebox_audit_seal WHERE entry_id = id AND sequence = 2",
            "is not as it was written",
        ),
        ("DELETE FROM duebox_audit_seal WHERE sequence = 2", "entry 2 is missing"),
        ("DELETE FROM duebox_audit_seal WHERE sequence < 3", "entry 1 and all up to 2 are missing"),
    ],
)
def test_where_something_is_wrong_nothing_is_thrown_away(clock, deed, said):
    fill(3)
    sql(deed)
    left = len(entries())
    clock.by(timedelta(days=366))
    done = prune("default", years=1)
    assert done.entries == 0
    assert str(done.flaw).endswith(said)
    assert len(entries()) == left


def cut_off_the_last():
    sql("DELETE FROM duebox_audit WHERE id = (SELECT entry_id FROM duebox_audit_seal WHERE sequence = 3)")
    sql("DELETE FROM duebox_audit_seal WHERE sequence = 3")
    sql("UPDATE duebox_audit_head h SET sequence = 2, hash = s.hash FROM duebox_audit_seal s WHERE s.sequence = 2")


@pytest.mark.parametrize("deed", [cut_off_the_last, lambda: sql("UPDATE duebox_audit_head SET signature = ''")])
def test_a_head_that_was_changed_is_not_signed_by_pruning_although_nothing_is_to_be_sealed(clock, deed):
    fill(3)
    deed()
    clock.by(timedelta(days=366))
    done = prune("default", years=1)
    assert (done.entries, bool(done.flaw)) == (0, True)
    assert flaw() is not None


def test_with_a_flaw_in_the_second_batch_the_first_is_not_removed_either(clock, monkeypatch):
    monkeypatch.setattr(sys.modules["duebox.audit_log.archive"], "BATCH", 2)
    fill(6)
    sql("UPDATE duebox_audit SET actor = '[]' FROM duebox_audit_seal WHERE entry_id = id AND sequence = 5")
    clock.by(timedelta(days=366))
    assert prune("default", years=1).entries == 0
    assert len(entries()) == 6


def test_what_the_log_records_about_itself_is_pruned_with_the_rest(clock):
    write_some(2)
    sql("DELETE FROM duebox_audit WHERE writer_number = 1")
    seal_all("default")
    seal_all("default")
    assert "before being sealed" in flaw()
    clock.by(timedelta(days=366))
    assert prune("default", years=1) == (2, None)
    assert flaw() is None


def test_a_head_that_is_accepted_after_pruning_begins_at_the_last_link_that_was_pruned(clock):
    fill(3)
    clock.by(timedelta(days=366))
    fill(2)
    assert prune("default", years=1).entries == 3
    seal_all("default")
    sql("DELETE FROM duebox_audit_head")
    accept_head("default", reason="a test")
    seal_all("default")
    verdict = verify("default")
    assert (verdict.flaws, verdict.entries) == (1, 4)
    assert str(verdict.first).endswith("records that the head had been changed, and was accepted")
