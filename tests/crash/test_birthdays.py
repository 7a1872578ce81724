"""A year in the life of 10,000 people in 40 zones, with three workers, through simulated time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import date, datetime
from itertools import groupby

import pytest
from django.db import connection, transaction
from django.db.models import Min

import duebox
from duebox.models import Attempt, Delivery, Event, Schedule, ScheduleLog
from duebox.testing import Traveller, travel
from tests.app.guests import Greeting, Guest
from tests.crash.time_app import declared
from tests.crash.time_stage import Talker, TimeProcesses
from tests.crash.time_year import END, NINE, START, ZONES, Edit, Fate, Greet, Person, edit_lives, fate_of, people

pytestmark = [pytest.mark.crash, pytest.mark.soak, pytest.mark.django_db(transaction=True)]

WORKERS = 3


@pytest.fixture
def stage(transactional_db: None) -> Iterator[TimeProcesses]:
    started = TimeProcesses()
    yield started
    started.end()


@pytest.fixture
def no_wait_for_the_disk(transactional_db: None) -> Iterator[None]:
    """Whether a commit survives a crash is asked elsewhere; here it would cost the wait of a whole year."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    connection.close()  # takes effect for those who connect from now on
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} RESET synchronous_commit")
    connection.close()


@pytest.fixture
def birthdays() -> Iterator[type[duebox.Plan]]:
    with declared() as (plan, _):
        yield plan


@pytest.mark.usefixtures("no_wait_for_the_disk")
def test_a_year_of_birthdays(
    stage: TimeProcesses, birthdays: type[duebox.Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    luck = random.Random(20270220)
    everybody = people(10_000, luck)
    edits = edit_lives(everybody, moves=1_000, dates=1_000, luck=luck)
    assert len(ZONES) == 40
    assert len({(person.born.month, person.born.day) for person in everybody}) == 366
    runners = stage.runners(WORKERS)

    started = time.monotonic()
    with travel(START) as traveller:
        Guest.objects.bulk_create(Guest(id=one.id, born=one.born, zone=one.zone) for one in everybody)
        synced = birthdays.sync(Guest.objects.all())
        assert (synced.planned, synced.failed) == (10_000, {})
        planned = time.monotonic()
        year = Year(traveller, runners, birthdays)
        year.live(edits)
    ended = time.monotonic()
    with capsys.disabled():
        print(f"\n{year} in {ended - started:.0f} s, planning {planned - started:.1f} s")
    judge(everybody)
    assert len(set(Greeting.objects.values_list("worker", flat=True))) == WORKERS, "a worker had nothing to do"
    assert ended - started < 900  # hangs are failures; how long it takes is printed, a slow machine is none


class Year:
    """Goes from one instant at which something happens to the next, with all workers at the same instant."""

    def __init__(self, traveller: Traveller, runners: list[Talker], plan: type[duebox.Plan]) -> None:
        self._traveller = traveller
        self._runners = runners
        self._plan = plan
        self._editing = self._working = 0.0
        self._steps = 0

    def __str__(self) -> str:
        parts = f"workers {self._working:.0f} s, edits {self._editing:.0f} s"
        return f"{Greeting.objects.count()} greetings at {self._steps} instants ({parts})"

    def live(self, edits: list[Edit]) -> None:
        to_come = [(at, list(some)) for at, some in groupby(edits, key=lambda edit: edit.at)][::-1]
        while True:
            due = next_due()
            at = min([due, *(moment for moment, _ in to_come[-1:])])
            if at > END:
                return
            self._traveller.to(at)
            if to_come and to_come[-1][0] == at:
                self._edit(to_come.pop()[1])
                due = next_due()
            if due <= at:
                self._work(at)

    def _edit(self, edits: list[Edit]) -> None:
        started = time.monotonic()
        with transaction.atomic():
            for edit in edits:
                self._edit_one(edit)
            if grouped := [edit.person for edit in edits if edit.group]:
                self._plan.sync(Guest.objects.filter(pk__in=grouped))
        self._editing += time.monotonic() - started

    def _edit_one(self, edit: Edit) -> None:
        changed = {"zone": edit.zone} if edit.zone else {"born": edit.born}
        if edit.group:
            Guest.objects.filter(pk=edit.person).update(**changed)
            return
        guest = Guest.objects.get(pk=edit.person)
        for name, value in changed.items():
            setattr(guest, name, value)
        guest.save()

    def _work(self, at: datetime) -> None:
        started = time.monotonic()
        for runner in self._runners:
            runner.tell(at.isoformat())
        for runner in self._runners:
            runner.answer()
        self._steps += 1
        self._working += time.monotonic() - started


def next_due() -> datetime:
    found = Schedule.objects.scheduled().aggregate(due=Min("due_at"))["due"]
    assert isinstance(found, datetime), "everybody has a birthday to come"
    return found


def judge(everybody: list[Person]) -> None:
    found = {int(row.aggregate_id): Fate([], [], coming(row)) for row in Schedule.objects.scheduled()}
    assert len(found) == len(everybody), f"{len(everybody) - len(found)} people have no birthday to come"
    for guest, year, at, zone in Greeting.objects.order_by("at").values_list("guest_id", "year", "at", "zone"):
        found[guest].greeted.append(Greet(year, at, zone))
    for row in ScheduleLog.objects.filter(what="missed").order_by("id"):
        found[int(row.aggregate_id)].missed.append(int(row.occurrence))
    expected = {person.id: fate_of(person) for person in everybody}
    wrong = [person for person in everybody if found[person.id] != expected[person.id]]
    assert not wrong, difference(wrong, found)
    total = sum(len(fate.greeted) for fate in found.values())
    assert Event.objects.count() == Attempt.objects.filter(outcome="delivered").count() == total
    assert not Delivery.objects.exists()
    assert_a_full_year(expected)


def coming(row: Schedule) -> Greet:
    assert row.due_at is not None
    return Greet(int(row.occurrence), row.due_at, row.zone)


def assert_a_full_year(fates: dict[int, Fate]) -> None:
    """Every rule had something to decide."""
    greeted = [greet for fate in fates.values() for greet in fate.greeted]
    at_once = [greet for greet in greeted if greet.local.time() != NINE]
    days = {greet.local.date() for greet in greeted}
    assert len(at_once) > 50
    assert sum(len(fate.missed) for fate in fates.values()) > 10
    assert sum(not fate.greeted for fate in fates.values()) > 100
    assert len(days) > 375
    assert date(2027, 2, 28) in days
    assert date(2028, 2, 29) in days


def difference(wrong: list[Person], found: dict[int, Fate]) -> str:
    lines = [f"{len(wrong)} people were not greeted as they should be, for example:"]
    for person in wrong[:5]:
        lines.append(person.story())
        for word, fate in (("expected", fate_of(person)), ("found", found[person.id])):
            lines += [f"    {word} {each}" for each in fate.greeted]
            lines += [f"    {word} nothing for {year}" for year in fate.missed]
            lines.append(f"    {word} next: {fate.next}")
        schedule_log = ScheduleLog.objects.filter(source=f"guests.birthdays:{person.id}").order_by("id")
        lines += [f"    schedule log {each}, {each.due_before} to {each.due_after}" for each in schedule_log]
    return "\n".join(lines)
