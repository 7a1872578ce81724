"""`duebox schedules`: listing schedules by the state that a person would name, and changing them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management.base import CommandError
from django.db import connections, transaction

import duebox
from duebox.contracts.enforce import Own
from duebox.models import Schedule
from duebox.testing import drain, travel
from duebox.when import daily
from tests.app.people import Appointment, Person
from tests.app.planned import Reminders, declare

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def trip():
    with travel(NOON) as traveller:
        yield traveller


@pytest.fixture
def bell():
    """Rings every day; its zone is given, so that the output does not depend on the settings."""
    return duebox.schedule("bell.rung", repeat=daily("13:00"), zone="UTC", key="bell", about=("tower", 1))


@pytest.fixture
def gong():
    return duebox.schedule("gong.struck", at=NOON + DAY, zone="UTC", key="gong", about=("tower", 2))


@pytest.fixture
def handler(on):
    """Fails with the error that it is told, if there is one."""
    told = {}

    def handle(event):
        if told.get("error"):
            raise told["error"]

    on("gong.struck", name="it", retry=duebox.Retry(limit=1))(handle)
    return told


@pytest.fixture
def listed(manage):
    """The keys and states of `schedules list` with these options."""

    def run(*options):
        shown = manage("duebox", "schedules", "list", "--json", *options)
        return [(row["key"], row["state"]) for row in map(json.loads, shown.splitlines())]

    return run


# list


def test_live_schedules_are_listed_with_their_rules_in_the_order_in_which_they_fire(manage, bell, gong):
    shown = manage("duebox", "schedules", "list").splitlines()
    assert [re.split("  +", line) for line in shown] == [
        ["next, local", "zone", "next, utc", "event", "about", "rule", "key"],
        ["Mon 2026-06-01 13:00", "UTC", "2026-06-01 13:00", "bell.rung", "tower:1", "every day at 13:00", "bell"],
        ["Tue 2026-06-02 12:00", "UTC", "2026-06-02 12:00", "gong.struck", "tower:2", "gong"],
    ]


def test_where_there_is_nothing_it_says_so(manage):
    assert manage("duebox", "schedules", "list") == "No schedules.\n"
    assert manage("duebox", "schedules", "list", "--json") == ""


def test_json_has_one_object_a_line(manage, bell):
    [row] = map(json.loads, manage("duebox", "schedules", "list", "--json").splitlines())
    assert row == {
        "key": "bell", "state": "scheduled", "last_state": "", "type": "bell.rung", "about": "tower:1",
        "organization": "", "plan": "", "rule": "every day at 13:00", "next": "2026-06-01T13:00:00+00:00",
        "local": "2026-06-01T13:00", "zone": "UTC", "remaining": None, "last_fired_at": None,
    }  # fmt: skip


def test_a_limit_says_that_there_is_more(manage, bell, gong):
    shown = manage("duebox", "schedules", "list", "--limit", "1").splitlines()
    assert (len(shown), shown[-1]) == (3, "Only the first 1; --limit shows more.")


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (["--type", "bell.rung"], ["bell"]),
        (["--key", "gong"], ["gong"]),
        (["--about", "tower:2"], ["gong"]),
        (["--about", "tower"], ["bell", "gong"]),
        (["--about", "castle"], []),
        (["--plan", "app.Nothing"], []),
        (["--all"], ["bell", "gong", "sweep"]),
        (["--type", "duebox.swept"], ["sweep"]),
    ],
)
def test_filters_choose(listed, bell, gong, options, keys):
    duebox.schedule(Own("duebox.swept"), at=NOON + 2 * DAY, key="sweep")
    assert [key for key, _ in listed(*options)] == keys


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_is_listed_by_its_alias(listed, bell):
    duebox.schedule("gong.struck", at=NOON + DAY, key="elsewhere", using="other")
    assert [key for key, _ in listed("--database", "other")] == ["elsewhere"]


# The state


def test_one_whose_handler_died_is_failed_and_not_completed(manage, listed, gong, handler, trip):
    handler["error"] = ValueError("no")
    trip.by(DAY)
    drain(raises=False)
    assert listed("--state", "processing") == [("gong", "processing")]
    assert listed("--state", "completed") == listed("--state", "failed") == []
    trip.by(DAY)
    drain(raises=False)
    assert listed("--state", "failed") == [("gong", "failed")]
    assert listed("--state", "completed") == listed("--state", "processing") == []
    assert manage("duebox", "schedules", "list", "--state", "failed").splitlines()[1].endswith("failed")


def test_one_that_everybody_handled_is_completed(listed, gong, handler, trip):
    trip.by(DAY)
    drain()
    assert listed() == []
    assert listed("--state", "completed") == [("gong", "completed")]
    assert listed("--state", "failed", "--state", "processing") == []


def test_one_that_repeats_is_scheduled_and_says_that_the_last_one_failed(manage, listed, handler, trip):
    duebox.schedule("gong.struck", repeat=daily("13:00"), zone="UTC", key="daily")
    handler["error"] = duebox.Permanent("no")
    trip.by(HOUR)
    drain(raises=False)
    assert listed() == [("daily", "scheduled")]
    head, line = manage("duebox", "schedules", "list").splitlines()
    assert (head.split()[-1], line.split()[-1]) == ("last", "failed")
    assert json.loads(manage("duebox", "schedules", "list", "--json"))["last_state"] == "failed"


def test_each_state_finds_its_own(listed, bell, gong):
    duebox.pause("bell")
    duebox.cancel("gong")
    assert listed() == [("bell", "paused")]
    assert listed("--state", "scheduled") == []
    assert listed("--state", "cancelled") == [("gong", "cancelled")]
    assert sorted(listed("--state", "cancelled", "--state", "paused")) == [("bell", "paused"), ("gong", "cancelled")]


def test_one_whose_rule_cannot_be_followed_is_failed(listed, bell):
    Schedule.objects.filter(key="bell").update(status="failed", due_at=None)
    assert listed("--state", "failed") == [("bell", "failed")]


def test_another_word_is_refused_with_those_that_there_are(manage):
    with pytest.raises(CommandError, match=r"invalid choice: 'dead' \(choose from .*processing"):
        manage("duebox", "schedules", "list", "--state", "dead")


# pause, resume, cancel, restore


def test_a_schedule_is_paused_resumed_cancelled_and_restored_by_its_key(manage, bell, gong):
    for verb, word, status in [
        ("pause", "paused", "paused"),
        ("resume", "resumed", "scheduled"),
        ("cancel", "cancelled", "cancelled"),
        ("restore", "restored", "scheduled"),
    ]:
        assert manage("duebox", "schedules", verb, "bell") == f"1 {word}.\n"
        assert Schedule.objects.get(key="bell").status == status
        assert Schedule.objects.get(key="gong").status == "scheduled"


def test_the_key_may_be_given_as_an_option(manage, bell):
    assert manage("duebox", "schedules", "cancel", "--key", "bell") == "1 cancelled.\n"
    assert manage("duebox", "schedules", "restore", "--key", "bell") == "1 restored.\n"


@pytest.mark.parametrize(("about", "count"), [("tower:1", 1), ("tower", 2)])
def test_all_of_an_entity_or_of_a_type_are_changed_together(manage, bell, gong, about, count):
    for verb, word in [("pause", "paused"), ("resume", "resumed"), ("cancel", "cancelled"), ("restore", "restored")]:
        assert manage("duebox", "schedules", verb, "--about", about) == f"{count} {word}.\n"
    assert Schedule.objects.scheduled().count() == 2


@pytest.mark.usefixtures("forget_plans")
def test_reminders_of_a_plan_are_cancelled_and_restored_by_the_type_of_their_model(manage):
    plan = declare(Reminders)
    person = Person.objects.create(name="Ann", zone="UTC")
    Appointment.objects.create(person=person, starts_at=NOON + 3 * DAY)
    assert manage("duebox", "schedules", "cancel", "--about", "app.appointment") == "4 cancelled.\n"
    plan.reconcile()
    assert not Schedule.objects.scheduled().exists()
    assert manage("duebox", "schedules", "restore", "--about", "app.appointment") == "4 restored.\n"
    assert Schedule.objects.scheduled().count() == 4


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel", "restore"])
def test_a_dry_run_counts_and_changes_nothing(manage, bell, gong, verb):
    if verb == "resume":
        duebox.pause(about=("tower", None))
    if verb == "restore":
        duebox.cancel(about=("tower", None))
    before = list(Schedule.objects.order_by("key").values())
    shown = manage("duebox", "schedules", verb, "--about", "tower", "--dry-run")
    assert shown.startswith("2 would be ")
    assert json.loads(manage("duebox", "schedules", verb, "--about", "tower", "--dry-run", "--json"))["dry_run"] is True
    assert list(Schedule.objects.order_by("key").values()) == before


def test_what_has_passed_meanwhile_is_not_counted_as_restored(manage, bell, gong, trip):
    duebox.cancel(about=("tower", None))
    trip.by(2 * DAY)
    assert manage("duebox", "schedules", "restore", "--about", "tower", "--dry-run").startswith("1 would be restored.")
    assert manage("duebox", "schedules", "restore", "--about", "tower") == "1 restored.\n"


def test_json_says_how_many(manage, bell):
    shown = manage("duebox", "schedules", "pause", "bell", "--json")
    assert json.loads(shown) == {"paused": 1, "dry_run": False}


def test_one_that_cannot_be_changed_is_told_with_its_state(manage, gong, handler, trip):
    handler["error"] = duebox.Permanent("no")
    trip.by(DAY)
    drain(raises=False)
    assert manage("duebox", "schedules", "cancel", "gong") == "0 cancelled.\nThe schedule 'gong' is failed.\n"


def test_an_unknown_key_is_refused_with_the_nearest(manage, bell):
    with pytest.raises(CommandError, match=r"^No schedule has the key 'bel'; did you mean 'bell'\?$"):
        manage("duebox", "schedules", "cancel", "bel")
    with pytest.raises(CommandError, match="`duebox schedules list` lists those that are live"):
        manage("duebox", "schedules", "restore", "something else")


def test_a_type_that_no_schedule_has_is_told_with_the_nearest(manage, bell):
    assert manage("duebox", "schedules", "cancel", "--about", "towers").splitlines() == [
        "0 cancelled.",
        "No schedule is about 'towers'; did you mean 'tower'?",
    ]


@pytest.mark.parametrize(
    "words", [[], ["bell", "--about", "tower"], ["bell", "--key", "gong"], ["bell", "--type", "bell.rung"]]
)
def test_it_must_be_said_which(manage, bell, gong, words):
    with pytest.raises(CommandError, match="No schedule is selected: pass the key of a schedule; or --about TYPE"):
        manage("duebox", "schedules", "cancel", *words)


@pytest.mark.parametrize("about", ["42", "tower:", ":1"])
def test_what_is_no_entity_is_refused(manage, about):
    with pytest.raises(CommandError, match="is not TYPE:ID, as in appointment:42"):
        manage("duebox", "schedules", "list", "--about", about)


def test_before_migrate_it_names_the_command(manage):
    with connections["default"].cursor() as cursor:
        cursor.execute("DROP TABLE duebox_schedule CASCADE")
    for words in (["list"], ["cancel", "bell"], ["restore", "--about", "tower"]):
        with pytest.raises(CommandError, match=r"run: manage\.py migrate duebox"), transaction.atomic():
            manage("duebox", "schedules", *words)


@pytest.fixture
def tenants():
    """Four schedules: of two organizations, in two zones, of two types."""
    for number, (organization, zone) in enumerate([("1", "UTC"), ("1", "Asia/Tokyo"), ("2", "UTC"), ("2", "UTC")]):
        duebox.schedule(
            "bell.rung" if number % 2 else "gong.struck", at=NOON + (number + 1) * DAY, zone=zone, key=f"it:{number}",
            organization=organization,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["--organization", "1"], ["it:0", "it:1"]),
        (["--zone", "Asia/Tokyo"], ["it:1"]),
        (["--since", "2026-06-03T12:00+00:00"], ["it:1", "it:2", "it:3"]),
        (["--until", "2026-06-03T12:00+00:00"], ["it:0"]),
        (["--organization", "2", "--type", "gong.struck"], ["it:2"]),
    ],
)
def test_schedules_are_listed_by_organization_zone_and_when_they_are_due(manage, tenants, words, keys):
    lines = manage("duebox", "schedules", "list", "--json", *words).splitlines()
    assert [json.loads(line)["key"] for line in lines] == keys


def test_schedules_are_paused_resumed_cancelled_and_restored_by_filters(manage, tenants):
    def changed(*words):
        return json.loads(manage("duebox", "schedules", *words, "--json"))

    def keys(status):
        return sorted(Schedule.objects.filter(status=status).values_list("key", flat=True))

    assert changed("pause", "--organization", "1") == {"paused": 2, "dry_run": False}
    assert keys("paused") == ["it:0", "it:1"]
    assert changed("pause", "--organization", "1") == {"paused": 0, "dry_run": False}
    assert changed("resume", "--organization", "1", "--type", "bell.rung") == {"resumed": 1, "dry_run": False}
    assert keys("paused") == ["it:0"]
    assert changed("cancel", "--type", "gong.struck", "--dry-run") == {"cancelled": 2, "dry_run": True}
    assert keys("cancelled") == []
    assert changed("cancel", "--type", "gong.struck") == {"cancelled": 2, "dry_run": False}
    assert keys("cancelled") == ["it:0", "it:2"]
    assert changed("restore", "--organization", "2") == {"restored": 1, "dry_run": False}
    assert keys("cancelled") == ["it:0"]


def test_schedules_of_a_plan_are_cancelled_by_its_name_and_stay_cancelled(manage, forget_plans):
    plan = declare(Reminders)
    row = Appointment.objects.create(person=Person.objects.create(), starts_at=NOON + 7 * DAY)
    assert manage("duebox", "schedules", "cancel", "--plan", plan.name) == "4 cancelled.\n"
    row.save()
    assert Schedule.objects.filter(status="scheduled").count() == 0
