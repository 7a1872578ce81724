from __future__ import annotations

from decimal import Decimal

import pytest
from django.db.models import F
from django.db.models.functions import Upper

from duebox.auditing import AuditedQuerySet
from duebox.exceptions import InvalidAudit
from duebox.models import AuditHead
from tests.app.members import Club, Locker, Member
from tests.auditing.support import entries, flawed
from tests.support import undone

pytestmark = pytest.mark.django_db


@pytest.fixture
def clubs():
    return [Club.objects.create(), Club.objects.create()]


@pytest.fixture
def members(clubs):
    """Two of one club, one of another; nothing is recorded of how they came."""
    return Member.objects.bulk_create(
        Member(club=clubs[number % 2], name=name, phone="+33612345678") for number, name in enumerate("abc")
    )


def test_an_update_is_told_for_each_row_that_changes(members, clubs):
    members[0].role = "admin"
    members[0].save()
    assert Member.objects.audited_update(role="admin") == 3
    assert [(entry.entity_id, entry.changes) for entry in entries()[1:]] == [
        (str(member.pk), {"role": ["guest", "admin"]}) for member in members[1:]
    ]
    assert {entry.organization for entry in entries()} == {str(club.pk) for club in clubs}
    assert flawed() == {}


def test_an_update_may_compute(members):
    Member.objects.filter(name="b").audited_update(balance=F("balance") + 5, name=Upper("name"))
    [entry] = entries()
    assert entry.changes == {"balance": ["0.00", "5.00"], "name": ["b", "B"]}
    assert Member.objects.get(name="B").balance == Decimal("5.00")


def test_an_update_may_change_what_it_was_found_by(members):
    assert Member.objects.filter(role="guest").order_by("name")[:2].audited_update(role="admin") == 2
    assert Member.objects.filter(club__name="chess", role="guest").distinct().audited_update(role="admin") == 1
    assert len(entries()) == 3


def test_rows_that_go_are_told(members):
    Locker.objects.bulk_create([Locker(member=members[1])])
    assert Member.objects.exclude(name="a").audited_delete() == (3, {"app.Member": 2, "app.Locker": 1})
    assert sorted(entry.action for entry in entries()) == ["locker.deleted", "member.deleted", "member.deleted"]
    assert [entry.changes["phone"] for entry in entries(action="member.deleted")] == [["****5678", None]] * 2
    assert flawed() == {}


def test_new_rows_are_told(clubs):
    made = Member.objects.audited_create(Member(club=clubs[0], name=name) for name in "xyz")
    assert [entry.entity_id for entry in entries(action="member.created")] == [str(each.pk) for each in made]
    assert [entry.changes["name"] for entry in entries()] == [[None, "x"], [None, "y"], [None, "z"]]


def test_a_thousand_rows_take_as_many_statements_as_one(clubs, django_assert_num_queries):
    Member.objects.bulk_create(Member(club=clubs[0]) for _ in range(1000))
    # Clubs, heads, keys, how many, rows, update, rows, two for the log; two savepoints.
    with django_assert_num_queries(13):
        Member.objects.audited_update(role="admin")
    assert len(entries()) == 1000
    assert flawed() == {}


def test_more_rows_than_fit_into_a_batch_are_told_all_the_same(clubs, monkeypatch):
    monkeypatch.setattr("duebox.auditing.bulk.BATCH", 3)
    Member.objects.audited_create(Member(club=clubs[n % 2], name=str(n)) for n in range(8))
    assert Member.objects.audited_update(role="admin") == 8
    assert Member.objects.audited_delete()[0] == 8
    assert len(entries()) == 24
    assert flawed() == {}


def test_what_is_rolled_back_was_never_told(members):
    with undone():
        Member.objects.audited_update(role="admin")
        Member.objects.audited_delete()
    assert entries() == []
    assert AuditHead.objects.count() == 0


def test_nothing_found_is_nothing_told():
    assert Member.objects.audited_update(role="admin") == 0
    assert Member.objects.audited_delete() == (0, {})
    assert Member.objects.audited_create([]) == []


def test_any_followed_model_will_do(members):
    Locker.objects.bulk_create([Locker(member=members[0], number=n) for n in (1, 2)])
    assert AuditedQuerySet(Locker).filter(number=1).audited_update(number=9) == 1
    assert entries()[0].changes == {"number": [1, 9]}


def test_a_model_that_is_not_followed_is_refused():
    with pytest.raises(InvalidAudit, match="Club is not followed, so nothing is recorded of it; put @auditing"):
        AuditedQuerySet(Club).audited_update(name="go")
