from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta

import pytest
from django.core.management.base import CommandError
from django.db import connection

import duebox
from duebox.contracts.enforce import Own
from duebox.schedules import plans
from duebox.testing import travel
from duebox.when import Closed, Timetable, anniversary, daily, every, monthly
from tests.app.models import Account

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)  # two days before clocks change in Europe


@pytest.fixture(autouse=True)
def clock():
    with travel(NOW) as traveller:
        yield traveller


@pytest.fixture
def standup():
    return duebox.schedule(
        "team.standup", repeat=daily("09:00"), zone="Europe/London", key="standup", about=("team", 7)
    )


@pytest.fixture
def backup():
    return duebox.schedule("backup.due", repeat=daily("01:30"), zone="Europe/London", key="backup")


@pytest.fixture
def plan_of_accounts(monkeypatch):
    monkeypatch.setattr(plans, "_plans", {})

    class Reviews(duebox.Plan):
        model = Account
        event = "account.review"

        def rule(self, row):
            return daily(f"{row.counter:02}:00")

    yield Reviews
    plans.remove("app.Reviews")


def as_json(text):
    return [json.loads(line) for line in text.splitlines()]


def test_what_will_fire_is_one_line_for_each_schedule(manage, standup):
    duebox.schedule("house.sold", at=datetime(2026, 3, 28, 9), zone="Asia/Tokyo", key="house")
    duebox.schedule("house.built", at=datetime(2026, 5, 1, 9), zone="Asia/Tokyo", key="later")
    shown = manage("duebox", "preview", "--days", "3").splitlines()
    assert [re.split("  +", line) for line in shown[:3]] == [
        ["next", "zone", "utc", "rule", "in 3 days", "event", "about", "key"],
        ["Sat 2026-03-28 09:00", "Asia/Tokyo", "2026-03-28 00:00", "Once, on 2026-03-28 at 09:00", "1", "house.sold",
         "house"],
        ["Sat 2026-03-28 09:00", "Europe/London", "2026-03-28 09:00", "Every day at 09:00", "3", "team.standup",
         "team:7", "standup"],
    ]  # fmt: skip
    assert shown[3:] == ["2 schedules, 4 occurrences within 3 days from 2026-03-27 12:00 UTC."]


def test_a_schedule_that_fires_often_takes_one_line_and_hides_no_other(manage, standup):
    duebox.schedule("tick.tock", repeat=every(minutes=1), key="ticks")
    ticks, _ = lines = as_json(manage("duebox", "preview", "--days", "365", "--json"))
    assert [(one["key"], one["count"]) for one in lines] == [("ticks", 1000), ("standup", 365)]
    assert (ticks["rule"], ticks["at"]) == ("Every minute", "2026-03-27T12:01:00+00:00")
    shown = manage("duebox", "preview", "--days", "365").splitlines()
    assert "  1000+  " in shown[1]
    assert shown[-1] == "2 schedules, 1365+ occurrences within 365 days from 2026-03-27 12:00 UTC."
    # Of one that has exactly so many, none is left out.
    duebox.cancel("ticks")
    duebox.schedule("tick.tock", repeat=Timetable(rule=every(minutes=1), remaining=1000), key="some")
    shown = manage("duebox", "preview", "--days", "365")
    assert "+" not in shown
    assert "1365 occurrences" in shown


def test_of_an_entity_or_a_key_what_is_far_away_is_shown_too(manage):
    duebox.schedule("house.sold", at=datetime(2027, 5, 1, 9), zone="Asia/Tokyo", key="house", about=("house", 1))
    for asked in (["--key", "house"], ["--about", "house:1"], ["--about", "house"]):
        [one] = as_json(manage("duebox", "preview", *asked, "--json"))
        assert (one["local"], one["count"]) == ("2027-05-01T09:00", 0)
        [one] = as_json(manage("duebox", "preview", *asked, "--occurrences", "--json"))
        assert one["local"] == "2027-05-01T09:00"
    assert manage("duebox", "preview", "--key", "house").endswith(
        "1 schedule, 0 occurrences within 7 days from 2026-03-27 12:00 UTC.\n"
    )
    assert manage("duebox", "preview", "--key", "house", "--occurrences").endswith("1 from 2026-03-27 12:00 UTC on.\n")
    assert "look further: --days" in manage("duebox", "preview", "--key", "house", "--days", "30")


def test_of_a_schedule_as_many_occurrences_are_shown_as_asked_for(manage, standup):
    words = ["--key", "standup", "--occurrences", "--json"]
    assert len(manage("duebox", "preview", *words).splitlines()) == 7
    assert len(as_json(manage("duebox", "preview", *words, "--limit", "20").rpartition("Only")[0])) == 20


def test_what_duebox_schedules_for_itself_is_shown_only_if_asked_for(manage, standup):
    duebox.schedule(Own("duebox.plans.reconcile"), repeat=every(hours=24), about=("upkeep", "plans"), key="duebox:own")
    for more in ([], ["--occurrences"]):
        assert "duebox:own" not in manage("duebox", "preview", *more)
        assert "duebox:own" in manage("duebox", "preview", *more, "--internal")
        assert "duebox:own" in manage("duebox", "preview", *more, "--key", "duebox:own")


def test_a_project_of_which_only_the_upkeep_fires_is_told_how_to_begin(manage):
    duebox.schedule(Own("duebox.plans.reconcile"), repeat=every(hours=24), about=("upkeep", "plans"), key="duebox:own")
    assert "No schedule is live. Call duebox.schedule()" in manage("duebox", "preview")


def test_what_became_of_the_last_occurrence_is_shown(manage, standup, on, clock):
    @on("team.standup", name="it", retry=duebox.Retry(limit=0))
    def fail(event):
        raise RuntimeError("nobody came")

    clock.run(timedelta(days=1), raises=False)
    lines = manage("duebox", "preview").splitlines()
    assert lines[0].split()[-1] == "last"
    assert lines[1].split()[-1] == "failed"


def test_what_is_left_to_fire_is_part_of_the_rule(manage, clock):
    table = Timetable(rule=daily("09:00"), zone="UTC", remaining=3)
    duebox.schedule("team.standup", repeat=table, key="few")
    clock.run(timedelta(days=1))
    [one] = as_json(manage("duebox", "preview", "--json"))
    assert (one["rule"], one["count"]) == ("Every day at 09:00; 2 more times", 2)


def test_a_schedule_looks_from_another_moment_on(manage, standup):
    duebox.schedule("house.sold", at=datetime(2026, 3, 28, 9), zone="Asia/Tokyo", key="house")
    [one] = as_json(manage("duebox", "preview", "--from", "2026-06-01", "--days", "2", "--json"))
    assert (one["key"], one["local"], one["count"]) == ("standup", "2026-06-01T09:00", 2)


def test_the_moment_of_looking_is_told_to_the_minute(manage, standup, clock):
    clock.by(timedelta(seconds=13, microseconds=123456))
    for more in ([], ["--occurrences"]):
        assert manage("duebox", "preview", *more).endswith("within 7 days from 2026-03-27 12:00 UTC.\n")


@pytest.fixture
def leave(start):
    """Reads so many lines of a command's output, goes away, and gives what it says about that and how it ended."""

    def read(lines, *words, **environment):
        process = start(*words, **environment)
        for _ in range(lines):
            assert process.stdout.readline()
        process.stdout.close()
        process.stdout = None  # for whoever cleans up
        return process.stderr.read(), process.wait(120)

    return read


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("lines", "more"), [(0, []), (1, ["--occurrences", "--limit", "20000", "--days", "365"])])
def test_a_reader_that_has_seen_enough_ends_it_in_silence(leave, lines, more, unbuffered):
    duebox.schedule("tick.tock", repeat=every(minutes=1), at=datetime.now(UTC) + timedelta(minutes=1), key="ticks")
    assert leave(lines, "duebox", "preview", *more, PYTHONUNBUFFERED=unbuffered) == ("", 141)


def test_occurrences_are_a_table_in_local_time_and_utc(manage, standup):
    assert manage("duebox", "preview", "--days", "3", "--occurrences").splitlines() == [
        "local                 zone           utc               event         about   key",
        "Sat 2026-03-28 09:00  Europe/London  2026-03-28 09:00  team.standup  team:7  standup",
        "Sun 2026-03-29 09:00  Europe/London  2026-03-29 08:00  team.standup  team:7  standup",
        "Mon 2026-03-30 09:00  Europe/London  2026-03-30 08:00  team.standup  team:7  standup",
        "3 within 3 days from 2026-03-27 12:00 UTC.",
    ]


def test_a_time_that_clocks_jump_over_is_marked(manage, backup):
    lines = manage("duebox", "preview", "--days", "3", "--occurrences").splitlines()
    assert lines[0].split() == ["local", "zone", "utc", "event", "key", "marks"]
    assert lines[2].split()[1:] == [
        "2026-03-29", "01:30", "Europe/London", "2026-03-29", "01:30", "backup.due", "backup", "gap_shifted_forward",
    ]  # fmt: skip


def test_a_time_that_clocks_show_twice_is_marked(manage, backup):
    shown = as_json(manage("duebox", "preview", "--from", "2026-10-25T00:00Z", "--days", "1", "--json"))
    assert [(one["at"], one["marks"]) for one in shown] == [("2026-10-25T00:30:00+00:00", ["fold_first"])]


def test_leap_days_and_closed_days_are_marked(manage):
    rule = monthly(28, at="10:00")  # in March 2026 a Saturday
    table = Timetable(rule=rule, zone="UTC", calendar="weekdays", closed=Closed.FORWARD)
    duebox.schedule("office.opened", repeat=table, key="office")
    duebox.schedule("birthday.came", repeat=anniversary(date(2000, 2, 29), at="09:00"), zone="UTC", key="leap")
    (closed,) = as_json(manage("duebox", "preview", "--key", "office", "--json"))
    assert (closed["at"], closed["marks"]) == ("2026-03-30T10:00:00+00:00", ["calendar_moved"])
    (leap,) = as_json(manage("duebox", "preview", "--key", "leap", "--days", "365", "--json"))
    assert (leap["local"], leap["marks"]) == ("2027-02-28T09:00", ["leap_moved"])


def test_json_is_one_schedule_or_occurrence_a_line_with_everything_there_is_to_know(manage, standup):
    [schedule] = as_json(manage("duebox", "preview", "--days", "1", "--json"))
    [occurrence] = as_json(manage("duebox", "preview", "--days", "1", "--occurrences", "--json"))
    assert schedule == {**occurrence, "rule": "Every day at 09:00", "count": 1, "more": False, "last_state": ""}
    assert [occurrence] == [
        {
            "at": "2026-03-28T09:00:00+00:00",
            "key": "standup",
            "occurrence": "2026-03-28T09:00",
            "type": "team.standup",
            "local": "2026-03-28T09:00",
            "zone": "Europe/London",
            "marks": [],
            "about": ["team", "7"],
            "plan": "",
        }
    ]


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["--about", "team:7"], {"standup"}),
        (["--key", "backup"], {"backup"}),
        (["--type", "backup.due"], {"backup"}),
        (["--type", "backup.due", "--about", "team:7"], set()),
        ([], {"standup", "backup"}),
    ],
)
def test_it_can_be_asked_of_one_entity_one_schedule_or_one_type(manage, standup, backup, words, keys):
    assert {one["key"] for one in as_json(manage("duebox", "preview", *words, "--json"))} == keys


def test_it_can_be_asked_of_one_plan(manage, plan_of_accounts):
    account = Account.objects.create(counter=9)
    duebox.schedule("other.thing", at=NOW + timedelta(hours=1))
    (one,) = as_json(manage("duebox", "preview", "--plan", "app.Reviews", "--days", "1", "--json"))
    assert (one["about"], one["plan"]) == (["app.account", str(account.pk)], "app.Reviews")


def test_a_plan_that_does_not_exist_is_refused_with_those_that_are_near(manage, plan_of_accounts):
    with pytest.raises(CommandError, match=r"No plan is named 'Review'; did you mean app.Reviews\?"):
        manage("duebox", "preview", "--plan", "Review")
    with pytest.raises(CommandError, match=r"No plan is named 'xyz'; there are: app.Reviews\."):
        manage("duebox", "preview", "--plan", "xyz")


def test_a_plan_that_the_code_has_no_more_still_shows_its_schedules(manage, plan_of_accounts, monkeypatch):
    Account.objects.create(counter=9)
    with monkeypatch.context() as patch:
        patch.setattr(plans, "_plans", {})
        assert as_json(manage("duebox", "preview", "--plan", "app.Reviews", "--json"))[0]["count"] == 7


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ("2026-06-01", "2026-06-01T05:00:00+00:00"),
        ("2026-06-01T02:30", "2026-06-01T08:00:00+00:00"),
        ("2026-06-01T02:30Z", "2026-06-01T03:00:00+00:00"),
        ("2026-06-01T02:30+02:00", "2026-06-01T01:00:00+00:00"),
    ],
)
def test_it_looks_from_a_date_or_a_time_which_is_the_projects_unless_it_says(manage, settings, given, first):
    settings.TIME_ZONE = "America/Chicago"
    duebox.schedule("tick.tock", repeat=every(hours=1), key="ticks")
    assert as_json(manage("duebox", "preview", "--from", given, "--days", "1", "--json"))[0]["at"] == first


def test_a_moment_that_cannot_be_read_is_refused_with_how_to_write_it(manage):
    with pytest.raises(CommandError, match="--from is 'tomorrow', not a time; write it as 2026-03-08T09:00:00"):
        manage("duebox", "preview", "--from", "tomorrow")


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--about", "42"], "'42' is not TYPE:ID, as in appointment:42"),
        (["--days", "0"], "'0' is not a whole number above 0"),
        (["--days", "40000"], "40000 days are more than a century; use 36525 or fewer"),
        (["--from", "9999-12-30"], "use a time in the years 2 to 9998"),
        (["--database", "nope"], "'nope'.*default, other"),
        (["--zone", "Europe/London"], "--zone belongs to a rule; add one: --cron, --rrule, --daily"),
        (["--daily", "09:00", "--key", "a"], "--key is for stored schedules, --daily tries a rule; leave one"),
        (["--daily", "09:00", "--cron", "* * * * *"], "not allowed with argument"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_repair(manage, words, refusal):
    with pytest.raises(CommandError, match=refusal):
        manage("duebox", "preview", *words)


def test_a_long_list_is_cut_and_says_so(manage, standup):
    assert manage("duebox", "preview", "--occurrences", "--limit", "2").splitlines()[-1] == (
        "The first 2 within 7 days from 2026-03-27 12:00 UTC; --limit shows more."
    )
    assert manage("duebox", "preview", "--occurrences", "--limit", "2", "--json").splitlines()[2:] == [
        "Only the first 2; --limit shows more."
    ]


def test_a_long_list_of_schedules_is_cut_and_says_so(manage):
    for number in range(3):
        duebox.schedule("house.sold", at=NOW + timedelta(hours=number + 1), key=f"house:{number}")
    assert manage("duebox", "preview", "--limit", "2").splitlines()[-1] == (
        "The first 2 schedules, 2 occurrences within 7 days from 2026-03-27 12:00 UTC; --limit shows more."
    )
    assert manage("duebox", "preview", "--limit", "2", "--json").splitlines()[2:] == [
        "Only the first 2; --limit shows more."
    ]


def test_what_is_overdue_is_still_to_come_and_asks_for_a_worker(manage, standup, clock):
    clock.by(timedelta(days=2))
    lines = manage("duebox", "preview", "--days", "1").splitlines()
    assert lines[1].startswith("Sat 2026-03-28 09:00")
    assert lines[-2] == "1 overdue: a worker fires them; start one: manage.py duebox worker"


def test_an_empty_project_is_told_how_to_begin(manage):
    first, second = manage("duebox", "preview").splitlines()
    assert first == "Nothing fires within 7 days from 2026-03-27 12:00 UTC."
    assert "duebox.schedule()" in second
    assert "plans.py" in second
    assert second.endswith("run: manage.py duebox plan")
    assert manage("duebox", "preview", "--json") == ""


def test_an_empty_span_names_what_comes_after_it(manage):
    duebox.schedule("house.sold", at=datetime(2026, 5, 1, 9), zone="Asia/Tokyo", key="house")
    assert manage("duebox", "preview", "--days", "1").splitlines() == [
        "Nothing fires within 1 day from 2026-03-27 12:00 UTC.",
        "The next is house.sold on Fri 2026-05-01 09:00 Asia/Tokyo; look further: --days 35",
    ]
    assert len(as_json(manage("duebox", "preview", "--days", "35", "--json"))) == 1


def test_filters_that_match_nothing_are_named(manage, standup):
    shown = manage("duebox", "preview", "--type", "no.such", "--about", "team:7")
    assert shown.endswith("No schedule matches; leave out --about and --type to see all.\n")


def test_a_schedule_at_rest_says_so(manage, standup):
    duebox.pause("standup")
    assert manage("duebox", "preview", "--key", "standup").endswith("Schedule 'standup' is paused.\n")


def test_after_the_last_one_there_is_only_what_came_before(manage):
    duebox.schedule("house.sold", at=datetime(2026, 5, 1, 9), zone="Asia/Tokyo")
    assert manage("duebox", "preview", "--from", "2027-01-01").endswith("leave out --from to see earlier ones.\n")


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_can_be_looked_at(manage, standup):
    assert manage("duebox", "preview", "--database", "other", "--json") == ""


def test_missing_tables_are_answered_with_the_migrate_command(manage):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE duebox_schedule RENAME TO hidden_schedule")
    with pytest.raises(CommandError, match=r"manage\.py migrate duebox"):
        manage("duebox", "preview")


@pytest.mark.django_db(databases=[])
def test_a_rule_is_tried_without_a_database(manage):
    assert manage("duebox", "preview", "--cron", "0 9 * * 1-5", "--zone", "Europe/London", "--limit", "2") == (
        "At 09:00 on Monday through Friday, Europe/London time.\n"
        "local                 utc\n"
        "Mon 2026-03-30 09:00  2026-03-30 08:00\n"
        "Tue 2026-03-31 09:00  2026-03-31 08:00\n"
    )


def test_a_tried_rule_is_shown_ten_times_unless_told_otherwise(manage):
    assert len(manage("duebox", "preview", "--daily", "09:00,17:30").splitlines()) == 12
    assert len(manage("duebox", "preview", "--daily", "09:00,17:30", "--days", "3", "--zone", "UTC").splitlines()) == 8


def test_a_recurrence_rule_counts_from_its_start(manage):
    words = ["--rrule", "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU", "--start", "2026-03-15T01:30", "--zone", "Europe/London"]
    shown = as_json(manage("duebox", "preview", *words, "--limit", "2", "--json"))
    assert shown[0] == {
        "at": "2026-03-29T01:30:00+00:00",
        "occurrence": "2026-03-29T01:30",
        "local": "2026-03-29T01:30",
        "zone": "Europe/London",
        "marks": ["gap_shifted_forward"],
    }
    assert shown[1]["local"] == "2026-04-12T01:30"


def test_a_recurrence_rule_without_a_start_is_refused_with_one(manage):
    with pytest.raises(CommandError, match="counts from its first local time; add one, such as --start 2026-01-05T09"):
        manage("duebox", "preview", "--rrule", "FREQ=DAILY")
    lines = "DTSTART:20260105T090000\nRRULE:FREQ=DAILY"
    assert len(as_json(manage("duebox", "preview", "--rrule", lines, "--limit", "1", "--json"))) == 1


def test_policies_and_a_start_can_be_tried(manage):
    words = ["--daily", "01:30", "--zone", "Europe/London", "--start", "2026-03-29", "--limit", "1", "--gap", "skip"]
    shown = manage("duebox", "preview", *words).splitlines()
    assert shown[0].endswith("; from 2026-03-29 at 00:00; times that clocks jump over are skipped.")
    assert shown[2].startswith("Mon 2026-03-30 01:30")


def test_a_tried_rule_looks_from_a_date_in_its_own_zone(manage):
    (one,) = as_json(
        manage(
            "duebox", "preview", "--daily", "00:00", "--zone", "Asia/Tokyo", "--from", "2026-06-01", "--days", "1",
            "--json",
        )
    )  # fmt: skip
    assert one["local"] == "2026-06-01T00:00"


def test_a_rule_that_has_ended_says_never(manage):
    words = ["--rrule", "FREQ=DAILY;COUNT=2", "--start", "2026-01-01T09:00"]
    assert "Never from 2026-03-27 12:00 UTC on" in manage("duebox", "preview", *words)
    assert manage("duebox", "preview", *words, "--json") == ""


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--cron", "0 9 * *"], "has 4 fields, not five"),
        (["--daily", "9 o'clock"], 'is "9 o\'clock", not a time of day; write it as 09:00'),
        (["--daily", "09:00", "--zone", "Europe/Lundon"], "did you mean Europe/London"),
        (["--daily", "09:00", "--gap", "skipp"], "did you mean 'skip'"),
        (["--daily", "09:00", "--start", "soon"], "--start is 'soon', not a time"),
        (["--rrule", "FREQ=SECONDLY", "--start", "2026-01-01"], "SECONDLY"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_with_the_repair(manage, words, refusal):
    with pytest.raises(CommandError, match=refusal):
        manage("duebox", "preview", *words)
