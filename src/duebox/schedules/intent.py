"""The definition of a schedule as one value: its timetable and its policies for lateness and for moves into the past.

Stored as JSON beside the instant derived from it. The same text means the same intent, so readings are remembered:
ten thousand people with one birthday in one zone cost one calculation.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any
from zoneinfo import ZoneInfo

from duebox.when import (
    CatchUp,
    Closed,
    Fold,
    Gap,
    Late,
    Occurrence,
    Rule,
    Timetable,
    daily,
    next_after,
    zones,
)
from duebox.when.policy import choose
from duebox.when.replan import GRACE
from duebox.when.resolver import How
from duebox.when.times import short
from duebox.when.timetable import KINDS
from duebox.when.zones import ZoneDatabase

_CATCH_UP = CatchUp()
_dump = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A timetable and its policies.

    `late` decides about the occurrence that a change of zone, or of the zone database, moves into the past: it fires
    at once if it is late by no more than `grace`, or not at all with `skip`.
    """

    table: Timetable
    catch_up: CatchUp = _CATCH_UP
    late: Late = Late.FIRE_NOW
    grace: timedelta = GRACE
    _around: tuple[str, str] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "late", choose(Late, self.late))
        if not self.table.zone:
            zones.current().check(self.table.zone)  # what is stored always names its zone

    def to_json(self) -> str:
        rule = self.table.rule
        before, behind = self._around or self._around_the_rule()
        parts = [f', "{name}": {_text(value)}' for name, value in rule.to_dict().items()]
        return f'{before}{{"kind": "{rule.kind}"{"".join(parts)}}}{behind}'

    def _around_the_rule(self) -> tuple[str, str]:
        """The parts before and after the rule in the JSON text."""
        table = self.table
        return _around_the_rule(
            table.zone, table.gap, table.fold, table.start, table.end, table.remaining, table.calendar, table.closed,
            table.flex, self.catch_up, self.late, self.grace,
        )  # fmt: skip

    def but_in(self, zone: str) -> Intent:
        return replace(self, table=replace(self.table, zone=zone))


class Template:
    """Makes intents that differ in their rule and zone alone, as those of the rows of a plan. Policies and zones are
    checked once, and their part of the JSON text is written once: with a million rows that takes a third of the time
    of a `sync`."""

    def __init__(self, intent: Intent) -> None:
        self._intent = intent
        self._in_zone: dict[tuple[ZoneDatabase, str], Intent] = {}

    def intent(self, rule: Rule, zone: str | ZoneInfo) -> Intent:
        name = zone.key if isinstance(zone, ZoneInfo) else zone
        found = self._in_zone.get((zones.current(), name)) or self._checked(name)
        made = object.__new__(Intent)
        _set(made, "table", found.table.with_rule(rule))
        _set(made, "catch_up", found.catch_up)
        _set(made, "late", found.late)
        _set(made, "grace", found.grace)
        _set(made, "_around", found._around)
        return made

    def _checked(self, zone: str) -> Intent:
        found = self._intent.but_in(zone)
        _set(found, "_around", found._around_the_rule())
        self._in_zone[zones.current(), zone] = found
        return found


def _text(value: object) -> str:
    """A value as JSON. Most parts of a rule are texts, for which an encoder takes five times as long."""
    return encode_basestring(value) if type(value) is str else _dump(value)


_set = object.__setattr__
_PLACE = "\0"
_IN_PLACE_OF_A_RULE = daily("00:00")


@lru_cache(maxsize=5_000)
def _around_the_rule(
    zone: str, gap: Gap, fold: Fold, start: datetime | None, end: datetime | None, remaining: int | None,
    calendar: str | None, closed: Closed, flex: timedelta, catch_up: CatchUp, late: Late, grace: timedelta,
) -> tuple[str, str]:  # fmt: skip
    """The parts before and after the rule: the same for all schedules with the same zone and policies. Writing it again
    for each of a million took a tenth of the time of a sync."""
    table = Timetable(
        rule=_IN_PLACE_OF_A_RULE, zone=zone, gap=gap, fold=fold, start=start, end=end, remaining=remaining,
        calendar=calendar, closed=closed, flex=flex,
    )  # fmt: skip
    found: dict[str, Any] = {"when": {**table.to_dict(), "rule": _PLACE}}
    if catch_up != _CATCH_UP:
        found["catch_up"] = _catch_up_to_dict(catch_up)
    if late is not Late.FIRE_NOW:
        found["late"] = late.value
    if grace != GRACE:
        found["grace"] = grace.total_seconds()
    before, _, behind = _dump(found).partition(_dump(_PLACE))
    return before, behind


def read_intent(stored: str | dict[str, Any]) -> Intent:
    """The intent from its JSON, as text or parsed."""
    return _read(stored if isinstance(stored, str) else _dump(stored))


@lru_cache(maxsize=20_000)
def _read(text: str) -> Intent:
    data = json.loads(text)
    return Intent(
        table=Timetable.from_dict(data["when"]),
        catch_up=_catch_up_from_dict(data.get("catch_up", {})),
        late=data.get("late", Late.FIRE_NOW),
        grace=timedelta(seconds=data["grace"]) if "grace" in data else GRACE,
    )


_SINGLE = re.compile('"kind": "(%s)"' % "|".join(kind for kind, rule in KINDS.items() if rule.single))  # noqa: UP031


def is_plain_single(stored: str) -> bool:
    """Whether it has one occurrence and fires it however late: true for most rows, found without building the
    intent."""
    # In the text of a rule a quotation mark is escaped with a backslash, so this cannot be part of such a text.
    return '"catch_up": ' not in stored and _SINGLE.search(stored) is not None


def next_of(stored: str, after: datetime, *, seed: str) -> Occurrence | None:
    """The first occurrence after an instant, from an intent's JSON text."""
    table = _read(stored).table
    return next_after(table, after, seed=seed) if table.flex else _next_after(zones.current(), stored, after)


@lru_cache(maxsize=50_000)
def _next_after(database: ZoneDatabase, stored: str, after: datetime) -> Occurrence | None:
    return next_after(replace(_read(stored).table, remaining=None), after)


def described(one: Occurrence) -> tuple[str, str]:
    """The local time meant, and what a person should know about it."""
    if one.moved is None and one.how is How.EXACT:  # nearly all: without it this took a twentieth of a sync
        return short(one.nominal), ""
    return short(one.nominal), ",".join(one.marks)


@lru_cache(maxsize=1_000)
def _fingerprint(database: ZoneDatabase, zone: str) -> str:
    return database.fingerprint(zone)


def rules_of(zone: str) -> tuple[str, str]:
    """The fingerprint of a zone's rules and the release they come from."""
    database = zones.current()
    return _fingerprint(database, zone), database.release


def is_superseded(zone: str, rules: str, release: str) -> bool:
    """Whether an instant was derived from other rules than ours, and not from a newer release: while two releases run
    side by side the newer one decides."""
    ours, our_release = rules_of(zone)
    known = "unknown" not in (release, our_release)
    return rules != ours and (not known or release <= our_release)


def _catch_up_to_dict(policy: CatchUp) -> dict[str, Any]:
    window = policy.window.total_seconds() if policy.window is not None else None
    return {"mode": str(policy.mode), "window": window, "cap": policy.cap, "grace": policy.grace.total_seconds()}


def _catch_up_from_dict(data: dict[str, Any]) -> CatchUp:
    if not data:
        return _CATCH_UP
    return CatchUp(
        mode=data["mode"],
        window=timedelta(seconds=data["window"]) if data["window"] is not None else None,
        cap=data["cap"],
        grace=timedelta(seconds=data["grace"]),
    )
