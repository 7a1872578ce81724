"""What must hold for every zone, every local time, every policy and every rule."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import islice, pairwise

import pytest
import whenever
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duebox.when import (
    Fold,
    Gap,
    How,
    NonexistentTime,
    RepeatedTime,
    Timetable,
    between,
    local_time,
    next_after,
    replan,
    resolve,
    upcoming,
)
from tests.support import examples
from tests.when.strategies import folds, gaps, timetables_and_instants, zone_and_instant, zone_and_local

many = settings(max_examples=examples(600), deadline=None, suppress_health_check=[HealthCheck.too_slow])
some = settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module", autouse=True)
def _oracle_reads_the_same_zones():
    whenever.reset_tzpath([])
    whenever.clear_tzcache()
    yield
    whenever.reset_tzpath()
    whenever.clear_tzcache()


def _oracle(local: datetime, zone: str, reading: str) -> datetime:
    found = whenever.PlainDateTime(local).assume_tz(zone, disambiguation=reading)
    return found.to_instant().to_stdlib()


@given(zone_and_local())
@many
def test_the_resolver_agrees_with_another_library(drawn):
    zone, local = drawn
    earlier, later = _oracle(local, zone, "earlier"), _oracle(local, zone, "later")
    found = resolve(local, zone, gap=Gap.SHIFT_BACKWARD, fold=Fold.FIRST)
    assert found[0].instant == earlier
    found = resolve(local, zone, gap=Gap.SHIFT_FORWARD, fold=Fold.SECOND)
    assert found[0].instant == later
    assert resolve(local, zone)[0].instant == _oracle(local, zone, "compatible")
    assert (earlier == later) == (found[0].how is How.EXACT)


@given(zone_and_local())
@many
def test_reject_refuses_exactly_what_another_library_refuses(drawn):
    zone, local = drawn
    try:
        expected = _oracle(local, zone, "raise")
    except whenever.SkippedTime:
        with pytest.raises(NonexistentTime):
            resolve(local, zone, gap="reject", fold="reject")
        assert resolve(local, zone, gap="skip") == ()
    except whenever.RepeatedTime:
        with pytest.raises(RepeatedTime):
            resolve(local, zone, gap="reject", fold="reject")
        assert len(resolve(local, zone, fold="both")) == 2
    else:
        assert [one.instant for one in resolve(local, zone, gap="reject", fold="reject")] == [expected]


@given(zone_and_local())
@many
def test_the_end_of_a_gap_is_the_first_instant_after_it(drawn):
    zone, local = drawn
    (found,) = resolve(local, zone, gap="next_valid")
    if found.how is not How.GAP_NEXT_VALID:
        return
    just_before = local_time(found.instant - timedelta(seconds=1), zone)
    assert just_before < local < local_time(found.instant, zone) or local == just_before + timedelta(seconds=1)


@given(zone_and_local(), gaps, folds)
@some
def test_a_time_that_happens_once_is_the_same_under_every_policy(drawn, gap, fold):
    zone, local = drawn
    found = resolve(local, zone, gap=gap, fold=fold)
    if [one.how for one in found] == [How.EXACT]:
        assert local_time(found[0].instant, zone) == local


@given(zone_and_instant())
@some
def test_every_instant_has_a_local_time_that_leads_back_to_it(drawn):
    zone, moment = drawn
    assert moment in [one.instant for one in resolve(local_time(moment, zone), zone, fold="both")]


@given(timetables_and_instants())
@many
def test_occurrences_lie_after_the_instant_asked_about_and_increase(drawn):
    table, moment = drawn
    found = [one.instant for one in islice(upcoming(table, moment), 12)]
    assert all(before < after for before, after in pairwise([moment, *found]))


@given(timetables_and_instants())
@many
def test_keys_are_never_used_twice(drawn):
    table, moment = drawn
    keys = [one.key for one in islice(upcoming(table, moment), 12)]
    assert len(keys) == len(set(keys))


@given(timetables_and_instants(), st.integers(0, 11))
@many
def test_the_series_is_the_same_wherever_it_is_entered(drawn, place):
    table, moment = drawn
    series = list(islice(upcoming(table, moment), 14))
    if place < len(series):
        assert list(islice(upcoming(table, series[place].instant), 13 - place)) == series[place + 1 :]


@given(timetables_and_instants(), st.integers(1, 90), st.integers(1, 90))
@some
def test_neighbouring_spans_share_nothing_and_miss_nothing(drawn, first, second):
    table, start = drawn
    unit = timedelta(hours=1)
    for before, after in pairwise(islice(upcoming(table, start), 2)):
        unit = min(unit, after.instant - before.instant)  # a rule of seconds has 600,000 occurrences in these hours
    middle, end = start + first * unit, start + (first + second) * unit
    assert [*between(table, start, middle), *between(table, middle, end)] == list(between(table, start, end))


@given(timetables_and_instants())
@some
def test_a_timetable_survives_being_stored(drawn):
    table, moment = drawn
    again = Timetable.from_dict(json.loads(json.dumps(table.to_dict())))
    assert again == table
    assert next_after(again, moment) == next_after(table, moment)


@given(timetables_and_instants(), zone_and_instant((1980, 2040)), st.sampled_from(["skip", "fire_now"]))
@some
def test_planning_again_changes_nothing(drawn, moved_to, late):
    table, now = drawn
    pending = next_after(table, now - timedelta(hours=6))
    moved = Timetable(rule=table.rule, zone=moved_to[0], gap=table.gap, fold=table.fold)
    once = replan(moved, now=now, pending=pending and pending.key, late=late)
    again = replan(moved, now=now, pending=once.next and once.next.key, late=late)
    assert again.next == once.next
    assert again.lost is None


@given(timetables_and_instants())
@some
def test_what_fired_never_fires_again_in_another_zone(drawn):
    table, now = drawn
    fired = next_after(table, now)
    if fired is None or fired.key.endswith("#2"):
        return
    moved = Timetable(rule=table.rule, zone="Pacific/Kiritimati", gap=table.gap, fold=table.fold)
    for clock in (fired.instant, fired.instant - timedelta(hours=3)):
        found = replan(moved, now=clock, pending=fired.key, fired=fired.key, late="fire_now")
        assert found.next is None or found.next.key != fired.key


@given(timetables_and_instants(), st.text(max_size=8))
@some
def test_a_flex_window_delays_by_a_steady_share(drawn, seed):
    table, moment = drawn
    window = timedelta(minutes=30)
    loose = Timetable(rule=table.rule, zone=table.zone, gap=table.gap, fold=table.fold, flex=window)
    sharp = list(islice(upcoming(table, moment), 4))
    later = {one.key: one for one in islice(upcoming(loose, moment, seed=seed), 5)}
    delays = {later[one.key].instant - one.instant for one in sharp if one.key in later}
    assert len(delays) <= 1
    assert all(timedelta(0) <= delay < window for delay in delays)
