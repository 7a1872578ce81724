from __future__ import annotations

import threading

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

import duebox
from tests.app.members import Club, Coach, Locker, Member
from tests.auditing.support import entries, flawed
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
    "audited_update": lambda member: Member.objects.filter(pk=member.pk).audited_update(name="z"),
    "audited_delete": lambda member: Member.objects.filter(pk=member.pk).audited_delete(),
    "update_or_create": lambda member: Member.objects.update_or_create(defaults={"name": "z"}, pk=member.pk),
}


@pytest.mark.parametrize("deed", ["save", "delete", "audited_update", "audited_delete"])
def test_one_who_saves_several_rows_and_one_who_touches_the_last_of_them_take_turns(members, beside, deed):
    first, second = members
    with transaction.atomic():
        rename(first, "x")
        end = beside(lambda: DEEDS[deed](Member.objects.get(pk=second.pk)))
        rename(second, "y")
    assert end() == []
    assert len(entries(entity_id=str(second.pk))) == 3
    assert flawed() == {}


@pytest.mark.parametrize("deed", DEEDS)
def test_one_who_locks_a_row_before_he_saves_it_and_one_who_does_not_take_turns(members, beside, deed):
    with transaction.atomic():
        mine = Member.objects.select_for_update().get(pk=members[0].pk)
        end = beside(lambda: DEEDS[deed](Member.objects.get(pk=mine.pk)))
        rename(mine, "x")
    assert end() == []
    assert [entry.changes["name"] for entry in entries(entity_id=str(mine.pk))][1] == ["a", "x"]
    assert flawed() == {}


def test_one_who_updates_in_silence_and_records_it_himself_takes_turns_with_one_who_saves(members, club, beside):
    with transaction.atomic():
        Member.objects.filter(pk=members[0].pk).update(role="admin")
        end = beside(lambda: rename(Member.objects.get(pk=members[0].pk), "z"))
        duebox.audit("member.promoted", members[0], organization=club)
    assert end() == []
    assert flawed() == {}


def test_rows_whose_organization_is_found_by_way_of_others_take_turns(members, beside):
    first, second = (Locker.objects.create(member=member) for member in members)

    def renumber(locker):
        locker.number += 1
        locker.save()

    with transaction.atomic():
        renumber(first)
        end = beside(lambda: renumber(Locker.objects.get(pk=second.pk)))
        renumber(second)
    assert end() == []
    assert flawed() == {}


def test_rows_of_two_tables_take_turns(club, beside):
    first, second = (Coach.objects.create(club=club) for _ in range(2))
    with transaction.atomic():
        rename(first, "x")
        end = beside(lambda: rename(Coach.objects.get(pk=second.pk), "z"))
        rename(second, "y")
    assert end() == []
    assert flawed() == {}


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


def test_who_does_not_want_to_wait_is_heard(members, elsewhere):
    """A lock_timeout ends the save, whichever lock it waits for."""
    elsewhere.execute("SELECT 1 FROM app_member FOR UPDATE")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = 50")
        with pytest.raises(OperationalError, match="lock timeout"), transaction.atomic():
            rename(members[0], "x")


def statements(deed):
    with CaptureQueriesContext(connection) as caught:
        deed()
    words = [query["sql"].split()[0] for query in caught.captured_queries]
    return [word for word in words if word not in ("BEGIN", "COMMIT")]


def test_what_a_save_costs(members, club):
    """docs/howto/audit.md says so."""
    changed = ["SAVEPOINT", "SELECT", "SELECT", "RELEASE", "UPDATE", "SELECT", "WITH", "WITH"]
    assert statements(lambda: rename(members[0], "x")) == changed
    assert statements(lambda: rename(members[0], "x")) == changed[:-2]
    assert statements(lambda: Member.objects.create(club=club)) == ["SELECT", "INSERT", "SELECT", "WITH", "WITH"]
    locker = Locker.objects.create(member=members[0])
    locker.number = 2
    assert statements(locker.save) == ["SELECT", *changed[:3], "SELECT", *changed[3:]]
