"""`duebox import celery-beat`: real rows of django-celery-beat, and Celery's own code to compare with."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.contrib import admin
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

import duebox
from duebox.models import Schedule
from duebox.testing import drain, travel
from duebox.when import Timetable, between, cron

pytest.importorskip("django_celery_beat", reason="2.9 takes no Django above 6.0 (pip install --group from-celery)")

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
PARIS = "Europe/Paris"
ALL = ("--default-event", "task.due")


@pytest.fixture(autouse=True)
def trip():
    with travel(NOON) as traveller:
        yield traveller


@pytest.fixture(autouse=True)
def beat(db, settings):
    """The models of django-celery-beat, with their tables."""
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "django_celery_beat"]
    config = apps.get_app_config("django_celery_beat")
    with connection.schema_editor() as editor:
        for model in config.get_models():
            editor.create_model(model)
    yield __import__("django_celery_beat.models").models
    # Its pages stay in the admin site otherwise, where no page of another test finds their app.
    admin.site.unregister([model for model in config.get_models() if admin.site.is_registered(model)])


@pytest.fixture
def add(beat):
    """Stores a periodic task as the admin does."""

    def add(name, task="shop.tasks.work", **fields):
        return beat.PeriodicTask.objects.create(name=name, task=task, **fields)

    return add


@pytest.fixture
def crontab(beat):
    def make(text, zone=PARIS):
        names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        fields = dict(zip(names, text.split(), strict=True))
        return beat.CrontabSchedule.objects.create(**fields, timezone=ZoneInfo(zone))

    return make


@pytest.fixture
def interval(beat):
    return lambda every, period: beat.IntervalSchedule.objects.create(every=every, period=period)


@pytest.fixture
def clocked(beat):
    return lambda moment: beat.ClockedSchedule.objects.create(clocked_time=moment)


@pytest.fixture
def imported(manage):
    """The report of an import, by the names of rows."""

    def run(*words, refused=False):
        words = ("duebox", "import", "celery-beat", "--json", *words)
        return {each["name"]: each for each in map(json.loads, told(manage, words, refused).splitlines())}

    return run


def told(manage, words, refused):
    """The output, also of a command that ends with an error."""
    if not refused:
        return manage(*words)
    lines = []
    with pytest.raises(CommandError, match=r"(row was|rows were) refused"):
        manage_into(lines, words)
    return "".join(lines)


def manage_into(lines, words):
    out = StringIO()
    try:
        call_command(*words, stdout=out)
    finally:
        lines.append(out.getvalue())


def local_runs(key, zone=PARIS, count=3):
    return [one.local for one in duebox.upcoming(key=key, until=NOON + timedelta(days=800))[:count]]


# What becomes of a row


def test_a_crontab_becomes_a_schedule_in_its_zone(imported, add, crontab):
    add("report", crontab=crontab("0 9 * * 1-5"))
    line = imported(*ALL)["report"]
    assert line["outcome"] == "created"
    assert (line["key"], line["zone"], line["next"]) == ("celery-beat:report", PARIS, "2026-11-19T08:00:00+00:00")
    assert local_runs("celery-beat:report") == ["2026-11-19T09:00", "2026-11-20T09:00", "2026-11-23T09:00"]


def test_an_interval_becomes_a_schedule_that_says_from_when_it_counts(imported, add, interval):
    add("stock", interval=interval(30, "seconds"))
    line = imported(*ALL)["stock"]
    assert (line["outcome"], line["rule"]) == ("created", "every 30 seconds")
    assert line["notes"] == ["Celery counts the interval from its last run, Duebox from midnight UTC of 1970-01-01"]


def test_a_clocked_time_becomes_a_schedule_that_fires_once(imported, add, clocked):
    add("sale", clocked=clocked(NOON + timedelta(days=30)), one_off=True)
    assert imported(*ALL)["sale"]["next"] == "2026-12-18T12:00:00+00:00"
    assert len(local_runs("celery-beat:sale")) == 1


def test_the_event_fires_with_the_arguments_of_the_task(imported, add, crontab, on, trip):
    seen = []
    on("task.due", name="it")(lambda event: seen.append(event.data))
    add("report", "shop.tasks.report", crontab=crontab("0 9 * * *"), args='["daily"]', kwargs='{"copies": 2}')
    imported(*ALL)
    trip.by(timedelta(days=1))
    drain()
    assert seen == [{"task": "shop.tasks.report", "args": ["daily"], "kwargs": {"copies": 2}}]


def test_a_task_that_is_named_becomes_its_event_and_arguments_its_fields(imported, add, crontab, declare):
    @declare("report.requested")
    class ReportRequested:
        kind: str
        copies: int

    add("report", "shop.tasks.report", crontab=crontab("0 9 * * *"), args='["daily"]', kwargs='{"copies": 2}')
    line = imported("--event", "shop.tasks.report=report.requested")["report"]
    assert (line["type"], line["data"]) == ("report.requested", {"kind": "daily", "copies": 2})


def test_data_that_the_event_does_not_declare_is_refused(imported, add, crontab, declare):
    @declare("report.requested")
    class ReportRequested:
        kind: str

    add("report", "shop.tasks.report", crontab=crontab("0 9 * * *"), kwargs='{"sort": "daily"}')
    line = imported("--event", "shop.tasks.report=report.requested", refused=True)["report"]
    assert line["outcome"] == "refused"
    assert "sort" in line["reason"]


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("0 9 13 * fri", ["2027-08-13T09:00", "2028-10-13T09:00"]),  # Celery wants both to match, cron one of them
        ("0 22-2/2 * * *", ["2026-11-18T22:00", "2026-11-19T00:00", "2026-11-19T02:00"]),  # over midnight
        ("0 9 1 */3 *", ["2027-01-01T09:00", "2027-04-01T09:00", "2027-07-01T09:00"]),
        ("30 8 1-31 * sun", ["2026-11-22T08:30", "2026-11-29T08:30", "2026-12-06T08:30"]),
    ],
)
def test_a_crontab_is_read_as_celery_reads_it(imported, add, crontab, text, runs):
    add("it", crontab=crontab(text))
    assert imported(*ALL)["it"]["outcome"] == "created"
    until = NOON + timedelta(days=800)
    assert [one.local for one in duebox.upcoming(key="celery-beat:it", until=until)][: len(runs)] == runs


def test_bounds_expiry_and_one_off_are_kept(imported, add, crontab):
    add("bounded", crontab=crontab("0 9 * * *"), start_time=NOON + timedelta(days=2), expires=NOON + timedelta(days=4))
    add("short", crontab=crontab("0 9 * * *"), expire_seconds=60)
    add("single", crontab=crontab("0 9 * * *"), one_off=True)
    imported(*ALL)
    assert local_runs("celery-beat:bounded") == ["2026-11-21T09:00", "2026-11-22T09:00"]
    assert local_runs("celery-beat:single") == ["2026-11-19T09:00"]
    assert "60" in json.dumps(Schedule.objects.get(key="celery-beat:short").metadata)


def test_what_has_no_counterpart_is_noted(imported, add, crontab):
    add("it", crontab=crontab("0 9 * * *"), queue="mail", priority=3, headers='{"a": 1}')
    assert imported(*ALL)["it"]["notes"] == [
        "queue 'mail' has no counterpart; it is left out",
        "priority 3 has no counterpart; it is left out",
        "headers have no counterpart; they are left out",
    ]


# What is not imported


def test_rows_that_would_not_run_are_skipped_with_the_reason(imported, add, crontab, clocked):
    daily = crontab("0 9 * * *")
    add("off", crontab=daily, enabled=False)
    add("over", crontab=daily, expires=NOON - timedelta(days=1))
    add("ran", crontab=daily, one_off=True, total_run_count=1)
    add("past", clocked=clocked(NOON - timedelta(days=1)), one_off=True)
    add("celery.backend_cleanup", "celery.backend_cleanup", crontab=daily)
    found = imported(*ALL)
    assert {line["outcome"] for line in found.values()} == {"skipped"}
    assert found["off"]["reason"] == "disabled in django-celery-beat"
    assert found["over"]["reason"] == "expired at 2026-11-17 12:00 UTC"
    assert found["ran"]["reason"] == "a one-off task that has run"
    assert found["past"]["reason"] == "its time has passed: 2026-11-17 12:00 UTC"
    assert found["celery.backend_cleanup"]["reason"].startswith("Celery's own task")
    assert not Schedule.objects.exists()


def test_rows_without_a_counterpart_are_refused_and_the_others_imported(imported, add, crontab, interval, beat):
    sunset = beat.SolarSchedule.objects.create(event="sunset", latitude=48, longitude=2)
    add("evening", solar=sunset)
    add("hectic", interval=interval(500_000, "microseconds"))
    add("good", crontab=crontab("0 9 * * *"))
    found = imported(*ALL, refused=True)
    assert found["evening"]["reason"].startswith("a solar schedule (Sunset (48.000000, 2.000000)); Duebox has no rules")
    assert found["hectic"]["reason"] == "an interval of 0.5 s; it has to be whole seconds, one or more"
    assert found["good"]["outcome"] == "created"
    assert Schedule.objects.count() == 1


def test_a_task_without_an_event_type_is_refused_with_the_option_to_pass(imported, add, crontab):
    add("report", "shop.tasks.report", crontab=crontab("0 9 * * *"))
    assert imported(refused=True)["report"]["reason"] == (
        "no event type for the task shop.tasks.report; pass --event shop.tasks.report=TYPE, or --default-event TYPE"
    )


def test_an_event_for_a_task_that_no_row_has_is_an_error(manage):
    with pytest.raises(CommandError, match=r"No row of django-celery-beat has the task 'shop.tasks.raport'"):
        manage("duebox", "import", "celery-beat", "--event", "shop.tasks.raport=report.requested")


def test_without_the_app_the_command_says_what_to_add(manage, settings):
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "django_celery_beat"]
    with pytest.raises(CommandError, match="django_celery_beat is not in INSTALLED_APPS"):
        manage("duebox", "import", "celery-beat")


# Again


def test_a_second_import_changes_nothing(imported, add, crontab, interval, clocked):
    add("report", crontab=crontab("0 9 13 * fri"))
    add("stock", interval=interval(30, "seconds"))
    add("sale", clocked=clocked(NOON + timedelta(days=30)), one_off=True)
    imported(*ALL)
    before = list(Schedule.objects.order_by("id").values())
    assert {line["outcome"] for line in imported(*ALL).values()} == {"unchanged"}
    assert list(Schedule.objects.order_by("id").values()) == before


def test_a_changed_row_changes_its_schedule(imported, add, crontab):
    row = add("report", crontab=crontab("0 9 * * *"))
    imported(*ALL)
    row.crontab = crontab("0 10 * * *")
    row.save()
    assert imported(*ALL)["report"]["outcome"] == "changed"
    assert local_runs("celery-beat:report", count=1) == ["2026-11-19T10:00"]


def test_another_event_for_a_task_replaces_the_first(imported, add, crontab):
    add("report", "shop.tasks.report", crontab=crontab("0 9 * * *"))
    imported(*ALL)
    line = imported("--event", "shop.tasks.report=report.requested")["report"]
    assert (line["outcome"], line["type"]) == ("changed", "report.requested")
    assert Schedule.objects.get().status == "scheduled"


def test_what_was_cancelled_or_paused_in_duebox_stays_so(imported, add, crontab):
    add("cancelled", crontab=crontab("0 9 * * *"))
    add("paused", crontab=crontab("0 9 * * *"))
    imported(*ALL)
    duebox.cancel("celery-beat:cancelled")
    duebox.pause("celery-beat:paused")
    found = imported(*ALL)
    assert found["cancelled"]["reason"].startswith("cancelled in Duebox; to have it again: duebox schedules restore")
    states = dict(Schedule.objects.values_list("key", "status"))
    assert states == {"celery-beat:cancelled": "cancelled", "celery-beat:paused": "paused"}


def test_a_one_off_crontab_that_has_fired_does_not_fire_again(imported, add, crontab, trip):
    add("single", crontab=crontab("0 9 * * *"), one_off=True)
    imported(*ALL)
    trip.by(timedelta(days=1))
    drain()
    assert imported(*ALL)["single"]["reason"] == "a one-off task that Duebox has fired"


def test_a_row_that_was_deleted_or_disabled_since_is_reported(imported, add, crontab):
    gone, off = add("gone", crontab=crontab("0 9 * * *")), add("off", crontab=crontab("0 9 * * *"))
    imported(*ALL)
    gone.delete()
    off.enabled = False
    off.save()
    found = imported(*ALL)
    assert "duebox schedules cancel 'celery-beat:gone'" in found["gone"]["reason"]
    assert "duebox schedules cancel 'celery-beat:off'" in found["off"]["reason"]
    assert Schedule.objects.filter(status="scheduled").count() == 2


def test_a_dry_run_reports_the_same_and_changes_nothing(imported, add, crontab, beat):
    add("report", crontab=crontab("0 9 * * *"))
    dry = imported(*ALL, "--disable", "--dry-run")
    assert not Schedule.objects.exists()
    assert beat.PeriodicTask.objects.get().enabled
    wet = imported(*ALL)
    assert {**dry["report"], "dry_run": False} == wet["report"]


def test_imported_rows_can_be_disabled_with_it(imported, add, crontab, beat):
    add("report", crontab=crontab("0 9 * * *"))
    add("evening", solar=beat.SolarSchedule.objects.create(event="sunset", latitude=48, longitude=2))
    imported(*ALL, "--disable", refused=True)
    assert dict(beat.PeriodicTask.objects.values_list("name", "enabled")) == {"report": False, "evening": True}


# Clock changes


def test_runs_that_celery_leaves_out_when_clocks_go_back_are_reported(imported, add, crontab):
    add("hourly", crontab=crontab("0 * * * *"))
    assert imported(*ALL)["hourly"]["differences"] == [
        {
            "change": "2027-10-31T01:00:00+00:00",
            "zone": PARIS,
            "clocks": "back",
            "celery": [],
            "duebox": ["2027-10-31T01:00:00+00:00"],  # 02:00 in Paris for the second time
        }
    ]


def test_rules_that_no_clock_change_touches_have_no_differences(imported, add, crontab, interval):
    add("morning", crontab=crontab("0 9 * * *"))
    add("utc", crontab=crontab("30 2 * * *", "UTC"))
    add("stock", interval=interval(30, "seconds"))
    add("days", interval=interval(3, "days"))
    assert {name: line["differences"] for name, line in imported(*ALL).items()} == {
        "morning": [], "utc": [], "stock": [], "days": [],
    }  # fmt: skip


def test_a_difference_is_what_celery_itself_says(imported, add, crontab):
    """Each run in the two days around the change is asked of Celery second by second, as beat does."""
    row = add("hourly", crontab=crontab("0 * * * *"))
    differences = imported(*ALL)["hourly"]["differences"]
    for change in (datetime(2027, 3, 28, 1, tzinfo=UTC), datetime(2027, 10, 31, 1, tzinfo=UTC)):
        start, end = change - timedelta(hours=6), change + timedelta(hours=6)
        asked = beat_runs(row.crontab.schedule, start, end)
        ours = [each.instant for each in between(_paris("0 * * * *"), start + timedelta(seconds=1), end)]
        [only] = [each for each in differences if each["change"] == change.isoformat()] or [
            {"celery": [], "duebox": []}
        ]
        assert sorted(set(asked) - set(ours)) == [datetime.fromisoformat(each) for each in only["celery"]]
        assert sorted(set(ours) - set(asked)) == [datetime.fromisoformat(each) for each in only["duebox"]]


def beat_runs(schedule, start, end):
    now = last = start
    schedule.nowfun = lambda: now.astimezone(schedule.tz)
    found = []
    while now < end:
        if now > last and schedule.is_due(last).is_due:
            found.append(now)
            last = now
        now += timedelta(seconds=5)
    return found


def _paris(text):
    return Timetable(rule=cron(text), zone=PARIS)


def test_the_text_form_shows_outcomes_reasons_notes_and_differences(manage, add, crontab, interval):
    add("hourly", crontab=crontab("0 * * * *"))
    add("off", crontab=crontab("0 9 * * *"), enabled=False)
    add("stock", interval=interval(30, "seconds"))
    text = manage("duebox", "import", "celery-beat", *ALL, "--dry-run")
    lines = text.splitlines()
    assert lines[0].split() == ["outcome", "row", "event", "rule", "next,", "local", "zone"]
    assert lines[1].startswith("created  hourly  task.due  ")
    assert "  off: disabled in django-celery-beat." in lines
    assert "  stock: Celery counts the interval from its last run, Duebox from midnight UTC of 1970-01-01." in lines
    assert (
        "  hourly, clocks go back at 2027-10-31 01:00 UTC: only Duebox runs it Sun 2027-10-31 02:00 (01:00 UTC)."
    ) in lines
    assert lines[-2:] == ["2 created, 1 skipped.", "Dry run: nothing was changed."]


def test_without_rows_it_says_so(manage):
    assert manage("duebox", "import", "celery-beat") == "No rows in django-celery-beat.\n"
