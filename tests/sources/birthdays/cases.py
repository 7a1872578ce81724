from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import tzdata
from birthdays.events import CallDue
from birthdays.models import Greeting, Person
from django.db import transaction
from django.utils import timezone
from play import FOLDER, Process, case, command, eventually, manage, process, raised, worker

import duebox
from duebox.exceptions import InvalidEvent
from duebox.models import Attempt, Delivery, Event, Schedule, ScheduleLog
from duebox.testing import drain, travel
from duebox.when import CatchUp, Timetable, UnknownZone, daily, zones

ZONES = (
    "Pacific/Kiritimati", "Pacific/Auckland", "Australia/Lord_Howe", "Asia/Tokyo", "Asia/Kathmandu", "Asia/Tehran",
    "Africa/Cairo", "Europe/Berlin", "Europe/London", "America/St_Johns", "America/New_York", "America/Sao_Paulo",
    "America/Los_Angeles", "Pacific/Honolulu",
)  # fmt: skip
DAYS = (date(1990, 3, 14), date(2000, 2, 29))


def greeted(name: str = "") -> list[datetime]:
    rows = Greeting.objects.filter(name=name) if name else Greeting.objects.all()
    return list(rows.order_by("at").values_list("at", flat=True))


@case("S2", "28 people in 14 zones are greeted at their own nine o'clock, three years long", rolled_back=True)
def three_years() -> None:
    with travel(datetime(2027, 1, 10, tzinfo=UTC)) as clock:
        people = [Person.objects.create(name=f"{zone} {day}", born_on=day, zone=zone) for zone in ZONES for day in DAYS]
        clock.run(datetime(2030, 1, 1, tzinfo=UTC))
    expected = Counter()
    for person in people:
        for year in (2027, 2028, 2029):
            leap = (person.born_on.month, person.born_on.day) == (2, 29) and year != 2028
            day = date(year, 2, 28) if leap else person.born_on.replace(year=year)
            nine = datetime(day.year, day.month, day.day, 9, tzinfo=ZoneInfo(person.zone))
            expected[person.name, nine.astimezone(UTC)] += 1
    assert Counter(Greeting.objects.values_list("name", "at")) == expected


@case("S1", "one instant, many nines: people of four zones are greeted hours apart", rolled_back=True)
def hours_apart() -> None:
    with travel(datetime(2027, 3, 13, tzinfo=UTC)) as clock:
        for zone in ("Asia/Tokyo", "Europe/London", "America/New_York", "Pacific/Honolulu"):
            Person.objects.create(name=zone, born_on=DAYS[0], zone=zone)
        clock.run(timedelta(days=3))
    assert [moment.hour for moment in greeted()] == [0, 9, 13, 19]


@case("S3", "a time that clocks skip or repeat is decided by policy, and marked", rolled_back=True)
def gaps() -> None:
    with travel(datetime(2027, 3, 12, tzinfo=UTC)):
        night = Timetable(rule=daily("02:30"), zone="America/New_York")
        duebox.schedule(CallDue(name="shift"), repeat=night, key="shift")
        skipping = Timetable(rule=daily("02:30"), zone="America/New_York", gap="skip")
        duebox.schedule(CallDue(name="skip"), repeat=skipping, key="skip")
        twice = Timetable(rule=daily("01:30"), zone="America/New_York", fold="both", start=datetime(2027, 11, 6))
        duebox.schedule(CallDue(name="both"), repeat=twice, key="both")
        moved = [one for one in duebox.upcoming(key="shift", days=4) if one.marks]
        assert [(one.local, one.at.hour, one.at.minute, one.marks) for one in moved] == [
            ("2027-03-14T02:30", 7, 30, ("gap_shifted_forward",))
        ]
        assert "2027-03-14T02:30" not in [one.local for one in duebox.upcoming(key="skip", days=4)]
        november = duebox.upcoming(key="both", start=datetime(2027, 11, 7, tzinfo=UTC), days=1)
        assert [one.local for one in november] == ["2027-11-07T01:30"] * 2


@case("S3", "a new release of the zone database moves what it changes, and nothing else")
def zone_release() -> None:
    at = datetime(timezone.now().year + 2, 7, 1, 9)
    for zone in ("America/New_York", "Europe/Paris"):
        duebox.schedule(CallDue(name=zone), at=at, zone=zone, key=f"zone:{zone}")
    before = {row.key: row.due_at for row in Schedule.objects.filter(key__startswith="zone:")}
    release = FOLDER / "release"
    shutil.copytree(Path(tzdata.__file__).parent / "zoneinfo", release)
    shutil.copy(release / "Etc" / "GMT-1", release / "Europe" / "Paris")  # France gives up summer time
    with zones.using(zones.from_folder(release, release="2099a")):
        from django.core.management import call_command

        call_command("duebox", "plan", "--tzdata", stdout=sys.stderr)
    after = {row.key: row.due_at for row in Schedule.objects.filter(key__startswith="zone:")}
    assert after["zone:America/New_York"] == before["zone:America/New_York"]
    assert after["zone:Europe/Paris"] - before["zone:Europe/Paris"] == timedelta(hours=1)
    assert ScheduleLog.objects.get(source="zone:Europe/Paris", what="moved").note.startswith("zone database")
    for key in after:
        duebox.cancel(key)


@case("S5", "who moves from New York to Tokyo a second before nine is greeted, once", rolled_back=True)
def eastward() -> None:
    with travel(datetime(2027, 3, 14, 12, 59, 59, tzinfo=UTC)) as clock:
        person = Person(name="traveller", born_on=DAYS[0], zone="America/New_York")
        with travel(datetime(2027, 1, 1, tzinfo=UTC)):
            person.save()
        person.zone = "Asia/Tokyo"
        person.save()
        clock.run(timedelta(days=300))
    assert greeted("traveller") == [datetime(2027, 3, 14, 12, 59, 59, tzinfo=UTC)]


@case("S5", "who moves west waits for nine there; who was greeted is not greeted again", rolled_back=True)
def westward() -> None:
    with travel(datetime(2027, 1, 1, tzinfo=UTC)) as clock:
        west = Person.objects.create(name="west", born_on=DAYS[0], zone="Europe/Berlin")
        done = Person.objects.create(name="done", born_on=DAYS[0], zone="Asia/Tokyo")
        clock.run(datetime(2027, 3, 14, 7, 30, tzinfo=UTC))
        for person in (west, done):
            person.zone = "Pacific/Honolulu"
            person.save()
        clock.run(timedelta(days=3))
    assert greeted("west") == [datetime(2027, 3, 14, 19, tzinfo=UTC)]
    assert greeted("done") == [datetime(2027, 3, 14, 0, tzinfo=UTC)]


@case("S5", "another birthday moves the greeting; none, or a deleted person, takes it back", rolled_back=True)
def other_day() -> None:
    with travel(datetime(2027, 3, 1, tzinfo=UTC)) as clock:
        moved, cleared, gone = (Person.objects.create(name=name, born_on=DAYS[0]) for name in ("moved", "none", "gone"))
        moved.born_on = date(1990, 3, 20)
        moved.save()
        cleared.born_on = None
        cleared.save()
        gone.delete()
        clock.run(timedelta(days=30))
    assert Counter(Greeting.objects.values_list("name", flat=True)) == {"moved": 1}
    assert greeted("moved") == [datetime(2027, 3, 20, 9, tzinfo=UTC)]


@case("S5", "a zone that does not exist is refused with the nearest name", rolled_back=True)
def bad_zone() -> None:
    assert "Europe/Paris" in raised(
        UnknownZone, lambda: Person.objects.create(name="x", born_on=DAYS[0], zone="Europe/Pairs")
    )
    person = Person(name="x", zone="Europe/Pairs")
    from django.core.exceptions import ValidationError

    assert "Europe/Paris" in raised(ValidationError, person.full_clean)


@case("S8", "after five days without a scheduler: the latest, all, none, or those of a window", rolled_back=True)
def downtime() -> None:
    policies = {
        "latest": CatchUp(mode="latest"),
        "all": CatchUp(mode="all"),
        "none": CatchUp(mode="none"),
        "window": CatchUp(mode="all", window=timedelta(days=2)),
    }
    with travel(datetime(2027, 6, 1, 8, tzinfo=UTC)) as clock:
        for name, policy in policies.items():
            duebox.schedule(CallDue(name=name), repeat=daily("09:00"), zone="UTC", key=name, catch_up=policy)
        clock.by(timedelta(days=5, hours=-1))
        drain()
    fired = Counter(Greeting.objects.values_list("name", flat=True))
    assert fired == {"latest": 1, "all": 5, "window": 2}, fired
    missed = {line.source: line.occurrences for line in ScheduleLog.objects.filter(what="missed")}
    assert missed == {"latest": 4, "none": 5, "window": 3}, missed


@case(
    "O2",
    "an event tells when it was made, when it was due, when it ran, how often, and why it failed",
    rolled_back=True,
)
def audit_trail() -> None:
    start = datetime(2027, 6, 1, tzinfo=UTC)
    with travel(start) as clock:
        duebox.schedule(CallDue(name="busy", failures=1), at=start + timedelta(hours=1), key="busy")
        clock.run(timedelta(hours=2), raises=False)
    row = Schedule.objects.with_state().get(key="busy")
    event = row.last_event()
    first, second = Attempt.objects.filter(event_id=event.id).order_by("number")
    assert (row.state, event.occurred_at) == ("completed", start + timedelta(hours=1))
    assert event.metadata["schedule"]["due"].startswith("2027-06-01T01:00:00")
    assert (first.outcome, second.outcome) == ("retried", "delivered")
    assert "TimeoutError: nobody picks up" in first.note


@case("E7", "a command is no name for an event; the fact that it leads to is proposed", rolled_back=True)
def undeclared() -> None:
    assert "call.due" in raised(InvalidEvent, lambda: duebox.emit("call.do", {"name": "x"}))


@case("D10", "publish_events polls, catches up at its start, and stops at SIGTERM")
def poll_loop() -> None:
    duebox.schedule(CallDue(name="missed meanwhile"), after=timedelta(seconds=0.2))
    time.sleep(0.5)
    options = ("--poll-interval=60", "--batch-size=100")
    with process("python", "manage.py", "publish_events", *options) as scheduler:
        eventually(lambda: greeted("missed meanwhile"))
        duebox.emit(CallDue(name="told at once"))
        eventually(lambda: greeted("told at once"), 10)
        assert scheduler.stop(signal.SIGTERM) == 0


@case("S8", "100 due at one instant, two workers: each once, within seconds")
def crowd() -> None:
    with worker() as one, worker() as two:
        instant = timezone.now() + timedelta(seconds=10)
        with transaction.atomic():
            for number in range(100):
                duebox.schedule(CallDue(name=f"crowd {number}"), at=instant)
        eventually(lambda: Greeting.objects.filter(name__startswith="crowd ").count() >= 100, 30)
        time.sleep(0.3)
        assert (one.process.poll(), two.process.poll()) == (None, None)
    counted = Counter(Greeting.objects.filter(name__startswith="crowd ").values_list("name", flat=True))
    assert (len(counted), set(counted.values())) == (100, {1})
    assert not Event.objects.filter(data__name__startswith="crowd ", occurred_at__lt=instant).exists()
    late = max(Greeting.objects.filter(name__startswith="crowd ").values_list("at", flat=True)) - instant
    assert late < timedelta(seconds=10), late


@case("D11", "kill -9 in the middle of 400: all of them are done, each once")
def killed() -> None:
    duebox.emit_many([CallDue(name=f"killed {number}") for number in range(400)])
    victim = Process("python", "manage.py", "duebox", "worker", "--batch-size", "20", "--threads", "1")
    eventually(lambda: Greeting.objects.filter(name__startswith="killed ").count() > 20)
    victim.stop(signal.SIGKILL)
    with worker():
        eventually(lambda: not Delivery.objects.exists(), 30)
    counted = Counter(Greeting.objects.filter(name__startswith="killed ").values_list("name", flat=True))
    assert (len(counted), set(counted.values())) == (400, {1})


@case("D10", "as a Lambda function on a timer: it answers with counts")
def serverless() -> None:
    duebox.emit_many([CallDue(name="by lambda") for _ in range(7)])
    code = (
        "import json; from duebox.integrations.lambda_handler import handler; "
        "context = type('Context', (), {'get_remaining_time_in_millis': lambda self: 20000})(); "
        "print(json.dumps(handler({}, context)))"
    )
    counts = json.loads(command("python", "-c", code).strip().splitlines()[-1])
    assert counts["delivered"] == 7
    assert len(greeted("by lambda")) == 7


@case("D4", "retries that are used up make a dead letter, which a command shows and retries")
def dead_letter() -> None:
    duebox.emit(CallDue(name="dead", failures=3))
    with worker():
        eventually(lambda: Delivery.objects.dead().exists())
    assert "nobody picks up" in manage("duebox", "deliveries", "list", "--state", "dead")
    Person.objects.create(name="picks up again")
    manage("duebox", "deliveries", "retry", "--handler", "call")
    manage("duebox", "once")
    assert len(greeted("dead")) == 1
