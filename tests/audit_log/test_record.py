from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.utils import timezone

import duebox
from duebox.context import origin
from duebox.context.current import Origin, Who
from duebox.events.fact import Actor
from duebox.exceptions import InvalidAudit, InvalidPayload, NotReady
from duebox.models import AuditEntry, AuditWriter
from duebox.testing import drain, travel
from tests.app.members import Captain, Club, Member
from tests.audit_log.support import entries, the_entry
from tests.support import undone

pytestmark = pytest.mark.django_db

REQUEST = Origin(
    correlation_id="story-7",
    ip="192.0.2.7",
    user_agent="Firefox",
    who=lambda: Who(actor=Actor("user", "ann"), impersonator=Actor("user", "root")),
)


@pytest.fixture
def request_of_ann():
    token = origin.set(REQUEST)
    yield
    origin.reset(token)


def removed(**options):
    return duebox.audit("member.removed", ("member", 5), **options)


def test_an_entry_says_what_was_done_to_what():
    removed(organization="acme")
    entry = the_entry()
    assert (entry.action, entry.entity_type, entry.entity_id, entry.organization) == (
        "member.removed", "member", "5", "acme",
    )  # fmt: skip
    assert (entry.changes, entry.metadata) == ({}, {})
    assert str(entry).startswith("member.removed member:5 at 20")


def test_the_entry_is_given_back_as_it_is_stored():
    given = removed(
        organization="acme", actor="ann", before={"b": 1, "a": -0.0}, after={"b": 2.50, "a": 1e-9}, metadata={"z": "é"}
    )
    stored = the_entry()
    names = [field.attname for field in AuditEntry._meta.concrete_fields]
    assert {name: getattr(given, name) for name in names} == {name: getattr(stored, name) for name in names}


def test_it_is_written_when_the_database_says_so():
    before = timezone.now()
    removed()
    assert before - timedelta(seconds=5) < the_entry().recorded_at < timezone.now() + timedelta(seconds=5)


def test_on_a_journey_it_is_written_at_the_time_of_the_journey():
    with travel(datetime(2031, 5, 6, 7, 8, 9, 123_457, tzinfo=UTC)) as clock:
        removed()
        assert the_entry().recorded_at == clock.now


def test_only_what_differs_is_kept():
    removed(before={"role": "guest", "name": "Ann", "left": 1}, after={"role": "admin", "name": "Ann", "new": 2})
    assert the_entry().changes == {"role": ["guest", "admin"], "left": [1, None], "new": [None, 2]}


def test_true_is_not_one():
    removed(before={"a": 1, "b": 0}, after={"a": True, "b": 0})
    assert the_entry().changes == {"a": [1, True]}


def test_changes_may_be_given_as_they_are():
    removed(changes={"role": ("guest", "guest")})
    assert the_entry().changes == {"role": ["guest", "guest"]}


def test_everyday_values_are_kept_as_in_events():
    day, moment, identity = date(2026, 1, 2), datetime(2026, 1, 2, 3, tzinfo=UTC), UUID(int=7)
    removed(after={"day": day, "moment": moment, "id": identity, "price": Decimal("9.50"), "tags": ("a", "b")})
    assert {name: new for name, (_, new) in the_entry().changes.items()} == {
        "day": "2026-01-02",
        "moment": "2026-01-02T03:00:00+00:00",
        "id": str(identity),
        "price": "9.50",
        "tags": ["a", "b"],
    }


def test_a_reason_and_more_can_be_noted():
    removed(reason="asked by phone", metadata={"ticket": 12})
    assert the_entry().metadata == {"reason": "asked by phone", "ticket": 12}


def test_it_is_about_a_saved_model_instance():
    club = Club.objects.create()
    duebox.audit("club.closed", club, organization=club, actor=club)
    entry = the_entry()
    assert (entry.entity_type, entry.entity_id) == ("app.club", str(club.pk))
    assert (entry.organization, entry.actor) == (str(club.pk), {"type": "app.club", "id": str(club.pk)})


def test_a_proxy_goes_by_the_name_of_the_row():
    captain = Captain.objects.create()
    duebox.audit("member.praised", captain)
    assert {entry.entity_type for entry in entries()} == {"app.member"}


def test_who_asks_and_where_from_is_taken_from_the_request(request_of_ann):
    removed()
    entry = the_entry()
    assert (entry.actor["id"], entry.impersonator["id"], entry.correlation_id) == ("ann", "root", "story-7")
    assert (entry.ip, entry.user_agent) == ("192.0.2.7", "Firefox")


def test_what_is_given_wins(request_of_ann):
    removed(actor="eve", impersonator="mallory")
    entry = the_entry()
    assert (entry.actor["id"], entry.impersonator["id"], entry.correlation_id) == ("eve", "mallory", "story-7")


def test_who_really_asks_is_told_also_when_an_actor_is_given(request_of_ann):
    removed(actor="eve")
    assert the_entry().impersonator == {"type": "user", "id": "root"}


def test_a_text_of_a_stranger_is_cleaned_and_cut():
    stranger = partial(Who, Actor("user", "x\ty"))
    token = origin.set(Origin("story", ip="1\n2", user_agent="a\r\nb\x1f\x00" + "c" * 1000, who=stranger))
    try:
        removed()
    finally:
        origin.reset(token)
    entry = the_entry()
    assert (entry.ip, entry.actor["id"], entry.user_agent) == ("12", "xy", "ab" + "c" * 254)


def test_in_a_handler_the_story_of_the_event_goes_on(on):
    @on("order.paid", name="it")
    def handler(event):
        removed()

    fact = duebox.emit("order.paid", organization="acme", actor="ann", correlation_id="story-9")
    drain()
    entry = the_entry()
    assert (entry.organization, entry.actor["id"], entry.correlation_id) == ("acme", "ann", "story-9")
    assert entry.metadata == {"causation_id": str(fact.id)}


@pytest.mark.django_db(databases=["default", "other"])
def test_in_a_handler_it_is_written_where_the_event_is(on):
    on("order.paid", name="it")(lambda event: removed() and None)
    duebox.emit("order.paid", using="other")
    drain(using="other")
    assert (AuditEntry.objects.using("other").count(), AuditEntry.objects.count()) == (1, 0)


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_can_be_named():
    removed(using="other")
    assert (AuditEntry.objects.using("other").count(), AuditEntry.objects.count()) == (1, 0)


@pytest.mark.django_db(transaction=True)
def test_it_is_committed_with_the_transaction_or_not_at_all(elsewhere):
    count = "SELECT count(*) FROM duebox_audit"
    with transaction.atomic():
        removed()
        assert elsewhere.execute(count).fetchone() == (0,)
    assert elsewhere.execute(count).fetchone() == (1,)
    with undone():
        removed()
        with transaction.atomic():
            removed()
    assert entries() == [the_entry()]
    assert AuditWriter.objects.get().number == 1


def test_a_savepoint_takes_its_entries_and_their_numbers_back():
    removed()
    with undone():
        removed()
    removed()
    assert [entry.writer_number for entry in entries()] == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_it_takes_one_round_trip(django_assert_num_queries):
    removed()
    with transaction.atomic(), django_assert_num_queries(1):
        removed()


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        (None, "entity is None; pass a saved model instance, or a pair like"),
        ("member:5", "entity is a str; pass a saved model instance"),
        (("member", None), "entity is a tuple of str and NoneType; pass"),
        (("", 5), "entity is a tuple of str and int; pass"),
        (("member", ""), "entity='' must be 1 to 500 printable characters"),
        (("member", "a\x1fb"), r"entity='a\\x1fb' must be 1 to 500 printable characters"),
        (Club(), "entity is a Club that has no primary key yet; save it first"),
    ],
)
def test_an_entity_that_cannot_be_named_is_refused(entity, message):
    with pytest.raises(InvalidAudit, match=message):
        duebox.audit("member.removed", entity)
    assert entries() == []


@pytest.mark.parametrize("action", ["", "Member.Removed", "member removed", "member.", "a" * 501, None, "a\n"])
def test_an_action_that_is_no_name_is_refused(action):
    with pytest.raises(InvalidAudit, match=r"is not a name; use lower snake case like 'member\.removed'"):
        duebox.audit(action, ("member", 5))


@pytest.mark.parametrize("name", ["actor", "impersonator", "organization"])
def test_an_identity_that_cannot_be_kept_is_refused(name):
    for value in ("", "x" * 501, "a\nb"):
        with pytest.raises(InvalidAudit, match=f"{name}=.* must be 1 to 500 printable characters"):
            removed(**{name: value})
    with pytest.raises(InvalidAudit, match=f"{name} is a Club that has no primary key"):
        removed(**{name: Club()})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"before": {"a": object()}}, r"changes\.a\[0\]: is a builtins\.object, which JSON cannot represent"),
        ({"after": {"a": float("nan")}}, r"changes\.a\[1\]: is nan"),
        ({"after": {"a": datetime(2026, 1, 1)}}, r"changes\.a\[1\]: is a naive datetime"),
        ({"after": {5: 1}}, "changes: has the key 5, which is not a string"),
        ({"after": {"a": "x" * 300_000}}, "changes: is 300,015 bytes as JSON, over the limit"),
        ({"metadata": {"a": {1, 2}}}, r"metadata\.a: is a builtins\.set"),
        ({"metadata": [1]}, "metadata: is a list; pass a dict"),
    ],
)
def test_a_value_that_json_cannot_carry_is_refused_with_its_path(options, message):
    with pytest.raises(InvalidPayload, match=message):
        removed(**options)
    assert entries() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"before": {}, "changes": {}}, "changes= says it all; leave out before= and after="),
        ({"before": [1]}, "before= and after= must be dicts of values by name, not a list"),
        ({"changes": [1]}, "changes= must be a dict like .* not a list"),
        ({"changes": {"role": "admin"}}, r"changes\['role'\] must be a pair of old and new"),
        ({"changes": {"role": (1, 2, 3)}}, r"changes\['role'\] must be a pair of old and new"),
    ],
)
def test_changes_in_no_known_form_are_refused(options, message):
    with pytest.raises(InvalidAudit, match=message):
        removed(**options)


def test_what_is_secret_of_a_followed_model_is_secret_here_too():
    secrets = {"password": "hunter2", "phone": "+33612345678", "email": "ann@example.org", "role": "guest"}
    member = Member(pk=5)
    for entity in (member, ("member", 5), Captain(pk=5)):
        duebox.audit("member.checked", entity, before=secrets, after={**secrets, "role": "admin"})
        duebox.audit("member.checked", entity, changes={name: (None, value) for name, value in secrets.items()})
    for entry in entries()[1::2]:
        assert entry.changes["phone"] == [None, "****5678"]
        assert entry.changes["email"][1].startswith("hmac:")
        assert "password" not in entry.changes


@pytest.mark.django_db(transaction=True)
def test_without_the_tables_it_says_how_to_make_them(db):
    with connection.cursor() as cursor, undone():
        cursor.execute("ALTER FUNCTION duebox_audit_number(bigint) RENAME TO gone")
        with pytest.raises(NotReady, match=r"run: manage\.py migrate duebox"):
            removed()
