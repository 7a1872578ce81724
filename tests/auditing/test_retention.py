from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duebox.auditing import prune, verify
from duebox.models import AuditEntry, AuditHead
from duebox.testing import travel
from tests.auditing.support import entries, fill, flawed, sql

pytestmark = pytest.mark.django_db
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def clock():
    with travel(START) as traveller:
        yield traveller


def counts(**options):
    return {each.organization: each.entries for each in prune("default", **options)}


def sequences(organization="acme"):
    return [entry.sequence for entry in entries(organization=organization)]


def test_seven_years_are_kept_unless_told_otherwise(clock):
    fill(3)
    clock.to(datetime(2033, 1, 31, 12, tzinfo=UTC))
    assert counts() == {}
    clock.by(timedelta(seconds=1))
    assert counts() == {"acme": 3}


def test_the_setting_says_how_many_years_and_the_caller_may_say_otherwise(clock, settings):
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_YEARS": 2}
    fill(1)
    clock.to(datetime(2028, 2, 1, tzinfo=UTC))
    assert counts(years=3) == {}
    assert counts() == {"acme": 1}


def test_what_is_younger_stays_and_the_chain_begins_there(clock):
    fill(6, "acme", "bolt")
    clock.by(timedelta(days=366))
    fill(4, "acme", "")
    assert counts(years=1) == {"acme": 3, "bolt": 3}
    assert sequences() == [4, 5, 6]
    assert [(each.organization, each.flaws) for each in verify("default")] == [("", 0), ("acme", 0), ("bolt", 0)]


def test_the_chain_goes_on_where_everything_was_pruned(clock):
    fill(3)
    clock.by(timedelta(days=366))
    counts(years=1)
    fill(1)
    assert sequences() == [4, 5]
    assert flawed() == {}
    assert str(AuditHead.objects.get()) == "acme: 4 to 5"


def test_what_is_removed_after_the_pruning_is_still_found(clock):
    fill(3)
    clock.by(timedelta(days=366))
    counts(years=1)
    fill(3)
    sql("DELETE FROM duebox_audit WHERE sequence = 4")
    assert str(flawed()["acme"].first) == "entry 4 is missing"


def test_that_it_was_pruned_is_an_entry_too(clock):
    fill(3, "acme")
    fill(1, "")
    clock.by(timedelta(days=366))
    list(prune("default", years=1, actor="root"))
    told = AuditEntry.objects.about("audit", "entries").order_by("organization")
    assert [(entry.organization, entry.action, entry.actor, entry.metadata) for entry in told] == [
        ("", "audit.pruned", {"type": "user", "id": "root"}, {"entries": 1, "through": 1, "years": 1}),
        ("acme", "audit.pruned", {"type": "user", "id": "root"}, {"entries": 3, "through": 3, "years": 1}),
    ]


def test_many_are_pruned_in_batches(clock, monkeypatch):
    monkeypatch.setattr("duebox.auditing.retention.BATCH", 4)
    fill(10)
    clock.by(timedelta(days=366))
    assert counts(years=1) == {"acme": 10}
    assert [entry.metadata["entries"] for entry in entries()] == [4, 4, 2]
    assert flawed() == {}


def test_a_dry_run_only_counts(clock):
    fill(3, "acme", "bolt")
    clock.by(timedelta(days=366))
    assert counts(years=1, dry_run=True) == {"acme": 2, "bolt": 1}
    assert len(entries()) == 3


@pytest.mark.parametrize(
    ("deed", "found"),
    [
        ("UPDATE duebox_audit SET actor = '[]' WHERE sequence = 2", "is not as it was written"),
        ("DELETE FROM duebox_audit WHERE sequence = 2", "entry 2 is missing"),
        ("DELETE FROM duebox_audit WHERE sequence < 3", "entry 1 and all up to 2 are missing"),
        ("UPDATE duebox_audit_head SET seal = ''", "ends a chain whose head was changed"),
    ],
)
def test_where_something_is_wrong_nothing_is_thrown_away(clock, deed, found):
    fill(3, "acme")
    fill(2, "bolt")
    sql(f"{deed}{' AND' if 'WHERE' in deed else ' WHERE'} organization = 'acme'")
    left = len(entries(organization="acme"))
    clock.by(timedelta(days=366))
    done = {each.organization: each for each in prune("default", years=1)}
    assert (done["bolt"].entries, done["bolt"].flaw) == (2, None)
    assert done["acme"].entries == 0
    assert str(done["acme"].flaw).endswith(found)
    assert len(entries(organization="acme")) == left
