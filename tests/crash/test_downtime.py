"""Three days without a worker: which occurrences each catch-up policy fires; the schedule log has the others."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pytest

import duebox
from duebox.models import Delivery, Event, Schedule, ScheduleLog, Worker
from duebox.testing import travel
from duebox.when import CatchUp, daily, every
from tests.app.guests import Guest, Visit
from tests.crash.stage import wait_until
from tests.crash.time_app import Declared, declared
from tests.crash.time_stage import TimeProcesses, assert_handled_once

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

# In New York summer time begins on the 14th, in the middle of it.
LEFT = datetime(2027, 3, 12, 12, 0, tzinfo=UTC)
BACK = datetime(2027, 3, 15, 12, 10, tzinfo=UTC)
TYPES = ["bell.rung", "visit.reminder", "guest.birthday"]
HOURS = [LEFT + timedelta(hours=number) for number in range(1, 73)]
NINE_O_CLOCKS = [datetime(2027, 3, 12, 14, tzinfo=UTC), datetime(2027, 3, 13, 14, tzinfo=UTC),
                 datetime(2027, 3, 14, 13, tzinfo=UTC)]  # fmt: skip
EIGHT_IN_TOKYO = datetime(2027, 3, 13, 8)
NEXT_NINE = datetime(2027, 3, 15, 13, tzinfo=UTC)
NEXT_HOUR = datetime(2027, 3, 15, 13, tzinfo=UTC)


class Fate(NamedTuple):
    """What became of a schedule: the instants that fired and that were missed, in order, and the one to come."""

    fired: list[datetime]
    missed: list[datetime]
    next: datetime | None = None

    def __str__(self) -> str:
        fired, missed = (" ".join(f"{at:%d/%H:%M}" for at in some) or "nothing" for some in (self.fired, self.missed))
        return f"fired {fired}; missed {missed}; next {self.next}"


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


class Case(NamedTuple):
    """A policy, and how many of the late ones it fires: always the newest."""

    policy: CatchUp | None
    daily: int
    hourly: int
    once: int


CASES = {
    "default": Case(None, 1, 1, 1),
    "none": Case(CatchUp(mode="none"), 0, 0, 0),
    "none with grace": Case(CatchUp(mode="none", grace=timedelta(minutes=15)), 0, 1, 0),
    "latest": Case(CatchUp(mode="latest"), 1, 1, 1),
    "latest in a window": Case(CatchUp(mode="latest", window=hours(12)), 0, 1, 0),
    "all": Case(CatchUp(mode="all"), 3, 72, 1),
    "all in a window": Case(CatchUp(mode="all", window=hours(24)), 1, 24, 0),
    "all with a cap": Case(CatchUp(mode="all", cap=2), 2, 2, 1),
    "all in a window with a cap": Case(CatchUp(mode="all", window=hours(24), cap=2), 1, 2, 0),
}


@pytest.fixture
def stage(transactional_db: None) -> Iterator[TimeProcesses]:
    started = TimeProcesses()
    yield started
    started.end()


@pytest.fixture
def time_app() -> Iterator[Declared]:
    with declared() as found:
        yield found


def test_after_three_days_each_policy_fires_what_it_says_and_the_rest_is_recorded(
    stage: TimeProcesses, time_app: Declared
) -> None:
    expected: dict[str, Fate] = {}
    with travel(LEFT):
        for name, case in CASES.items():
            plan(f"daily {name}", repeat=daily("09:00"), zone="America/New_York", catch_up=case.policy)
            plan(f"hourly {name}", repeat=every(hours=1), catch_up=case.policy)
            plan(f"once {name}", at=EIGHT_IN_TOKYO, zone="Asia/Tokyo", catch_up=case.policy)
            expected[f"daily {name}"] = newest(case.daily, NINE_O_CLOCKS, NEXT_NINE)
            expected[f"hourly {name}"] = newest(case.hourly, HOURS, NEXT_HOUR)
            expected[f"once {name}"] = newest(case.once, [datetime(2027, 3, 12, 23, tzinfo=UTC)], None)
        expected |= plan_visits()
        Guest.objects.create(id=1, born=date(1990, 3, 13), zone="Asia/Tokyo")
        birthdays = [datetime(2027, 3, 13, tzinfo=UTC), datetime(2028, 3, 13, tzinfo=UTC)]
        expected["guests.birthdays:1"] = newest(1, birthdays[:1], birthdays[1])
    catch_up_with_two_workers(stage, BACK)
    assert_fates(expected)
    assert_in_order("hourly all")
    assert_handled_once("bell.ring", "bell.ring_outside", type="bell.rung")

    # What was caught up with once is not caught up with again.
    catch_up_with_two_workers(stage, BACK + timedelta(minutes=5))
    assert_fates(expected)


def plan_visits() -> dict[str, Fate]:
    """A reminder is of use until the visit begins; what follows a visit is of use whenever it comes."""

    def day(number: int, hour: int, minute: int = 0) -> datetime:
        return datetime(2027, 3, number, hour, minute, tzinfo=UTC)

    begins = {1: day(14, 15), 2: day(15, 13), 3: day(15, 12, 5), 4: day(13, 10)}
    for number, at in begins.items():
        Visit.objects.create(id=number, starts_at=at, zone="America/New_York")
    fates = {
        # Over for 21 hours: only the follow-up is still to come.
        "1:-P1D": Fate([], [day(13, 16)]),
        "1:-PT2H": Fate([], [day(14, 13)]),
        "1:-PT15M": Fate([], [day(14, 14, 45)]),
        "1:P1D": Fate([], [], day(15, 15)),
        # In 50 minutes: two reminders are late and still good, one is to come.
        "2:-P1D": Fate([day(14, 13)], []),
        "2:-PT2H": Fate([day(15, 11)], []),
        "2:-PT15M": Fate([], [], day(15, 12, 45)),
        "2:P1D": Fate([], [], day(16, 13)),
        # Began five minutes ago.
        "3:-P1D": Fate([], [day(14, 12, 5)]),
        "3:-PT2H": Fate([], [day(15, 10, 5)]),
        "3:-PT15M": Fate([], [day(15, 11, 50)]),
        "3:P1D": Fate([], [], day(16, 12, 5)),
        # A day before it nobody had planned it yet; the day after it has one hour less.
        "4:-PT2H": Fate([], [day(13, 8)]),
        "4:-PT15M": Fate([], [day(13, 9, 45)]),
        "4:P1D": Fate([day(14, 9)], []),
    }
    return {f"guests.reminders:{name}": fate for name, fate in fates.items()}


def test_a_plain_worker_by_the_clock_of_the_database_does_the_same(stage: TimeProcesses, time_app: Declared) -> None:
    left = datetime.now(UTC) - timedelta(days=3)
    # Half past each hour of absence, so that none of them falls into the seconds of this test.
    times = [left + hours(number + 0.5) for number in range(72)]
    rule = every(hours=1, anchor=left - hours(0.5))
    with travel(left):
        for name, case in CASES.items():
            plan(f"hourly {name}", repeat=rule, catch_up=case.policy)
    # Half an hour late is too late for a grace of 15 minutes.
    fire = {**{name: case.hourly for name, case in CASES.items()}, "none with grace": 0}
    expected = {f"hourly {name}": newest(count, times, left + hours(72.5)) for name, count in fire.items()}
    stage.clocked_worker()
    await_calm(stage, datetime.now(UTC))
    assert_fates(expected)


def plan(key: str, **options: Any) -> None:
    duebox.schedule("bell.rung", key=key, about=("bell", key), **options)


def newest(count: int, late: list[datetime], following: datetime | None) -> Fate:
    return Fate(late[len(late) - count :], late[: len(late) - count], following)


def catch_up_with_two_workers(stage: TimeProcesses, now: datetime) -> None:
    workers = [stage.clocked_worker(start=now.isoformat()) for _ in range(2)]
    wait_until(lambda: Worker.objects.count() == 2, 60, "the start of the workers", stage.logs)
    await_calm(stage, now)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0, stage.logs()


def await_calm(stage: TimeProcesses, now: datetime) -> None:
    def calm() -> bool:
        late = Schedule.objects.scheduled().filter(due_at__lte=now)
        return not late.exists() and not Delivery.objects.exists()

    wait_until(calm, 60, "catching up", stage.logs)


def assert_fates(expected: dict[str, Fate]) -> None:
    found = {
        row.key: Fate([], [], row.due_at)
        for row in Schedule.objects.exclude(type="duebox.plans.reconcile").order_by("id")
    }
    for planned in Event.objects.order_by("id").values_list("metadata__schedule", flat=True):
        found[planned["key"]].fired.append(datetime.fromisoformat(planned["due"]))
    for line in ScheduleLog.objects.filter(what="missed").order_by("id"):
        found[line.source].missed.extend([line.due_before, *[line.due_after] * (line.occurrences - 1)])
    sorted_found = {key: Fate(sorted(fate.fired), sorted(fate.missed), fate.next) for key, fate in found.items()}
    expected = {key: fate._replace(missed=as_logged(fate.missed)) for key, fate in expected.items()}
    wrong = [
        f"{key}\n    expected {expected.get(key)}\n    found    {sorted_found.get(key)}"
        for key in sorted({*expected, *sorted_found})
        if expected.get(key) != sorted_found.get(key)
    ]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(expected)} schedules", *wrong])


def as_logged(missed: list[datetime]) -> list[datetime]:
    """One line has the count, the first and the last: the others are as good as the last."""
    return [*missed[:1], *missed[-1:] * (len(missed) - 1)]


def assert_in_order(key: str) -> None:
    events = Event.objects.filter(metadata__schedule__key=key).order_by("id")
    due = [planned["due"] for planned in events.values_list("metadata__schedule", flat=True)]
    assert due == sorted(due)
