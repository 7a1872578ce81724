from __future__ import annotations

import threading

import pytest
from django.db import OperationalError, connection, connections, transaction

import duebox
from tests.app.members import Club, Member
from tests.audit_log.support import entries
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)
WAITS = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'beside' AND wait_event_type = 'Lock'"


@pytest.fixture
def club():
    return Club.objects.create()


@pytest.fixture
def members(club):
    return [Member.objects.create(club=club, name=name) for name in "ab"]


@pytest.fixture
def beside(elsewhere):
    """Does something in another transaction, which has to wait for ours; gives what went wrong in it, once it ends."""
    failures, threads = [], []

    def start(deed, *, waits=True):
        def run():
            try:
                with connections["default"].cursor() as cursor:
                    cursor.execute("SET application_name = 'beside'")
                deed()
            except Exception as error:
                failures.append(error)
            finally:
                connections["default"].close()

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        if waits:
            eventually(lambda: elsewhere.execute(WAITS).fetchone() or elsewhere.rollback())

    def end():
        for thread in threads:
            thread.join(15)
            assert not thread.is_alive()
        return failures

    yield lambda deed, **options: start(deed, **options) or end
    end()


def rename(member, name):
    member.name = name
    member.save()


DEEDS = {
    "save": lambda member: rename(member, "z"),
    "delete": lambda member: member.delete(),
    "update": lambda member: Member.objects.filter(pk=member.pk).update(name="z"),
    "bulk_delete": lambda member: Member.objects.filter(pk=member.pk).delete(),
    "update_or_create": lambda member: Member.objects.update_or_create(defaults={"name": "z"}, pk=member.pk),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_one_who_locks_a_row_before_he_saves_it_and_one_who_does_not_take_turns(members, beside, deed):
    with transaction.atomic():
        mine = Member.objects.select_for_update().get(pk=members[0].pk)
        end = beside(lambda: DEEDS[deed](Member.objects.get(pk=mine.pk)))
        rename(mine, "x")
    assert end() == []
    assert [entry.changes["name"] for entry in entries(entity_id=str(mine.pk))][1] == ["a", "x"]


def test_one_who_updates_in_silence_and_records_it_himself_takes_turns_with_one_who_saves(members, club, beside):
    with transaction.atomic():
        Member.objects.filter(pk=members[0].pk).update(role="admin")
        end = beside(lambda: rename(Member.objects.get(pk=members[0].pk), "z"))
        duebox.audit("member.promoted", members[0], organization=club)
    assert end() == []


def test_a_row_that_moves_waits_for_nobody_where_it_came_from(members, beside):
    there = Club.objects.create()
    with transaction.atomic():
        rename(members[0], "x")
        end = beside(lambda: Member(pk=members[1].pk, club=there, name="b", wishes={}).save(), waits=False)
        assert end() == []
    assert [entry.organization for entry in entries()][-1] == str(there.pk)


def test_a_row_that_is_not_held_by_anyone_is_read_as_it_was_left(members, beside):
    with transaction.atomic():
        rename(members[0], "x")
        end = beside(lambda: rename(Member.objects.get(pk=members[0].pk), "z"))
    assert end() == []
    assert [entry.changes["name"] for entry in entries(entity_id=str(members[0].pk))][1:] == [["a", "x"], ["x", "z"]]


def test_a_save_of_what_is_not_recorded_waits_for_nobody(members, beside):
    with transaction.atomic():
        rename(members[0], "x")
        end = beside(lambda: members[1].save(update_fields=["password"]), waits=False)
        assert end() == []


@pytest.mark.parametrize("deed", DEEDS)
def test_rows_of_one_organization_do_not_wait_for_each_other(members, beside, deed):
    first, second = members
    with transaction.atomic():
        rename(first, "x")
        end = beside(lambda: DEEDS[deed](Member.objects.get(pk=second.pk)), waits=False)
        assert end() == []
    assert len(entries(entity_id=str(second.pk))) == 2


def test_who_does_not_want_to_wait_is_heard(members, elsewhere):
    """A lock_timeout ends the save, whichever lock it waits for."""
    elsewhere.execute("SELECT 1 FROM app_member FOR UPDATE")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = 50")
        with pytest.raises(OperationalError, match="lock timeout"), transaction.atomic():
            rename(members[0], "x")
