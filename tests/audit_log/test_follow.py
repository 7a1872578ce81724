from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.db.models import F

from duebox import audit_log
from duebox.audit_log.policy import keep
from duebox.exceptions import InvalidAudit
from duebox.models import AuditEntry
from duebox.schedules import capture
from tests.app.members import Captain, Club, Locker, Member
from tests.audit_log.support import entries

pytestmark = pytest.mark.django_db


@pytest.fixture
def club():
    return Club.objects.create()


@pytest.fixture
def member(club):
    """One whose creation is not looked at any more."""
    return Member.objects.create(club=club)


def last():
    return AuditEntry.objects.latest("id")


def told(entry):
    return entry.action, entry.changes


def test_a_change_is_told_old_to_new(member):
    member.role, member.wishes = "admin", {"board": ["oak"]}
    member.save()
    assert told(last()) == (
        "member.updated", {"role": ["guest", "admin"], "wishes": [{}, {"board": ["oak"]}]},
    )  # fmt: skip


def test_a_save_that_changes_nothing_is_not_told(member):
    member.save()
    member.save(update_fields=["role"])
    assert len(entries()) == 1


def test_only_what_was_really_saved_is_told(member):
    member.role, member.name = "admin", "Bea"
    member.save(update_fields=["role"])
    assert told(last()) == ("member.updated", {"role": ["guest", "admin"]})


def test_columns_that_were_not_loaded_are_no_change(member):
    lazy = Member.objects.only("name").get()
    lazy.name = "Bea"
    lazy.save()
    assert told(last()) == ("member.updated", {"name": ["Ann", "Bea"]})


def test_an_instance_that_is_out_of_date_does_not_tell_lies(member):
    stale = Member.objects.get()
    member.role = "admin"
    member.save()
    stale.name = "Bea"
    stale.save()
    assert told(last()) == ("member.updated", {"role": ["admin", "guest"], "name": ["Ann", "Bea"]})


def test_what_the_database_computes_is_told_as_it_is_there(member):
    member.balance = F("balance") + 5
    member.save()
    assert told(last()) == ("member.updated", {"balance": ["0.00", "5.00"]})


def test_a_key_that_was_typed_is_told_as_it_is_stored(member):
    Member(pk=f"{member.pk}", name="Bea", club_id=str(member.club_id), wishes={}).save()
    assert last().entity_id == str(member.pk)
    assert told(last()) == ("member.updated", {"name": ["Ann", "Bea"]})


def test_values_that_json_does_not_know_are_told_readably(member):
    member.joined_at = datetime(2026, 1, 2, 3, tzinfo=UTC)
    member.practice_at, member.practice_for = time(18, 30), timedelta(minutes=90)
    member.picture = b"\x00\x01"
    member.save()
    changes = last().changes
    assert changes["joined_at"] == [None, "2026-01-02T03:00:00+00:00"]
    assert changes["practice_at"] == [None, "18:30:00"]
    assert changes["practice_for"] == ["P0DT00H00M00S", "P0DT01H30M00S"]
    assert changes["picture"][1].startswith("2 bytes, hmac:")


def test_a_text_too_long_to_keep_is_cut_and_says_so(member):
    member.name, member.wishes = "x" * 12_345, {"list": ["y" * 20_000]}
    member.save()
    changes = last().changes
    assert changes["name"][1] == "x" * 10_000 + "… (12,345 characters)"
    assert changes["wishes"][1].endswith(" characters)")


def test_it_is_recorded_for_the_organization_of_the_row(member, club):
    assert last().organization == str(club.pk)
    locker = Locker.objects.create(member=member)
    assert (last().action, last().organization) == ("locker.created", str(club.pk))
    locker.delete()
    assert (last().action, last().organization) == ("locker.deleted", str(club.pk))


def test_a_row_without_an_organization_is_recorded_for_none():
    Member.objects.create()
    Locker.objects.create()
    assert {entry.organization for entry in entries()} == {""}


def test_a_row_that_moves_is_recorded_where_it_moves_to(member):
    elsewhere = Club.objects.create()
    member.club = elsewhere
    member.save()
    assert last().organization == str(elsewhere.pk)


def test_only_named_columns_are_recorded_where_some_are_named(member):
    locker = Locker.objects.create(member=member, note="secret")
    assert last().changes == {"number": [None, 1], "member_id": [None, member.pk]}
    locker.note = "more"
    locker.save()
    assert last().action == "locker.created"


def test_a_proxy_tells_of_the_same_row(member):
    captain = Captain.objects.get()
    captain.role = "admin"
    captain.save()
    assert (last().action, last().entity_id) == ("member.updated", str(member.pk))


def test_rows_that_go_with_another_one_are_told(member):
    Locker.objects.create(member=member)
    club = str(member.club_id)
    Club.objects.get().delete()
    assert {(entry.action, entry.organization) for entry in entries()[-2:]} == {
        ("locker.deleted", club), ("member.deleted", club),
    }  # fmt: skip


def test_a_queryset_that_is_deleted_is_told_row_by_row(member, club):
    Member.objects.create(club=club)
    Member.objects.all().delete()
    assert [entry.action for entry in entries()] == ["member.created"] * 2 + ["member.deleted"] * 2


SECRETS = {
    "password": ("hunter2hunter2", "correct horse battery"),
    "phone": ("+33612345678", "+4915123456789"),
    "email": ("ann@example.org", "bea@example.org"),
}


def test_a_secret_is_nowhere_in_the_row(club):
    old, new = ({name: pair[index] for name, pair in SECRETS.items()} for index in (0, 1))
    member = Member.objects.create(club=club, **old)
    Member.objects.filter(pk=member.pk).update(**new)
    for name, value in old.items():
        setattr(member, name, value)
    member.save()
    Member.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("SELECT row(duebox_audit.*)::text FROM duebox_audit")
        rows = [row for (row,) in cursor.fetchall()]
    assert len(rows) == 4
    for value in [*old.values(), *new.values()]:
        assert [row for row in rows if value in row or value.encode().hex() in row] == []


def test_a_mask_keeps_the_last_four_of_what_is_long_enough(member):
    for phone, shown in [("+33612345678", "****5678"), ("0612345678", "****"), ("", "****"), (None, None)]:
        member.phone = phone
        member.save()
        assert last().changes["phone"][1] == shown


def test_a_hash_shows_that_values_are_equal_and_nothing_else(member, settings):
    def hashed(email):
        member.email = email
        member.save()
        return last().changes["email"]

    first, second = hashed("ann@example.org")[1], hashed("bea@example.org")[1]
    assert hashed("ann@example.org") == [second, first]
    assert first != second
    assert (first[:5], len(first)) == ("hmac:", 37)
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY": "another"}
    capture.install("default")
    assert hashed("cid@example.org")[0] not in (first, second)


def test_what_is_left_out_is_no_change(member):
    member.password = "other"
    member.save()
    assert len(entries()) == 1


def test_a_save_that_fails_leaves_the_next_one_alone(member):
    member.name = None
    with pytest.raises(IntegrityError), transaction.atomic():
        member.save()
    member.name = "Bea"
    member.save()
    assert told(last()) == ("member.updated", {"name": ["Ann", "Bea"]})


def declare(**policy):
    class Meta:
        app_label = "app"

    fields = {"phone": models.TextField(), "club": models.ForeignKey(Club, models.CASCADE)}
    model = type("Declared", (models.Model,), {"Meta": Meta, "__module__": __name__, **fields})
    try:
        return audit_log.follow(**policy)(model)
    finally:
        keep(model, None)
        del Club._meta.apps.all_models["app"]["declared"]
        Club._meta.apps.clear_cache()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"mask": ["phon"]}, "Declared has no column 'phon'; did you mean 'phone'?"),
        ({"drop": "zzz"}, "Declared has no column 'zzz'; it has: id, phone, club, club_id."),
        ({"organization": "team__owner"}, "Declared has no column 'team'"),
        ({"mask": ["phone"], "hash": ["phone"]}, "Declared.phone is in mask= and in hash=; choose one."),
        ({"drop": ["club"], "mask": ["club_id"]}, "Declared.club_id is in drop= and in mask=; choose one."),
        ({"fields": ["club"], "mask": ["phone"]}, "Declared.phone is not in fields=, so it is not recorded"),
        ({"fields": ["club"], "drop": ["phone"]}, "Declared has fields= and drop=; what is not in fields="),
        ({"hash": ["id"]}, "Declared.id is the primary key, which every entry names; it cannot be masked."),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(policy, message):
    with pytest.raises(InvalidAudit) as refusal:
        declare(**policy)
    assert str(refusal.value).startswith(message)
