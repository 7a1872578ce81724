"""A plan is declared by its class; what cannot work is refused there and then, with the repair."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

import duebox
from duebox.contracts.naming import complaint
from duebox.exceptions import InvalidPlan
from duebox.models import Schedule
from duebox.schedules import plans
from duebox.schedules.fire import fire_due
from duebox.testing import travel
from duebox.when import anniversary, days, hours, weeks
from tests.app.people import Appointment, Person
from tests.app.planned import SUNDAY, Birthdays, Reminders, declare, live, utc

pytestmark = pytest.mark.usefixtures("forget_plans")


@pytest.fixture
def trip(db):
    with travel(utc("2026-03-01 00:00")) as traveller:
        yield traveller


def names():
    return {plan.name for plan in plans.plans()}


def test_a_plan_is_known_by_its_app_and_class():
    plan = declare(Reminders)
    assert plan.name == "app.Reminders"
    assert "app.Reminders" in names()
    assert isinstance(plans.plan_of(plan), plan)


def test_a_plan_may_have_a_name_of_its_own():
    declare(Reminders, name="reminders")
    assert "reminders" in names()


def test_a_plan_without_a_model_is_a_base_for_others():
    before = names()

    class Base(Birthdays):
        grace = Birthdays.grace * 2

    assert names() == before
    with pytest.raises(InvalidPlan, match="Base plans for no model; declare it with model"):
        Base.sync([])
    with pytest.raises(InvalidPlan, match="Base plans for no model"):
        Base.reconcile()
    assert declare(Base, Person).grace == Base.grace


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"event": None, "rule": lambda self, row: None}, "emits nothing; declare event = 'appointment.reminder_due'"),
        ({}, r"has no moments; define rule\(self, row\), or offsets with anchor"),
        ({"anchor": lambda self, row: None}, r"has no moments; define rule\(self, row\), or offsets with anchor"),
        ({"offsets": (days(-1),)}, r"has no moments; define anchor\(self, row\)"),
        ({"offsets": (days(-1),), "rule": lambda self, row: None}, r"has no moments; define anchor\(self, row\)"),
        (
            {"offsets": (days(-1),), "anchor": lambda self, row: None, "rule": lambda self, row: None},
            "has both offsets and a rule; make two plans of it",
        ),
        ({"offsets": (timedelta(days=-1),)}, r"has datetime.timedelta\(days=-1\); write days\(-1\), hours\(-2\)"),
        ({"offsets": (-1,)}, r"offsets of app.Plan has -1; write days\(-1\)"),
        ({"offsets": ("a day",)}, "offsets of app.Plan: Offset 'a day' cannot be read; write it as -P1D"),
        ({"offsets": days(-1)}, r"offsets of app.Plan is Offset\(.*\); write a tuple, as in offsets = \(days\(-1\), "),
        ({"offsets": "-P1D"}, "offsets of app.Plan is '-P1D'; write a tuple"),
        (
            {"offsets": (days(7), hours(1), weeks(1)), "anchor": lambda self, row: None},
            "has an offset twice in P7D, PT1H, P7D; take one out",
        ),
    ],
)
def test_a_plan_that_cannot_work_is_refused_with_the_repair(parts, message):
    before = names()
    with pytest.raises(InvalidPlan, match=message):
        declare(duebox.Plan, Appointment, **{"event": "a.b", **parts})
    assert names() == before


def test_the_event_that_a_refusal_names_as_an_example_is_a_good_name():
    with pytest.raises(InvalidPlan) as refused:
        declare(Reminders, event=None)
    [name] = re.findall(r"event = '(.*?)'", str(refused.value))
    assert complaint(name) is None


def test_an_offset_may_be_iso_8601_text():
    plan = declare(Reminders, offsets=("-p1d", hours(-2)))
    assert plan.offsets == (days(-1), hours(-2))


@pytest.mark.django_db
def test_a_plan_that_was_refused_hears_nothing():
    with pytest.raises(InvalidPlan):
        declare(Reminders, event=None)
    Appointment.objects.create(starts_at=SUNDAY)
    assert Schedule.objects.count() == 0


def test_a_name_is_taken_once():
    declare(Reminders, name="reminders")
    with pytest.raises(InvalidPlan, match="'reminders' is taken by Reminders; give Birthdays a name"):
        declare(Birthdays, name="reminders")


def test_a_plan_below_another_needs_a_name_of_its_own():
    plan = declare(Reminders)
    with pytest.raises(InvalidPlan, match=r"'app.Reminders' is taken by Reminders; give Invitations a name"):
        type("Invitations", (plan,), {"offsets": (days(-7),)})


def test_a_module_that_is_imported_again_declares_its_plans_again(trip):
    first = declare(Reminders, offsets=(days(-1),), still_valid=lambda self, rows: rows.none())
    second = declare(Reminders, offsets=(hours(-2),))
    assert [plan for plan in plans.plans() if plan.name == "app.Reminders"] == [plans.plan_of(second)]
    with pytest.raises(InvalidPlan):
        plans.plan_of(first)
    booked = Appointment.objects.create(starts_at=SUNDAY)
    assert set(live(booked)) == {"-PT2H"}
    assert fire_due("default", now=SUNDAY).events == 1


def test_a_plan_that_is_removed_hears_nothing_and_is_not_asked(trip):
    declare(
        Reminders, name="reminders", offsets=(hours(-2),), follows={Person: "person"},
        still_valid=lambda self, rows: rows.none(),
    )  # fmt: skip
    ann = Person.objects.create(zone="UTC")
    booked = Appointment.objects.create(person=ann, local_start="2026-03-29T10:00")
    first = live(booked)
    plans.remove("reminders")
    assert "reminders" not in names()
    ann.zone = "Asia/Tokyo"
    ann.save()
    booked.local_start = "2026-04-29T10:00"
    booked.save()
    assert live(booked) == first
    assert fire_due("default", now=utc("2026-03-29 08:00")).events == 1
    booked.delete()
    with pytest.raises(KeyError):
        plans.remove("reminders")


def test_policies_are_checked_when_they_are_used(trip):
    declare(Birthdays, rule=lambda self, row: anniversary(row.born_on, at="09:00"), late="sometimes")
    with pytest.raises(ValueError, match="Late policy 'sometimes' does not exist"):
        Person.objects.create()


@pytest.mark.parametrize(
    ("watch", "message"),
    [
        (("start_at",), "app.Reminders watches 'start_at', which is no field of app.Appointment with a column; did you "
                        "mean 'starts_at'?"),
        (("surgery",), "app.Reminders watches 'surgery', which is no field of app.Appointment with a column; there are "
                       "id, person, room, starts_at, local_start, status."),
        ("status", "watch of app.Reminders is 'status'; write a tuple of names, as in watch = ('starts_at', "),
        ((1,), "watch of app.Reminders is (1,); write a tuple of names, as in watch = ('starts_at', 'status')."),
    ],
)  # fmt: skip
def test_a_watched_field_that_there_is_not_is_refused(watch, message):
    with pytest.raises(InvalidPlan, match=re.escape(message)):
        declare(Reminders, watch=watch)
    assert "app.Reminders" not in names()


def test_watched_fields_are_known_by_their_columns():
    plan = declare(Reminders, watch=["status", "person"])
    assert plans.watched_columns(plans.plan_of(plan)) == ("person_id", "status")
