"""One case about local time → the instants the package gives for it, compared with the expected ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from duebox.schedules.intent import Intent
from duebox.when import (
    NonexistentTime,
    Occurrence,
    Offset,
    RepeatedTime,
    Timetable,
    WhenError,
    anniversary,
    at_offset,
    between,
    cron,
    local_time,
    offset,
    once,
    resolve,
    rrule,
    start_of_day,
    upcoming,
    zones,
)
from tests.vectors import scenarios
from tests.vectors.world import World

Case = dict[str, Any]
LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
OLD_RELEASES = Path(__file__).parent / "zones"
REFUSALS = {
    "nonexistent": NonexistentTime,
    "gap": NonexistentTime,
    "skipped": NonexistentTime,
    "ambiguous": RepeatedTime,
    "repeated": RepeatedTime,
    "fold": RepeatedTime,
}


def failure(case: Case) -> str | None:
    """What is wrong with the package's answer to a case; None if nothing is."""
    player = PLAYERS.get(case["type"])
    if player is None:
        return f"cases of type {case['type']!r} cannot be played"
    try:
        found = player(case)
    except WhenError as error:
        return _wrong_refusal(case, error)
    except Exception as error:
        return f"raised {error!r}"
    if case.get("expected_error"):
        return f"expected the refusal {case['expected_error']!r}, found {_texts(found)}"
    return _difference(case, found)


def _wrong_refusal(case: Case, error: WhenError) -> str | None:
    wanted = case.get("expected_error")
    if wanted and isinstance(error, REFUSALS.get(wanted, WhenError)):
        return None
    return f"refused with {error!r}"


def _difference(case: Case, found: list[datetime]) -> str | None:
    if _texts(found) != case["expected_utc"]:
        return f"expected {case['expected_utc']}, found {_texts(found)}"
    if "expected_local" in case:
        zone = zones.current().zone(case["zone"])
        local = [one.astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S%z") for one in found]
        if local != case["expected_local"]:
            return f"expected local {case['expected_local']}, found {local}"
    return None


def _texts(found: list[datetime]) -> list[str]:
    return [one.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for one in found]


def _policy(case: Case, *names: str) -> dict[str, Any]:
    return {name: value for name, value in case.get("policy", {}).items() if name in (names or ("gap", "fold"))}


def _instants(found: Iterator[Occurrence]) -> list[datetime]:
    return [one.instant for one in found]


def play_local(case: Case) -> list[datetime]:
    found = resolve(datetime.fromisoformat(case["local"]), case["zone"], **_policy(case))
    return [one.instant for one in found]


def play_start_of_day(case: Case) -> list[datetime]:
    return [start_of_day(date.fromisoformat(case["local"]), case["zone"])]


def play_rrule(case: Case) -> list[datetime]:
    left_out = next((value for name, value in case.items() if name.startswith("exdate")), ())
    rule = rrule(
        case["rule"],
        start=datetime.fromisoformat(case["dtstart"]),
        exdates=[left_out] if isinstance(left_out, str) else left_out,
        **_policy(case, "leap"),
    )
    found = upcoming(Timetable(rule=rule, zone=case["zone"], **_policy(case)), LONG_AGO)
    return _instants(islice(found, case.get("n")))


def play_anniversary(case: Case) -> list[datetime]:
    rule = anniversary(case["birth"], at=case["time"], **_policy(case, "leap"))
    table = Timetable(rule=rule, zone=case["zone"], **_policy(case))
    first, last = min(case["years"]), max(case["years"])
    span = between(table, datetime(first - 1, 12, 1, tzinfo=UTC), datetime(last + 1, 2, 1, tzinfo=UTC))
    return _instants(one for one in span if int(one.key) in case["years"])


def play_offset(case: Case) -> list[datetime]:
    by = offset(case["offset"])
    if case["kind"] == "exact" and by.days:
        by = Offset(exact=by.exact + timedelta(days=by.days))
    found = at_offset(datetime.fromisoformat(case["anchor"]), by, case["zone"], **_policy(case))
    return [found.instant] if found else []


def play_cron(case: Case) -> list[datetime]:
    clock = {"fixed": "wall", "elapsed": "elapsed", None: None}[case.get("mode")]
    table = Timetable(rule=cron(case["rule"], clock=clock), zone=case["zone"], **_policy(case))
    start = resolve(datetime.fromisoformat(case["start"]), case["zone"])[0].instant
    return _instants(islice(upcoming(table, start), case["n"]))


def play_tzdata_replan(case: Case) -> list[datetime]:
    table = Timetable(rule=once(datetime.fromisoformat(case["local"])), zone=case["zone"], **_policy(case))
    world = World(LONG_AGO)
    with _release(case["tzdata_before"], case["zone"]) as known:
        world.want("it", Intent(table=table))
        before = world.next_due()
    assert before is not None
    if known and _texts([before]) != case["expected_utc_before"]:
        raise ValueError(f"before: expected {case['expected_utc_before']}, found {_texts([before])}")
    key = world.rows["it"].occurrence
    world.run_until(before - timedelta(days=30))
    world.follow_zones()
    due = world.next_due()
    assert due is not None
    assert world.rows["it"].occurrence == key
    assert local_time(due, case["zone"]) == datetime.fromisoformat(case["local"])
    world.run_until(due)
    return world.fired


@contextmanager
def _release(release: str, zone: str) -> Iterator[bool]:
    """An older zone database, where one is kept; zones it does not hold have not changed since."""
    folder = OLD_RELEASES / release
    if folder.joinpath(zone).is_file():
        with zones.using(zones.from_folder(folder, release=release)):
            yield True
    else:
        yield folder.is_dir()


PLAYERS: dict[str, Callable[[Case], list[datetime]]] = {
    "local": play_local,
    "start_of_day": play_start_of_day,
    "rrule": play_rrule,
    "anniversary": play_anniversary,
    "offset": play_offset,
    "cron": play_cron,
    "tzdata_replan": play_tzdata_replan,
    "scenario": scenarios.play,
}
