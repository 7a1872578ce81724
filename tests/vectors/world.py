"""A world without a database: rows in memory, and the same decisions about them that the engine takes.

`plan_all` decides what a wanted schedule becomes, `decide` what a due one does; here is only what the store would do
with their answers.
"""

from __future__ import annotations

import json
from datetime import datetime
from types import SimpleNamespace

from duebox.events.fact import FactRow
from duebox.schedules.fire import decide, next_step
from duebox.schedules.intent import Intent, is_superseded, read_intent
from duebox.schedules.planner import Wanted, plan_all, replanned, step
from duebox.store.schedules import DueSchedule, NextStep, ScheduleRow
from duebox.when import WhenError

NOTHING = dict.fromkeys(FactRow._fields, "")
EVENT = FactRow(**{**NOTHING, "type": "vector.played", "actor": None, "version": 1, "data": "{}", "metadata": "{}"})


class World:
    """One worker, never late unless it is away, and the schedules it looks after."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.away = False
        self.rows: dict[str, SimpleNamespace] = {}
        self.fired: list[datetime] = []
        """The due instants of everything that fired."""

    def want(self, key: str, intent: Intent) -> bool:
        """Store an intention, new or changed; says whether anything is still to come of it."""
        [change] = plan_all([Wanted(key, EVENT, intent)], self.rows, self.now)
        if change.row is not None:
            self.rows[key] = _stored(change.row, self.rows.get(key))
        self.fire_due()
        return change.planned is None or change.planned.next is not None

    def rest(self, status: str) -> None:
        """Pause or cancel everything."""
        for row in self._live():
            row.status, row.due_at, row.occurrence = status, None, ""

    def wake(self) -> None:
        """Resume what was paused."""
        for row in self.rows.values():
            if row.status == "paused":
                _apply(row, step(row, replanned(row, read_intent(row.intent), self.now, moved_zone=False).next))

    def follow_zones(self) -> None:
        """The zone database may be another one than before."""
        for row in self._live():
            if is_superseded(row.zone, row.zone_rules, row.tz_release):
                _apply(row, step(row, replanned(row, read_intent(row.intent), self.now, moved_zone=True).next))

    def run_until(self, moment: datetime) -> None:
        """Live through the time up to and including an instant."""
        while not self.away and (due := self.next_due()) and due <= moment:
            self.now = max(self.now, due)
            self.fire_due()
        self.now = max(self.now, moment)

    def return_to_work(self) -> None:
        self.away = False
        self.fire_due()

    def fire_due(self) -> None:
        while not self.away and (due := self.next_due()) and due <= self.now:
            row = min(self._live(), key=lambda one: one.due_at)
            decision = decide(_as_due(row), self.now)
            if decision.problem:
                raise WhenError(decision.problem)
            self.fired += [slot.at for slot in decision.fire]
            _apply(row, next_step(decision))

    def next_due(self) -> datetime | None:
        return min((row.due_at for row in self._live()), default=None)

    def _live(self) -> list[SimpleNamespace]:
        return [row for row in self.rows.values() if row.status == "scheduled"]


def _stored(row: ScheduleRow, before: SimpleNamespace | None) -> SimpleNamespace:
    fields = {**row._asdict(), **{name: json.loads(getattr(row, name)) for name in ("intent", "data", "metadata")}}
    return SimpleNamespace(**fields, id=1, revision=1, fired=before.fired if before else "")


def _as_due(row: SimpleNamespace) -> DueSchedule:
    texts = {name: json.dumps(getattr(row, name)) for name in ("intent", "data", "metadata")}
    return DueSchedule(**{name: texts.get(name, getattr(row, name)) for name in DueSchedule._fields})


def _apply(row: SimpleNamespace, step: NextStep) -> None:
    changes = step._asdict()
    if changes["fired"] is None:
        del changes["fired"]
    vars(row).update(changes)
