"""The status: what is due and since when, what failed, what is scheduled, which workers run, and what is wrong.

Every number comes from an index and is counted up to `MOST`, so that asking costs the same with ten deliveries and with
ten million.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from duebox.conf import conf
from duebox.events.address import Address, is_outside
from duebox.store.deliveries import MOST, Orphaned, backlog, counts
from duebox.store.deliveries import orphaned as orphans_of

__all__ = ["LATE_SECONDS", "MOST", "Status", "Thresholds", "status"]

LATE_SECONDS = 60.0
"""A delivery that has been due for this long is late. A worker claims it within a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds of problems. None: never a problem."""

    age: float = LATE_SECONDS
    """Seconds that a delivery may be due."""
    overdue: float = LATE_SECONDS
    """Seconds that a schedule may be late."""
    unsealed: float = LATE_SECONDS
    """Seconds that an audit entry may wait for its seal."""
    due: int | None = None
    retrying: int | None = None
    dead: int | None = None


DEFAULT = Thresholds()


@dataclass(frozen=True, slots=True)
class Status:
    due: int
    """Deliveries that a worker should claim now."""
    oldest_due_seconds: float | None
    held_back: int
    """Due to destinations that are paused or have an open circuit breaker."""
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
    """Schedules that should have fired longer ago than the threshold."""
    oldest_overdue_seconds: float | None
    workers: int
    """Workers with a fresh heartbeat."""
    listening: int
    """Those of them that the database wakes with NOTIFY; the others poll."""
    unsealed: int
    """Audit entries that are not in the chain yet."""
    oldest_unsealed_seconds: float | None
    orphaned: tuple[Orphaned, ...]
    """Handlers and destinations that this code does not have, for which deliveries are stored."""
    more: tuple[str, ...]
    """The names of the numbers above of which there are more than were counted."""
    thresholds: Thresholds = DEFAULT

    def problems(self) -> list[str]:
        """What is wrong by the thresholds, each with its repair."""
        found, limits = [], self.thresholds
        if self.due and not self.workers:
            found.append(f"{self.number('due')} due and no worker is running; start one: manage.py duebox worker")
        elif self.oldest_due_seconds is not None and self.oldest_due_seconds > limits.age:
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
        if self.oldest_unsealed_seconds is not None and self.oldest_unsealed_seconds > limits.unsealed:
            found.append(
                f"{self.number('unsealed')} audit entries are not sealed, the first of them for "
                f"{_span(self.oldest_unsealed_seconds)}; a worker seals them, its log says what stops it"
            )
        found += [f"{fact_of(each)}; {ways_out(each.subscriber)}" for each in self.orphaned]
        return found + self._too_many()

    def _too_many(self) -> list[str]:
        repairs = {
            "due": "the workers are too few or too slow: manage.py duebox worker --processes N",
            "retrying": "look at their errors: manage.py duebox deliveries list --state retrying",
            "dead": "look at the causes: manage.py duebox deliveries groups",
        }
        most = {name: getattr(self.thresholds, name) for name in repairs}
        return [
            f"{self.number(name)} {name}{f', more than {limit:,}' if limit else ''}; {repairs[name]}"
            for name, limit in most.items()
            if limit is not None and getattr(self, name) > limit
        ]

    def number(self, name: str) -> str:
        """A number for people: one that was not counted to its end says so."""
        return f"more than {MOST:,}" if name in self.more else f"{getattr(self, name):,}"

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        orphaned = [{**each._asdict(), "since": each.since.isoformat()} for each in self.orphaned]
        return {**asdict(self), "orphaned": orphaned, "more": list(self.more)}


def status(*, thresholds: Thresholds = DEFAULT, using: str | None = None) -> Status:
    alias = using or conf().DATABASE
    found, other = backlog(alias), counts(alias, late=thresholds.overdue)
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
        "unsealed": other.unsealed,
    }
    more = {name for name, number in numbers.items() if number > MOST}
    # The oldest of all handlers are counted together, those of each destination apart.
    if any(each.more_due for each in found if each in ready or not is_outside(each.subscriber)):
        more |= {"due"}
    if any(each.more_later for each in found):
        more |= {"retrying", "later"} & {name for name, number in numbers.items() if number}
    return Status(
        **{name: min(number, MOST) for name, number in numbers.items()},
        oldest_due_seconds=_ago(oldest, other.now),
        oldest_overdue_seconds=other.oldest_overdue,
        workers=other.workers,
        listening=other.listening,
        oldest_unsealed_seconds=other.oldest_unsealed,
        orphaned=tuple(orphans_of(found)),
        more=tuple(sorted(more)),
        thresholds=thresholds,
    )


def fact_of(each: Orphaned) -> str:
    """How many deliveries wait for a handler or destination that is gone from the code, and since when."""
    many = f"More than {each.deliveries:,}" if each.more else f"{each.deliveries:,}"
    wait = "delivery waits" if each.deliveries == 1 and not each.more else "deliveries wait"
    since = f"{each.since:%Y-%m-%d %H:%M:%S} UTC"
    return f"{many} {wait} for {each.subscriber!r}, which this code does not have, since {since}"


def ways_out(subscriber: str) -> str:
    """What to do about them."""
    address = Address.parse(subscriber)
    if address.kind == "destination":
        return (
            f"put {address.plain!r} back into DUEBOX['DESTINATIONS'], or give them up: manage.py duebox "
            f"deliveries discard --state orphaned --destination {address.plain} --reason ..."
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
