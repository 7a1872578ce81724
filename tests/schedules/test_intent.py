"""What a schedule wants, as one value that is stored as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebox.schedules.intent import (
    Intent,
    Template,
    described,
    is_plain_single,
    is_superseded,
    next_of,
    read_intent,
    rules_of,
)
from duebox.when import (
    CatchUp,
    Timetable,
    UnknownZone,
    WhenError,
    anniversary,
    daily,
    next_after,
    once,
    reminder,
    rrule,
    zones,
)
from tests.support import examples
from tests.when.strategies import timetables_and_instants

NINE = Timetable(rule=daily("09:00"), zone="Europe/London")
OLD = Path(__file__).parents[1] / "vectors" / "zones" / "2025b"
VANCOUVER = "America/Vancouver"


def utc(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def old_release(release="2025b"):
    return zones.using(zones.from_folder(OLD, release=release))


def test_defaults_are_left_out_of_what_is_stored():
    assert json.loads(Intent(table=NINE).to_json()) == {"when": NINE.to_dict()}


def test_every_policy_that_is_not_the_default_is_stored():
    intent = Intent(
        table=NINE,
        catch_up=CatchUp(mode="all", window=timedelta(hours=36), cap=7, grace=timedelta(minutes=1)),
        late="skip",
        grace=timedelta(hours=1),
    )
    assert json.loads(intent.to_json()) == {
        "when": NINE.to_dict(),
        "catch_up": {"mode": "all", "window": 129_600.0, "cap": 7, "grace": 60.0},
        "late": "skip",
        "grace": 3600.0,
    }
    assert read_intent(intent.to_json()) == intent


catch_ups = st.builds(
    CatchUp,
    mode=st.sampled_from(["none", "latest", "all"]),
    window=st.none() | st.timedeltas(timedelta(0), timedelta(days=30)),
    cap=st.integers(1, 1000),
    grace=st.timedeltas(timedelta(0), timedelta(days=1)),
)


@given(timetables_and_instants(), catch_ups, st.sampled_from(["skip", "fire_now"]))
@settings(max_examples=examples(150), deadline=None)
def test_an_intent_survives_being_stored_as_text_and_as_parsed_json(drawn, catch_up, late):
    intent = Intent(table=drawn[0], catch_up=catch_up, late=late, grace=timedelta(hours=3))
    assert read_intent(intent.to_json()) == intent
    assert read_intent(json.loads(intent.to_json())) == intent


@given(timetables_and_instants())
@settings(max_examples=examples(150), deadline=None)
def test_what_comes_next_is_what_the_timetable_says(drawn):
    table, moment = drawn
    text = Intent(table=table).to_json()
    assert next_of(text, moment, seed="it") == next_after(table, moment, seed="it")


def test_an_intent_always_names_its_zone():
    with pytest.raises(UnknownZone, match="No zone is given"):
        Intent(table=Timetable(rule=daily("09:00")))


def test_the_number_of_firings_is_left_to_the_row():
    text = Intent(table=Timetable(rule=daily("09:00"), remaining=1, zone="UTC")).to_json()
    found = next_of(text, utc("2026-06-10T12:00Z"), seed="it")
    assert found.key == "2026-06-11T09:00"


def test_the_share_of_a_flex_window_is_that_of_the_schedule():
    text = Intent(table=Timetable(rule=daily("09:00"), flex=timedelta(hours=1), zone="UTC")).to_json()
    after = utc("2026-06-10T00:00Z")
    one, other = (next_of(text, after, seed=seed) for seed in ("a", "b"))
    assert (one.key, other.key) == ("2026-06-10T09:00", "2026-06-10T09:00")
    assert one.instant != other.instant
    assert next_of(text, one.instant, seed="a").instant == one.instant + timedelta(days=1)


def test_another_zone_is_the_same_intent_otherwise():
    intent = Intent(table=NINE, late="skip")
    moved = intent.but_in("Asia/Tokyo")
    assert (moved.table.zone, moved.late, moved.but_in("Europe/London")) == ("Asia/Tokyo", "skip", intent)


@pytest.mark.parametrize(
    ("intent", "plain"),
    [
        (Intent(table=Timetable(rule=once(datetime(2026, 6, 1)), zone="UTC")), True),
        (Intent(table=Timetable(rule=once(datetime(2026, 6, 1, tzinfo=UTC)), zone="UTC")), True),
        (Intent(table=Timetable(rule=reminder(datetime(2026, 6, 1), "-P1D"), zone="UTC")), True),
        (Intent(table=Timetable(rule=once(datetime(2026, 6, 1)), zone="UTC"), catch_up=CatchUp(mode="none")), False),
        (Intent(table=NINE), False),
        (Intent(table=Timetable(rule=anniversary(date(1990, 1, 1), at="09:00"), zone="UTC")), False),
        (Intent(table=Timetable(rule=rrule("FREQ=DAILY;COUNT=1", start=datetime(2026, 6, 1)), zone="UTC")), False),
    ],
)
def test_most_rows_are_told_to_be_plain_without_being_read(intent, plain):
    assert is_plain_single(intent.to_json()) is plain


def test_marks_are_told_beside_the_local_time():
    table = Timetable(rule=daily("02:30"), zone="America/New_York")
    assert described(next_after(table, utc("2026-03-08T00:00Z"))) == ("2026-03-08T02:30", "gap_shifted_forward")
    assert described(next_after(table, utc("2026-03-09T00:00Z"))) == ("2026-03-09T02:30", "")
    leap = Timetable(rule=anniversary(date(1992, 2, 29), at="02:30"), zone="UTC")
    assert described(next_after(leap, utc("2026-01-01T00:00Z"))) == ("2026-02-28T02:30", "leap_moved")


def test_an_unknown_late_policy_is_refused():
    with pytest.raises(WhenError, match="Late policy 'maybe'"):
        Intent(table=NINE, late="maybe")


@pytest.mark.parametrize("text", ["{}", "[]", '{"when": {"rule": {"kind": "lunar"}}}', "not json"])
def test_what_is_no_intent_is_refused(text):
    with pytest.raises((KeyError, ValueError, TypeError)):
        read_intent(text)


def test_rules_of_a_zone_change_with_the_release():
    new, release = rules_of(VANCOUVER)
    assert release == zones.current().release
    with old_release():
        old, old_name = rules_of(VANCOUVER)
    assert old != new
    assert old_name == "2025b"


def test_an_instant_of_an_older_release_is_superseded_where_the_rules_differ():
    with old_release():
        old = rules_of(VANCOUVER)
    assert is_superseded(VANCOUVER, *old)
    assert not is_superseded(VANCOUVER, *rules_of(VANCOUVER))


def test_where_the_rules_are_the_same_another_release_supersedes_nothing():
    rules, _ = rules_of(VANCOUVER)
    assert not is_superseded(VANCOUVER, rules, "1999a")


def test_while_two_releases_run_side_by_side_the_newer_one_decides():
    new = rules_of(VANCOUVER)
    with old_release():
        assert not is_superseded(VANCOUVER, *new)


def test_of_releases_without_a_name_the_one_at_hand_decides():
    new = rules_of(VANCOUVER)
    with old_release("unknown"):
        unnamed = rules_of(VANCOUVER)
        assert is_superseded(VANCOUVER, *new)
    assert is_superseded(VANCOUVER, *unnamed)


def test_what_comes_next_follows_the_zone_database_in_use():
    text = Intent(table=Timetable(rule=daily("09:00"), zone=VANCOUVER)).to_json()
    after = utc("2026-11-15T00:00Z")
    with old_release():
        assert next_of(text, after, seed="it").instant == utc("2026-11-15T17:00Z")
    assert next_of(text, after, seed="it").instant == utc("2026-11-15T16:00Z")


def test_intents_made_from_a_template_are_those_made_one_by_one():
    like = Intent(table=replace(NINE, gap="skip", flex=timedelta(hours=1)), late="skip", grace=timedelta(hours=3))
    template = Template(like)
    for zone in (VANCOUVER, "Asia/Tokyo", VANCOUVER):
        made = template.intent(daily("10:00"), zone)
        alone = replace(like, table=replace(like.table, rule=daily("10:00"), zone=zone))
        assert (made, made.to_json()) == (alone, alone.to_json())
        changed = replace(made, late="fire_now")
        assert read_intent(changed.to_json()) == changed
    with pytest.raises(UnknownZone):
        template.intent(daily("10:00"), "Asia/Tokio")
