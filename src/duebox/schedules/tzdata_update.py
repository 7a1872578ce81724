"""A new release of the zone database: plan again the schedules that it moves, and only those.

Each schedule says which rules of its zone its instant was derived from. Zones whose rules are the same as before are
not looked at, however often the release changes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Count, Q

from duebox.schedules.intent import is_superseded, read_intent, rules_of
from duebox.schedules.planner import replanned, step
from duebox.store import run_sql, schedules
from duebox.store.schedules import ScheduleLogLine
from duebox.when import UnknownZone, zones

if TYPE_CHECKING:
    from duebox.models.schedule import Schedule, ScheduleQuerySet

logger = logging.getLogger("duebox.plans")

BATCH = 5_000
RETRY_WAITS = (0.1, 1.0, 5.0)
"""Seconds before schedules that another transaction had locked are tried again."""
Progress = Callable[[int], None]


@dataclass
class Rezoned:
    """Zones whose rules changed with the number of their schedules, and the results."""

    release: str
    zones: dict[str, int] = field(default_factory=dict)
    checked: int = 0
    moved: int = 0
    missed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Errors by key; these schedules do not change until they are due."""
    moves: list[ScheduleLogLine] = field(default_factory=list)
    """Filled by a dry run only; otherwise the schedule log has them."""


def affected(using: str) -> dict[str, int]:
    """The zones whose rules are newer here than those that schedules were derived from."""
    rows = _to_come(using).order_by().values_list("zone", "zone_rules", "tz_release")
    found: dict[str, int] = {}
    for zone, rules, release, count in schedules.listed(rows.annotate(count=Count("id"))):
        if _is_known(zone) and is_superseded(zone, rules, release):
            found[zone] = found.get(zone, 0) + count
    return found


def rezone(using: str, *, dry_run: bool = False, progress: Progress | None = None) -> Rezoned:
    """Plan again the schedules that the zone database in use moves; every move adds a line to the schedule log."""
    result = Rezoned(zones.current().release, affected(using))
    if not result.zones:
        return result
    _rezone_all(using, result, dry_run, progress)
    if dry_run:
        return result
    for seconds in RETRY_WAITS:
        if sum(affected(using).values()) <= len(result.failed):
            break
        time.sleep(seconds)
        _rezone_all(using, result, dry_run, progress)
    logger.info(
        "zone database changed: release=%s zones=%s checked=%s moved=%s missed=%s failed=%s",
        result.release, ",".join(sorted(result.zones)), result.checked, result.moved, result.missed, len(result.failed),
    )  # fmt: skip
    return result


def _rezone_all(using: str, result: Rezoned, dry_run: bool, progress: Progress | None) -> None:
    last = 0
    while True:
        with transaction.atomic(using=using):
            rows = _next_rows(using, result.zones, last)
            if not rows:
                return
            last = rows[-1].id
            _rezone_rows(using, [row for row in rows if _is_to_do(row, result)], result, dry_run)
        if progress:
            progress(len(rows))


def _to_come(using: str) -> ScheduleQuerySet:
    """What is due already is left to firing, which looks at the zone as well and knows about catching up."""
    return schedules.rows(using).scheduled().filter(due_at__gt=run_sql.now(using))


def _next_rows(using: str, names: Iterable[str], last: int) -> list[Schedule]:
    others = reduce(or_, (Q(zone=name) & ~Q(zone_rules=rules_of(name)[0]) for name in names))
    rows = _to_come(using).filter(others, id__gt=last).defer("data", "metadata")
    # A locked schedule is being fired or changed right now, mostly with the current rules. Waiting for it with
    # thousands of others locked would keep those from firing.
    return list(rows.order_by("id").select_for_update(skip_locked=True)[:BATCH])


def _rezone_rows(using: str, rows: list[Schedule], result: Rezoned, dry_run: bool) -> None:
    now = run_sql.now(using)
    steps, lines = [], []
    for row in rows:
        try:
            planned = replanned(row, read_intent(row.intent), now, moved_zone=True)
        except Exception as error:
            result.failed[row.key] = f"{type(error).__name__}: {error}"
            logger.exception("not planned again: key=%s", row.key)
            continue
        steps.append(step(row, planned.next))
        due = planned.next.instant if planned.next else None
        if due != row.due_at:
            what = "missed" if planned.lost else "moved"
            note = f"zone database {row.tz_release} to {result.release}"
            about = (row.aggregate_type, row.aggregate_id)
            lines.append(ScheduleLogLine(what, row.key, row.occurrence, *about, row.due_at, due, note=note))
    result.checked += len(steps)
    result.missed += sum(line.what == "missed" for line in lines)
    result.moved += sum(line.what == "moved" for line in lines)
    if dry_run:
        result.moves += lines
    elif steps:
        schedules.advance(using, steps)
        schedules.write_log(using, lines)


def _is_to_do(row: Schedule, result: Rezoned) -> bool:
    return row.key not in result.failed and is_superseded(row.zone, row.zone_rules, row.tz_release)


def _is_known(zone: str) -> bool:
    try:
        zones.current().check(zone)
    except UnknownZone:
        logger.error("zone unknown: zone=%s; its schedules stay as they are until the zone database knows it", zone)
        return False
    return True
