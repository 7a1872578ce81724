from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib import resources
from io import StringIO
from pathlib import Path

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connections

import duebox
from duebox import audit_log
from duebox.checks import check_database_zones
from duebox.contracts import EventType, declared, schema_files
from duebox.contracts.event_types import declare as declare_type
from duebox.contracts.event_types import forget
from duebox.models import Delivery
from duebox.schedules import capture, plans, sweeps
from duebox.store.targets import OWN_TYPES
from duebox.testing import travel
from duebox.when import WhenError, minutes, zones
from tests.app.models import Account, Task
from tests.app.people import Device, Person
from tests.app.planned import Reminders, forgetting, reminding
from tests.app.planned import declare as declare_plan
from tests.contracts.catalogue import declare_all

pytestmark = pytest.mark.django_db(databases=["default", "other"])
HERE = Path(__file__).parent
MIGRATIONS = sorted(path.stem for path in Path(duebox.__file__).parent.glob("migrations/0*.py"))
TABLES = [model._meta.db_table for model in apps.get_app_config("duebox").get_models() if model._meta.managed]
LIKE_TOKYO = {"Europe/Paris": "Asia/Tokyo"}
ANY_TYPE = {"UNDECLARED": "allow"}


def found(**options):
    options = {"databases": [], **options}  # not named, they would be all in Django 6.1, and none before
    return [(each.id, each.msg, each.hint) for each in run_checks(tags=["duebox"], **options)]


def deployed(**options):
    return [each for each in found(include_deployment_checks=True, **options) if each[0] == "duebox.W005"]


@pytest.fixture
def zones_of(tmp_path, monkeypatch):
    """Makes zone databases: a few zones as they are in tzdata, some with the clocks of another place."""
    files, target = resources.files("tzdata").joinpath("zoneinfo"), tmp_path / "zones"

    def zone_file(name):
        return files.joinpath(*name.split("/")).read_bytes()

    def make(others=None, release="2099z", source_name="tzdata"):
        folder = target / release / source_name
        for name in ("Europe/Paris", "Europe/London", "Europe/Athens", "Asia/Tokyo", "UTC"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zone_file((others or {}).get(name, name)))
        return zones.from_folder(folder, release=release, source=source_name)

    monkeypatch.setattr(zones, "from_system", lambda: make(release="2099z", source_name="system"))
    return make


def test_a_sound_project_passes():
    assert found() == []


def test_E001_an_unknown_or_bad_setting_is_an_error_with_a_hint(settings):
    settings.DUEBOX = {**ANY_TYPE, "THREAD": 8, "BATCH_SIZE": -1}
    assert found() == [
        ("duebox.E001", "DUEBOX has an unknown key 'THREAD'.", "Did you mean 'THREADS'?"),
        ("duebox.E001", "DUEBOX['BATCH_SIZE'] is -1.", "It must be above 0; the default is 500."),
    ]


@pytest.mark.parametrize("given", [[], 3, {"DATABASE": 5}, {"SCHEMAS": 5}])
def test_E001_a_setting_that_cannot_be_used_is_an_error_and_not_a_crash(settings, given):
    settings.DUEBOX = given
    assert {each[0] for each in found()} >= {"duebox.E001"}


def test_E001_stops_manage_py(settings):
    settings.DUEBOX = {"POLL_SECOND": 1}
    with pytest.raises(SystemCheckError, match=r"\(duebox.E001\) DUEBOX has an unknown key 'POLL_SECOND'"):
        call_command("check", stderr=StringIO())


def test_E002_an_alias_that_does_not_exist_is_an_error(settings):
    settings.DUEBOX = {**ANY_TYPE, "DATABASE": "elsewhere"}
    assert found() == [
        (
            "duebox.E002",
            "DUEBOX['DATABASE'] is 'elsewhere', which DATABASES does not have.",
            "Use one of: default, other.",
        )
    ]


def test_E003_a_database_that_is_not_postgresql_is_an_error(settings, monkeypatch):
    entry = {**connections["default"].settings_dict, "ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    monkeypatch.setitem(connections.settings, "lite", entry)
    settings.DUEBOX = {**ANY_TYPE, "DATABASE": "lite"}
    ((number, message, hint),) = found()
    del connections["lite"]
    assert (number, message) == ("duebox.E003", "Database 'lite' is sqlite; Duebox needs PostgreSQL 15 or newer.")
    assert "django.db.backends.postgresql" in hint
    assert "duebox.embedded" in hint


@pytest.mark.django_db
def test_W004_a_missing_migration_is_a_warning_with_the_command():
    assert found(databases=["default"], include_deployment_checks=False) == []
    with connections["default"].cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'duebox'")
    assert found(databases=["default"]) == [
        (
            "duebox.W004",
            f"Database 'default' lacks the Duebox migrations {', '.join(MIGRATIONS)}.",
            "Run: manage.py migrate duebox --database default",
        )
    ]


@pytest.mark.django_db
def test_migrate_is_not_stopped_by_the_check_for_migrations():
    with connections["default"].cursor() as cursor:
        cursor.execute(f"DROP TABLE {', '.join(TABLES)} CASCADE")
        cursor.execute("SELECT proname FROM pg_proc WHERE proname LIKE 'duebox%'")
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP FUNCTION {name} CASCADE")
        cursor.execute("DELETE FROM django_migrations WHERE app = 'duebox'")
    call_command("migrate", "duebox", skip_checks=False, stdout=StringIO(), stderr=StringIO())
    assert found(databases=["default"]) == []


def test_a_database_that_does_not_answer_fails_no_check():
    done = subprocess.run(
        [sys.executable, str(HERE / "manage.py"), "check", "--tag", "duebox", "--deploy", "--database", "default"],
        env={**os.environ, "DUEBOX_TEST_DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "PostgreSQL on" not in done.stderr


def test_W005_zone_databases_that_agree_are_not_mentioned(zones_of):
    with zones.using(zones_of()):
        assert deployed(databases=["default"]) == []


def test_W005_it_is_only_asked_for_a_deployment(zones_of):
    with zones.using(zones_of(LIKE_TOKYO)):
        assert found(databases=["default"]) == []
        assert len(deployed()) == 1
        assert len(deployed(databases=["other"])) == 1
        assert len(deployed(databases=["default"])) == 2


def test_W005_a_system_with_other_clocks_is_one_line(zones_of, monkeypatch):
    monkeypatch.setattr(zones, "from_system", lambda: zones_of(LIKE_TOKYO, release="2020a", source_name="system"))
    with zones.using(zones_of()):
        assert deployed() == [
            (
                "duebox.W005",
                "The operating system (2020a) disagrees with Duebox (tzdata 2099z) about the local time of 1 zone in "
                "the coming year: Europe/Paris.",
                "Duebox plans with tzdata 2099z, which is right; other programs on this machine are not. Upgrade the "
                "system's zone files, or set DUEBOX['TZ_SOURCE'] = 'system' to use them.",
            )
        ]


def test_W005_a_system_that_is_newer_says_that_duebox_is_behind(zones_of, monkeypatch):
    monkeypatch.setattr(zones, "from_system", lambda: zones_of(LIKE_TOKYO, release="2099z", source_name="system"))
    with zones.using(zones_of(release="2020a")):
        ((_, _, hint),) = deployed()
    assert hint == "Duebox plans with outdated rules. Run: pip install --upgrade tzdata"


@pytest.mark.parametrize(
    ("ours", "hint"),
    [
        ("2020a", "set DUEBOX['TZ_SOURCE'] = 'tzdata'."),
        (
            "2099z",
            "with system 2099z, which is right; other programs on this machine are not. Upgrade the package: pip",
        ),
    ],
)
def test_W005_who_goes_by_the_system_is_compared_with_the_package(zones_of, ours, hint):
    with zones.using(zones_of(LIKE_TOKYO, release=ours, source_name="system")):
        ((_, message, told),) = deployed()
    assert message.startswith(f"The tzdata package ({zones.from_tzdata().release}) disagrees with Duebox (system")
    assert hint in told


def test_W005_a_database_with_other_clocks_is_one_line(zones_of, monkeypatch):
    monkeypatch.setattr(zones, "from_system", lambda: zones_of(LIKE_TOKYO, source_name="system"))
    with zones.using(zones_of(LIKE_TOKYO)):
        assert deployed(databases=["default"]) == [
            (
                "duebox.W005",
                "PostgreSQL on 'default' disagrees with Duebox (tzdata 2099z) about the local time of 1 zone in the "
                "coming year: "
                "Europe/Paris.",
                "Duebox plans with tzdata 2099z, which is right; SQL with AT TIME ZONE is not. Upgrade "
                "PostgreSQL or, where it reads the zone files of its system, those.",
            )
        ]


def test_W005_of_many_zones_five_are_named(monkeypatch):
    """Of the real thing: the rules of 2025b, of which the tests keep those that changed since."""
    older = zones.from_folder(HERE / "vectors" / "zones" / "2025b", release="2025b", source="system")
    monkeypatch.setattr(zones, "from_system", lambda: older)
    with travel(datetime(2026, 11, 15, tzinfo=UTC)):
        ((_, message, _),) = deployed()
    assert message.startswith("The operating system (2025b) disagrees with Duebox (tzdata 20")
    assert "Africa/Casablanca, Africa/El_Aaiun, America/" in message
    assert message.endswith(" more.")
    assert message.count("/") == 5


def test_W005_clocks_that_only_change_some_hours_earlier_in_the_database_are_seen(zones_of):
    with zones.using(zones_of({"Europe/Athens": "Asia/Beirut"})):
        (told,) = [each for each in deployed(databases=["default"]) if "PostgreSQL" in each[1]]
    assert told[1].endswith("about the local time of 1 zone in the coming year: Europe/Athens.")


def test_W005_a_zone_that_the_database_does_not_know_is_no_error(zones_of, tmp_path):
    folder = tmp_path / "zones" / "2099z" / "tzdata"
    zones_of(LIKE_TOKYO)
    (folder / "Mars").mkdir()
    (folder / "Mars" / "Olympus").write_bytes((folder / "Asia" / "Tokyo").read_bytes())
    (folder / "CET").write_bytes((folder / "Europe" / "London").read_bytes())
    ours = zones.from_folder(folder, release="2099z", source="tzdata")
    assert {"Mars/Olympus", "CET"} < ours.names
    with zones.using(ours):
        (told,) = [each for each in deployed(databases=["default"]) if "PostgreSQL" in each[1]]
    assert "about the local time of 1 zone in the coming year: Europe/Paris." in told[1]


@pytest.mark.parametrize("error", [WhenError("no zone files"), PermissionError("no")])
def test_W005_a_system_without_zone_files_fails_no_check(monkeypatch, error):
    def from_system():
        raise error

    monkeypatch.setattr(zones, "from_system", from_system)
    assert deployed() == []


def test_W005_asks_the_database_once_for_all_zones(django_assert_num_queries):
    with django_assert_num_queries(1):
        check_database_zones(None, databases=["default"])


@pytest.fixture
def schemas(tmp_path, settings):
    """The folder of the schema files, which does not exist yet."""
    settings.BASE_DIR = tmp_path
    return tmp_path / "schemas" / "events"


def test_W006_a_project_without_schema_files_needs_none(schemas, declare):
    declare_all(declare)
    assert found() == []


def test_W006_files_that_are_not_what_the_code_says_are_a_warning_with_the_command(schemas, declare):
    declare_all(declare)
    schema_files.write(schemas, declared())
    assert found() == []
    (schemas / "order.paid.v1.json").unlink()
    (schemas / "member.invited.v2.json").write_text('{"type": "object"}')
    assert found() == [
        (
            "duebox.W006",
            "The schema files are not what the code declares: member.invited.v2.json is out of date, "
            "order.paid.v1.json is missing.",
            "Run: manage.py duebox schemas write",
        )
    ]


def test_W006_of_many_files_five_are_named(schemas, declare):
    schemas.mkdir(parents=True)
    for number in range(7):
        declare(f"task{number}.closed")(type(f"Closed{number}", (), {"__annotations__": {"reason": str}}))
    ((_, message, _),) = found()
    assert message.endswith("task4.closed.v1.json is missing and 3 more.")


def test_W006_files_that_are_not_read_for_their_name_are_a_warning(schemas, declare):
    declare_all(declare)
    schema_files.write(schemas, declared())
    for name in ("order.sent.json", "Order.Sent.v1.json"):
        (schemas / name).write_text('{"type": "object"}')
    assert found() == [
        (
            "duebox.W006",
            "Files among the schemas are not read, because they are not called <type>.v<version>.json: "
            "Order.Sent.v1.json, order.sent.json.",
            "Rename them, as in order.sent.v1.json, or put them elsewhere.",
        )
    ]


def test_E008_every_file_that_cannot_be_used_is_an_error_and_the_others_are_declared(schemas, declare):
    declare_all(declare)
    schema_files.write(schemas, declared())
    (schemas / "order.paid.v1.json").write_text("{")
    (schemas / "order.lost.v1.json").write_text('{"type": "object", "x-event": []}')
    (schemas / "order.sent.v1.json").write_text('{"type": "object"}')
    (lost_id, lost, hint), (paid_id, paid, _) = found()
    assert (lost_id, paid_id) == ("duebox.E008", "duebox.E008")
    assert "order.lost.v1.json cannot be used: x-event is []" in lost
    assert "order.paid.v1.json is not JSON" in paid
    assert hint == "Repair the file. If a class declares the type, run: manage.py duebox schemas write"
    assert "order.sent" in {kind.name for kind in declared()}


def test_E008_a_file_that_cannot_be_used_does_not_stop_the_start(schemas, declare):
    schemas.mkdir(parents=True)
    (schemas / "order.lost.v1.json").write_bytes(b'{"description": "caf\xe9"}')
    (schemas / "order.sent.v1.json").write_text('{"type": "object"}')
    apps.get_app_config("duebox").ready()
    assert "order.sent" in {kind.name for kind in declared()}
    assert {each[0] for each in found()} == {"duebox.E008"}


def test_E008_stops_the_gate_but_not_the_command_that_repairs_it(schemas, declare, monkeypatch):
    declare_all(declare)
    schema_files.write(schemas, declared())
    (schemas / "order.paid.v1.json").write_text("{")
    monkeypatch.setattr(sys, "argv", ["manage.py", "duebox", "schemas", "check", "--against", str(schemas)])
    with pytest.raises(SystemCheckError, match=r"duebox\.E008.*order\.paid\.v1\.json is not JSON"):
        call_command("duebox", "schemas", "check", against=str(schemas), skip_checks=False, stderr=StringIO())
    monkeypatch.setattr(sys, "argv", ["manage.py", "duebox", "schemas", "write"])
    call_command("duebox", "schemas", "write", skip_checks=False, stdout=StringIO(), stderr=StringIO())
    monkeypatch.undo()
    assert found() == []


def test_W006_does_not_stop_the_command_that_repairs_it(schemas, declare, monkeypatch):
    declare_all(declare)
    schemas.mkdir(parents=True)
    assert {each[0] for each in found()} == {"duebox.W006"}
    monkeypatch.setattr(sys, "argv", ["manage.py", "duebox", "schemas", "write"])
    call_command("duebox", "schemas", "write", skip_checks=False, stdout=StringIO(), stderr=StringIO())
    monkeypatch.undo()
    assert len(list(schemas.iterdir())) == 7


def undeclared():
    return [each[1:] for each in found() if each[0] == "duebox.W007"]


def test_W007_a_handler_that_waits_for_what_nobody_declared_is_told_the_nearest(settings, declare, on):
    settings.DUEBOX = {}
    declare_all(declare)
    before = undeclared()
    for pattern in ("member.invitd", "member.invited", "public.member.invited", "memer.*", "duebox.sweep.due"):
        on(pattern, name=f"test.{pattern.replace('*', 'all')}")(lambda event: None)
    assert [each for each in undeclared() if each not in before] == [
        (
            "Handler 'test.member.invitd' waits for 'member.invitd', which is not declared.",
            "Did you mean 'member.invited'? If not, declare it with @duebox.event('member.invitd') above a class in "
            "events.py.",
        )
    ]


def test_W007_plans_and_sweeps_are_held_to_what_may_be_emitted(settings, declare):
    settings.DUEBOX = {}
    declare_all(declare)
    before = undeclared()

    class Reviews(duebox.Plan):
        model = Account
        event = "public.member.invited"

        def rule(self, row):
            return None

    class Overdue(duebox.Sweep):
        model = Task
        event = "task.overdue"
        stamp = "reminded_at"

        def due(self, rows, now):
            return rows

    told = [each for each in undeclared() if each not in before]
    plans.remove("app.Reviews")
    sweeps.remove("app.Overdue")
    assert told == [
        (
            "Plan 'app.Reviews' emits 'public.member.invited', which is not declared.",
            "Did you mean 'member.invited'? If not, declare the public fields of 'member.invited' with public={...}; "
            "Duebox then emits it.",
        ),
        (
            "Sweep 'app.Overdue' emits 'task.overdue', which is not declared.",
            "Declare it with @duebox.event('task.overdue') above a class in events.py.",
        ),
    ]


def test_W007_while_undeclared_types_are_allowed_nothing_is_said(declare, on):
    on("nobody.declared", name="test.handler")(lambda event: None)
    assert undeclared() == []


@pytest.fixture
def planned(declare, forget_plans):
    """A plan and a sweep of an event with two required fields and a public one."""

    @declare("account.review_due", public={"level"})
    class ReviewDue:
        level: int
        owner: str
        note: str = ""

    yield
    sweeps.by_name().pop("app.Reviewed", None)


def lacking():
    return [each[1:] for each in found() if each[0] == "duebox.E041"]


def test_E041_a_plan_or_sweep_that_gives_no_data_for_an_event_that_needs_some_is_an_error(planned):
    class Reviews(duebox.Plan):
        model = Account
        event = "account.review_due"

        def rule(self, row):
            return None

    class Reviewed(duebox.Sweep):
        model = Task
        event = "account.review_due"
        stamp = "reminded_at"

        def due(self, rows, now):
            return rows

        def organization(self, row):
            return 1

    assert lacking() == [
        (
            "Plan 'app.Reviews' has no data(self, row), but 'account.review_due' requires level, owner.",
            "Define data(self, row) in Reviews, with these fields.",
        ),
        (
            "Plan 'app.Reviews' has no organization(self, row), but 'account.review_due' has a public event, which "
            "needs an organization.",
            "Define organization(self, row) in Reviews.",
        ),
        (
            "Sweep 'app.Reviewed' has no data(self, row), but 'account.review_due' requires level, owner.",
            "Define data(self, row) in Reviewed, with these fields.",
        ),
    ]


def test_E041_a_plan_that_says_both_passes(planned):
    class Reviews(duebox.Plan):
        model = Account
        event = "account.review_due"

        def rule(self, row):
            return None

        def data(self, row):
            return {"level": 1, "owner": "Ada"}

        def organization(self, row):
            return 1

    assert lacking() == []


def test_E042_a_handler_of_an_older_class_than_is_declared_is_an_error(declare, on):
    @declare("order.paid")
    class PaidV1:
        cents: int

    on(PaidV1, name="shop.book")(lambda event, paid: None)
    assert found() == []
    declare("order.paid", version=2, upcast=lambda data: data)(type("Paid", (), {"__annotations__": {"total": str}}))
    assert found() == [
        (
            "duebox.E042",
            "Handler 'shop.book' subscribed with PaidV1, version 1 of 'order.paid', but version 2 is declared: it "
            "cannot read events of that version.",
            "Subscribe with the class of version 2.",
        )
    ]


@pytest.mark.django_db
def test_the_models_need_no_new_migration():
    call_command("makemigrations", "duebox", check=True, dry_run=True, verbosity=0)


POST = {"BACKEND": "tests.app.outside.Post"}


@pytest.fixture
def routed(settings, declare):
    """Says what the checks find about a route to `post`, where two types are declared."""

    @declare("order.paid")
    class Paid:
        total: int

    @declare("member.invited")
    class Invited:
        email: str

    def say(match, undeclared="refuse"):
        settings.DUEBOX = {
            "UNDECLARED": undeclared,
            "DESTINATIONS": {"post": POST},
            "ROUTES": [{"match": match, "to": "post"}],
        }
        return [each for each in found() if each[0] in ("duebox.E011", "duebox.W008")]

    return say


@pytest.mark.parametrize("match", ["duebox.delivery.dead", "duebox.endpoint.*", "duebox.*", "duebox.task"])
def test_E011_a_route_may_take_what_duebox_itself_emits(routed, match):
    assert routed(match) == []


@pytest.mark.parametrize(
    "match", ["duebox.deliver.dead", "duebox.endpoints.*", {"event_type": ["duebox.deliver.dead"]}]
)
def test_E011_a_route_that_takes_nothing_of_what_duebox_itself_emits_is_an_error(routed, match):
    [(id, said, _)] = routed(match)
    assert id == "duebox.E011"
    assert repr(match) in said
    [(id, _, _)] = routed(match, undeclared="allow")
    assert id == "duebox.W008"


def test_what_duebox_itself_emits_is_listed_in_full():
    source = "\n".join(path.read_text() for path in Path(duebox.__file__).parent.rglob("*.py"))
    emitted = {*re.findall(r'\bOwn\("([a-z_.]+)"\)', source), *re.findall(r'\b_emit\("(duebox\.[a-z_.]+)"', source)}
    assert emitted - {"duebox.draft"} == OWN_TYPES  # a draft is never stored


@pytest.mark.parametrize(
    "match",
    [
        {"data": {"totl": [5]}},
        {"data.totl": [5]},
        {"event_type": ["order.paid"], "data": {"totl": [{"numeric": [">", 5]}]}},
        {"data": {"$or": [{"total": [5]}, {"totl": [5]}]}},
        {"$or": [{"data": {"total": [5]}}, {"data": {"totl": [5]}}]},
    ],
)
def test_E011_a_route_that_looks_at_a_field_that_nothing_has_is_an_error(routed, match):
    [(id, said, hint)] = routed(match)
    assert (id, said) == (
        "duebox.E011",
        "A route to post filters by 'totl' in the data, but no declared event type that it matches has such a field.",
    )
    assert hint == "Did you mean 'total'? If not, declare the field, or leave it out of the pattern."
    [(id, _, _)] = routed(match, undeclared="allow")
    assert id == "duebox.W008"


def test_E011_a_field_of_a_type_that_the_route_does_not_take_does_not_count(routed):
    [(_, said, _)] = routed({"event_type": ["order.paid"], "data": {"email": ["a@example.com"]}})
    assert "'email'" in said


@pytest.mark.parametrize(
    "match",
    [
        {"data": {"total": [5]}},
        {"data": {"email": ["a@example.com"], "total": [{"exists": False}]}},
        {"data": {"gone": [{"exists": False}]}},
        {"data": [{"exists": False}]},
        {"metadata": {"totl": [5]}},
        {"event_type": ["duebox.delivery.dead"], "data": {"subscriber": ["to:bus"]}},
    ],
)
def test_E011_a_route_that_looks_at_what_may_be_there_is_fine(routed, match):
    assert routed(match) == []


def test_E011_of_a_type_whose_data_is_open_nobody_can_say(routed):
    declare_type(
        EventType(name="order.noted", version=1, schema={"type": "object", "additionalProperties": True}, origin="test")
    )
    try:
        assert routed({"data": {"totl": [5]}}) == []
    finally:
        forget("order.noted")


def waiting_for_nobody(**options):
    return [each for each in found(**options) if each[0] == "duebox.W020"]


@pytest.mark.parametrize("part", ["", "/7"])
def test_W020_what_waits_for_a_destination_that_is_gone_is_a_warning(settings, part):
    settings.DUEBOX = {**ANY_TYPE, "DESTINATIONS": {"bus": POST}, "ROUTES": [{"match": "*", "to": "bus"}]}
    duebox.emit("order.paid", {})
    Delivery.objects.update(subscriber=f"to:bus{part}")
    assert waiting_for_nobody(databases=["default"]) == []
    settings.DUEBOX = {**ANY_TYPE, "DESTINATIONS": {"coach": POST}}
    [(_, said, hint)] = waiting_for_nobody(databases=["default"])
    assert said.startswith("1 delivery waits for 'to:bus', which this code does not have, since ")
    assert hint.startswith("Put 'bus' back into DUEBOX['DESTINATIONS'], or give them up: ")
    assert "deliveries discard --state orphaned --destination bus" in hint
    assert waiting_for_nobody() == waiting_for_nobody(databases=["other"]) == []
    Delivery.objects.update(status="dead")
    assert waiting_for_nobody(databases=["default"]) == []


def test_W020_what_waits_for_a_handler_that_is_gone_is_a_warning(on):
    on("order.paid", name="shop.print_label")(lambda event: None)
    for _ in range(2):
        duebox.emit("order.paid", {})
    assert waiting_for_nobody(databases=["default"]) == []
    duebox.events.subscribers.remove("shop.print_label")
    [(_, said, hint)] = waiting_for_nobody(databases=["default"])
    since = Delivery.objects.earliest("due_at").due_at
    assert said == (
        f"2 deliveries wait for 'shop.print_label', which this code does not have, since {since:%Y-%m-%d %H:%M:%S} UTC."
    )
    assert hint.startswith("If it was renamed, name 'shop.print_label' in aliases= of the handler; else give them up")
    assert "deliveries discard --state orphaned --handler shop.print_label" in hint
    on("order.paid", name="shop.labels", aliases=["shop.print_label"])(lambda event: None)
    assert waiting_for_nobody(databases=["default"]) == []


def test_W020_all_endpoints_of_a_destination_that_is_gone_are_one_warning(settings):
    settings.DUEBOX = {**ANY_TYPE, "DESTINATIONS": {"bus": POST}, "ROUTES": [{"match": "*", "to": "bus"}]}
    for number in range(3):
        duebox.emit("order.paid", {})
        Delivery.objects.filter(subscriber="to:bus").update(subscriber=f"to:bus/{number}")
    settings.DUEBOX = ANY_TYPE
    [(_, said, _)] = waiting_for_nobody(databases=["default"])
    assert said.startswith("3 deliveries wait for 'to:bus'")


def test_W020_says_nothing_where_the_destinations_cannot_be_read(settings):
    settings.DUEBOX = {**ANY_TYPE, "DESTINATIONS": {"bus": POST}, "ROUTES": [{"match": "*", "to": "bus"}]}
    duebox.emit("order.paid", {})
    settings.DUEBOX = {**ANY_TYPE, "DESTINATIONS": {"coach": {"BACKEND": "no.such.Class"}}}
    assert waiting_for_nobody(databases=["default"]) == []


def test_W012_a_destination_without_a_route_may_stay_while_something_waits(settings):
    settings.DUEBOX = {**ANY_TYPE, "DESTINATIONS": {"bus": POST}}
    [(_, _, hint)] = [each for each in found() if each[0] == "duebox.W012"]
    assert hint.endswith("or remove it once `duebox destinations list` shows no waiting deliveries.")


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("DUEBOX_THREADS", 8, "Write it as DUEBOX = {'THREADS': ...}."),
        ("DUEBOX_TREADS", 8, "Write it as DUEBOX = {'THREADS': ...}."),
        ("DUE_BOX", {"THREADS": 8}, "Did you mean DUEBOX?"),
        ("DUBOX", {}, "Did you mean DUEBOX?"),
    ],
)
def test_W021_a_setting_that_duebox_does_not_read_is_a_warning(settings, name, value, hint):
    setattr(settings, name, value)
    message = f"The settings have {name}, which Duebox does not read."
    assert [each for each in found() if each[0] == "duebox.W021"] == [("duebox.W021", message, hint)]


@pytest.mark.parametrize(("name", "value"), [("DUEBOX_DASHBOARD_URL", "x"), ("DUE_BOX", "red"), ("DEBUG_BOX", {})])
def test_W021_settings_of_the_project_are_its_own(settings, name, value):
    setattr(settings, name, value)
    assert [each for each in found() if each[0] == "duebox.W021"] == []


def test_W022_a_pool_that_is_smaller_than_the_threads_of_a_worker_is_a_warning(settings, monkeypatch):
    settings.DUEBOX = {"UNDECLARED": "allow", "THREADS": 6}
    monkeypatch.setitem(connections["other"].settings_dict, "OPTIONS", {"pool": True})
    [(_, message, hint)] = [each for each in found() if each[0] == "duebox.W022"]
    assert message == "The connection pool of database 'other' has 4 connections, a worker 6 threads."
    assert "'max_size': 6" in hint
    monkeypatch.setitem(connections["other"].settings_dict, "OPTIONS", {"pool": {"max_size": 6}})
    assert not [each for each in found() if each[0] == "duebox.W022"]
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", {"pool": True})
    assert not [each for each in found() if each[0] == "duebox.W022"]


@pytest.fixture
def reminders(capturing):
    """A plan on appointments that follows people, whose tables have their triggers."""
    with forgetting():
        plan = reminding(minutes(-60), follows={Person: "person"})
        capture.install("default")
        yield plan


def without_triggers(number="duebox.W023"):
    return [each[1:] for each in found(databases=["default"]) if each[0] == number]


def sql(*statements):
    with connections["default"].cursor() as cursor:
        for each in statements:
            cursor.execute(each)


def test_W023_a_table_with_its_triggers_is_fine(reminders):
    assert found(databases=["default"]) == []


@pytest.mark.usefixtures("capturing")
def test_W023_triggers_that_are_missing_or_outdated_are_a_warning_with_the_command(reminders):
    sql("DROP TRIGGER duebox_capture_update ON app_person")
    for table in capture.row_changes.installed("default"):
        if table.table == "app_person":
            sql(f"DROP FUNCTION {table.function} CASCADE")
        else:
            sql(f"COMMENT ON FUNCTION {table.function} IS 'duebox 0'")
    [(message, hint)] = without_triggers()
    assert message.startswith(
        "Triggers on tables that plans follow are not installed in database 'default': those on app_appointment are "
        "outdated, those on app_person are missing."
    )
    assert hint == "Run: manage.py migrate --database default"


@pytest.mark.usefixtures("capturing")
def test_W023_a_role_without_the_rights_is_told_what_to_grant(reminders):
    sql("DROP ROLE IF EXISTS duebox_test_check", "CREATE ROLE duebox_test_check",
        "GRANT USAGE ON SCHEMA public TO duebox_test_check")  # fmt: skip
    for table in capture.row_changes.installed("default"):
        sql(f"DROP FUNCTION {table.function} CASCADE")
    sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO duebox_test_check", "SET LOCAL ROLE duebox_test_check")
    [(_, hint)] = without_triggers()
    sql("RESET ROLE")
    assert "duebox_test_check may not" in hint
    assert "GRANT TRIGGER ON app_appointment TO duebox_test_check; GRANT TRIGGER ON app_person TO duebox_test" in hint
    assert "GRANT CREATE ON SCHEMA public TO duebox_test_check;" in hint
    assert "manage.py duebox capture --sql --database default" in hint
    sql("GRANT TRIGGER ON app_appointment, app_person TO duebox_test_check",
        "GRANT CREATE ON SCHEMA public TO duebox_test_check", "SET LOCAL ROLE duebox_test_check")  # fmt: skip
    assert [hint for _, hint in without_triggers()] == ["Run: manage.py migrate --database default"]
    assert [each.error for each in capture.install("default")] == ["", ""]
    assert without_triggers() == []
    sql("RESET ROLE")


def test_W023_says_nothing_before_the_migrations_of_duebox(reminders):
    sql("DROP TABLE duebox_row_change")
    assert without_triggers() == []


@pytest.mark.usefixtures("capturing")
def test_W024_models_that_cannot_have_triggers_are_a_warning(monkeypatch):
    with forgetting():
        plan = declare_plan(Reminders, Device)
        capture.install("default")
        monkeypatch.setattr(Device._meta, "managed", False)
        [(message, hint)] = without_triggers("duebox.W024")
    assert message == (
        "app.Device cannot have triggers, because Django does not manage its table: plans that follow it "
        f"({plan.name}) notice saves and deletes through Django, but not QuerySet.update(), bulk operations and raw "
        f"SQL."
    )
    assert "Call sync of the plan after these" in hint
    assert "'duebox.W024' into SILENCED_SYSTEM_CHECKS" in hint


@pytest.mark.usefixtures("capturing")
@pytest.mark.parametrize(
    ("made", "why"),
    [
        (["CREATE FOREIGN TABLE far (id uuid, serviced_at timestamptz) SERVER duebox_test"], "it has a foreign table"),
        (
            [
                "CREATE TABLE far (id uuid, serviced_at timestamptz) PARTITION BY HASH (id)",
                "CREATE FOREIGN TABLE far_1 PARTITION OF far FOR VALUES WITH (MODULUS 1, REMAINDER 0) "
                "SERVER duebox_test",
            ],
            "a partition of its table is a foreign table",
        ),
        (["CREATE VIEW far AS SELECT * FROM app_device"], "it has a view in the place of a table"),
    ],
)
def test_W024_tables_that_cannot_have_triggers_are_a_warning_and_get_none(monkeypatch, made, why):
    sql("CREATE FOREIGN DATA WRAPPER duebox_test", "CREATE SERVER duebox_test FOREIGN DATA WRAPPER duebox_test", *made)
    monkeypatch.setattr(Device._meta, "db_table", "far")
    with forgetting():
        declare_plan(Reminders, Device)
        assert {each.state for each in capture.install("default")} <= {"unused"}
        [(message, _)] = without_triggers("duebox.W024")
        assert f"because {why}:" in message
        assert without_triggers() == []


@pytest.mark.usefixtures("capturing")
def test_W024_a_composite_primary_key_with_a_part_that_has_several_spellings_is_a_warning(monkeypatch):
    monkeypatch.setattr(Device._meta, "pk_fields", [Device._meta.pk, Device._meta.get_field("serviced_at")])
    with forgetting():
        declare_plan(Reminders, Device)
        assert capture.captures("default") == []
        [(message, _)] = without_triggers("duebox.W024")
    assert "because its primary key is a DateTimeField" in message


@pytest.fixture
def followed(capturing):
    """A model that the audit log follows, until `capturing` is over."""
    audit_log.follow(hash=["zone"])(Person)
    capture.install("default")
    assert without_triggers() == []


def test_W023_triggers_of_the_audit_log_that_are_missing_are_a_warning(followed):
    for table in capture.row_changes.installed("default", capture.PREFIXES["audit"]):
        sql(f"DROP FUNCTION {table.function} CASCADE")
    [(message, hint)] = without_triggers()
    assert message.startswith(
        "Triggers on tables that the audit log follows are not installed in database 'default': those on app_person "
        "are missing."
    )
    assert hint == "Run: manage.py migrate --database default"


def test_W023_another_key_of_hashed_values_is_a_warning(followed, settings):
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY": "another one"}
    [(message, hint)] = without_triggers()
    assert "hash values with another key than the current setting" in message
    assert hint == "Run: manage.py migrate --database default"


def test_E047_a_followed_model_that_cannot_have_triggers_is_an_error(followed, monkeypatch):
    monkeypatch.setattr(Person._meta, "managed", False)
    [(message, hint)] = without_triggers("duebox.E047")
    assert message == (
        "app.Person cannot have triggers, because Django does not manage its table: its changes are not recorded in "
        "the audit log."
    )
    assert hint == "Remove audit_log.follow() from it, and call duebox.audit() where its rows are changed."


def test_E047_a_way_to_the_organization_that_is_not_along_foreign_keys_is_an_error_without_a_database(followed):
    audit_log.follow(organization="zone__name")(Person)
    [(message, hint)] = [each[1:] for each in found() if each[0] == "duebox.E047"]
    assert "because the way to its organization, 'zone__name', is not along foreign keys" in message
    assert hint.startswith("Name one that is, or leave out organization=")


def test_E047_a_view_in_the_place_of_a_followed_table_is_an_error(followed, monkeypatch):
    sql("CREATE VIEW far AS SELECT * FROM app_person")
    monkeypatch.setattr(Person._meta, "db_table", "far")
    [(message, _)] = without_triggers("duebox.E047")
    assert "because it has a view in the place of a table" in message


def test_E047_a_role_that_may_not_install_the_triggers_of_the_audit_log_is_an_error(followed):
    for table in capture.row_changes.installed("default", capture.PREFIXES["audit"]):
        sql(f"DROP FUNCTION {table.function} CASCADE")
    sql("DROP ROLE IF EXISTS duebox_test_check", "CREATE ROLE duebox_test_check",
        "GRANT USAGE ON SCHEMA public TO duebox_test_check",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO duebox_test_check",
        "SET LOCAL ROLE duebox_test_check")  # fmt: skip
    [(message, hint)] = without_triggers("duebox.E047")
    sql("RESET ROLE")
    assert message == (
        "Table app_person in database 'default' has no triggers, and the role duebox_test_check may not install them: "
        "changes of app.person are not recorded in the audit log."
    )
    assert "manage.py duebox capture --sql --database default" in hint


@pytest.mark.usefixtures("capturing")
def test_E043_a_watched_field_that_there_is_not_is_an_error_where_it_could_not_be_refused_before(monkeypatch, caplog):
    with forgetting():
        with monkeypatch.context() as early:
            early.setattr(apps, "models_ready", False)
            plan = reminding(minutes(-60), watch=("start_at",))
        assert [each for each in found() if each[0] == "duebox.E043"] == [
            (
                "duebox.E043",
                f"{plan.name} watches 'start_at', which is no field of app.Appointment with a column; "
                "did you mean 'starts_at'?",
                "Correct watch of the plan. Until then changes of all fields count.",
            )
        ]
        call_command("migrate", verbosity=0)
        assert [each.state for each in capture.tables("default")] == ["installed"]
        assert capture.captures("default")[0].watch == ()
    assert "watch is not used, changes of all fields count: app.Reminders watches 'start_at'" in caplog.text
