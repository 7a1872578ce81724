"""Functions that run by a rule: declared in code, scheduled by workers, and handlers in everything else."""

from __future__ import annotations

import logging
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command
from django.utils import timezone

import duebox
from duebox.checks import check_declared_types
from duebox.destinations.routes import read_route
from duebox.events import subscribers
from duebox.exceptions import InvalidContract, InvalidEvent, InvalidSchedule, InvalidSubscriber
from duebox.models import Attempt, Delivery, Event, Schedule, ScheduleLog
from duebox.schedules.fire import fire_due
from duebox.schedules.periodic import by_name, ensure_periodic, remove
from duebox.testing import drain, travel
from duebox.when import CatchUp, InvalidRule, Timetable, UnknownZone, cron, daily, every, once
from duebox.worker.maintenance import start_maintenance
from tests.support import eventually

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 3, 23, 12, tzinfo=UTC)  # the clocks of Paris go forward on Sunday
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def _forgotten_afterwards():
    before = set(by_name())
    yield
    for name in set(by_name()) - before:
        if name in subscribers.by_name():
            remove(name)
        else:
            del by_name()[name]


@pytest.fixture
def trip():
    with travel(MONDAY) as traveller:
        yield traveller


def declare(rule, name="report", runs=None, **options):
    """A function that notes when it runs."""
    runs = [] if runs is None else runs

    @duebox.periodic(rule, name=name, **options)
    def run():
        runs.append(timezone.now())

    return runs


def row(name="report"):
    return Schedule.objects.get(key=f"periodic:{name}")


# When it runs


def test_a_worker_that_starts_schedules_it_and_it_runs_on_the_clock_of_its_zone(trip):
    runs = declare(cron("0 9 * * 1-5"), zone="Europe/Paris")
    start_maintenance("default")
    trip.run(8 * DAY)
    local = [at.astimezone(ZoneInfo("Europe/Paris")).strftime("%a %d %H:%M") for at in runs]
    assert local == [f"{day} 09:00" for day in ("Tue 24", "Wed 25", "Thu 26", "Fri 27", "Mon 30", "Tue 31")]
    assert {at.hour for at in runs} == {8, 7}


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        (every(seconds=30), MONDAY + timedelta(seconds=30)),
        (daily("09:00"), datetime(2026, 3, 24, 9, tzinfo=UTC)),
        (Timetable(rule=daily("09:00"), zone="Asia/Tokyo"), datetime(2026, 3, 24, 0, tzinfo=UTC)),
    ],
)
def test_any_rule_or_timetable_is_taken(trip, settings, rule, first):
    settings.TIME_ZONE = "UTC"
    declare(rule)
    ensure_periodic("default")
    assert row().due_at == first


def test_an_interval_of_seconds_is_met_at_each_of_its_moments(trip):
    runs = declare(every(seconds=20))
    ensure_periodic("default")
    trip.run(timedelta(minutes=2))
    assert runs == [MONDAY + timedelta(seconds=20 * number) for number in range(1, 7)]


def test_a_zone_may_be_given_as_text_or_as_zoneinfo(trip):
    declare(daily("09:00"), "text", zone="Asia/Tokyo")
    declare(daily("09:00"), "object", zone=ZoneInfo("Asia/Tokyo"))
    ensure_periodic("default")
    assert row("text").due_at == row("object").due_at == datetime(2026, 3, 24, 0, tzinfo=UTC)


def test_workers_that_start_later_change_nothing(trip):
    declare(every(hours=1))
    ensure_periodic("default")
    before = row()
    trip.by(timedelta(minutes=10))
    ensure_periodic("default")
    assert (row().revision, row().updated_at, ScheduleLog.objects.count()) == (before.revision, before.updated_at, 0)


def test_a_changed_rule_is_planned_anew(trip):
    runs = declare(every(hours=1))
    ensure_periodic("default")
    trip.run(HOUR)
    remove("report")
    declare(daily("15:30"), zone="UTC", runs=runs)
    ensure_periodic("default")
    trip.run(DAY)
    assert runs == [MONDAY + HOUR, datetime(2026, 3, 23, 15, 30, tzinfo=UTC)]


def test_a_function_that_is_removed_from_the_code_stops_running(trip, caplog):
    caplog.set_level(logging.INFO, "duebox")
    runs = declare(every(hours=1))
    kept = declare(every(hours=1), "kept")
    ensure_periodic("default")
    trip.run(HOUR)
    remove("report")
    ensure_periodic("default")
    trip.run(2 * HOUR)
    assert (len(runs), len(kept), row().status) == (1, 3, "cancelled")
    line = ScheduleLog.objects.get(source="periodic:report")
    assert (line.what, line.note) == ("cancelled", "no longer declared in the code")
    assert "name=report" in caplog.text
    before = row().revision
    ensure_periodic("default")
    assert row().revision == before


def test_a_function_that_is_declared_again_goes_on_from_then(trip):
    runs = declare(every(hours=1))
    ensure_periodic("default")
    trip.run(HOUR)
    remove("report")
    ensure_periodic("default")  # a worker of an older release
    trip.run(2 * HOUR)
    declare(every(hours=1), runs=runs)
    ensure_periodic("default")  # a worker of the newer one
    trip.run(HOUR)
    assert runs == [MONDAY + HOUR, MONDAY + 4 * HOUR]


def test_what_somebody_paused_stays_paused(trip):
    declare(every(hours=1))
    ensure_periodic("default")
    duebox.pause("periodic:report")
    ensure_periodic("default")
    assert row().status == "paused"


def test_what_somebody_cancelled_stays_cancelled_until_it_is_restored(trip):
    runs = declare(every(hours=1))
    ensure_periodic("default")
    duebox.cancel("periodic:report")
    ensure_periodic("default")
    trip.run(2 * HOUR)
    assert (row().status, runs) == ("cancelled", [])
    duebox.restore("periodic:report")
    ensure_periodic("default")
    trip.run(HOUR)
    assert runs == [MONDAY + 3 * HOUR]


def test_a_paused_function_that_is_gone_is_cancelled_too(trip):
    declare(every(hours=1))
    ensure_periodic("default")
    duebox.pause("periodic:report")
    remove("report")
    ensure_periodic("default")
    assert row().status == "cancelled"


def test_functions_of_another_service_on_the_same_database_are_left_alone(trip, settings):
    settings.DUEBOX = {**settings.DUEBOX, "PRODUCER": "shop"}
    declare(every(hours=1))
    ensure_periodic("default")
    remove("report")
    settings.DUEBOX = {**settings.DUEBOX, "PRODUCER": "billing"}
    ensure_periodic("default")
    assert row().status == "scheduled"
    settings.DUEBOX = {**settings.DUEBOX, "PRODUCER": "shop"}
    ensure_periodic("default")
    assert row().status == "cancelled"


def test_schedules_of_others_are_left_alone(trip):
    duebox.schedule("bell.rung", at=MONDAY + HOUR, about=("periodic", "report"), key="periodic:else")
    ensure_periodic("default")
    assert row("else").status == "scheduled"


def test_a_rule_that_has_ended_keeps_no_other_function_from_being_scheduled(trip, caplog):
    declare(Timetable(rule=daily("09:00"), zone="UTC", end=datetime(2026, 1, 1)), "ended")
    declare(every(hours=1), "other")
    ensure_periodic("default")
    assert [each.key for each in Schedule.objects.all()] == ["periodic:other"]
    assert "name=ended" in caplog.text


def test_after_a_downtime_the_latest_occurrence_runs_once(trip):
    runs = declare(every(hours=1))
    ensure_periodic("default")
    trip.by(timedelta(hours=5, minutes=30))
    drain()
    trip.run(timedelta(minutes=30))
    assert runs == [MONDAY + 5.5 * HOUR, MONDAY + 6 * HOUR]
    assert ScheduleLog.objects.get(what="missed").occurrences == 4


@pytest.mark.parametrize(("mode", "count"), [("all", 5), ("none", 0)])
def test_what_becomes_of_missed_occurrences_can_be_chosen(trip, mode, count):
    runs = declare(every(hours=1), catch_up=CatchUp(mode=mode))
    ensure_periodic("default")
    trip.by(timedelta(hours=5, minutes=30))
    drain()
    assert len(runs) == count


@pytest.mark.django_db(transaction=True)
def test_a_real_worker_runs_it_and_two_run_each_occurrence_once(hire):
    seen = []

    @duebox.periodic(every(seconds=1), name="tick")
    def tick(event):
        seen.append((event.metadata["schedule"]["occurrence"], time.time()))

    hire(), hire()
    eventually(lambda: len(seen) >= 4, seconds=15)
    assert set(Counter(occurrence for occurrence, _ in seen).values()) == {1}
    moments = [datetime.fromisoformat(occurrence) for occurrence, _ in seen]
    assert moments == sorted(moments)
    assert all(at.microsecond == 0 for at in moments)


# What it is called with


def test_the_function_takes_the_event_or_nothing(trip):
    seen = []

    @duebox.periodic(every(hours=1), name="a")
    def with_event(event):
        seen.append((event.type, event.about, event.metadata["schedule"]["key"]))

    @duebox.periodic(every(hours=1), name="b")
    def with_default(event=None):
        seen.append(event.type)

    @duebox.periodic(every(hours=1), name="c")
    def without(limit=3):
        seen.append(limit.type)

    @duebox.periodic(every(hours=1), name="d")
    def only_by_name(*, limit=3):
        seen.append(limit)

    trip.run(HOUR, periodic=True)
    assert seen == [("periodic.a", ("periodic", "a"), "periodic:a"), "periodic.b", "periodic.c", 3]


def test_the_function_may_be_async(trip):
    seen = []

    @duebox.periodic(every(hours=1), name="bare")
    async def bare():
        seen.append("bare")

    @duebox.periodic(every(hours=1), name="with_event")
    async def with_event(event):
        seen.append(event.type)

    trip.run(HOUR, periodic=True)
    assert sorted(seen) == ["bare", "periodic.with_event"]


def test_the_function_itself_stays_what_it_is():
    @duebox.periodic(every(hours=1), name="it")
    def double(number=2):
        return 2 * number

    assert double(4) == 8


def test_the_name_is_by_default_module_and_function(trip):
    @duebox.periodic(every(hours=1))
    def Nightly():
        pass

    name = f"{__name__}.test_the_name_is_by_default_module_and_function.Nightly"
    assert by_name()[name].type == f"periodic.{name.lower()}"
    ensure_periodic("default")
    assert row(name).type == f"periodic.{name.lower()}"


# It is a handler


def test_it_has_history_retries_and_dead_letters_as_a_handler_has(trip):
    @duebox.periodic(every(hours=1), name="report", retry=duebox.Retry(limit=1, first=60.0, jitter=0))
    def report():
        raise LookupError("no paper")

    drained = trip.run(timedelta(minutes=90), raises=False, periodic=True)
    assert (drained.retried, drained.dead) == (1, 1)
    assert list(Attempt.objects.order_by("id").values_list("subscriber", "outcome")) == [
        ("report", "retried"),
        ("report", "dead"),
    ]
    assert Delivery.objects.dead().get().subscriber == "report"


def test_every_option_of_a_handler_is_passed_on():
    declare(every(hours=1), atomic=False, alone=True, ordered=True, on_dead="skip", aliases=["old"])
    found = subscribers.by_name()["report"]
    assert (found.atomic, found.alone, found.ordered, found.on_dead) == (False, True, True, "skip")
    assert found.aliases == ("old",)
    with pytest.raises(TypeError, match="colour"):
        declare(every(hours=1), "other", colour="blue")


def test_with_order_one_run_waits_for_the_one_before(trip):
    running = []

    @duebox.periodic(every(hours=1), name="report", ordered=True, on_dead="skip")
    def report(event):
        running.append(event.metadata["schedule"]["occurrence"][11:16])
        return duebox.Snooze(timedelta(minutes=90)) if len(running) == 1 else None

    trip.run(3 * HOUR, periodic=True)
    assert running == ["13:00", "13:00", "14:00", "15:00"]


# Who else hears of it


def test_handlers_of_patterns_do_not_get_its_events_and_one_that_names_the_type_does(trip, on):
    heard = []
    for number, pattern in enumerate(("*", "periodic.*", "*.report", "periodic.report")):
        on(pattern, name=f"handler{number}")(lambda event, by=pattern: heard.append(by))
    declare(every(hours=1))
    trip.run(HOUR, periodic=True)
    assert heard == ["periodic.report"]


def test_routes_to_destinations_do_not_take_its_events_unless_they_say_so():
    def takes(match):
        return read_route({"match": match, "to": "bus"}, {"bus": {}}).may_take("periodic.report")

    assert [match for match in ("*", "*.report", {"event_type": [{"suffix": "report"}]}) if takes(match)] == []
    assert takes("periodic.*")


def test_nobody_can_emit_schedule_or_declare_its_events_by_hand():
    with pytest.raises(InvalidEvent, match="begins with a prefix that is reserved for Duebox"):
        duebox.emit("periodic.report")
    with pytest.raises(InvalidEvent, match="begins with a prefix that is reserved for Duebox"):
        duebox.schedule("periodic.report", at=timezone.now() + HOUR)
    with pytest.raises(InvalidContract, match="'periodic', which is reserved for Duebox"):
        duebox.event("periodic.report_made")(type("ReportMade", (), {}))


def test_no_check_misses_a_declaration_of_its_type(settings, on):
    settings.DUEBOX = {**settings.DUEBOX, "UNDECLARED": "refuse"}
    declare(every(hours=1))
    assert not [each for each in check_declared_types(None) if "report" in each.msg]
    on("periodic.reprot", name="misspelled")(lambda event: None)
    assert [each.hint for each in check_declared_types(None) if "reprot" in each.msg]


def test_a_worker_whose_code_does_not_know_the_function_leaves_the_run_to_one_that_does(trip):
    runs = declare(every(hours=1))
    ensure_periodic("default")
    function = by_name()["report"]
    remove("report")
    trip.by(HOUR)
    assert fire_due("default").events == 1
    drain()
    assert runs == []
    duebox.periodic(function.rule, name="report")(function.function)
    drain()
    assert runs == [MONDAY + HOUR]


def test_it_is_listed_with_the_schedules_of_the_project(trip, capsys):
    declare(every(hours=12))
    ensure_periodic("default")
    assert [one.at for one in duebox.upcoming(key="periodic:report", days=1)] == [MONDAY + 12 * HOUR]
    call_command("duebox", "preview", "--days", "1")
    assert "periodic:report" in capsys.readouterr().out


# Mistakes


@pytest.mark.parametrize(
    ("rule", "error", "told"),
    [
        (lambda: daily, InvalidSchedule, r"needs a rule and was given .*; write @duebox.periodic\(every\(hours=1\)\)"),
        (lambda: "0 9 * * *", InvalidSchedule, "needs a rule"),
        (lambda: timedelta(hours=1), InvalidSchedule, "needs a rule"),
        (lambda: cron("0 25 * * *"), InvalidRule, "0 25"),
        (lambda: once(datetime(2030, 1, 1)), InvalidSchedule, "happens once; call duebox.schedule"),
        (lambda: Timetable(rule=once(datetime(2030, 1, 1))), InvalidSchedule, "happens once"),
    ],
)
def test_a_bad_rule_is_refused_where_it_is_declared(rule, error, told):
    with pytest.raises(error, match=told):
        declare(rule())
    assert "report" not in by_name()


def test_the_bare_decorator_is_refused_with_the_way_to_write_it():
    with pytest.raises(InvalidSchedule, match=r"write @duebox.periodic\(every\(hours=1\)\)"):

        @duebox.periodic
        def report():
            pass


def test_other_mistakes_are_refused_where_they_are_made():
    with pytest.raises(UnknownZone, match="did you mean Europe/Paris"):
        declare(daily("09:00"), zone="Europe/Pairs")
    with pytest.raises(InvalidSchedule, match="is not a policy"):
        declare(daily("09:00"), catch_up="all")
    with pytest.raises(InvalidSubscriber, match="letters, digits"):
        declare(daily("09:00"), "not a name!")

    def greedy(event, other):
        pass

    with pytest.raises(InvalidSubscriber, match="called with the event, or with nothing"):
        duebox.periodic(daily("09:00"))(greedy)


def test_a_name_that_is_taken_is_refused_with_both_places():
    declare(daily("09:00"))

    @duebox.on("bell.rung", name="bell")
    def bell(event):
        pass

    with pytest.raises(InvalidSubscriber, match=r"'report' .* taken by .*declare.*run; give .*other another one"):

        @duebox.periodic(daily("10:00"), name="report")
        def other():
            pass

    with pytest.raises(InvalidSubscriber, match=r"'REPORT' .* taken by"):  # its events would have the same type
        duebox.periodic(daily("10:00"), name="REPORT")(bell)
    with pytest.raises(InvalidSubscriber, match="taken by"):  # two of a loop
        declare(daily("09:00"))
    with pytest.raises(InvalidSubscriber, match="'bell' is taken by"):
        declare(daily("09:00"), "bell")
    subscribers.remove("bell")
    assert list(by_name()) == ["report"]


def test_one_function_may_run_by_two_rules_under_two_names(trip):
    runs = []

    @duebox.periodic(daily("09:00"), zone="UTC", name="morning")
    @duebox.periodic(daily("17:00"), zone="UTC", name="evening")
    def greet():
        runs.append(timezone.now().hour)

    trip.run(DAY, periodic=True)
    assert runs == [17, 9]


def test_a_module_that_is_imported_again_declares_the_same_functions_again():
    source = "import duebox\nfrom duebox.when import every\n@duebox.periodic(every(hours={}))\ndef report(): pass\n"
    for hours in (1, 2):
        exec(source.format(hours), {"__name__": "shop.handlers"})
    assert by_name()["shop.handlers.report"].rule == every(hours=2)


# In tests


def test_in_a_test_it_runs_only_if_it_is_asked_for(trip):
    runs, others = declare(every(hours=1)), declare(every(hours=1), "shop.other")
    trip.run(2 * HOUR)
    assert (runs, others, Schedule.objects.count()) == ([], [], 0)
    trip.run(2 * HOUR, periodic="report")
    assert (len(runs), len(others)) == (2, 0)
    trip.run(2 * HOUR, periodic=["shop.*"])
    assert (len(runs), len(others)) == (2, 2)
    trip.run(2 * HOUR, periodic=True)
    assert (len(runs), len(others)) == (4, 4)
    trip.run(2 * HOUR)
    assert (len(runs), len(others)) == (4, 4)
    assert not Schedule.objects.scheduled().exists()


def test_a_name_that_no_function_has_is_refused(trip):
    declare(every(hours=1))
    with pytest.raises(InvalidSchedule, match="No periodic function is named 'rep'; there are: report"):
        trip.run(HOUR, periodic="rep")


def test_what_a_worker_has_scheduled_goes_on_after_a_run_that_asked_for_it(trip):
    runs = declare(every(hours=1))
    ensure_periodic("default")
    trip.run(HOUR, periodic=True)
    trip.run(HOUR)
    assert len(runs) == 2


def test_after_an_error_nothing_is_left_scheduled(trip):
    @duebox.periodic(every(hours=1), name="report")
    def report():
        raise LookupError("no paper")

    with pytest.raises(LookupError):
        trip.run(DAY, periodic=True)
    assert trip.now == MONDAY + HOUR
    assert not Schedule.objects.scheduled().exists()
    assert Event.objects.count() == 1
