from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

import duebox
from duebox.cli import plan as tzdata
from duebox.cli.output import _bar
from duebox.models import Schedule, ScheduleLog
from duebox.schedules import plans
from duebox.testing import travel
from duebox.when import daily, days, hours, zones
from tests.app.models import Account

pytestmark = pytest.mark.django_db
OLDER = Path(__file__).parents[1] / "vectors" / "zones" / "2025b"


@pytest.fixture(autouse=True)
def clock():
    with travel(datetime(2026, 6, 1, 12, tzinfo=UTC)) as traveller:
        yield traveller


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    """Only the plans of the test; they are taken back after it."""
    monkeypatch.setattr(plans, "_plans", {})
    yield
    for plan in plans.plans():
        plans.remove(plan.name)


@pytest.fixture
def reviews():
    """One schedule for each account, at the hour that its counter says; above 23 that cannot be."""

    class Reviews(duebox.Plan):
        model = Account
        event = "account.review"

        def rule(self, row):
            return daily(f"{row.counter:02}:00")

        def zone(self, row):
            return "Asia/Tokyo"

    return Reviews


@pytest.fixture
def renewals():
    """Two schedules for each account with a positive counter."""

    class Renewals(duebox.Plan):
        model = Account
        event = "account.renewal"
        offsets = (days(-1), hours(-2))

        def anchor(self, row):
            return datetime(2026, 7, 1, 12)

        def zone(self, row):
            return "Asia/Tokyo"

        def when(self, row):
            return row.counter > 0

    return Renewals


@pytest.fixture
def in_vancouver():
    """Planned when clocks in Vancouver were still thought to go back in autumn."""
    with zones.using(zones.from_folder(OLDER, release="2025b")):
        for number, day in enumerate((14, 15, 16)):
            at = datetime(2026, 12, day, 9)
            duebox.schedule("visit.due", at=at, zone="America/Vancouver", key=f"visit:{number}")
    duebox.schedule("visit.due", at=at, zone="Europe/Paris", key="visit:paris")


def as_json(text):
    return [json.loads(line) for line in text.splitlines()]


def test_without_plans_it_says_how_to_declare_one(manage):
    for words in (["plan"], ["plan", "--list"], ["plan", "--dry-run"]):
        assert manage("duebox", *words) == "No plans are declared; subclass duebox.Plan in plans.py of an app.\n"
        assert manage("duebox", *words, "--json") == ""


def test_rows_that_came_in_bulk_are_planned_for(manage, reviews, renewals):
    Account.objects.bulk_create([Account(counter=7), Account(counter=8)])
    assert manage("duebox", "plan").splitlines() == [
        "plan          planned  moved  changed  unchanged  cancelled  failed",
        "app.Reviews         2      0        0          0          0       0",
        "app.Renewals        4      0        0          0          0       0",
    ]
    assert Schedule.objects.scheduled().count() == 6


def test_what_was_updated_or_deleted_behind_the_plans_back_is_healed(manage, reviews):
    kept, moved, gone = (Account.objects.create(counter=number) for number in (7, 8, 9))
    Account.objects.filter(pk=moved.pk).update(counter=10)
    Account.objects.filter(pk=gone.pk)._raw_delete("default")
    (told,) = as_json(manage("duebox", "plan", "app.Reviews", "--json"))
    assert told == {
        "plan": "app.Reviews", "planned": 0, "moved": 1, "changed": 0, "unchanged": 1, "cancelled": 1, "failed": {},
        "dry_run": False,
    }  # fmt: skip
    live = Schedule.objects.scheduled()
    assert {row.aggregate_id: row.local_time for row in live} == {
        str(kept.pk): "2026-06-02T07:00",
        str(moved.pk): "2026-06-02T10:00",
    }


def test_a_dry_run_changes_nothing_and_says_so(manage, reviews):
    Account.objects.bulk_create([Account(counter=7)])
    assert manage("duebox", "plan", "--dry-run").splitlines()[1:] == [
        "app.Reviews        1      0        0          0          0       0",
        "Dry run: nothing was changed.",
    ]
    assert as_json(manage("duebox", "plan", "--dry-run", "--json"))[0]["dry_run"]
    assert not Schedule.objects.exists()


def test_only_the_plans_that_are_named_are_looked_at(manage, reviews, renewals):
    Account.objects.bulk_create([Account(counter=7)])
    manage("duebox", "plan", "app.Renewals")
    assert set(Schedule.objects.values_list("plan", flat=True)) == {"app.Renewals"}


def test_a_name_that_is_no_plan_is_refused_with_those_that_are_near(manage, reviews, renewals):
    with pytest.raises(CommandError, match=r"No plan is named 'app\.Review'; did you mean app\.Reviews"):
        manage("duebox", "plan", "app.Review")
    with pytest.raises(CommandError, match=r"No plan is named 'zzz'; there are: app\.Reviews, app\.Renewals\."):
        manage("duebox", "plan", "zzz", "--list")


def test_a_name_without_any_plans_is_refused_with_how_to_declare_one(manage):
    with pytest.raises(CommandError, match=r"No plan is named 'zzz'\. No plans are declared; subclass duebox\.Plan"):
        manage("duebox", "plan", "zzz")


def test_rows_that_cannot_be_planned_are_named_and_the_command_fails(manage, reviews):
    good, bad = Account.objects.bulk_create([Account(counter=7), Account(counter=77)])
    with pytest.raises(CommandError) as refused:
        manage("duebox", "plan")
    first, second = str(refused.value).splitlines()
    assert first == "1 row could not be planned, and their earlier schedules stay; correct them and run it again:"
    assert second.startswith(f"  app.Reviews {bad.pk}: WrongKindOfTime: at is '77:00', not a time of day")
    assert [row.aggregate_id for row in Schedule.objects.all()] == [str(good.pk)]


def test_of_many_failures_the_first_ten_are_named(manage, reviews):
    Account.objects.bulk_create([Account(counter=77) for _ in range(12)])
    with pytest.raises(CommandError, match="12 rows could not be planned") as refused:
        manage("duebox", "plan")
    assert len(str(refused.value).splitlines()) == 12
    assert str(refused.value).endswith("\n  and 2 more")


@pytest.mark.django_db(transaction=True)
def test_a_refusal_leaves_with_exit_code_1_and_without_a_traceback(start):
    done = start("duebox", "plan", "nothing.Here", "--json")
    out, err = done.communicate(timeout=120)
    assert (done.returncode, out) == (1, "")
    assert "CommandError: No plan is named 'nothing.Here'" in err
    assert "Traceback" not in err


def test_json_lists_every_failure(manage, reviews):
    rows = Account.objects.bulk_create([Account(counter=77) for _ in range(12)])
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("duebox", "plan", "--json", stdout=out)
    (told,) = as_json(out.getvalue())
    assert told["failed"].keys() == {str(row.pk) for row in rows}


def test_the_list_names_models_events_live_schedules_and_what_is_next(manage, reviews, renewals):
    Account.objects.bulk_create([Account(counter=7), Account(counter=8)])
    manage("duebox", "plan", "app.Reviews")
    assert manage("duebox", "plan", "--list").splitlines() == [
        "plan          model        event            live  next due, utc",
        "app.Reviews   app.Account  account.review      2  2026-06-01 22:00",
        "app.Renewals  app.Account  account.renewal     0",
    ]
    assert as_json(manage("duebox", "plan", "app.Reviews", "--list", "--json")) == [
        {
            "plan": "app.Reviews",
            "model": "app.Account",
            "event": "account.review",
            "live": 2,
            "next_due": "2026-06-01T22:00:00+00:00",
        }
    ]


def test_the_list_shows_plans_that_the_code_has_no_more_but_that_still_fire(manage, reviews):
    Account.objects.create(counter=7)
    plans.remove("app.Reviews")
    assert manage("duebox", "plan", "--list").splitlines()[1].split() == [
        "app.Reviews", "(not", "declared)", "1", "2026-06-01", "22:00",
    ]  # fmt: skip


def test_a_paused_schedule_is_live_but_has_no_next(manage, reviews):
    account = Account.objects.create(counter=7)
    duebox.pause(about=account)
    (told,) = as_json(manage("duebox", "plan", "--list", "--json"))
    assert (told["live"], told["next_due"]) == (1, None)


def test_with_tzdata_only_what_the_zone_database_moves_is_planned_anew(manage, in_vancouver):
    release = zones.current().release
    assert manage("duebox", "plan", "--tzdata").splitlines() == [
        f"Zone database {release} (tzdata) has other rules than before:",
        "zone               schedules",
        "America/Vancouver          3",
        "3 checked, 3 moved, 0 missed.",
    ]
    due = Schedule.objects.get(key="visit:0").due_at
    assert due == datetime(2026, 12, 14, 16, tzinfo=UTC)
    assert ScheduleLog.objects.filter(what="moved").count() == 3
    assert manage("duebox", "plan", "--tzdata") == (
        f"Zone database {release} (tzdata): all schedules follow it already.\n"
    )


def test_a_dry_run_of_tzdata_shows_every_move_in_local_time_and_utc(manage, in_vancouver):
    lines = manage("duebox", "plan", "--tzdata", "--dry-run").splitlines()
    assert lines[4].split() == ["what", "key", "zone", "local", "utc"]
    assert lines[5] == (
        "moved  visit:0  America/Vancouver  2026-12-14 10:00 -> 2026-12-14 09:00  2026-12-14 17:00 -> 2026-12-14 16:00"
    )
    assert lines[-1] == "Dry run: nothing was changed."
    assert not ScheduleLog.objects.exists()


def test_a_long_dry_run_is_cut_in_words_and_whole_in_json(manage, in_vancouver, monkeypatch):
    monkeypatch.setattr(tzdata, "SHOWN_MOVES", 1)
    assert "and 2 more; --json lists all" in manage("duebox", "plan", "--tzdata", "--dry-run").splitlines()
    (told,) = as_json(manage("duebox", "plan", "--tzdata", "--dry-run", "--json"))
    assert {name: told[name] for name in ("release", "source", "zones", "checked", "moved", "missed", "dry_run")} == {
        "release": zones.current().release, "source": "tzdata", "zones": {"America/Vancouver": 3}, "checked": 3,
        "moved": 3, "missed": 0, "dry_run": True,
    }  # fmt: skip
    assert len(told["moves"]) == 3
    assert told["moves"][0] == {
        "what": "moved",
        "key": "visit:0",
        "occurrence": "2026-12-14T09:00",
        "zone": "America/Vancouver",
        "old": "2026-12-14T17:00:00+00:00",
        "old_local": "2026-12-14T10:00:00",
        "new": "2026-12-14T16:00:00+00:00",
        "new_local": "2026-12-14T09:00:00",
    }


def test_what_the_zone_database_moves_too_far_into_the_past_is_missed(manage, clock):
    with zones.using(zones.from_folder(OLDER, release="2025b")):
        at = datetime(2026, 12, 14, 9)
        duebox.schedule("visit.due", at=at, zone="America/Vancouver", key="visit:late", late="skip")
    clock.to(datetime(2026, 12, 14, 16, 30, tzinfo=UTC))
    lines = manage("duebox", "plan", "--tzdata", "--dry-run").splitlines()
    assert lines[3] == "1 checked, 0 moved, 1 missed."
    assert lines[5].startswith("missed  visit:late")
    assert lines[5].endswith("2026-12-14 17:00 -> never")
    (told,) = as_json(manage("duebox", "plan", "--tzdata", "--json"))
    assert (told["missed"], told["moves"]) == (1, [])


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["app.Reviews", "--tzdata"], r"--tzdata applies to all schedules; leave out app\.Reviews\."),
        (["--list", "--tzdata"], "not allowed with argument"),
        (["--database", "nope", "--list"], "'nope'.*default, other"),
    ],
)
def test_what_makes_no_sense_is_refused(manage, reviews, words, refusal):
    with pytest.raises(CommandError, match=refusal):
        manage("duebox", "plan", *words)


class Terminal(StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_it_counts_and_wipes_the_count_away(reviews, in_vancouver):
    terminal = Terminal()
    call_command("duebox", "plan", "--tzdata", stdout=StringIO(), stderr=terminal)
    assert terminal.getvalue() == "\r\x1b[Kzone database: 3 rows\r\x1b[K"


def test_on_a_terminal_a_bar_shows_how_many_rows_are_planned(reviews, monkeypatch):
    monkeypatch.setattr("duebox.schedules.plan_sync.BATCH", 2)
    Account.objects.bulk_create([Account(counter=number) for number in range(3)])
    terminal = Terminal()
    call_command("duebox", "plan", stdout=StringIO(), stderr=terminal)
    first, second, wiped = terminal.getvalue().removeprefix("\r\x1b[K").split("\r\x1b[K")
    assert first == f"app.Reviews: [{'#' * 20:30}]  67%  2 of 3 rows, 0 s left"
    assert second == f"app.Reviews: [{'#' * 30}] 100%  3 of 3 rows"
    assert wiped == ""


@pytest.mark.parametrize(
    ("done", "total", "seconds", "shown"),
    [
        (250_000, 1_000_000, 60.0, f"[{'#' * 7:30}]  25%  250000 of 1000000 rows, 3 min 0 s left"),
        (10, 5, 1.0, f"[{'#' * 30}] 100%  10 of 10 rows"),
        (0, 0, 0.0, f"[{'':30}]   0%  0 of 1 rows"),
    ],
)
def test_a_bar_says_how_long_the_rest_will_take(done, total, seconds, shown):
    assert _bar(done, total, seconds) == shown


def test_it_does_not_count_for_json_nor_into_a_file(reviews):
    Account.objects.bulk_create([Account(counter=7)])
    for words, errors in ((["--json"], Terminal()), ([], StringIO())):
        call_command("duebox", "plan", *words, stdout=StringIO(), stderr=errors)
        assert errors.getvalue() == ""


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_can_be_planned_for(manage, reviews):
    Account.objects.using("other").bulk_create([Account(counter=7)])
    assert as_json(manage("duebox", "plan", "--database", "other", "--json"))[0]["planned"] == 1
    assert Schedule.objects.using("other").count() == 1
    assert not Schedule.objects.exists()


@pytest.mark.parametrize("words", [["--tzdata"], ["--list"], []])
def test_missing_tables_are_answered_with_the_migrate_command(manage, reviews, words):
    Account.objects.bulk_create([Account(counter=7)])
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE duebox_schedule RENAME TO hidden_schedule")
    with pytest.raises(CommandError, match=r"manage\.py migrate duebox"):
        manage("duebox", "plan", *words)


def test_the_shift_of_a_plan_is_told_as_moved(manage, renewals):
    account = Account.objects.create(counter=1)
    row = Schedule.objects.filter(aggregate_id=str(account.pk)).order_by("due_at").first()
    assert row.due_at == datetime(2026, 6, 30, 3, tzinfo=UTC)
    renewals.anchor = lambda self, row: datetime(2026, 7, 2, 12)
    assert as_json(manage("duebox", "plan", "--json"))[0]["moved"] == 2
    row.refresh_from_db()
    assert row.due_at == datetime(2026, 6, 30, 3, tzinfo=UTC) + timedelta(days=1)
