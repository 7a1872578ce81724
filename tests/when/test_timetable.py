"""A timetable: bounds, counts, closed days, spread, and being stored."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest

from duebox.when import (
    InvalidRule,
    Moved,
    Timetable,
    UnknownZone,
    WhenError,
    anniversary,
    between,
    cron,
    daily,
    describe,
    every,
    monthly,
    next_after,
    register_calendar,
    rrule,
    spread,
    upcoming,
    weekly,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def days_of(table, count, after=NOW):
    return [one.instant.strftime("%m-%d") for one in islice(upcoming(table, after), count)]


def test_a_start_is_inclusive_and_an_end_is_not():
    start, end = datetime(2026, 2, 1, 9, tzinfo=UTC), datetime(2026, 2, 3, 9, tzinfo=UTC)
    assert days_of(Timetable(rule=daily("09:00"), start=start, end=end, zone="UTC"), 9) == ["02-01", "02-02"]


def test_naive_bounds_are_local():
    table = Timetable(
        rule=daily("09:00"), zone="Pacific/Kiritimati", start=datetime(2026, 2, 1), end=datetime(2026, 2, 2, 9)
    )
    assert [one.nominal for one in upcoming(table, NOW)] == [datetime(2026, 2, 1, 9)]


def test_a_start_far_ahead_is_reached_without_walking():
    table = Timetable(rule=cron("* * * * *"), start=datetime(2400, 1, 1), zone="UTC")
    assert next_after(table, NOW).instant == datetime(2400, 1, 1, tzinfo=UTC)


def test_remaining_is_how_many_more():
    assert days_of(Timetable(rule=daily("09:00"), remaining=2, zone="UTC"), 9) == ["01-01", "01-02"]
    assert next_after(Timetable(rule=daily("09:00"), remaining=0, zone="UTC"), NOW) is None


def test_a_timetable_without_a_zone_is_not_asked_for_occurrences():
    table = Timetable(rule=daily("09:00"))
    for ask in (
        lambda: next_after(table, NOW),
        lambda: next_after(Timetable(rule=anniversary("1990-06-01", at="09:00")), NOW),
        lambda: next(between(table, NOW, NOW + timedelta(days=2))),
        lambda: next(upcoming(table, NOW)),
    ):
        with pytest.raises(UnknownZone, match=r"^No zone is given; name one, such as zone='Europe/London'\.$"):
            ask()


def test_a_timetable_without_a_zone_takes_one_and_one_with_a_zone_keeps_it():
    table = Timetable(rule=daily("09:00"), fold="both")
    assert table.zone == ""
    assert table.or_in("Asia/Tokyo") == Timetable(rule=daily("09:00"), zone="Asia/Tokyo", fold="both")
    assert table.or_in("Asia/Tokyo").or_in("Europe/London").zone == "Asia/Tokyo"


def test_a_timetable_without_a_zone_is_described_and_stored_as_it_is():
    table = Timetable(rule=daily("09:00"))
    assert describe(table) == "Every day at 09:00."
    assert Timetable.from_dict(table.to_dict()) == table


def test_between_is_half_open():
    table = Timetable(rule=daily("09:00"), zone="UTC")
    nine = datetime(2026, 1, 1, 9, tzinfo=UTC)
    assert [one.instant for one in between(table, nine, nine + timedelta(days=1))] == [nine]


def test_a_span_that_ends_before_it_starts_is_refused():
    with pytest.raises(WhenError, match="swap them"):
        between(Timetable(rule=daily("09:00"), zone="UTC"), NOW, NOW - timedelta(days=1))


def test_the_ends_of_time_are_no_trouble():
    table = Timetable(rule=anniversary("1990-01-01", at="00:00"), zone="Pacific/Kiritimati")
    assert next_after(table, datetime.max.replace(tzinfo=UTC)) is None
    assert next_after(table, datetime(9998, 6, 1, tzinfo=UTC)) is None
    assert next(between(table, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))).key == "1991"


@pytest.mark.parametrize("rule", [daily("23:30"), weekly("sun", at="09:00"), monthly(31, at="09:00", leap="forward")])
def test_rules_end_with_the_calendar(rule):
    found = list(
        between(Timetable(rule=rule, zone="UTC"), datetime(9998, 11, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    )
    assert found[-1].nominal.year in (9998, 9999)


def test_closed_days_are_skipped():
    table = Timetable(rule=daily("09:00"), calendar="weekdays", zone="UTC")
    assert days_of(table, 4) == ["01-01", "01-02", "01-05", "01-06"]


def test_closed_days_move_forward_and_keep_their_name():
    table = Timetable(rule=monthly(1, at="09:00"), calendar="weekdays", closed="forward", zone="UTC")
    found = list(islice(upcoming(table, NOW), 3))
    assert [one.instant.strftime("%m-%d") for one in found] == ["01-01", "02-02", "03-02"]
    assert [one.key for one in found] == ["2026-01-01T09:00", "2026-02-01T09:00", "2026-03-01T09:00"]
    assert found[1].moved is Moved.CALENDAR


def test_closed_days_move_backward():
    table = Timetable(rule=monthly(-1, at="09:00"), calendar="weekdays", closed="backward", zone="UTC")
    assert days_of(table, 3) == ["01-30", "02-27", "03-31"]


def test_days_moved_onto_an_open_one_fire_once_under_the_open_days_name():
    table = Timetable(rule=daily(("09:00", "17:00")), calendar="weekdays", closed="forward", zone="UTC")
    found = list(islice(upcoming(table, datetime(2026, 1, 2, 20, tzinfo=UTC)), 3))
    assert [one.key for one in found] == ["2026-01-05T09:00", "2026-01-05T17:00", "2026-01-06T09:00"]


@pytest.mark.parametrize("closed", ["forward", "backward"])
def test_a_series_with_closed_days_is_the_same_wherever_it_is_entered(closed):
    table = Timetable(rule=daily(("01:30", "17:00")), zone="Europe/London", calendar="weekdays", closed=closed)
    series = list(between(table, datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 15, tzinfo=UTC)))
    for place, one in enumerate(series[:-1]):
        assert next_after(table, one.instant) == series[place + 1]


def test_public_holidays_come_from_an_optional_package():
    pytest.importorskip("holidays")
    table = Timetable(rule=daily("09:00"), calendar="holidays:US", zone="UTC")
    assert days_of(table, 2, datetime(2026, 7, 1, 12, tzinfo=UTC)) == ["07-02", "07-06"]


def test_a_calendar_of_ones_own_is_known_by_its_name():
    class OpenInMayOnly:
        def is_business_day(self, day: date) -> bool:
            return day.month == 5

    register_calendar("may", OpenInMayOnly)
    assert days_of(Timetable(rule=daily("09:00"), calendar="may", zone="UTC"), 1) == ["05-01"]
    with pytest.raises(WhenError, match="closed for 31 days"):
        next_after(Timetable(rule=daily("09:00"), calendar="may", closed="forward", zone="UTC"), NOW)


def test_a_series_that_only_meets_closed_days_is_refused():
    with pytest.raises(WhenError, match="closed day"):
        next_after(Timetable(rule=weekly("sun", at="09:00"), calendar="weekdays", zone="UTC"), NOW)


def test_a_country_without_public_holidays_is_refused():
    pytest.importorskip("holidays")
    with pytest.raises(WhenError, match="not known"):
        Timetable(rule=daily("09:00"), calendar="holidays:XX")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(WhenError, match="pip install holidays"):
        Timetable(rule=daily("09:00"), calendar="holidays:PT")


@pytest.mark.parametrize("name", ["mars", "holidays:"])
def test_an_unknown_calendar_is_refused(name):
    with pytest.raises(WhenError, match="not known"):
        Timetable(rule=daily("09:00"), calendar=name)


def test_a_crowd_is_spread_evenly_and_each_keeps_its_place():
    window = timedelta(minutes=10)
    delays = [spread(f"birthday:user:{number}", window) for number in range(2000)]
    assert all(timedelta(0) <= delay < window for delay in delays)
    assert abs(sum(delays, timedelta(0)) / 2000 - window / 2) < timedelta(seconds=20)
    assert spread("birthday:user:42", window) == delays[42]


def test_flex_moves_the_instant_and_not_the_key():
    table = Timetable(rule=daily("09:00"), flex=timedelta(minutes=10), zone="UTC")
    found = next_after(table, NOW, seed="a")
    assert found.key == "2026-01-01T09:00"
    assert found.instant == datetime(2026, 1, 1, 9, tzinfo=UTC) + found.spread
    assert next_after(table, found.instant, seed="a").key == "2026-01-02T09:00"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"remaining": -1}, "below zero"),
        ({"flex": timedelta(seconds=-1)}, "negative"),
        ({"start": datetime(2026, 2, 1), "end": datetime(2026, 1, 1)}, "not after"),
        ({"start": "2026-02-01"}, "naive"),
        ({"gap": "jump"}, "Gap policy 'jump'"),
        ({"closed": "never"}, "Closed policy"),
        ({"rule": "daily"}, "not a rule"),
        ({"rule": every(hours=1), "calendar": "weekdays", "closed": "forward"}, "daily or coarser"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(WhenError, match=message):
        Timetable(**{"rule": daily("09:00"), **options})


def test_stored_data_is_plain_json_and_names_its_policies():
    table = Timetable(rule=daily("09:00"), zone="Europe/London", gap="skip")
    assert json.loads(json.dumps(table.to_dict())) == {
        "rule": {"kind": "daily", "at": ["09:00:00"]},
        "zone": "Europe/London",
        "gap": "skip",
        "fold": "first",
    }


def test_everything_survives_being_stored():
    table = Timetable(
        rule=rrule(
            "FREQ=MONTHLY;COUNT=9",
            start=datetime(2026, 1, 31, 9),
            exdates=[date(2026, 3, 31), datetime(2026, 5, 31, 9), datetime(2026, 7, 31, 8, tzinfo=UTC)],
            leap="forward",
        ),
        zone="Europe/London",
        fold="both",
        start=datetime(2026, 1, 1),
        end=datetime(2030, 1, 1, tzinfo=UTC),
        remaining=5,
        calendar="weekdays",
        closed="backward",
        flex=timedelta(minutes=5),
    )
    assert Timetable.from_dict(json.loads(json.dumps(table.to_dict()))) == table


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"rule": {"kind": "lunar"}}, "kind 'lunar'"),
        ({"rule": {"kind": "daily", "at": ["09:00"]}, "colour": "red"}, "unknown colour"),
    ],
)
def test_stored_data_of_another_world_is_refused(data, message):
    with pytest.raises(WhenError, match=message):
        Timetable.from_dict(data)


def test_a_stored_rule_is_checked_again():
    with pytest.raises(InvalidRule):
        Timetable.from_dict({"rule": {"kind": "cron", "expression": "0 0 31 4 *"}})


def test_a_table_for_another_rule_keeps_everything_else():
    table = Timetable(
        rule=daily("09:00"), zone="Asia/Tokyo", gap="skip", fold="second", start=datetime(2026, 2, 1),
        end=datetime(2026, 8, 1), remaining=7, closed="forward", flex=timedelta(minutes=5),
    )  # fmt: skip
    assert table.with_rule(weekly("mon", at="10:00")) == replace(table, rule=weekly("mon", at="10:00"))
    with pytest.raises(InvalidRule):
        table.with_rule("daily")


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/London"])
@pytest.mark.parametrize("leap", ["omit", "backward", "forward"])
def test_the_short_way_to_the_next_anniversary_leads_to_the_same_one(zone, leap):
    days = [date(1996, 1, 1) + timedelta(days=n) for n in range(366) if n < 8 or n > 358 or 55 < n < 63]
    moments = [datetime(2027, 12, 26, 12, tzinfo=UTC) + timedelta(hours=7 * n) for n in range(45)]
    moments += [datetime(2027, 2, 25, 1, tzinfo=UTC) + timedelta(hours=7 * n) for n in range(30)]
    for day in days:
        table = Timetable(rule=anniversary(day, at="23:30", leap=leap), zone=zone)
        for moment in moments:
            assert next_after(table, moment) == next(upcoming(table, moment)), (day, moment)
