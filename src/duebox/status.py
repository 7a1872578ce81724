"""How things stand: what is due and since when, what failed, what comes, who is there to do it, and what is wrong.

Every number comes from an index and is counted up to `MOST`, so that asking costs the same with ten deliveries and with
ten million.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from duebox.conf import conf
from duebox.store.backlog import MOST, Orphaned, backlog, counts
from duebox.store.backlog import orphaned as orphans_of

__all__ = ["LATE_SECONDS", "MOST", "Status", "status"]

LATE_SECONDS = 60.0
"""Something that has been due for so long is late. A worker takes it within a second."""


@dataclass(frozen=True, slots=True)
class Status:
    due: int
    """Deliveries that a worker should take now."""
    oldest_due_seconds: float | None
    held_back: int
    """Due to destinations that are paused, or left alone because they failed."""
    running: int
    retrying: int
    """Failed, and waiting for their next try."""
    later: int
    """To come later without having failed: snoozed, delayed, or spread by a rate."""
    waiting: int
    """Behind an earlier one of their stream."""
    dead: int
    parked: int
    schedules_next_minute: int
    schedules_next_hour: int
    schedules_next_day: int
    schedules_overdue: int
    """Schedules that should have fired more than LATE_SECONDS ago."""
    oldest_overdue_seconds: float | None
    workers: int
    """Workers with a fresh heartbeat."""
    listening: int
    """Those of them that are woken by the database; the others look again and again."""
    orphaned: tuple[Orphaned, ...]
    """Handlers and destinations that this code does not have, for which deliveries are stored."""
    more: tuple[str, ...]
    """The names of the numbers above of which there are more than were counted."""

    def problems(self, *, strict: bool = False) -> list[str]:
        """What is wrong, each with its repair; `strict` counts dead letters as well."""
        found = []
        if self.due and not self.workers:
            found.append(f"{self.number('due')} due and no worker is running; start one: manage.py duebox worker")
        elif self.oldest_due_seconds is not None and self.oldest_due_seconds > LATE_SECONDS:
            found.append(
                f"The oldest delivery has been due for {_span(self.oldest_due_seconds)}; the workers are too few, too "
                "slow, or serve others only (--only)"
            )
        if self.schedules_overdue:
            assert self.oldest_overdue_seconds is not None
            found.append(
                f"{self.number('schedules_overdue')} overdue, the first of them for "
                f"{_span(self.oldest_overdue_seconds)}; a worker fires them: manage.py duebox worker"
            )
        found += [f"{fact_of(each)}; {ways_out(each.subscriber)}" for each in self.orphaned]
        if strict and self.dead:
            found.append(f"{self.number('dead')} dead; look at the causes: manage.py duebox deliveries groups")
        return found

    def number(self, name: str) -> str:
        """A number for people: one that was not counted to its end says so."""
        return f"more than {MOST:,}" if name in self.more else f"{getattr(self, name):,}"

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        told = [{**each._asdict(), "since": each.since.isoformat()} for each in self.orphaned]
        return {**asdict(self), "orphaned": told, "more": list(self.more)}


def status(*, using: str | None = None) -> Status:
    alias = using or conf().DATABASE
    found, other = backlog(alias), counts(alias, late=LATE_SECONDS)
    served = [each for each in found if not each.orphaned]
    ready = [each for each in served if not each.held_back]
    oldest = min((each.oldest for each in ready if each.due and each.oldest), default=None)
    numbers = {
        "due": sum(each.due for each in ready),
        "held_back": sum(each.due for each in served if each.held_back),
        "running": sum(each.running for each in found),
        "retrying": sum(each.retrying for each in served),
        "later": sum(each.later for each in served),
        "waiting": other.waiting,
        "dead": other.dead,
        "parked": other.parked,
        "schedules_next_minute": other.minute,
        "schedules_next_hour": other.hour,
        "schedules_next_day": other.day,
        "schedules_overdue": other.overdue,
    }
    more = {name for name, number in numbers.items() if number > MOST}
    if any(each.more_due for each in found):
        more |= {"due"}
    if any(each.more_later for each in found):
        more |= {"retrying", "later"} & {name for name, number in numbers.items() if number}
    return Status(
        **{name: min(number, MOST) for name, number in numbers.items()},
        oldest_due_seconds=_ago(oldest, other.now),
        oldest_overdue_seconds=other.oldest_overdue,
        workers=other.workers,
        listening=other.listening,
        orphaned=tuple(orphans_of(found)),
        more=tuple(sorted(more)),
    )


def fact_of(each: Orphaned) -> str:
    """How many deliveries wait for a handler or destination that is gone from the code, and since when."""
    many = f"More than {each.deliveries:,}" if each.more else f"{each.deliveries:,}"
    wait = "delivery waits" if each.deliveries == 1 and not each.more else "deliveries wait"
    since = f"{each.since:%Y-%m-%d %H:%M:%S} UTC"
    return f"{many} {wait} for {each.subscriber!r}, which this code does not have, since {since}"


def ways_out(subscriber: str) -> str:
    """What to do about them."""
    outside = subscriber.removeprefix("to:")
    if outside != subscriber:
        return (
            f"put {outside!r} back into DUEBOX['DESTINATIONS'], or give them up: manage.py duebox "
            f"deliveries discard --state orphaned --destination {outside} --reason ..."
        )
    return (
        f"if it was renamed, name {subscriber!r} in aliases= of the handler; else give them up: manage.py duebox "
        f"deliveries discard --state orphaned --handler {subscriber} --reason ..."
    )


def _ago(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else max(0.0, (now - moment).total_seconds())


def _span(seconds: float) -> str:
    for name, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {name}"
    return f"{seconds:.0f} s"
