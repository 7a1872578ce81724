"""Triggers write the entries of followed models: whoever changes the rows, with who did it, and without waiting."""

from __future__ import annotations

import contextlib
import threading
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import psycopg
import pytest
from django.core import serializers
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.http import HttpResponse
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

import duebox
from duebox import audit_log
from duebox.audit_log import chain
from duebox.audit_log import triggers as followed
from duebox.audit_log.policy import _policies, keyed
from duebox.audit_log.seal import seal_all
from duebox.context import origin
from duebox.context.current import Origin, Who
from duebox.events.fact import Actor
from duebox.events.identities import text_of_key
from duebox.middleware import CorrelationMiddleware
from duebox.models import AuditEntry, AuditKey
from duebox.schedules import capture
from duebox.store import audit_triggers
from duebox.testing import drain
from tests.app.members import Chair, Club, Coach, Locker, Member
from tests.app.people import Appointment, Device, Person, Surgery
from tests.support import connection_params

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def following(transactional_db):
    """`audit_log.follow` with triggers at once; forgotten after the test."""
    before = dict(_policies)

    def follow(model, **options):
        audit_log.follow(**options)(model)
        capture.install("default")

    yield follow
    _policies.clear()
    _policies.update(before)
    capture.install("default")


@pytest.fixture
def club():
    return Club.objects.create()


@pytest.fixture
def member(club):
    made = Member.objects.create(club=club)
    forget()
    return made


_seen = 0


def forget():
    """What was recorded until now is none of the test's business."""
    global _seen
    _seen = AuditEntry.objects.order_by("-id").values_list("id", flat=True).first() or 0


@pytest.fixture(autouse=True)
def _forget_first(transactional_db):
    forget()


def recorded():
    return list(AuditEntry.objects.filter(id__gt=_seen).order_by("id"))


def told():
    return [(each.action, each.entity_id, each.changes) for each in recorded()]


def psql(*statements, **options):
    """As another program does it."""
    with psycopg.connect(**connection_params(), autocommit=True, **options) as elsewhere:
        for each in statements:
            elsewhere.execute(each)


ID = (audit_triggers.KeyColumn('"id"'),)
ZONE = (audit_triggers.KeyColumn('"zone"', is_number=False),)
PROMOTED = {"role": ["guest", "admin"]}


def test_a_save(member):
    member.role = "admin"
    member.save()
    assert told() == [("member.updated", str(member.pk), PROMOTED)]


def test_a_row_that_is_made_is_told_with_what_it_has(club):
    made = Member.objects.create(club=club, balance=Decimal("9.50"))
    [entry] = recorded()
    assert (entry.action, entry.entity_type, entry.entity_id) == ("member.created", "app.member", str(made.pk))
    assert entry.organization == str(club.pk)
    assert entry.changes == {
        "club_id": [None, club.pk],
        "name": [None, "Ann"],
        "role": [None, "guest"],
        "balance": [None, "9.50"],
        "practice_for": [None, "P0DT00H00M00S"],
        "wishes": [None, {}],
    }


def test_a_queryset_update(member):
    Member.objects.update(role="admin")
    assert told() == [("member.updated", str(member.pk), PROMOTED)]


def test_bulk_create(club):
    made = Member.objects.bulk_create([Member(club=club, name=name) for name in ("Ann", "Bea", "Cid")])
    assert [(action, id, changes["name"]) for action, id, changes in told()] == [
        ("member.created", str(row.pk), [None, row.name]) for row in made
    ]


def test_bulk_create_with_update_conflicts(member):
    rows = [Member(pk=member.pk, role="admin", club=member.club), Member(pk=member.pk + 1000, club=member.club)]
    Member.objects.bulk_create(rows, update_conflicts=True, unique_fields=["id"], update_fields=["role"])
    assert sorted((action, id) for action, id, _ in told()) == [
        ("member.created", str(member.pk + 1000)), ("member.updated", str(member.pk)),
    ]  # fmt: skip
    assert recorded()[1 if recorded()[0].action == "member.created" else 0].changes == PROMOTED


def test_bulk_update(member):
    member.role = "admin"
    Member.objects.bulk_update([member], ["role"])
    assert told() == [("member.updated", str(member.pk), PROMOTED)]


def test_a_delete(member):
    pk = member.pk
    member.delete()
    [(action, id, changes)] = told()
    assert (action, id) == ("member.deleted", str(pk))
    assert changes["name"] == ["Ann", None]
    assert changes["club_id"] == [member.club_id, None]


@contextlib.contextmanager
def cascading():
    """The database deletes the members of a club, as with a constraint that Django has not made."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = 'app_member'::regclass "
            "AND confrelid = 'app_club'::regclass"
        )
        [(name,)] = cursor.fetchall()
    change = (
        "ALTER TABLE app_member DROP CONSTRAINT {0}, ADD CONSTRAINT {0} FOREIGN KEY (club_id) REFERENCES app_club {1}"
    )
    psql(change.format(name, "ON DELETE CASCADE"))
    try:
        yield
    finally:
        psql(change.format(name, "DEFERRABLE INITIALLY DEFERRED"))


def test_a_cascade_in_the_database(member):
    with cascading():
        psql("DELETE FROM app_club")
        [(action, id, _)] = told()
        assert (action, id) == ("member.deleted", str(member.pk))
        assert recorded()[0].organization == str(member.club_id)


def test_a_truncate(member):
    psql("TRUNCATE app_member CASCADE")
    assert ("member.truncated", "*", {}) in told()
    assert {each.entity_type for each in recorded()} == {"app.member", "app.coach", "app.locker"}


def test_a_copy(club):
    columns = "club_id, name, role, password, balance, practice_for, wishes, saved_at"
    with (
        psycopg.connect(**connection_params(), autocommit=True) as elsewhere,
        elsewhere.cursor() as cursor,
        cursor.copy(f"COPY app_member ({columns}) FROM STDIN") as copy,
    ):
        for name in ("Ann", "Bea"):
            copy.write_row((club.pk, name, "guest", "", 1, timedelta(), "{}", datetime.now(UTC)))
    assert [(action, changes["name"][1]) for action, _, changes in told()] == [
        ("member.created", "Ann"), ("member.created", "Bea"),
    ]  # fmt: skip


def test_raw_sql_from_elsewhere_is_recorded_with_the_user_and_the_program(member):
    psql("UPDATE app_member SET role = 'admin'", application_name="psql")
    assert told() == [("member.updated", str(member.pk), PROMOTED)]
    [entry] = recorded()
    with connection.cursor() as cursor:
        cursor.execute("SELECT session_user")
        assert entry.metadata == {"database_user": cursor.fetchone()[0], "application": "psql"}
    assert entry.actor is None


@pytest.fixture
def other_role():
    """May change members, and knows nothing of the tables of Duebox."""
    psql("DROP ROLE IF EXISTS duebox_test_other", "CREATE ROLE duebox_test_other",
         "GRANT SELECT, INSERT, UPDATE, DELETE ON app_member TO duebox_test_other")  # fmt: skip
    yield "duebox_test_other"
    psql("DROP OWNED BY duebox_test_other", "DROP ROLE duebox_test_other")


def test_a_change_by_another_database_user(member, other_role):
    psql(f"SET ROLE {other_role}", "UPDATE app_member SET role = 'admin', email = 'ann@example.org'")
    [(action, id, changes)] = told()
    assert (action, id) == ("member.updated", str(member.pk))
    assert changes == {**PROMOTED, "email": [None, keyed("member.email", "ann@example.org")]}


@pytest.mark.parametrize("table", ["duebox_audit_key", "duebox_audit"])
def test_another_database_user_reads_neither_the_key_nor_the_log(other_role, table):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        psql(f"SET ROLE {other_role}", f"SELECT * FROM {table}")


# What is recorded


def test_json_too_long_to_keep_is_cut_and_says_so(member):
    Member.objects.update(wishes={"list": ["y" * 20_000]})
    assert recorded()[0].changes["wishes"][1].endswith("yyy… (20,014 characters)")


def test_columns_are_dropped_masked_and_hashed(member):
    Member.objects.update(
        password="secret", phone="+33123456789012", email="ann@example.org", saved_at=datetime.now(UTC)
    )
    [(_, _, changes)] = told()
    assert changes == {"phone": [None, "****9012"], "email": [None, keyed("member.email", "ann@example.org")]}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Ann"), ("club_id", None), ("balance", Decimal("1.50")), ("practice_at", time(8, 5)),
        ("joined_at", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)), ("picture", b"abc"),
        ("joined_at", datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_hashes_are_those_of_python(member, following, field, value):
    following(Member, hash=[field])
    forget()
    Member.objects.update(**{field: value if value is not None else None})
    old, new = recorded()[-1].changes[field] if recorded() else (None, keyed(f"member.{field}", value))
    assert new == keyed(f"member.{field}", value)
    assert old == (keyed("member.club_id", member.club_id) if field == "club_id" else old)


def test_nothing_is_written_when_nothing_that_is_recorded_has_changed(member):
    member.save()  # saved_at is new
    Member.objects.update(name=F("name"), password="another")
    Member.objects.filter(pk=0).update(name="Bea")
    psql("DELETE FROM app_member WHERE false")
    assert recorded() == []


def test_the_organization_is_found_along_foreign_keys(member, club):
    locker = Locker.objects.create(member=member, note="not recorded")
    Locker.objects.update(number=2)
    Locker.objects.update(note="nor is this")
    Locker.objects.all().delete()
    assert [(each.action, each.organization) for each in recorded()] == [
        ("locker.created", str(club.pk)), ("locker.updated", str(club.pk)), ("locker.deleted", str(club.pk)),
    ]  # fmt: skip
    assert recorded()[0].changes == {"member_id": [None, member.pk], "number": [None, 1]}
    assert recorded()[0].entity_id == str(locker.pk or recorded()[0].entity_id)


def test_an_organization_may_be_a_column_of_another_table(member, club, following):
    following(Locker, fields=["number"], organization="member__club__name")
    Locker.objects.create(member=member)
    assert recorded()[-1].organization == "chess"


def test_a_row_without_an_organization_belongs_to_that_of_the_context_or_to_none():
    Locker.objects.create()
    assert recorded()[-1].organization == ""


def test_a_key_that_is_changed_is_one_row_less_and_one_more(member):
    psql(f"UPDATE app_member SET id = {member.pk + 1000}")
    assert sorted((action, id) for action, id, _ in told()) == [
        ("member.created", str(member.pk + 1000)), ("member.deleted", str(member.pk)),
    ]  # fmt: skip


def test_each_table_of_a_model_with_parents_is_recorded_by_the_name_of_its_model(club):
    coach = Coach.objects.create(club=club, licence="A")
    assert [(action, id) for action, id, _ in told()] == [
        ("member.created", str(coach.pk)), ("coach.created", str(coach.pk)),
    ]  # fmt: skip
    assert recorded()[1].changes == {"licence": [None, "A"]}
    assert recorded()[1].organization == str(club.pk)
    forget()
    Coach.objects.update(name="Bea", licence="C")
    assert sorted((action, changes) for action, _, changes in told()) == [
        ("coach.updated", {"licence": ["A", "C"]}), ("member.updated", {"name": ["Ann", "Bea"]}),
    ]  # fmt: skip


def test_where_only_the_model_below_is_followed_its_rows_in_the_table_above_are_recorded(following):
    following(Surgery)
    Appointment.objects.create()
    assert recorded() == []
    surgery = Surgery.objects.create(status="booked")
    [(action, id, changes)] = told()
    assert (action, id) == ("surgery.created", str(surgery.pk))
    assert (changes["theatre"], changes["status"]) == ([None, "A"], [None, "booked"])
    forget()
    Appointment.objects.update(status="moved")
    assert told() == [("surgery.updated", str(surgery.pk), {"status": ["booked", "moved"]})]
    forget()
    surgery.delete()
    [(action, _, changes)] = told()
    assert action == "surgery.deleted"
    assert changes["status"] == ["moved", None]


def test_uuids_as_keys(following):
    following(Device)
    device = Device.objects.create(serviced_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert told() == [("device.created", str(device.pk), {"serviced_at": [None, "2026-01-02T00:00:00+00:00"]})]


def test_composite_primary_keys(club):
    chair = Chair.objects.create(club=club, place='A "1"')
    Chair.objects.update(holder="Ann")
    psql("UPDATE app_chair SET place = 'B'", "DELETE FROM app_chair")
    old, new = text_of_key(chair.pk), f'[{club.pk}, "B"]'
    assert told() == [
        ("chair.created", old, {"holder": [None, ""]}),
        ("chair.updated", old, {"holder": ["", "Ann"]}),
        *sorted([("chair.created", new, {"holder": [None, "Ann"]}), ("chair.deleted", old, {"holder": ["Ann", None]})],
                key=lambda each: [action for action, _, _ in told()].index(each[0], 1)),
        ("chair.deleted", new, {"holder": ["Ann", None]}),
    ]  # fmt: skip
    assert {each.organization for each in recorded()} == {str(club.pk)}
    assert AuditEntry.objects.about(chair).count() == 3


def test_a_many_to_many_table_can_be_followed(club, following):
    following(Member.friends.through)
    ann, bea = Member.objects.create(club=club), Member.objects.create(club=club, name="Bea")
    forget()
    ann.friends.add(bea)
    ann.friends.clear()
    assert [action for action, _, _ in told()] == ["member_friends.created", "member_friends.deleted"]
    assert recorded()[0].changes == {"from_member_id": [None, ann.pk], "to_member_id": [None, bea.pk]}


def test_a_fixture_that_is_loaded(member):
    text = serializers.serialize("json", [member])
    for each in serializers.deserialize("json", text.replace("Ann", "Bea")):
        each.save()
    assert told() == [("member.updated", str(member.pk), {"name": ["Ann", "Bea"]})]


def test_many_columns(following):
    """A function takes 100 arguments."""
    columns = tuple(audit_triggers.Column(f"c{n}", f'"c{n}"', "number") for n in range(250))
    wide = audit_triggers.Recording("person", "app.person", "person", ID, columns, None)
    psql(
        f"ALTER TABLE app_person {', '.join(f'ADD COLUMN c{n} int' for n in range(250))}",
        audit_triggers.install_sql("default", "app_person", [wide]),
    )
    try:
        psql("INSERT INTO app_person (name, zone, born_on, c0, c249) VALUES ('', '', '1990-01-01', 1, 2)")
        assert recorded()[-1].changes == {"c0": [None, 1], "c249": [None, 2]}
        psql("UPDATE app_person SET c100 = 5, c249 = 3")
        assert recorded()[-1].changes == {"c100": [None, 5], "c249": [2, 3]}
    finally:
        psql(f"ALTER TABLE app_person {', '.join(f'DROP COLUMN c{n}' for n in range(250))}")


def test_columns_may_have_the_names_that_the_trigger_uses(following):
    names = ("inner_pad", "types", "ids", "story")
    for name, column in zip(names, ("name", "role", "email", "phone"), strict=True):
        psql(f"ALTER TABLE app_member RENAME COLUMN {column} TO {name}")
    try:
        columns = tuple(audit_triggers.Column(name, f'"{name}"', "text", "hash") for name in names)
        made = audit_triggers.Recording("member", "app.member", "member", ID, columns, None)
        psql(audit_triggers.install_sql("default", "app_member", [made]))
        psql("INSERT INTO app_member (inner_pad, types, ids, story, password, balance, practice_for, wishes, saved_at) "
             "VALUES ('a', 'b', 'c', 'd', '', 0, '0', '{}', now())")  # fmt: skip
        [entry] = recorded()
        assert entry.changes == {
            name: [None, keyed(f"member.{name}", value)] for name, value in zip(names, "abcd", strict=True)
        }
    finally:
        for name, column in zip(names, ("name", "role", "email", "phone"), strict=True):
            psql(f"ALTER TABLE app_member RENAME COLUMN {name} TO {column}")


def test_what_is_rolled_back_is_not_recorded(member):
    with transaction.atomic():
        Member.objects.update(role="admin")
        assert len(recorded()) == 1
        transaction.set_rollback(True)
    assert recorded() == []


def test_numbers_and_ids_grow_together(club):
    Member.objects.bulk_create([Member(club=club) for _ in range(500)])
    Member.objects.update(role="admin")
    entries = recorded()
    assert len({each.writer for each in entries}) == 1
    first = entries[0].writer_number
    assert [each.writer_number for each in entries] == list(range(first, first + 1000))


MANY = audit_triggers.MANY


def make_members(club, count):
    Member.objects.bulk_create([Member(club=club) for _ in range(count)])
    forget()


@pytest.mark.parametrize("count", [MANY - 1, MANY, MANY + 1])
def test_a_large_statement_is_recorded_as_a_small_one(club, here, count):
    Member.objects.bulk_create([Member(club=club) for _ in range(count)])
    Member.objects.update(role="admin")
    psql("DELETE FROM app_member")
    entries = recorded()
    assert [each.action.partition(".")[2] for each in entries] == [
        verb for verb in ("created", "updated", "deleted") for _ in range(count)
    ]
    updated = entries[count : 2 * count]
    assert all((each.changes, each.organization) == (PROMOTED, str(club.pk)) for each in updated)
    assert all(known(each) == ANN for each in updated)
    assert len({each.entity_id for each in updated}) == count


def test_numbers_have_no_gap_between_large_and_small_statements(club):
    make_members(club, MANY)
    first = Member.objects.earliest("pk")
    Member.objects.filter(pk=first.pk).update(role="one")
    Member.objects.update(role="two")
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        Member.objects.update(role="three")
        raise ZeroDivisionError
    Member.objects.update(role="two")  # a large statement that changes nothing
    Member.objects.filter(pk=first.pk).update(role="four")
    entries = recorded()
    assert len(entries) == MANY + 2
    start = entries[0].writer_number
    assert [each.writer_number for each in entries] == list(range(start, start + MANY + 2))
    seal_all("default")
    assert audit_log.verify("default").flaws == 0


def test_a_conversion_that_fails_in_a_large_statement_leaves_no_gap_and_shows_no_value(club, noticed):
    elsewhere, notes = noticed
    make_members(club, MANY)
    columns = (audit_triggers.Column("wishes", '"wishes"', "json"),)
    made = audit_triggers.Recording("member", "app.member", "member", ID, columns, None)
    psql("ALTER TABLE app_member ALTER COLUMN wishes TYPE json USING wishes::json")
    psql(audit_triggers.install_sql("default", "app_member", [made]))
    try:
        elsewhere.execute("""UPDATE app_member SET wishes = '{"secret": "\\u0000"}'""")
        entries = recorded()
        assert {(each.action, each.metadata["error"]) for each in entries} == {("member.updated", "22P05")}
        assert [each.writer_number for each in entries] == list(range(1, MANY + 1))
        assert not any("secret" in note for note in notes)
    finally:
        psql("UPDATE app_member SET wishes = '{}'",
             "ALTER TABLE app_member ALTER COLUMN wishes TYPE jsonb USING wishes::jsonb")  # fmt: skip


# What it costs


def test_a_save_and_a_delete_take_no_statement_more(member):
    with CaptureQueriesContext(connection) as queries:  # fmt: skip
        member.role = "admin"
        member.save()
    assert [each.action for each in recorded()] == ["member.updated"]
    statements = [each["sql"].split()[0] for each in queries.captured_queries]
    assert statements == ["UPDATE"]
    member.delete()
    assert [each.action for each in recorded()] == ["member.updated", "member.deleted"]


# Who did it

HERE = Origin(
    correlation_id="story-1", ip="192.0.2.7", user_agent="Firefox's \\ %s",
    who=lambda: Who(Actor("user", "ann"), Actor("user", "bob")),
)  # fmt: skip


@pytest.fixture
def here():
    token = origin.set(HERE)
    yield
    origin.reset(token)


def known(entry):
    return (entry.actor, entry.impersonator, entry.correlation_id, entry.ip, entry.user_agent, entry.metadata)


ANN = ({"type": "user", "id": "ann"}, {"type": "user", "id": "bob"}, "story-1", "192.0.2.7", "Firefox's \\ %s", {})
NOBODY = (None, None, "", "", "")


@pytest.mark.parametrize("atomic", [True, False])
def test_who_did_it_comes_from_the_context(member, here, atomic):
    with transaction.atomic() if atomic else contextlib.nullcontext():
        member.role = "admin"
        member.save()
        Member.objects.filter(pk=member.pk).update(role="guest")
        with connection.cursor() as cursor:
            cursor.execute("UPDATE app_member SET role = '100 %'")
            cursor.execute("UPDATE app_member SET role = %(role)s", {"role": "named"})
            assert cursor.rowcount == 1
            cursor.execute("/* why */ -- so\n INSERT INTO app_club (name) VALUES (%s) RETURNING name", ["go"])
            assert cursor.fetchall() == [("go",)]
            cursor.execute("WITH x AS (UPDATE app_member SET role = 'with' RETURNING id) SELECT id FROM x")
            assert cursor.fetchall() == [(member.pk,)]
            cursor.executemany("UPDATE app_member SET role = %s", [("one",), ("two",)])
            cursor.execute(psycopg.sql.SQL("UPDATE app_member SET role = {}").format("three"))
        Member.objects.bulk_create([Member()])
        Member.objects.all().delete()
    assert len(recorded()) == 11
    assert all(known(each) == ANN for each in recorded())


def test_who_did_it_is_told_once_in_a_transaction(member, here):
    with CaptureQueriesContext(connection) as queries, transaction.atomic():
        for role in ("one", "two", "three"):
            Member.objects.update(role=role)
    assert sum("set_config" in each["sql"] for each in queries.captured_queries) == 1
    assert all(known(each) == ANN for each in recorded())


def test_it_costs_no_statement(member, here):
    with CaptureQueriesContext(connection) as told_who:
        Member.objects.update(role="one")
    token = origin.set(None)
    with CaptureQueriesContext(connection) as untold:
        Member.objects.update(role="two")
    origin.reset(token)
    assert len(told_who) == len(untold) == 1
    assert [each.actor is not None for each in recorded()] == [True, False]


def test_statements_that_only_read_are_left_as_they_are(member, here):
    with CaptureQueriesContext(connection) as queries, transaction.atomic():
        list(Member.objects.select_for_update())
        Member.objects.count()
    assert not any("set_config" in each["sql"] for each in queries.captured_queries)


def test_after_a_savepoint_is_rolled_back_it_is_told_again(member, here):
    with transaction.atomic():
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            Member.objects.update(role="one")
            raise ZeroDivisionError
        Member.objects.update(role="two")
    [entry] = recorded()
    assert known(entry) == ANN


def test_who_comes_after_in_the_same_transaction_is_another(member):
    with transaction.atomic():
        token = origin.set(HERE)
        Member.objects.update(role="one")
        origin.reset(token)
        Member.objects.update(role="two")
    first, second = recorded()
    assert known(first) == ANN
    assert known(second)[:5] == NOBODY
    assert set(second.metadata) == {"database_user", "application"}


def test_who_comes_after_a_savepoint_that_was_rolled_back_is_another(member):
    with transaction.atomic():
        token = origin.set(HERE)
        Member.objects.update(role="one")
        origin.reset(token)
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            raise ZeroDivisionError
        Member.objects.update(role="two")
    first, second = recorded()
    assert known(first) == ANN
    assert known(second)[:5] == NOBODY


def test_the_next_transaction_of_the_session_knows_nothing(member):
    token = origin.set(HERE)
    Member.objects.update(role="one")
    origin.reset(token)
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('duebox.audit_context', true)")
        assert not cursor.fetchone()[0]
    Member.objects.update(role="two")
    assert known(recorded()[1])[:5] == NOBODY


def test_two_transactions_in_a_row_are_both_told(member, here):
    for role in ("one", "two"):
        with transaction.atomic():
            list(Member.objects.all())
            Member.objects.update(role=role)
    assert [known(each) for each in recorded()] == [ANN] * 2


@pytest.mark.parametrize("atomic", [True, False])
def test_with_parameters_bound_by_the_server(member, here, atomic):
    options = connection.settings_dict["OPTIONS"]
    connection.close()
    options["server_side_binding"] = True
    try:
        with transaction.atomic() if atomic else contextlib.nullcontext():
            assert Member.objects.update(role="one") == 1
            assert Club.objects.create(name="go").pk
        assert [known(each) for each in recorded()] == [ANN]
        assert connection.get_autocommit()
    finally:
        options.pop("server_side_binding")
        connection.close()


def test_in_a_pipeline(member, here):
    connection.ensure_connection()
    with connection.connection.pipeline(), connection.cursor() as cursor:
        cursor.execute("UPDATE app_member SET role = %s", ["one"])
    assert [known(each) for each in recorded()] == [ANN]


def test_a_procedure_that_commits_still_can(member, here):
    psql("CREATE OR REPLACE PROCEDURE test_promote() LANGUAGE plpgsql AS "
         "$$ BEGIN UPDATE app_member SET role = 'admin'; COMMIT; END $$")  # fmt: skip
    try:
        with connection.cursor() as cursor:
            cursor.execute("CALL test_promote()")
    finally:
        psql("DROP PROCEDURE test_promote()")
    assert [each.action for each in recorded()] == ["member.updated"]


def test_the_middleware_says_who_asks(member):
    class User:
        is_authenticated, pk = True, 7

    def view(request):
        Member.objects.update(role="admin")
        return HttpResponse()

    request = RequestFactory().post("/", REMOTE_ADDR="192.0.2.9", HTTP_USER_AGENT="Lynx", HTTP_X_CORRELATION_ID="abc")
    request.user = User()
    CorrelationMiddleware(view)(request)
    [entry] = recorded()
    assert entry.actor == {"type": "user", "id": "7"}
    assert (entry.correlation_id, entry.ip, entry.user_agent) == ("abc", "192.0.2.9", "Lynx")


def test_in_a_handler_it_is_the_actor_of_the_event(on, member):
    @on("member.seen")
    def promote(event):
        Locker.objects.create()

    fact = duebox.emit("member.seen", about=member, actor="cid", organization="acme")
    drain()
    [entry] = recorded()
    assert entry.actor == {"type": "user", "id": "cid"}
    assert (entry.organization, entry.correlation_id) == ("acme", fact.correlation_id)
    assert entry.metadata == {"causation_id": str(fact.id)}


# What must not happen


@pytest.fixture
def noticed():
    """Messages that a session receives while it changes a row."""
    with psycopg.connect(**connection_params(), autocommit=True) as elsewhere:
        elsewhere.execute("SET client_min_messages = debug5")
        notes = []
        elsewhere.add_notice_handler(lambda note: notes.append(f"{note.message_primary} {note.message_detail}"))
        yield elsewhere, notes


def test_a_conversion_that_fails_does_not_fail_the_statement_and_shows_no_value(member, noticed):
    """A json, not a jsonb, may hold what a jsonb cannot."""
    elsewhere, notes = noticed
    columns = (audit_triggers.Column("wishes", '"wishes"', "json"),)
    made = audit_triggers.Recording("member", "app.member", "member", ID, columns, None)
    psql("ALTER TABLE app_member ALTER COLUMN wishes TYPE json USING wishes::json")
    psql(audit_triggers.install_sql("default", "app_member", [made]))
    try:
        elsewhere.execute("""UPDATE app_member SET wishes = '{"secret": "\\u0000"}', role = 'admin'""")
        assert told() == [("member.updated", str(member.pk), {})]
        assert recorded()[0].metadata["error"] == "22P05"
        assert not any("secret" in note or "Ann" in note for note in notes)
    finally:
        psql("UPDATE app_member SET wishes = '{}'",
             "ALTER TABLE app_member ALTER COLUMN wishes TYPE jsonb USING wishes::jsonb")  # fmt: skip


def test_a_column_that_was_renamed_does_not_fail_the_statement(member):
    psql("ALTER TABLE app_member RENAME COLUMN role TO duty")
    try:
        psql("UPDATE app_member SET duty = 'admin'", "INSERT INTO app_club (name) VALUES ('go')")
        assert told() == [("member.updated", str(member.pk), {})]
        assert recorded()[0].metadata["error"] == "42703"
    finally:
        psql("ALTER TABLE app_member RENAME COLUMN duty TO role")


def test_a_context_that_is_no_json_does_not_fail_the_statement(member):
    psql("SET duebox.audit_context = 'nonsense'", "UPDATE app_member SET role = 'admin'", "UPDATE app_member SET id = 0 WHERE false")  # noqa: E501  # fmt: skip
    assert told() == [("member.updated", str(member.pk), {})]
    assert recorded()[0].metadata["error"] == "22P02"


def test_an_error_of_the_statement_is_its_own(member):
    with pytest.raises(DatabaseError) as raised, connection.cursor() as cursor:
        cursor.execute("UPDATE app_member SET name = NULL")
    assert "duebox" not in str(raised.value)
    assert recorded() == []


def test_an_empty_text_as_a_key_does_not_fail_the_statement():
    columns = (audit_triggers.Column("name", '"name"', "text"),)
    named = audit_triggers.Recording("person", "app.person", "person", ZONE, columns, None)
    psql(audit_triggers.install_sql("default", "app_person", [named]))
    psql("INSERT INTO app_person (name, zone, born_on) VALUES ('Ann', '', '1990-01-01')")
    psql("INSERT INTO app_person (name, zone, born_on) VALUES ('Bea', repeat('long ', 2000), '1990-01-01')")
    assert [each.entity_id[:4] for each in recorded()] == ["*", "long"]


def test_eight_writers_do_not_wait_for_one_that_holds_its_transaction_open(club):
    rows = Member.objects.bulk_create([Member(club=club) for _ in range(9)])
    forget()
    done = []

    def write(pk):
        with psycopg.connect(**connection_params(), autocommit=True) as elsewhere:
            elsewhere.execute("SET statement_timeout = '5s'")
            for number in range(20):
                elsewhere.execute("UPDATE app_member SET role = %s WHERE id = %s", [str(number), pk])
            done.append(pk)

    with psycopg.connect(**connection_params()) as holder:
        holder.execute("UPDATE app_member SET role = 'admin' WHERE id = %s", [rows[8].pk])
        threads = [threading.Thread(target=write, args=[row.pk]) for row in rows[:8]]
        for each in threads:
            each.start()
        for each in threads:
            each.join(20)
        assert sorted(done) == [row.pk for row in rows[:8]]
        assert len(recorded()) == 160
        holder.rollback()
    assert len(recorded()) == 160


# The triggers themselves


def states():
    return {each.table: each.state for each in capture.tables("default") if each.purpose == "audit"}


def test_the_tables_of_followed_models_have_triggers():
    assert states() == dict.fromkeys(("app_chair", "app_coach", "app_locker", "app_member"), "installed")
    assert capture.install("default") == []


def test_another_policy_makes_them_outdated(following):
    audit_log.follow(mask=["name"])(Member)
    assert states()["app_member"] == "outdated"
    capture.install("default")
    assert states()["app_member"] == "installed"


def test_a_model_with_a_plan_and_a_policy_has_both(following):
    following(Person)
    Person.objects.create()
    assert [each.action for each in recorded()] == ["person.created"]


def test_the_key_is_that_of_the_settings(settings, member):
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY": "another one"}
    assert not followed.has_key("default")
    capture.install("default")
    assert followed.has_key("default")
    Member.objects.update(email="ann@example.org")
    assert recorded()[-1].changes["email"][1] == keyed("member.email", "ann@example.org")
    assert chain.current("value") not in bytes(AuditKey.objects.get().inner_pad)


def test_without_a_key_hashes_show_nothing(member):
    AuditKey.objects.all().delete()
    Member.objects.update(email="ann@example.org")
    assert recorded()[-1].changes["email"] == [None, "hmac: no key"]
    capture.install("default")


def test_the_source_of_the_functions_has_no_key():
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(prosrc, '') FROM pg_proc WHERE starts_with(proname, 'duebox_')")
        [(source,)] = cursor.fetchall()
    inner = bytes(AuditKey.objects.get().inner_pad)
    assert inner.hex() not in source
    assert chain.current("value").hex() not in source


def test_partitions(following, monkeypatch):
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE parted (LIKE app_person INCLUDING DEFAULTS) PARTITION BY RANGE (id)")
        cursor.execute("CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)")
        cursor.execute("CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20)")
    monkeypatch.setattr(Person._meta, "db_table", "parted")
    try:
        following(Person)
        psql("INSERT INTO parted (id, name, zone, born_on) VALUES (1, 'Ann', '', '1990-01-01')",
             "UPDATE parted SET name = 'Bea'", "UPDATE parted_1 SET name = 'Cid'", "UPDATE parted SET id = 11",
             "DELETE FROM parted_2")  # fmt: skip
        found = [(action.partition(".")[2], id) for action, id, _ in told()]
        assert found[:3] == [("created", "1"), ("updated", "1"), ("updated", "1")]
        assert sorted(found[3:5]) == [("created", "11"), ("deleted", "1")]
        assert found[5:] == [("deleted", "11")]
    finally:
        psql("DROP TABLE parted")


def test_a_test_run_that_empties_all_tables_leaves_no_entries(member):
    call_command("flush", verbosity=0, interactive=False)
    assert not AuditEntry.objects.exists()
    assert followed.has_key("default")


def test_a_function_of_somebody_else_is_not_run_with_the_rights_of_the_trigger(member, other_role):
    """The functions run with the rights of their owner, so names must mean what they meant to it."""
    psql(f"GRANT CREATE ON SCHEMA public TO {other_role}", f"SET ROLE {other_role}",
         "CREATE FUNCTION public.to_json(text) RETURNS json LANGUAGE sql AS $$ SELECT '\"mine\"'::json $$",
         "CREATE FUNCTION public.concat_ws(text, text) RETURNS text LANGUAGE sql AS $$ SELECT '' $$",
         "CREATE FUNCTION public.jsonb_typeof(text) RETURNS text LANGUAGE sql AS $$ SELECT 'mine' $$",
         "CREATE TEMP TABLE duebox_audit_key (purpose text, inner_pad bytea, outer_pad bytea)",
         "CREATE TEMP TABLE duebox_audit_writer (id bigint, process_id int, number bigint)",
         "SET search_path = pg_temp, public",
         "UPDATE public.app_member SET role = 'admin', email = 'ann@example.org'")  # fmt: skip
    assert told() == [
        (
            "member.updated",
            str(member.pk),
            {**PROMOTED, "email": [None, keyed("member.email", "ann@example.org")]},
        )
    ]


def test_statements_that_write_are_told_from_others():
    from duebox.audit_log.context import _CALLS, _WRITES

    for text in (
        "INSERT INTO a", " \n update a", "/* x */ DELETE", "-- x\nMERGE INTO", "with x as (delete from a) select 1",
        "(((INSERT", "TRUNCATE a", "COPY a FROM '/x'", "EXECUTE x",
    ):  # fmt: skip
        assert _WRITES.match(text), text
    for text in ("SELECT 1", "updated", "WITH x AS (SELECT 1) SELECT x", "SAVEPOINT x", " " * 100_000 + "SELECT 1",
                 "/*" * 5_000, "BEGIN", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "VACUUM a"):  # fmt: skip
        assert not _WRITES.match(text), text[:50]
    assert _CALLS.match("CALL x()")
    assert _CALLS.match("do $$ $$")


def test_a_transaction_of_another_isolation_level_can_begin(member, here):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        cursor.execute("UPDATE app_member SET role = 'admin'")
    assert [known(each) for each in recorded()] == [ANN]


def test_an_error_in_a_joined_statement_leaves_the_connection_as_it_was(member, here):
    with pytest.raises(DatabaseError):
        Member.objects.update(name=None)
    Member.objects.update(role="admin")
    with pytest.raises(DatabaseError), transaction.atomic():
        Member.objects.update(name=None)
    Member.objects.update(role="guest")
    assert [known(each) for each in recorded()] == [ANN, ANN]


def test_who_asks_may_be_found_by_statements_that_write(member):
    def who():
        Club.objects.create(name="a session")
        return Who(Actor("user", "ann"))

    token = origin.set(Origin(correlation_id="story-1", who=who))
    Member.objects.update(role="admin")
    origin.reset(token)
    assert [each.actor for each in recorded()] == [{"type": "user", "id": "ann"}]


def test_migrations_go_back_and_forth(member):
    call_command("migrate", "duebox", "zero", verbosity=0)
    try:
        Member.objects.update(role="admin")
        assert Member.objects.get().role == "admin"  # a trigger would fail
    finally:
        call_command("migrate", "duebox", verbosity=0)
    Member.objects.update(role="guest")
    assert list(AuditEntry.objects.values_list("action", flat=True)) == ["member.updated"]


def test_other_roles_may_not_use_the_function_of_a_trigger():
    """It has the rights of its owner: on a table of their own, others could write entries with it."""
    rights = """SELECT count(*) FROM pg_proc
        WHERE (starts_with(proname, 'duebox_record_') OR starts_with(proname, 'duebox_capture_'))
        AND prorettype = 'trigger'::regtype AND proacl IS NULL"""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_proc WHERE starts_with(proname, 'duebox_record_')")
        assert cursor.fetchone()[0] > 0
        cursor.execute(rights)
        assert cursor.fetchone() == (0,)
