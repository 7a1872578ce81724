"""A new release of the zone database: what it moves is planned again, once, and nothing else is touched.

The new release is the one installed. The old one is the same for some zones; its Vancouver is that of 2025b, which
turned its clocks back on 2026-11-01, so that nine in the morning of November 15th was 17:00 and is now 16:00 UTC.
"""

from __future__ import annotations

import shutil
import threading
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

import duebox
from duebox.models import Event, Schedule, ScheduleLog
from duebox.schedules import tzdata_update as room
from duebox.schedules.tzdata_update import affected, rezone
from duebox.testing import travel
from duebox.when import CatchUp, Timetable, daily, days, hours, minutes, zones
from duebox.worker.connections import close_connections
from duebox.worker.maintenance import start_maintenance
from tests.app.people import Appointment, Person
from tests.app.planned import Birthdays, Reminders, declare, fired, live, revisions, schedule_log, statuses, utc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forget_plans")]
VANCOUVER = "America/Vancouver"
OLD_VANCOUVER = Path(__file__).parents[1] / "vectors" / "zones" / "2025b" / "America" / "Vancouver"
WALL = datetime(2026, 11, 15, 9)
BEFORE, AFTER = utc("2026-11-15 17:00"), utc("2026-11-15 16:00")
KEPT = ("Europe/London", "Asia/Tokyo", "America/New_York", "America/Denver", "UTC")


def built(folder, release, **replaced):
    """A release made in the house: some of the installed zones, others taken from other files."""
    source = Path(str(resources.files("tzdata").joinpath("zoneinfo")))
    for name in (*KEPT, VANCOUVER):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(replaced.get(name.split("/")[-1], source / name), target)
    return zones.from_folder(folder, release=release)


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    return built(tmp_path_factory.mktemp("2025b"), "2025b", Vancouver=OLD_VANCOUVER)


@pytest.fixture
def trip():
    with travel(utc("2026-06-01 00:00")) as traveller:
        yield traveller


@pytest.fixture
def written(trip, old):
    """Schedules something by the old release."""

    def write(at=WALL, zone=VANCOUVER, key="it", **options):
        with zones.using(old):
            return duebox.schedule("it.happened", at=at, zone=zone, key=key, **options)

    return write


def due(key="it"):
    return Schedule.objects.get(key=key).due_at


def happened():
    return [event.occurred_at for event in Event.objects.order_by("id")]


def test_the_two_releases_disagree_about_vancouver_only(old):
    new = zones.current()
    assert [name for name in (*KEPT, VANCOUVER) if old.fingerprint(name) != new.fingerprint(name)] == [VANCOUVER]


def test_what_the_new_release_moves_is_moved(written, trip):
    written()
    assert due() == BEFORE
    done = rezone("default")
    assert (done.zones, done.checked, done.moved, done.missed) == ({VANCOUVER: 1}, 1, 1, 0)
    assert done.release == zones.current().release
    assert due() == AFTER
    trip.run(timedelta(days=365))
    assert happened() == [AFTER]


def test_every_move_is_told_old_to_new_with_both_releases(written):
    written(about=("visit", 7))
    rezone("default")
    line = ScheduleLog.objects.get()
    assert (line.what, line.source, line.occurrence) == ("moved", "it", "2026-11-15T09:00")
    assert (line.due_before, line.due_after) == (BEFORE, AFTER)
    assert (line.aggregate_type, line.aggregate_id) == ("visit", "7")
    assert line.note == f"zone database 2025b to {zones.current().release}"


def test_zones_whose_rules_are_the_same_are_not_even_read(written):
    for name in KEPT:
        written(key=name, zone=name)
    written()
    before = revisions()
    with CaptureQueriesContext(connection) as captured:
        rezone("default")
    assert {key for key, revision in revisions().items() if revision != before[key]} == {"it"}
    read = [query["sql"] for query in captured.captured_queries if "FOR UPDATE" in query["sql"]]
    assert read
    assert all(VANCOUVER in sql and "London" not in sql for sql in read)
    assert Schedule.objects.get(key="UTC").tz_release == "2025b"


def test_nothing_to_do_costs_one_query(written):
    written(zone="Europe/London")
    with CaptureQueriesContext(connection) as captured:
        assert rezone("default").zones == {}
    assert len(captured) == 1


def test_what_stays_where_it_is_gets_the_new_mark_without_a_word(written):
    written(at=datetime(2026, 7, 15, 9))
    before = due()
    done = rezone("default")
    row = Schedule.objects.get()
    assert (done.checked, done.moved, row.due_at, schedule_log()) == (1, 0, before, [])
    assert row.zone_rules == zones.current().fingerprint(VANCOUVER)
    assert row.tz_release == zones.current().release
    assert affected("default") == {}


def test_a_dry_run_lists_the_moves_and_writes_nothing(written):
    written()
    written(at=datetime(2026, 7, 15, 9), key="summer")
    before = list(Schedule.objects.order_by("id").values())
    done = rezone("default", dry_run=True)
    assert list(Schedule.objects.order_by("id").values()) == before
    assert schedule_log() == []
    assert (done.zones, done.checked, done.moved) == ({VANCOUVER: 2}, 2, 1)
    assert [(line.source, line.due_before, line.due_after) for line in done.moves] == [("it", BEFORE, AFTER)]
    assert rezone("default").moves == []


def test_a_second_time_there_is_nothing_left_to_do(written):
    written()
    rezone("default")
    before = revisions()
    again = rezone("default")
    assert (again.zones, again.checked, again.moved) == ({}, 0, 0)
    assert (revisions(), len(schedule_log())) == (before, 1)


def test_many_are_moved_batch_by_batch(written, monkeypatch):
    monkeypatch.setattr(room, "BATCH", 3)
    for number in range(7):
        written(key=f"it {number}")
    told = []
    assert rezone("default", progress=told.append).moved == 7
    assert told == [3, 3, 1]
    assert set(Schedule.objects.values_list("due_at", flat=True)) == {AFTER}
    assert ScheduleLog.objects.count() == 7


def test_what_is_paused_is_left_alone_and_right_when_it_resumes(written, trip):
    written()
    duebox.pause("it")
    before = revisions()
    assert rezone("default").checked == 0
    assert revisions() == before
    duebox.resume("it")
    assert due() == AFTER
    trip.run(timedelta(days=365))
    assert happened() == [AFTER]


def test_what_is_over_is_left_alone(written, trip):
    written()
    written(key="off")
    duebox.cancel("off")
    trip.run(utc("2026-12-01 00:00"))
    before = revisions()
    assert rezone("default").zones == {}
    assert revisions() == before


def test_what_is_moved_into_the_past_fires_at_once_within_its_grace(written, trip):
    written()
    trip.to(utc("2026-11-15 16:30"))
    assert rezone("default").moved == 1
    assert due() == utc("2026-11-15 16:30")
    trip.run(timedelta(days=30))
    assert happened() == [utc("2026-11-15 16:30")]


@pytest.mark.parametrize("policy", [{"grace": timedelta(minutes=10)}, {"late": "skip"}])
def test_what_is_moved_into_the_past_beyond_its_grace_is_recorded_as_missed(trip, old, policy):
    declare(Birthdays, **policy)
    with zones.using(old):
        ann = Person.objects.create(zone=VANCOUVER, born_on=WALL.date().replace(year=1990))
    trip.to(utc("2026-11-15 16:30"))
    done = rezone("default")
    assert (done.moved, done.missed) == (0, 1)
    line = ScheduleLog.objects.get()
    assert (line.what, line.occurrence, line.due_before) == ("missed", "2026", BEFORE)
    assert live(ann) == {"": utc("2027-11-15 16:00")}
    trip.run(timedelta(days=30))
    assert happened() == []


def test_a_single_one_that_is_missed_is_over(written, trip):
    written(late="skip")
    trip.to(utc("2026-11-15 16:30"))
    assert rezone("default").missed == 1
    assert Schedule.objects.get().status == "completed"
    assert schedule_log() == [("missed", "")]


@pytest.mark.parametrize(
    ("now", "fires"),
    [
        ("2026-11-15 15:59", [("-PT15M", utc("2026-11-15 15:59"))]),  # a minute before the anchor
        ("2026-11-15 16:30", []),  # by the new rules it is over
    ],
)
def test_a_reminder_moved_into_the_past_does_not_fire_after_its_anchor(trip, old, now, fires):
    declare(Reminders, offsets=(minutes(-15), hours(1)), zone=lambda self, row: VANCOUVER)
    with zones.using(old):
        booked = Appointment.objects.create(local_start="2026-11-15T09:00")
    assert live(booked) == {"-PT15M": utc("2026-11-15 16:45"), "PT1H": utc("2026-11-15 18:00")}
    trip.to(utc(now))
    rezone("default")
    trip.run(timedelta(days=1))
    assert fired() == [*fires, ("PT1H", utc("2026-11-15 17:00"))]
    assert schedule_log() == ([("moved", "-PT15M")] if fires else [("missed", "-PT15M")]) + [("moved", "PT1H")]


def test_instants_stay_where_they_are_and_calendar_days_from_them_follow_the_zone(trip, old):
    declare(Reminders, offsets=(hours(-2), days(-20)), zone=lambda self, row: VANCOUVER)
    with zones.using(old):
        booked = Appointment.objects.create(starts_at=BEFORE)
    assert live(booked) == {"-PT2H": utc("2026-11-15 15:00"), "-P20D": utc("2026-10-26 16:00")}
    assert rezone("default").moved == 1
    assert live(booked) == {"-PT2H": utc("2026-11-15 15:00"), "-P20D": utc("2026-10-26 17:00")}


@pytest.fixture
def westward(tmp_path):
    """A later release by which Vancouver lives an hour behind: nine in the morning is 17:00 UTC again."""
    return built(tmp_path, "2099a", Vancouver=OLD_VANCOUVER)


def test_what_fired_by_the_old_rules_does_not_fire_again_by_the_new(trip, westward):
    trip.to(utc("2026-11-10 00:00"))
    declare(Birthdays)
    ann = Person.objects.create(zone=VANCOUVER, born_on=WALL.date().replace(year=1990))
    duebox.schedule("it.happened", at=WALL, zone=VANCOUVER, key="it")
    duebox.schedule("it.happened", repeat=daily("09:00"), zone=VANCOUVER, key="daily")
    trip.run(utc("2026-11-15 16:30"))
    before = len(happened())
    with zones.using(westward):
        rezone("default")
        assert live(ann)[""] == utc("2027-11-15 17:00")
        assert due("daily") == utc("2026-11-16 17:00")
        trip.run(utc("2026-11-16 12:00"))
    assert len(happened()) == before


def test_a_number_of_firings_is_not_forgotten(written, trip):
    table = Timetable(rule=daily("09:00"), zone=VANCOUVER, remaining=3)
    written(at=None, zone=None, repeat=table)
    with zones.using(zones.from_folder(OLD_VANCOUVER.parents[1], release="2025b")):
        trip.run(utc("2026-06-01 18:00"))
    assert Schedule.objects.get().remaining == 2
    rezone("default")
    trip.run(timedelta(days=30))
    assert len(happened()) == 3


def test_an_older_release_does_not_undo_the_work_of_a_newer_one(written, trip, old):
    written()
    rezone("default")
    with zones.using(old):
        assert affected("default") == {}
        assert rezone("default").zones == {}
        assert due() == AFTER
        trip.run(timedelta(days=365))
    assert happened() == [AFTER]


def test_saving_a_row_by_an_older_release_does_not_undo_the_work_of_a_newer_one(trip, old):
    declare(Birthdays)
    with zones.using(old):
        ann = Person.objects.create(zone=VANCOUVER, born_on=WALL.date().replace(year=1990))
    rezone("default")
    assert live(ann) == {"": AFTER}
    with zones.using(old):
        ann.save()
    assert live(ann) == {"": AFTER}


def test_saving_a_row_by_the_new_release_moves_it_before_anybody_asks(trip, old):
    declare(Birthdays)
    with zones.using(old):
        ann = Person.objects.create(zone=VANCOUVER, born_on=WALL.date().replace(year=1990))
    ann.save()
    assert live(ann) == {"": AFTER}
    assert affected("default") == {}


def test_a_zone_that_the_new_release_does_not_know_is_left_alone_and_told(written, tmp_path, caplog):
    written()
    written(key="london", zone="Europe/London")
    new = built(tmp_path, "2099a", London=OLD_VANCOUVER)
    (tmp_path / VANCOUVER).unlink()
    new = zones.from_folder(tmp_path, release="2099a")
    with zones.using(new):
        done = rezone("default")
    assert done.zones == {"Europe/London": 1}
    assert due() == BEFORE
    assert f"zone unknown: zone={VANCOUVER}" in caplog.text


def test_one_that_cannot_be_read_does_not_hold_up_the_others(written, caplog):
    for key in ("a", "b", "c"):
        written(key=key)
    Schedule.objects.filter(key="b").update(intent={"when": {"rule": {"kind": "by the moon"}, "zone": VANCOUVER}})
    done = rezone("default")
    assert (due("a"), due("b"), due("c")) == (AFTER, BEFORE, AFTER)
    assert (done.moved, list(done.failed)) == (2, ["b"])
    assert "by the moon" in done.failed["b"]
    assert caplog.text.count("not planned again: key=b") == 1


def test_what_comes_due_before_anybody_looked_is_decided_by_the_new_rules(written, trip, westward):
    duebox.schedule("it.happened", at=WALL, zone=VANCOUVER, key="later by the new rules")
    with zones.using(westward):
        trip.run(AFTER)
        assert happened() == []
        trip.run(timedelta(hours=2))
    assert happened() == [BEFORE]


def test_what_is_moved_when_it_comes_due_is_told_too(trip, westward):
    duebox.schedule("it.happened", at=WALL, zone=VANCOUVER, key="it")
    with zones.using(westward):
        trip.run(AFTER)
    line = ScheduleLog.objects.get()
    assert (line.what, line.due_before, line.due_after) == ("moved", AFTER, BEFORE)


def test_a_worker_that_starts_follows_the_zone_database(written):
    written()
    start_maintenance("default")
    assert due() == AFTER


def test_plans_in_a_zone_are_followed_with_all_their_moments(trip, old):
    declare(Reminders, zone=lambda self, row: VANCOUVER, catch_up=CatchUp())
    with zones.using(old):
        Appointment.objects.create(local_start="2026-11-15T09:00")
    assert rezone("default").moved == 4
    trip.run(timedelta(days=365))
    assert fired() == [
        ("-P1D", utc("2026-11-14 16:00")),
        ("-PT2H", utc("2026-11-15 14:00")),
        ("-PT15M", utc("2026-11-15 15:45")),
        ("PT24H", utc("2026-11-16 16:00")),
    ]
    assert set(statuses().values()) == {"completed"}


@pytest.mark.django_db(transaction=True)
def test_one_that_somebody_holds_is_not_forgotten(old):
    with zones.using(old):
        for key in ("a", "b"):
            duebox.schedule("it.happened", at=datetime(2036, 11, 15, 9), zone=VANCOUVER, key=key)
    held, done = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Schedule.objects.select_for_update().get(key="a")
            held.set()
            done.wait(0.5)
        close_connections()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(10)
    rezone("default")
    done.set()
    holder.join(10)
    moved = datetime(2036, 11, 15, 16, tzinfo=UTC)
    assert (due("a"), due("b")) == (moved, moved)


@pytest.mark.django_db(transaction=True)
def test_two_workers_that_start_at_once_move_each_only_once(old):
    with zones.using(old):
        for number in range(50):
            duebox.schedule("it.happened", at=datetime(2036, 11, 15, 9), zone=VANCOUVER, key=f"it {number}")

    def start():
        rezone("default")
        close_connections()

    workers = [threading.Thread(target=start) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    assert set(Schedule.objects.values_list("due_at", flat=True)) == {datetime(2036, 11, 15, 16, tzinfo=UTC)}
    assert ScheduleLog.objects.count() == 50
