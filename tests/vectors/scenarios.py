"""Scenarios: what a case tells in words becomes wants and events in a world, and what fires there is compared.

Only words are read here, so that any file in the same words can be played; every decision is the engine's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from duebox.schedules.intent import Intent
from duebox.when import (
    CatchUp,
    Offset,
    Rule,
    Timetable,
    anniversary,
    cron,
    daily,
    every,
    local_time,
    monthly,
    offset,
    once,
    reminder,
    rrule,
    start_of_day,
    weekly,
)
from tests.vectors.world import World

Case = dict[str, Any]
A_DAY = timedelta(days=1)
LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
AT = r"(\d{4}-\d\d-\d\dT[\d:]+Z?)"


def play(case: Case) -> list[datetime]:
    """The due instants of everything that fires in a scenario."""
    story = next(kind for prefix, kind in STORIES.items() if case["given"].startswith(prefix))(case)
    for moment, do in story.timeline:
        story.world.run_until(moment)
        story.do(do)
    story.finish()
    return sorted(story.world.fired)


class Story:
    """A scenario: what is wanted, the world it is wanted in, and what happens there when."""

    def __init__(self, case: Case) -> None:
        self.case, self.policy = case, case.get("policy", {})
        self.subject, *phases = (part.strip() for part in re.split(r";(?![A-Z]+=)", case["given"]))
        self.zone: str = case.get("zone", "UTC")
        self.phases = phases
        self.read_subject()
        happenings = [(_instant(step["at"]), step["do"]) for step in case.get("steps", ())]
        happenings += [one for phase in self.phases for one in _happenings(phase)]
        self.timeline = sorted(happenings, key=lambda one: one[0])
        self.world = World(self.begin())
        self.want()

    def read_subject(self) -> None:
        """Take what is wanted from the words."""
        raise NotImplementedError

    def begin(self) -> datetime:
        """When the schedules are made."""
        raise NotImplementedError

    def wanted(self) -> dict[str, Rule]:
        """The rules wanted now, by key."""
        raise NotImplementedError

    def finish(self) -> None:
        """Let the rest happen that the scenario is about."""
        raise NotImplementedError

    def change(self, verb: str, value: str) -> None:
        raise AssertionError(f"cannot do {verb!r}")

    def want(self) -> None:
        for key, rule in self.wanted().items():
            self.world.want(key, self.intent(rule))

    def intent(self, rule: Rule) -> Intent:
        policies = {name: self.policy[name] for name in ("gap", "fold") if name in self.policy}
        return Intent(
            table=Timetable(rule=rule, zone=self.zone, **policies),
            catch_up=self.catch_up(rule),
            late=self.policy.get("replan_late", "fire_now"),
            grace=_length(self.policy.get("grace", "PT12H")),
        )

    def catch_up(self, rule: Rule) -> CatchUp:
        window = next((value for name, value in self.policy.items() if "window" in name), None)
        cap = self.policy.get("max") or self.policy.get("cap") or 100
        mode = self.policy.get("catchup") or self.policy.get("catch_up") or "latest"
        return CatchUp(mode=mode, window=_length(window) if window else None, cap=cap)

    def do(self, do: str) -> None:
        """One step, after the worker has run up to it."""
        verb, _, value = do.partition("=")
        match verb.strip():
            case "fires":
                pass
            case "cancel" | "cancelled":
                self.world.rest("cancelled")
            case "pause" | "paused":
                self.world.rest("paused")
            case "resume" | "resumed":
                self.world.wake()
            case "worker stops":
                self.world.away = True
            case "worker starts":
                self.world.return_to_work()
            case "zone":
                self.zone = value
                self.want()
            case _:
                self.change(verb.strip(), value.strip())
                self.want()


class Birthday(Story):
    """This year's greeting."""

    def read_subject(self) -> None:
        words = r"birthday (?:\d{4}-)?(\d\d-\d\d), fire (\d\d:\d\d)(?: local)?(?:, subject zone (\S+))?"
        found = re.match(words, self.subject)
        assert found, f"cannot read {self.subject!r}"
        self.month_day, self.at, zone = found.groups()
        self.zone = zone or self.zone

    def begin(self) -> datetime:
        return (self.timeline[0][0] if self.timeline else datetime(2026, 1, 8, tzinfo=UTC)) - 7 * A_DAY

    def wanted(self) -> dict[str, Rule]:
        leap = self.policy.get("leap", "backward")
        return {"birthday": anniversary(f"2000-{self.month_day}", at=self.at, leap=leap)}

    def change(self, verb: str, value: str) -> None:
        assert verb in ("birthday", "time"), f"cannot do {verb!r}"
        self.month_day, self.at = (value[-5:], self.at) if verb == "birthday" else (self.month_day, value)

    def finish(self) -> None:
        self.world.run_until(datetime((self.world.now + 7 * A_DAY).year, 12, 31, tzinfo=UTC))


class Appointment(Story):
    """The reminders of one appointment, each a schedule of its own as a plan makes them."""

    def read_subject(self) -> None:
        found = re.match(rf"appointment {AT}(?: local)?(?: created at {AT})?", self.subject)
        assert found, f"cannot read {self.subject!r}"
        listed = self.phases.pop(0)
        assert listed.startswith(("reminders", "offsets")), f"cannot read {listed!r}"
        self.anchor, created = datetime.fromisoformat(found[1]), found[2]
        self.created = _instant(created) if created else None
        self.offsets = _offsets(listed.partition(" ")[2])

    def begin(self) -> datetime:
        return self.created or LONG_AGO

    def wanted(self) -> dict[str, Rule]:
        return {f"appointment:{by}": reminder(self.anchor, by) for by in self.offsets}

    def want(self) -> None:
        for key, rule in self.wanted().items():
            known = key in self.world.rows
            if not self.world.want(key, self.intent(rule)) and not known and self._late_ones_fire():
                self.world.fired.append(self.world.now)

    def _late_ones_fire(self) -> bool:
        return self.policy.get("late_at_creation", "skip") == "fire_now"

    def catch_up(self, rule: Any) -> CatchUp:
        given = "catchup" in self.policy or "catch_up" in self.policy
        return super().catch_up(rule) if given or not rule.by.is_before else CatchUp(window=rule.by.length)

    def change(self, verb: str, value: str) -> None:
        moved = re.match(rf"move(?:d)? to {AT}(?: local)?", verb)
        assert moved, f"cannot do {verb!r}"
        self.anchor = datetime.fromisoformat(moved[1])

    def finish(self) -> None:
        self.world.run_until(datetime.max.replace(tzinfo=UTC))


class Recurring(Story):
    """A rule; it is over when the worker is back, or else with the first occurrence after the last step."""

    def read_subject(self) -> None:
        words = self.subject.split()
        if ("/" in words[-1] and "*" not in words[-1]) or words[-1] == "UTC":
            self.zone = words[-1]
        self.text = self.subject.removesuffix(self.zone).strip()

    def begin(self) -> datetime:
        first = self.timeline[0][0] if self.timeline else datetime(2026, 1, 1, tzinfo=UTC)
        if self.phases:
            return first
        return start_of_day(local_time(first, self.zone).date(), self.zone) - timedelta.resolution

    def wanted(self) -> dict[str, Rule]:
        begun = self.case.get("dtstart", f"{self.begin().year}-01-01T00:00:00")
        return {"recurring": _rule(self.text, datetime.fromisoformat(begun))}

    def change(self, verb: str, value: str) -> None:
        assert verb == "rule", f"cannot do {verb!r}"
        self.text = value

    def finish(self) -> None:
        due = self.world.next_due()
        if due and not (self.timeline and self.timeline[-1][1] == "worker starts"):
            self.world.run_until(due)


STORIES: dict[str, Callable[[Case], Story]] = {"birthday": Birthday, "appointment": Appointment, "": Recurring}


def _happenings(phase: str) -> list[tuple[datetime, str]]:
    for words, first, second in (
        (rf"(?:no worker|worker down|down) from {AT} to {AT}", "worker stops", "worker starts"),
        (rf"paused (?:at )?{AT},? resumed (?:at )?{AT}", "pause", "resume"),
    ):
        if found := re.match(words, phase):
            return [(_instant(found[1]), first), (_instant(found[2]), second)]
    raise AssertionError(f"cannot read {phase!r}")


def _rule(text: str, start: datetime) -> Rule:
    kind, _, rest = text.partition(" ")
    match kind:
        case "daily":
            return daily(tuple(re.split(r"[ ,]+", rest.strip())))
        case "weekly":
            *days, at = re.split(r"[ ,]+", rest.removeprefix("on ").replace(" at ", " "))
            return weekly(*days, at=at)
        case "monthly":
            day, at = re.findall(r"[-\d:]+", rest)
            return monthly(int(day), at=at)
        case "every" | "interval":
            return every(minutes=_length(_iso(rest)) // timedelta(minutes=1))
        case "once" | "at":
            return once(datetime.fromisoformat(rest))
        case "cron":
            return cron(rest)
        case "rrule":
            return rrule(rest, start=start)
    return rrule(text, start=start) if "FREQ=" in text else cron(text)


def _iso(text: str) -> str:
    """6 hours → PT6H."""
    found = re.match(r"(\d+) ?(day|hour|minute|second)s?", text)
    if not found:
        return text
    count, unit = found[1], found[2][0].upper()
    return f"P{count}D" if unit == "D" else f"PT{count}{unit}"


def _offsets(text: str) -> list[Offset]:
    """-P1D (calendar), -PT2H, -PT15M (exact): a day marked exact is 24 hours."""
    found = []
    for part in text.split(","):
        by = offset(part.split()[0])
        if "(exact)" in part and by.days:
            by = Offset(exact=by.exact + by.days * A_DAY)
        found.append(by)
    return found


def _length(text: str) -> timedelta:
    by = offset(text)
    return by.exact + by.days * A_DAY


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
