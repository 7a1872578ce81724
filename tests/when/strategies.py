"""Zones, times and rules as Hypothesis draws them; half of the times lie close to a change of clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache

from hypothesis import strategies as st

from duebox.when import (
    Fold,
    Gap,
    Leap,
    Rule,
    Timetable,
    anniversary,
    clock_changes,
    cron,
    daily,
    every,
    local_time,
    monthly,
    once,
    rrule,
    weekly,
    zones,
)

HOUR = timedelta(hours=1)
ZONES = sorted(zones.current().names)


@cache
def changes(zone: str, year: int) -> list[datetime]:
    """The instants of a year at which the zone's clocks change."""
    found = clock_changes(zone, datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))
    return [one.instant for one in found]


@st.composite
def zone_and_instant(draw: st.DrawFn, years: tuple[int, int] = (1950, 2060)) -> tuple[str, datetime]:
    """A zone and an instant, close to a change of its clocks where the year has one."""
    zone, year = draw(st.sampled_from(ZONES)), draw(st.integers(*years))
    near = changes(zone, year)
    if near and draw(st.booleans()):
        minutes = draw(st.integers(-26 * 60, 26 * 60))
        return zone, draw(st.sampled_from(near)) + timedelta(minutes=minutes)
    return zone, draw(st.datetimes(datetime(year, 1, 1), datetime(year, 12, 31))).replace(tzinfo=UTC)


@st.composite
def zone_and_local(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone and a local time, often one that its clocks skip or repeat."""
    zone, moment = draw(zone_and_instant())
    shift = draw(st.sampled_from([timedelta(0), HOUR, -HOUR, 0.5 * HOUR, -0.5 * HOUR, 24 * HOUR]))
    return zone, local_time(moment, zone) + shift


gaps = st.sampled_from([gap for gap in Gap if gap is not Gap.REJECT])
folds = st.sampled_from([fold for fold in Fold if fold is not Fold.REJECT])
leaps = st.sampled_from(Leap)
# Times at which clocks change, and others.
times_of_day = st.builds(time, st.sampled_from([0, 1, 2, 3, 9, 23]), st.sampled_from([0, 15, 30, 59]))
several_times = st.lists(times_of_day, min_size=1, max_size=3).map(tuple)
dates = st.dates(date(1940, 1, 1), date(2030, 12, 31))
weekdays = st.sets(st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"]), min_size=1, max_size=3)
starts = st.builds(datetime.combine, dates, times_of_day)

rrule_texts = st.one_of(
    st.builds("FREQ=DAILY;INTERVAL={}".format, st.integers(1, 5)),
    st.builds("FREQ=DAILY;BYHOUR={};BYMINUTE=0,30".format, st.sampled_from(["1,2", "2,3", "0,1,2,3", "9"])),
    st.builds(
        lambda step, days, wkst: f"FREQ=WEEKLY;INTERVAL={step};BYDAY={','.join(sorted(days))};WKST={wkst}",
        st.integers(1, 4),
        weekdays,
        st.sampled_from(["MO", "SU"]),
    ),
    st.builds(
        "FREQ=MONTHLY;INTERVAL={};BYMONTHDAY={}".format, st.integers(1, 3), st.sampled_from(["1", "31", "30,31", "-1"])
    ),
    st.builds(
        "FREQ=MONTHLY;INTERVAL={};BYDAY={}".format, st.integers(1, 3), st.sampled_from(["-1SU", "2TU", "1MO,3MO"])
    ),
    st.just("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"),
    st.just("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE,FR;BYSETPOS=-1"),
    st.just("FREQ=DAILY;INTERVAL=3;BYHOUR=1,2,3;BYSETPOS=2"),
    st.builds("FREQ=YEARLY;INTERVAL={}".format, st.integers(1, 2)),
    st.sampled_from(["FREQ=YEARLY;BYYEARDAY=60,-1", "FREQ=YEARLY;BYWEEKNO=1,53;BYDAY=MO", "FREQ=YEARLY;BYDAY=-1SU"]),
    st.builds("FREQ=HOURLY;INTERVAL={}".format, st.integers(1, 30)),
    st.just("FREQ=HOURLY;BYDAY=SA,SU;BYHOUR=0,1,2,3;BYMINUTE=0,30"),
    st.builds("FREQ=MINUTELY;INTERVAL={}".format, st.integers(10, 600)),
)
crons = st.sampled_from(
    ["30 2 * * *", "0,30 1,2,3 * * *", "*/15 * * * *", "0 */2 * * *", "30 * * * 0,6", "0 0 L * *", "15 1 13 * 5"]
)
wall_rules: st.SearchStrategy[Rule] = st.one_of(
    st.builds(daily, several_times, every=st.integers(1, 5), since=dates),
    st.builds(
        lambda days, at, n, since: weekly(*days, at=at, every=n, since=since),
        weekdays,
        several_times,
        st.integers(1, 4),
        dates,
    ),
    st.builds(
        monthly,
        st.integers(1, 31),
        at=several_times,
        every=st.sampled_from([1, 2, 3]),
        since=dates,
        leap=st.sampled_from([Leap.BACKWARD, Leap.FORWARD]),
    ),
    st.builds(anniversary, dates, at=times_of_day, leap=leaps),
    crons.map(cron),
)
rules: st.SearchStrategy[Rule] = st.one_of(
    wall_rules,
    st.builds(once, starts),
    st.builds(every, hours=st.integers(1, 100), minutes=st.integers(0, 59)),
    st.builds(every, seconds=st.integers(1, 200)),
    st.builds(rrule, rrule_texts, start=starts, leap=leaps),
)


@st.composite
def timetables_and_instants(draw: st.DrawFn) -> tuple[Timetable, datetime]:
    """Any rule in any zone under any policy, and an instant to ask about."""
    zone, moment = draw(zone_and_instant((1980, 2040)))
    return Timetable(rule=draw(rules), zone=zone, gap=draw(gaps), fold=draw(folds)), moment
