"""Holds what was sent against what was agreed."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from examples.clinic.demo.lapse.book import Book, Due
from examples.clinic.demo.lapse.desk import Desk
from examples.clinic.demo.lapse.sights import Sight
from examples.clinic.demo.screen import Screen
from examples.clinic.timelapse import TimeLapse

# A request that comes this soon after a moment, in real time, may still prevent it.
SLACK_SECONDS = 0.4


@dataclass
class Verdict:
    due: int = 0
    sent: int = 0
    passed_over: int = 0
    zones: int = 0
    still_due: int = 0
    seconds: float = 0.0
    late: list[timedelta] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.sent} moments in {self.zones} zones, each once, each at its local time, none left"

    def demand(self, wrong: int, problem: str) -> None:
        if wrong:
            self.problems.append(f"{wrong} {problem}")


def judge(notes: Book, sights: list[Sight], lapse: TimeLapse) -> Verdict:
    sent = [sight for sight in sights if sight.sent_at and sight.due <= lapse.end]
    late = [sight.late for sight in sent if sight.late is not None]
    # The slower the machine, the later a request may still prevent what was due.
    slack = timedelta(seconds=SLACK_SECONDS * lapse.speed) + max(late, default=timedelta(0))
    expected = notes.expected(lapse.end, slack)
    matched = Counter(_match(sight, expected.may) for sight in sent)
    found = Verdict(due=len(expected.must), sent=len(sent), zones=len({sight.zone for sight in sent}), late=late)
    found.seconds = lapse.real_ms(lapse.end - lapse.start) / 1000
    found.passed_over = sum(1 for sight in sights if not sight.sent_at)
    found.demand(len(expected.must - set(matched)), "moments that were agreed never came")
    found.demand(sum(count - 1 for due, count in matched.items() if due), "moments came twice")
    found.demand(matched[None], "came at a moment that nobody had agreed to")
    found.demand(sum(1 for each in late if each < timedelta(0)), "came before their time")
    return found


def _match(sight: Sight, agreed: set[Due]) -> Due | None:
    """The agreed moment that a message belongs to. A sweep that comes late finds what is due by then, so for a task
    it is any moment within its window."""
    due = Due(sight.type, sight.about, sight.due)
    if due in agreed:
        return due
    return next((each for each in agreed if each.about == sight.about and _is_within(each, sight.sent_at)), None)


def _is_within(due: Due, moment: datetime | None) -> bool:
    return due.until is not None and moment is not None and due.at <= moment < due.until


def show_verdict(screen: Screen, found: Verdict, desk: Desk, lapse: TimeLapse, changes: int) -> None:
    days = (lapse.end - lapse.start) / timedelta(days=1)
    screen.say(f"\n{days:.1f} days in {found.seconds:.1f} s, {len(desk.zones)} zones, {changes} clock changes", "bold")
    agreed = f"{desk.moved} appointments moved, {desk.cancelled} cancelled by visitors"
    for name, count, remark in (
        ("agreed", found.due, f"moments, calculated apart from Duebox; {agreed}"),
        ("sent", found.sent, f"in {found.zones} zones{_open_cases(found)}"),
        ("passed over", found.passed_over, "no longer valid when their moment came"),
        ("still due", found.still_due, ""),
    ):
        screen.say(f"  {name:<12}  {count:>6,}  {remark}".rstrip())
    screen.say(f"  {'lateness':<12}  {_lateness(found.late, lapse)}")
    for problem in found.problems:
        screen.say(f"WRONG: {problem}", "red")
    if not found.problems:
        screen.say("Every moment came once, on the clock of whoever it was for; nothing due is left.", "green")


def _open_cases(found: Verdict) -> str:
    """Where a request came so close to a moment that either outcome is right; more of them the faster the clock."""
    return f"; {found.sent - found.due} so close to a request that they need not have" if found.sent > found.due else ""


def _lateness(late: list[timedelta], lapse: TimeLapse) -> str:
    if not late:
        return "nothing came"
    ordered = sorted(late)
    middle = statistics.median(each.total_seconds() for each in ordered)
    pairs = {"median": timedelta(seconds=middle), "p99": ordered[math.ceil(0.99 * len(ordered)) - 1]}
    return ", ".join(
        f"{name} {lapse.real_ms(each):.1f} ms ({each / timedelta(minutes=1):.1f} min on the fast clock)"
        for name, each in pairs.items()
    )
