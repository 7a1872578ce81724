from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

import duebox
from duebox.exceptions import InvalidAudit
from duebox.models import AuditEntry
from duebox.testing import travel
from tests.app.members import Club
from tests.audit_log.support import fill, sql
from tests.support import analyze

pytestmark = pytest.mark.django_db


def audit(action="member.removed", entity=("member", 5), **options):
    return duebox.audit(action, entity, **options).id


def ids(found):
    return sorted(found.values_list("id", flat=True))


def test_entries_are_found_by_what_they_are_about():
    one, _, _ = audit(), audit(entity=("member", 6)), audit(entity=("club", 5))
    assert ids(AuditEntry.objects.about("member", 5)) == [one]


def test_entries_are_found_by_who_did_it_in_whatever_name():
    own, lent, _ = audit(actor="ann"), audit(actor="bob", impersonator="ann"), audit(actor="bob")
    assert ids(AuditEntry.objects.by("ann")) == [own, lent]


def test_entries_are_found_by_their_organization():
    club = Club.objects.create()
    one, none = audit(organization=club), audit()
    assert ids(AuditEntry.objects.of(club)) == ids(AuditEntry.objects.of(club.pk)) == [one]
    assert ids(AuditEntry.objects.of(None)) == [none]


def test_entries_are_found_by_what_was_done():
    one, _ = audit("member.removed"), audit("member.invited")
    assert ids(AuditEntry.objects.doing("member.removed")) == [one]


def test_entries_are_found_by_the_story_they_belong_to(on):
    one, _ = audit(), audit()
    sql("UPDATE duebox_audit SET correlation_id = 'story-1' WHERE id = %s", one)
    assert ids(AuditEntry.objects.correlated("story-1")) == [one]


def test_entries_are_found_by_time():
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    found = []
    for day in days:
        with travel(day):
            found.append(audit())
    assert ids(AuditEntry.objects.between(days[1], days[2])) == [found[1]]
    assert ids(AuditEntry.objects.between(since=days[1])) == found[1:]
    assert ids(AuditEntry.objects.between(until=days[1])) == found[:1]
    assert ids(AuditEntry.objects.between()) == found


@pytest.mark.large
def test_each_question_has_an_index_once_there_are_many_entries():
    fill(4_000, *(f"organization-{number}" for number in range(40)))
    sql(
        "UPDATE duebox_audit SET recorded_at = '2026-01-01 00:00Z'::timestamptz + id * interval '1 hour', "
        "actor = jsonb_build_object('type', 'user', 'id', (id %% 90)::text), "
        "impersonator = CASE id %% 40 WHEN 0 THEN jsonb_build_object('type', 'user', 'id', (id %% 9)::text) END, "
        "action = 'member.' || id %% 80, correlation_id = 'story-' || id"
    )
    analyze("duebox_audit")
    first, found = AuditEntry.objects.earliest("id").recorded_at, AuditEntry.objects.all()
    questions = {
        "duebox_audit_about": found.about("member", 5),
        "duebox_audit_by_actor": found.by("7"),
        "duebox_audit_by_impersonator": found.by("7"),
        "duebox_audit_of_organization": found.of("organization-7").between(until=first + timedelta(days=30)),
        "duebox_audit_": found.between(first, first + timedelta(hours=9)),
        "duebox_audit_correlated": found.correlated("story-7"),
    }
    assert {index: plan for index, asked in questions.items() if index not in (plan := asked.explain())} == {}


def test_an_entry_is_not_saved_or_deleted_by_hand():
    entry = duebox.audit("member.removed", ("member", 5))
    with pytest.raises(InvalidAudit, match=r"cannot be saved directly; write one with duebox\.audit"):
        entry.save()
    with pytest.raises(InvalidAudit, match="cannot be saved directly"):
        AuditEntry.objects.create(action="a")
    with pytest.raises(
        InvalidAudit, match=r"cannot be deleted directly; remove old ones with: manage\.py duebox audit prune"
    ):
        entry.delete()


@pytest.mark.parametrize(
    ("column", "constraint"),
    [("action", "duebox_audit_has_names"), ("entity_id", "duebox_audit_has_names")],
)
def test_an_entry_without_a_name_is_refused_by_the_table(column, constraint):
    fill(1)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        sql(f"UPDATE duebox_audit SET {column} = ''")


def test_a_number_of_a_writer_is_given_once():
    fill(2)
    with pytest.raises(IntegrityError, match="duebox_audit_numbered_once"), transaction.atomic():
        sql("UPDATE duebox_audit SET writer_number = 1")


def test_an_entry_is_sealed_once():
    fill(2)
    with pytest.raises(IntegrityError, match="entry_id"), transaction.atomic():
        sql("UPDATE duebox_audit_seal SET entry_id = (SELECT min(entry_id) FROM duebox_audit_seal)")


def test_the_tables_can_be_taken_away_and_come_back():
    fill(1)
    call_command("migrate", "duebox", "zero", verbosity=0)
    call_command("migrate", "duebox", verbosity=0)
    fill(1)
    assert AuditEntry.objects.get().seal.sequence == 1
