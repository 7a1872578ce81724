"""The life of one schedule as a machine: planned, edited, moved through zones, put to rest and taken back, on a clock
that is lived through, jumps, and now and then is set back.

Every step is a call of the public functions on the real database. What must be true after each is in the invariants.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import duebox
from duebox.models import Event, Schedule, ScheduleLog
from duebox.schedules.intent import read_intent
from duebox.schedules.planner import replanned
from duebox.testing import drain, travel
from duebox.when import Timetable, anniversary, between, cron, daily, every, is_spent, weekly

# Close to changes of clocks in both directions.
STARTS = [datetime(2026, 10, 30, tzinfo=UTC), datetime(2027, 3, 12, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC)]
ZONES = ["America/New_York", "Europe/London", "Australia/Lord_Howe", "Pacific/Kiritimati", "Pacific/Honolulu"]
RULES = [
    daily("02:30"),
    daily(("01:30", "02:15", "02:45", "03:00")),
    daily(("00:00", "09:00", "17:00", "23:30")),
    weekly("sat", "sun", "mon", at=("01:45", "02:30")),
    every(hours=5),
    cron("30 */3 * * *"),
    anniversary("1990-11-01", at="01:30"),
    anniversary("1992-02-29", at="09:00"),
]
SHARP = timedelta.resolution
hours = st.integers(0, 60 * 60).map(lambda minutes: timedelta(minutes=minutes))
tables = st.builds(
    Timetable,
    rule=st.sampled_from(RULES),
    zone=st.sampled_from(ZONES),
    gap=st.sampled_from(["shift_forward", "shift_backward", "next_valid", "skip"]),
    fold=st.sampled_from(["first", "second", "both"]),
    flex=st.sampled_from([timedelta(0), timedelta(minutes=20)]),
)


class Moments(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._undo = transaction.atomic()
        self._undo.__enter__()
        self._journey: Any = None
        self.fired: list[str] = []
        """The occurrences in the order in which they became events."""

    def teardown(self) -> None:
        if self._journey:
            self._journey.__exit__(None, None, None)
        transaction.set_rollback(True)
        self._undo.__exit__(None, None, None)

    # What happens

    @initialize(start=st.sampled_from(STARTS), table=tables)
    def begin(self, start: datetime, table: Timetable) -> None:
        self._journey = travel(start)
        self.trip = self._journey.__enter__()
        self.schedule(table)

    @rule(table=tables)
    def schedule(self, table: Timetable) -> None:
        self.table = table
        duebox.schedule("moment.came", repeat=table, key="it", late="fire_now")
        self.expect_nothing()

    @precondition(lambda self: self.is_live())
    @rule(table=tables)
    def edit(self, table: Timetable) -> None:
        self.table = table
        assert duebox.reschedule("it", repeat=table) == 1
        self.expect_nothing()
        drain()
        assert self.look() == [], "an edit fired what is past"

    @precondition(lambda self: self.is_live())
    @rule(zone=st.sampled_from(ZONES))
    def move(self, zone: str) -> None:
        self.table = replace(self.table, zone=zone)
        assert duebox.reschedule("it", zone=zone) == 1
        self.expect_nothing()
        drain()
        assert len(self.look()) <= 1, "a move of zone fired more than what was pending"

    @precondition(lambda self: self.is_live())
    @rule()
    def pause(self) -> None:
        duebox.pause("it")
        self.expect_nothing()

    @precondition(lambda self: self.status() == "paused")
    @rule()
    def resume(self) -> None:
        assert duebox.resume("it") == 1
        self.expect_nothing()
        drain()
        assert self.look() == [], "what woke made up for its rest"

    @precondition(lambda self: self.is_live())
    @rule()
    def cancel(self) -> None:
        assert duebox.cancel("it") == 1
        self.expect_nothing()

    @precondition(lambda self: self.status() == "cancelled")
    @rule()
    def restore(self) -> None:
        assert duebox.restore("it") == 1  # all of these rules go on for ever
        assert self.status() == "scheduled"
        self.expect_nothing()
        drain()
        assert self.look() == [], "what was restored made up for what it missed"

    @rule(span=hours)
    def live(self, span: timedelta) -> None:
        """A worker looks all the time."""
        drain()
        self.look()
        start, row = self.trip.now, Schedule.objects.get()
        self.trip.run(span)
        found = self.look()
        if row.status != "scheduled":
            assert found == [], f"it fired while {row.status}"
            return
        named = between(self.table, start + SHARP, self.trip.now + SHARP, seed="it")
        wanted = [one.key for one in named if not is_spent(one.key, row.fired or None)]
        assert [key for key in wanted if key not in found] == [], "it was not fired though its moment came"

    @rule(span=hours)
    def be_down(self, span: timedelta) -> None:
        """No worker looks for a while."""
        row = Schedule.objects.get()
        self.trip.by(span)
        drain()
        found = self.look()
        if row.status != "scheduled" or row.due_at > self.trip.now:
            assert found == [], "it fired although nothing was due"
        else:
            assert len(found) == 1, "of several late ones the latest fires, and one does in any case"

    @rule(span=hours)
    def step_back(self, span: timedelta) -> None:
        """The clock is set back; then everything is looked at again."""
        drain()
        self.look()
        now = self.trip.now
        self.trip.by(-span)
        drain()
        self.trip.run(now)
        if Schedule.objects.get().due_at != now:
            assert self.look() == [], "it fired again"

    # What must be true

    @invariant()
    def an_occurrence_is_one_event(self) -> None:
        assert len(set(self.fired)) == len(self.fired) == Event.objects.count()
        assert not ScheduleLog.objects.filter(note="its event exists already").exists(), (
            "only the key of its event held it"
        )

    @invariant()
    def planning_again_changes_nothing(self) -> None:
        row = Schedule.objects.filter(status="scheduled", due_at__gt=self.trip.now).first() if self._journey else None
        if row is None:
            return
        for moved_zone in (True, False):
            found = replanned(row, read_intent(row.intent), self.trip.now, moved_zone=moved_zone)
            assert found.next is not None
            assert (found.next.key, found.next.instant, found.lost) == (row.occurrence, row.due_at, None)
        duebox.reschedule("it", zone=row.zone)
        again = Schedule.objects.get()
        assert (again.revision, again.due_at) == (row.revision, row.due_at)

    @invariant()
    def what_is_scheduled_is_due_and_nothing_else_is(self) -> None:
        row = Schedule.objects.first()
        assert row is None or (row.status == "scheduled") == (row.due_at is not None)

    # What it takes

    def status(self) -> str:
        row = Schedule.objects.first()
        return row.status if row else ""

    def is_live(self) -> bool:
        return self.status() in ("scheduled", "paused")

    def look(self) -> list[str]:
        """What fired since the last look; each must have been named by the timetable, and have come."""
        events = list(Event.objects.order_by("id"))[len(self.fired) :]
        for event in events:
            about = event.metadata["schedule"]
            note(f"{event.occurred_at}: {about}")
            around = timedelta(days=3)
            named = between(self.table, event.occurred_at - around, event.occurred_at + SHARP, seed="it")
            assert about["occurrence"] in {one.key for one in named}, "it fired before its time"
            assert datetime.fromisoformat(about["due"]) <= event.occurred_at
            self.fired.append(about["occurrence"])
        return self.fired[len(self.fired) - len(events) :]

    def expect_nothing(self) -> None:
        assert Event.objects.count() == len(self.fired), "a change alone makes no event"
