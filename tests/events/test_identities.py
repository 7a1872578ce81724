"""How things and people are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import override_settings
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

import duebox
from duebox.audit_log import verify
from duebox.audit_log.seal import seal_all
from duebox.context import bound
from duebox.destinations.envelope import envelope_of
from duebox.events.fact import Actor
from duebox.events.identities import aggregate_type, key_from_text, text_of_key
from duebox.exceptions import InvalidAudit, InvalidEvent
from duebox.models import AuditEntry, Delivery, Event, Schedule
from duebox.schedules import capture
from duebox.worker.maintenance import start_maintenance
from tests.app import planned
from tests.app.members import Chair, Club
from tests.app.people import Appointment, Emergency, Person, Surgery
from tests.vet.models import Appointment as VetAppointment

pytestmark = pytest.mark.django_db(transaction=True)
SOON = timedelta(hours=1)
ROOT = Path(__file__).parents[2]


def test_cancel_about_a_row_leaves_the_row_of_another_app_with_the_same_model_name_and_key_alone():
    clinic, vet = Appointment.objects.create(pk=9001), VetAppointment.objects.create(pk=9001)
    duebox.schedule("appointment.reminder_due", about=clinic, after=SOON, key="clinic")
    duebox.schedule("appointment.reminder_due", about=vet, after=SOON, key="vet")
    assert duebox.cancel(about=clinic) == 1
    assert [row.key for row in Schedule.objects.live().of_project()] == ["vet"]
    assert [one.key for one in duebox.upcoming(about=vet)] == ["vet"]
    assert duebox.pause(about=Appointment) == 0
    assert duebox.pause(about=VetAppointment) == 1


def test_events_about_rows_of_two_apps_are_told_apart():
    clinic, vet = Appointment.objects.create(pk=9001), VetAppointment.objects.create(pk=9001)
    duebox.emit("appointment.booked", about=clinic)
    duebox.emit("appointment.booked", about=vet)
    assert set(Event.objects.values_list("aggregate_type", "aggregate_id")) == {
        ("app.appointment", "9001"),
        ("vet.appointment", "9001"),
    }


def test_ordered_deliveries_of_two_apps_stand_in_two_streams(on):
    on("appointment.booked", name="in_order", ordered=True)(lambda event: None)
    duebox.emit("appointment.booked", about=Appointment(pk=9001))
    duebox.emit("appointment.booked", about=VetAppointment(pk=9001))
    assert set(Delivery.objects.values_list("stream", flat=True)) == {"app.appointment:9001", "vet.appointment:9001"}


def test_audit_entries_name_the_app_of_a_row():
    duebox.audit("appointment.opened", Appointment(pk=9001))
    duebox.audit("appointment.opened", VetAppointment(pk=9001))
    assert AuditEntry.objects.about(VetAppointment(pk=9001)).get().entity_type == "vet.appointment"


@pytest.mark.usefixtures("forget_plans", "reminders")
def test_a_plan_of_one_app_leaves_the_rows_of_another_alone():
    clinic = Appointment.objects.create(pk=9001, starts_at=datetime(2031, 5, 1, 9, tzinfo=UTC))
    duebox.schedule("appointment.reminder_due", about=VetAppointment(pk=9001), after=SOON, key="vet")
    planned = Schedule.objects.live().about(clinic)
    assert planned.count() > 0
    clinic.delete()
    assert planned.count() == 0
    assert [row.key for row in Schedule.objects.live().of_project()] == ["vet"]


def test_a_proxy_is_the_entity_of_its_concrete_model():
    duebox.emit("appointment.booked", about=Emergency(pk=3))
    assert Event.objects.about(Appointment(pk=3)).get().aggregate_type == "app.appointment"
    duebox.schedule("appointment.reminder_due", about=Appointment(pk=3), after=SOON)
    assert duebox.cancel(about=Emergency) == 1


def test_a_model_with_a_table_of_its_own_below_another_is_another_entity():
    assert [aggregate_type(model) for model in (Appointment, Emergency, Surgery)] == [
        "app.appointment",
        "app.appointment",
        "app.surgery",
    ]


def test_a_lazy_object_around_a_row_is_that_row():
    row = SimpleLazyObject(lambda: Appointment(pk=3))
    assert duebox.emit("appointment.booked", about=row, organization=row).about == ("app.appointment", "3")


def test_about_has_a_type_and_an_id_and_can_be_unpacked():
    event = duebox.emit("order.paid", about=("shop.order", 42))
    kind, key = event.about
    assert (event.about.type, event.about.id) == (kind, key) == ("shop.order", "42")
    assert str(event.about) == "shop.order:42"
    assert duebox.emit("order.packed", about=event.about).about == event.about


class Chosen:
    """The AGGREGATES setting in a test."""

    def __init__(self, **names):
        self.settings = {
            "UNDECLARED": "allow",
            "AGGREGATES": {key.replace("__", "."): value for key, value in names.items()},
        }

    def __enter__(self):
        self.override = override_settings(DUEBOX=self.settings)
        self.override.enable()

    def __exit__(self, *error):
        self.override.disable()


def test_the_setting_gives_a_model_another_name_everywhere():
    with Chosen(vet__Appointment="visit"):
        vet = VetAppointment.objects.create(pk=9001)
        assert duebox.emit("appointment.booked", about=vet).about == ("visit", "9001")
        duebox.schedule("appointment.reminder_due", about=vet, after=SOON)
        assert [one.about.type for one in duebox.upcoming(about=VetAppointment)] == ["visit"]
        assert duebox.audit("appointment.opened", vet).entity_type == "visit"
        assert identities_checked() == []
    assert aggregate_type(VetAppointment) == "vet.appointment"


def identities_checked():
    return [each.id for each in run_checks(tags=["duebox"], databases=[]) if each.id == "duebox.E050"]


@pytest.mark.parametrize(
    "names",
    [
        {"vet__Appointment": "visit", "app__Appointment": "visit"},
        {"vet__Appointment": "app.appointment"},
    ],
)
def test_two_models_that_claim_one_name_are_refused_by_the_check_and_at_use(names):
    with Chosen(**names):
        assert identities_checked() == ["duebox.E050"]
        for row in (Appointment(pk=1), VetAppointment(pk=1)):
            with pytest.raises(ImproperlyConfigured, match=r"to several models: app.appointment, vet.appointment"):
                duebox.emit("appointment.booked", about=row)
        duebox.emit("appointment.booked", about=Person(pk=1))  # whose name is its own


@pytest.mark.usefixtures("forget_plans")
def test_a_plan_for_one_of_two_models_that_claim_one_name_is_refused_when_a_row_is_saved():
    with Chosen(vet__Appointment="app.appointment"):
        planned.declare(planned.Reminders)
        assert identities_checked() == ["duebox.E050"]
        with pytest.raises(ImproperlyConfigured, match=r"to several models: app.appointment, vet.appointment"):
            Appointment.objects.create(starts_at=timezone.now() + SOON)
    Appointment.objects.create(starts_at=timezone.now() + timedelta(days=3))
    assert len(duebox.upcoming(Appointment)) == 4


@pytest.mark.usefixtures("forget_plans")
def test_a_plan_that_follows_one_of_two_models_that_claim_one_name_is_refused_at_use():
    with Chosen(vet__Appointment="app.person"):
        plan = planned.declare(planned.Reminders, follows={Person: "person"})
        assert identities_checked() == ["duebox.E050"]
        assert "duebox.E050" in {each.id for each in run_checks(databases=["default"])}
        with pytest.raises(ImproperlyConfigured, match=r"to several models: app.person, vet.appointment"):
            Person.objects.create(name="Ann")
        with pytest.raises(ImproperlyConfigured):
            capture.captures("default")
    plan.reconcile()


CONFLICT = """
from tests.settings import *
INSTALLED_APPS = [*INSTALLED_APPS, "clashing"]
DUEBOX = {**DUEBOX, "AGGREGATES": {"vet.Appointment": "app.appointment"}}
"""
CLASHING_PLAN = """
import duebox
from duebox.when import daily
from tests.app.people import Appointment

class Reviews(duebox.Plan):
    model = Appointment
    event = "appointment.review_due"

    def rule(self, row):
        return daily("09:00")
"""


def test_a_project_in_which_two_models_claim_one_name_starts_and_the_check_says_so(tmp_path):
    (tmp_path / "clashing").mkdir()
    (tmp_path / "clashing" / "__init__.py").touch()
    (tmp_path / "clashing" / "plans.py").write_text(CLASHING_PLAN)
    (tmp_path / "conflict_settings.py").write_text(CONFLICT)
    done = subprocess.run(
        [sys.executable, "tests/manage.py", "check"],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "conflict_settings", "PYTHONPATH": f"{tmp_path}:src:."},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "(duebox.E050) DUEBOX['AGGREGATES'] gives the name 'app.appointment' to several models" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_models_may_swap_their_names():
    with Chosen(vet__Appointment="app.appointment", app__Appointment="vet.appointment"):
        assert identities_checked() == []
        assert aggregate_type(VetAppointment) == "app.appointment"


@pytest.mark.parametrize(
    "names",
    [
        {"vet__Nothing": "visit"},
        {"nothing": "visit"},
        {"app__Emergency": "emergency"},
        {"vet__Appointment": ""},
        {"vet__Appointment": "a:b"},
        {"vet__Appointment": 3},
    ],
)
def test_the_check_refuses_what_names_no_model_or_is_no_name(names):
    with Chosen(**names):
        assert identities_checked() == ["duebox.E050"]


class Thing:
    pass


class Kind(str, Enum):  # noqa: UP042 - its `str()` is not its value
    GOLD = "gold"


@pytest.mark.parametrize("value", [Thing(), {"id": 3}, ["3"], 3.5, True, b"3", datetime(2027, 1, 1, tzinfo=UTC)])
def test_what_is_no_id_is_refused_and_not_stored_as_its_repr(value):
    kind = type(value).__name__
    with pytest.raises(InvalidEvent, match=f"organization is a {kind}; pass a text, a whole number, a UUID or a saved"):
        duebox.emit("order.paid", organization=value)
    with pytest.raises(InvalidEvent, match=f"about is a {kind}; pass"):
        duebox.emit("order.paid", about=("shop.order", value))
    with pytest.raises(InvalidEvent):
        duebox.schedule("order.paid", about=("shop.order", value), after=SOON)
    with pytest.raises(InvalidAudit, match=f"entity is a {kind}; pass"):
        duebox.audit("order.opened", ("shop.order", value))
    with pytest.raises(InvalidAudit, match=f"organization is a {kind}; pass"):
        duebox.audit("order.opened", ("shop.order", 1), organization=value)
    assert not Event.objects.exists()


@pytest.mark.parametrize("about", [Thing(), "shop.order", ("shop.order",), ("shop.order", None), ("", 3), (3, "x")])
def test_what_is_no_entity_is_refused(about):
    with pytest.raises(InvalidEvent, match=r"about is a .*; pass a saved model instance, or a pair"):
        duebox.emit("order.paid", about=about)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (42, "42"),
        ("acme", "acme"),
        (Kind.GOLD, "gold"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Person(pk=8), "8"),
    ],
)
def test_ids_are_texts_whole_numbers_uuids_and_rows(value, text):
    event = duebox.emit("order.paid", about=("shop.order", value), organization=value)
    assert (event.about.id, event.organization) == (text, text)


def test_an_event_says_how_to_declare_the_entity_that_it_was_emitted_with(declare):
    declare("appointment.booked", aggregate="appointment")(type("AppointmentBooked", (), {}))
    with pytest.raises(InvalidEvent, match=r"or declare it with aggregate='app.appointment'"):
        duebox.emit("appointment.booked", about=Appointment(pk=1))


# Actors

ADA = {"type": "user", "id": "42", "email": "ada@example.com"}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("42", {"type": "user", "id": "42"}),
        (42, {"type": "user", "id": "42"}),
        (UUID(int=7), {"type": "user", "id": "00000000-0000-0000-0000-000000000007"}),
        (ADA, ADA),
        ({"type": "service", "id": 7}, {"type": "service", "id": "7"}),
        ({"type": "user", "id": "42", "email": None}, {"type": "user", "id": "42"}),
        (Actor("user", "42", "ada@example.com"), ADA),
        (Person(pk=8), {"type": "app.person", "id": "8"}),
        (SimpleLazyObject(lambda: Person(pk=8)), {"type": "app.person", "id": "8"}),
        ({"type": 'a"b', "id": "é\\🎂"}, {"type": 'a"b', "id": "é\\🎂"}),
    ],
)
def test_an_actor_is_stored_and_published_as_an_object(given, stored):
    event = duebox.emit("order.paid", actor=given)
    assert event.actor.as_dict() == stored
    assert Event.objects.get().actor == stored
    assert json.loads(envelope_of(event.row))["actor"] == stored
    assert duebox.audit("order.paid", ("shop.order", 1), actor=given, impersonator=given).actor == stored
    assert AuditEntry.objects.by(given).get().impersonator == stored
    seal_all("default")
    assert (verify("default").entries, verify("default").flaws) == (1, 0)
    with bound(actor=given):
        assert duebox.emit("order.packed").actor == event.actor
        assert duebox.schedule("order.sent", after=SOON).actor == stored


def test_a_user_is_a_user_by_its_id_and_without_its_email(monkeypatch):
    monkeypatch.setattr("django.conf.settings.AUTH_USER_MODEL", "app.Person")
    ann = Person(pk=8)
    ann.email = "ann@example.com"
    assert duebox.emit("order.paid", actor=ann).actor == ("user", "8", None)
    assert duebox.emit("order.paid", actor=ann, about=ann).about.type == "app.person"


def test_an_anonymous_user_is_nobody():
    assert duebox.emit("order.paid", actor=SimpleNamespace(is_authenticated=False, pk=None)).actor is None
    assert Event.objects.get().actor is None


def test_the_user_of_a_token_is_a_user():
    token_user = SimpleNamespace(is_authenticated=True, pk=3)
    assert duebox.emit("order.paid", actor=token_user).actor == ("user", "3", None)


@pytest.mark.parametrize(
    ("actor", "message"),
    [
        (Thing(), "actor is a Thing; pass a saved user, an id, or a dict"),
        (True, "actor is a bool; pass a text"),
        (3.5, "actor is a float; pass a saved user"),
        (["user", "42"], "actor is a list; pass a saved user"),
        ({}, "actor is a dict with nothing; it must have 'type' and 'id'"),
        ({"id": "42"}, "actor is a dict with id; it must have 'type' and 'id'"),
        ({"type": "user", "id": "42", "name": "Ada"}, "actor is a dict with id, name, type; it must have"),
        ({"type": 3, "id": "42"}, "type of actor is a int; pass a text"),
        ({"type": "", "id": "42"}, "type of actor='' must be 1 to 500 printable"),
        ({"type": "user", "id": None}, "id of actor is None; pass"),
        ({"type": "user", "id": Thing()}, "id of actor is a Thing; pass a text"),
        ({"type": "user", "id": "42", "email": Thing()}, "email of actor is a Thing; pass a text"),
        ("", "actor='' must be 1 to 500 printable"),
        (Person(), "actor is a Person that has no primary key yet; save it first"),
    ],
)
def test_what_is_no_actor_is_refused_everywhere(actor, message):
    for call in (
        lambda: duebox.emit("order.paid", actor=actor),
        lambda: duebox.schedule("order.paid", actor=actor, after=SOON),
        lambda: bound(actor=actor).__enter__(),
    ):
        with pytest.raises(InvalidEvent, match=message):
            call()
    with pytest.raises(InvalidAudit, match=message):
        duebox.audit("order.paid", ("shop.order", 1), actor=actor)
    assert not Event.objects.exists()


def test_entries_are_found_by_the_type_and_the_id_of_an_actor():
    for actor in ({"type": "user", "id": "7"}, {"type": "service", "id": "7"}, {"type": "user", "id": "8"}):
        duebox.audit("order.opened", ("shop.order", 1), actor=actor)
    assert AuditEntry.objects.by("7").count() == 2
    assert AuditEntry.objects.by({"type": "service", "id": "7"}).count() == 1
    assert AuditEntry.objects.by(Actor("user", "8")).count() == 1


def test_an_actor_is_written_as_the_database_shows_it():
    """The chain of the audit log is over this text."""
    strange = Actor('t"y\\pe', "é🎂 '\u00a0", "a@b.c")
    event = duebox.emit("order.paid", actor=strange)
    with connection.cursor() as cursor:
        cursor.execute("SELECT actor::text FROM duebox_event WHERE id = %s", [event.id])
        assert cursor.fetchone() == (strange.to_json(),) == (event.row.actor,)


# Schedules and plans belong to the request that made them


def fired(on, clock, days):
    seen = []
    on("*", name="seen")(lambda event: seen.append(event))
    clock.run(timedelta(days=days))
    return seen


def test_a_schedule_keeps_actor_and_correlation_id_of_its_request_for_a_year(on, trip):
    with bound(actor=ADA, correlation_id="req-1"):
        duebox.schedule("trial.ended", after=timedelta(days=365))
    [event] = fired(on, trip, 366)
    assert (event.actor.as_dict(), event.correlation_id) == (ADA, "req-1")


def test_a_schedule_without_a_request_begins_a_story_of_its_own(on, trip):
    duebox.schedule("trial.ended", after=SOON)
    [event] = fired(on, trip, 1)
    assert (event.actor, event.correlation_id) == (None, str(event.id))


@pytest.mark.usefixtures("forget_plans")
def test_a_plan_keeps_actor_and_correlation_id_of_the_request_that_saved_the_row(on, trip, reminders, ann):
    with bound(actor=ADA, correlation_id="req-1"):
        row = Appointment.objects.create(person=ann, starts_at=trip.now + timedelta(days=9))
    row.save()  # by a program, of which nothing is known
    reminders.reconcile()
    found = fired(on, trip, 12)
    assert found
    assert {(event.actor.id, event.correlation_id) for event in found} == {("42", "req-1")}


@pytest.mark.usefixtures("forget_plans")
def test_a_nightly_reconcile_that_moves_a_reminder_leaves_it_with_its_request(on, trip, reminders, ann):
    with bound(actor=ADA, correlation_id="req-1"):
        row = Appointment.objects.create(person=ann, starts_at=trip.now + timedelta(days=9))
    Appointment.objects.filter(pk=row.pk).update(starts_at=trip.now + timedelta(days=19))
    assert reminders.reconcile().moved > 0
    assert {(each.actor["id"], each.correlation_id) for each in Schedule.objects.about(row)} == {("42", "req-1")}


@pytest.mark.usefixtures("forget_plans")
def test_who_moves_a_reminder_is_its_actor_from_then_on(trip, reminders, ann):
    with bound(actor=ADA, correlation_id="req-1"):
        row = Appointment.objects.create(person=ann, starts_at=trip.now + timedelta(days=9))
    row.starts_at += timedelta(days=1)
    with bound(actor="43", correlation_id="req-2"):
        row.save()
    assert {(each.actor["id"], each.correlation_id) for each in Schedule.objects.about(row)} == {("43", "req-2")}


@pytest.mark.usefixtures("forget_plans")
def test_a_plan_may_say_who_the_actor_is(trip, ann):
    planned.declare(planned.Reminders, actor=lambda self, row: {"type": "doctor", "id": row.status})
    with bound(actor=ADA, correlation_id="req-1"):
        row = Appointment.objects.create(person=ann, starts_at=trip.now + timedelta(days=9))
    assert {each.actor["type"] for each in Schedule.objects.about(row)} == {"doctor"}
    Appointment.objects.filter(pk=row.pk).update(local_start="")
    row.status = "booked"
    row.save()
    assert {each.actor["id"] for each in Schedule.objects.about(row)} == {"booked"}


def test_schedule_again_with_another_actor_changes_it_and_without_one_does_not():
    duebox.schedule("trial.ended", after=SOON, key="it", actor="1")
    at = Schedule.objects.get(key="it").due_at
    with bound(actor="2"):
        assert duebox.schedule("trial.ended", at=at, key="it").actor["id"] == "1"
        assert duebox.schedule("trial.ended", at=at, key="it", actor="3").actor["id"] == "3"


@pytest.mark.usefixtures("forget_plans", "reminders")
def test_what_duebox_schedules_for_itself_belongs_to_no_request():
    with bound(actor=ADA, correlation_id="req-1"):
        start_maintenance("default")
    rows = Schedule.objects.filter(type__startswith="duebox.")
    assert rows.count() > 0
    assert set(rows.values_list("actor", "correlation_id")) == {(None, "")}


@pytest.mark.parametrize("place", ["A-1", 'a "quoted" \\ one', "Größe, 1", "tab\there"])
def test_a_composite_primary_key_is_written_as_postgresql_writes_it_and_read_again(place):
    chair = Chair.objects.create(club=Club.objects.create(), place=place)
    text = text_of_key(chair.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT jsonb_build_array(club_id, place::text)::text FROM app_chair")
        assert cursor.fetchone() == (text,)
    assert key_from_text(Chair, text) == chair.pk


def test_the_id_of_a_row_with_a_composite_primary_key_is_a_json_array():
    chair = Chair.objects.create(club=Club.objects.create(pk=7), place="A-1")
    assert duebox.emit("chair.taken", about=chair).about.id == '[7, "A-1"]'
    assert duebox.emit("chair.taken", about=("app.chair", '[7, "A-1"]')).about.id == '[7, "A-1"]'


def test_a_row_with_half_of_a_composite_primary_key_is_not_saved():
    with pytest.raises(InvalidEvent, match="is a Chair that has no primary key yet; save it first"):
        duebox.emit("chair.taken", about=Chair(place="A-1"))


def test_keys_of_one_column_are_read_from_text():
    key = UUID("01937c6e-5c2f-7c11-8000-0123456789ab")
    assert key_from_text(Person, "42") == 42
    assert key_from_text(Event, text_of_key(key)) == key
    with pytest.raises(ValueError, match="is not a key of Chair"):
        key_from_text(Chair, "7")
