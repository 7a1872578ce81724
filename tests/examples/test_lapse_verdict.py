"""What the time lapse holds against what the clinic sent: its own arithmetic, and that it notices what is wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from examples.clinic.demo.lapse.book import Book, Due, birthday, follow_up, reminders, reviews, task
from examples.clinic.demo.lapse.sights import Sight
from examples.clinic.demo.lapse.verdict import judge
from examples.clinic.timelapse import TimeLapse

START, END = datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 4, 5, tzinfo=UTC)
LAPSE = TimeLapse(start=START, end=END, speed=86400.0, since=0.0)
NOON = datetime(2026, 3, 30, 12, tzinfo=UTC)


def sent(due: Due, *, late: timedelta = timedelta(minutes=5)) -> Sight:
    return Sight("m1", due.type, due.about, due.at, due.at + late, "UTC", "", "Ada: hello")


def booked() -> tuple[Book, list[Due]]:
    dues = list(reminders("A", NOON, "Europe/Berlin"))
    notes = Book()
    notes.agree("appointment:A", START, START, dues)
    return notes, dues


def utc(*dues: Due) -> list[str]:
    return [f"{due.at:%Y-%m-%d %H:%M}" for due in dues]


def test_a_day_is_a_day_on_the_wall_clock():
    gap = datetime(2026, 3, 30, 0, 30, tzinfo=UTC)
    assert utc(*reminders("A", gap, "Europe/Berlin")) == ["2026-03-29 01:30", "2026-03-29 22:30", "2026-03-30 00:15"]
    fold = datetime(2026, 4, 5, 16, 30, tzinfo=UTC)
    assert utc(next(reminders("A", fold, "Australia/Sydney"))) == ["2026-04-04 15:30"]
    assert utc(follow_up("A", datetime(2026, 3, 28, 9, tzinfo=UTC), "Europe/Berlin")) == ["2026-03-29 08:00"]


def test_birthdays_and_reviews_come_on_the_local_clock():
    assert utc(birthday(1, date(1996, 2, 29), "Asia/Tokyo", 2027)) == ["2027-02-28 00:00"]
    assert utc(birthday(1, date(1996, 2, 29), "Asia/Tokyo", 2028)) == ["2028-02-29 00:00"]
    assert utc(*reviews("D", "Europe/Berlin", START, END)) == ["2026-03-30 06:00", "2026-04-06 06:00"]


def test_what_came_once_and_in_time_is_right():
    notes, dues = booked()
    found = judge(notes, [sent(due) for due in dues], LAPSE)
    assert (found.due, found.sent, found.problems) == (3, 3, [])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda sights: sights[1:], "1 moments that were agreed never came"),
        (lambda sights: [*sights, sights[0]], "1 moments came twice"),
        (lambda sights: [*sights, replace(sights[0], about="appointment:B")], "1 came at a moment that nobody"),
        (lambda sights: [*sights, replace(sights[0], due=NOON)], "1 came at a moment that nobody"),
        (lambda sights: [*sights[1:], replace(sights[0], sent_at=START)], "1 came before their time"),
    ],
)
def test_what_is_wrong_is_noticed(change, problem):
    notes, dues = booked()
    found = judge(notes, change([sent(due) for due in dues]), LAPSE)
    assert [each for each in found.problems if each.startswith(problem)], found.problems


def test_after_a_move_the_old_moments_must_not_come():
    notes, old = booked()
    moved = START + timedelta(hours=1)
    new = list(reminders("A", NOON + timedelta(days=2), "Europe/Berlin"))
    notes.agree("appointment:A", moved, moved, new)
    assert judge(notes, [sent(due) for due in new], LAPSE).problems == []
    assert judge(notes, [sent(due) for due in [old[1], *new]], LAPSE).problems == [
        "1 came at a moment that nobody had agreed to"
    ]


def test_a_request_that_crosses_a_moment_decides_it_either_way():
    notes, dues = booked()
    notes.agree("appointment:A", dues[0].at + timedelta(minutes=1), dues[0].at + timedelta(minutes=9), [])
    assert judge(notes, [], LAPSE).problems == []
    assert judge(notes, [sent(dues[0])], LAPSE).problems == []


def test_a_task_is_told_once_within_its_last_day():
    notes, due = Book(), task(1, NOON)
    notes.agree("task:1", START, START, [due])
    on_time = replace(sent(due), due=due.at + timedelta(minutes=30), sent_at=due.at + timedelta(minutes=31))
    early = replace(on_time, due=due.at - timedelta(minutes=30), sent_at=due.at - timedelta(minutes=29))
    assert judge(notes, [on_time], LAPSE).problems == []
    assert judge(notes, [replace(on_time, due=early.due)], LAPSE).problems == []
    assert "1 came at a moment that nobody had agreed to" in judge(notes, [early], LAPSE).problems
    assert judge(notes, [], LAPSE).problems == ["1 moments that were agreed never came"]
    assert judge(notes, [on_time, on_time], LAPSE).problems == ["1 moments came twice"]
