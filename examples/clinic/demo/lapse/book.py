"""What was agreed with visitors, and what must therefore come when: calculated here anew, without Duebox."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

A_DAY = timedelta(days=1)
A_SWEEP = timedelta(hours=1)


class Due(NamedTuple):
    """A moment that somebody is to hear of: a type of event, what it is about, and when; for tasks, until when."""

    type: str
    about: str
    at: datetime
    until: datetime | None = None


class Term(NamedTuple):
    """What holds from some moment between a request and its answer, until the next term."""

    asked: datetime
    answered: datetime
    dues: frozenset[Due]


@dataclass
class Expected:
    must: set[Due]
    may: set[Due]


class Book:
    def __init__(self) -> None:
        self._terms: dict[str, list[Term]] = {}

    def agree(self, about: str, asked: datetime, answered: datetime, dues: Iterable[Due]) -> None:
        self._terms.setdefault(about, []).append(Term(asked, answered, frozenset(dues)))

    def expected(self, end: datetime, slack: timedelta) -> Expected:
        """What must have come by the end, and what may: a request that crosses a moment, or follows closely, decides
        it either way."""
        found = Expected(set(), set())
        for terms in self._terms.values():
            for due, first, following in _spans(terms):
                last_sure = following.asked - slack if following else end
                last = following.answered if following else end
                surely = due.at if due.until is None else due.at + A_SWEEP + slack
                if first.answered < due.at and surely <= last_sure:
                    found.must.add(due)
                if first.asked < (due.until or due.at) and due.at <= last:
                    found.may.add(due)
        return found


def _spans(terms: list[Term]) -> Iterator[tuple[Due, Term, Term | None]]:
    """Every due with the term that brought it and the term that took it away, if one did."""
    for number, term in enumerate(terms):
        before = terms[number - 1].dues if number else frozenset()
        for due in term.dues - before:
            yield due, term, next((later for later in terms[number + 1 :] if due not in later.dues), None)


def reminders(reference: str, starts_at: datetime, zone: str) -> Iterator[Due]:
    about = f"appointment:{reference}"
    yield Due("appointment.reminder_due", about, instant(wall(starts_at, zone) - A_DAY, zone))
    yield Due("appointment.reminder_due", about, starts_at - timedelta(hours=2))
    yield Due("appointment.reminder_due", about, starts_at - timedelta(minutes=15))


def follow_up(reference: str, starts_at: datetime, zone: str) -> Due:
    return Due("appointment.follow_up_due", f"appointment:{reference}", instant(wall(starts_at, zone) + A_DAY, zone))


def birthday(patient: int, born_on: date, zone: str, year: int) -> Due:
    last = 28 if (born_on.month, born_on.day) == (2, 29) and year % 4 else born_on.day
    local = datetime.combine(date(year, born_on.month, last), time(9))
    return Due("patient.birthday_came", f"patient:{patient}", instant(local, zone))


def reviews(doctor: str, zone: str, start: datetime, end: datetime) -> Iterator[Due]:
    """Mondays at eight."""
    day = start.date()
    while day <= end.date() + A_DAY:
        if day.weekday() == 0:
            yield Due("doctor.review_due", f"doctor:{doctor}", instant(datetime.combine(day, time(8)), zone))
        day += A_DAY


def task(pk: int, due_at: datetime) -> Due:
    return Due("task.due_soon", f"task:{pk}", due_at - A_DAY, due_at)


def wall(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)


def instant(local: datetime, zone: str) -> datetime:
    """By Python's own rules: a time that clocks skip moves on by as much, of one that comes twice it is the first."""
    return local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def offset(moment: datetime, zone: str) -> timedelta:
    return moment.astimezone(ZoneInfo(zone)).utcoffset() or timedelta(0)
