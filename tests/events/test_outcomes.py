from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebox import Discard, Permanent, Retry, Snooze
from duebox.events.outcomes import Dead, Retried
from duebox.exceptions import Throttled


def test_by_default_the_delays_are_1_2_and_4_minutes_and_then_it_is_dead():
    retry = Retry(jitter=0)
    error = ValueError("no")
    assert [retry.outcome(error, attempt) for attempt in (1, 2, 3, 4)] == [
        Retried(60.0, error),
        Retried(120.0, error),
        Retried(240.0, error),
        Dead(error),
    ]


@given(st.integers(1, 40), st.floats(0, 0.99))
def test_jitter_spreads_a_delay_by_its_share_and_no_further(attempt, jitter):
    plain = Retry(jitter=0).delay(attempt)
    # The last bit of a float may round away from the bound.
    assert plain * (1 - jitter) * 0.999999 <= Retry(jitter=jitter).delay(attempt) <= plain * (1 + jitter) * 1.000001


def test_jitter_makes_a_crowd_that_failed_together_return_apart():
    assert len({Retry().delay(1) for _ in range(50)}) > 40


def test_a_delay_is_never_longer_than_the_cap():
    assert Retry(limit=5000, cap=600, jitter=0).delay(4999) == 600


def test_a_policy_without_retries_is_dead_at_the_first_error():
    assert isinstance(Retry(limit=0).outcome(ValueError(), 1), Dead)


def test_an_error_class_named_permanent_is_dead_at_once():
    assert isinstance(Retry(permanent=(KeyError,)).outcome(KeyError("x"), 1), Dead)


def test_permanent_raised_on_purpose_is_dead_at_once():
    assert isinstance(Retry().outcome(Permanent("no such address"), 1), Dead)


def test_the_nearest_class_decides_whether_an_error_is_permanent():
    broad = Retry(permanent=(LookupError,), transient=(KeyError,))
    assert isinstance(broad.outcome(KeyError(), 1), Retried)
    assert isinstance(broad.outcome(IndexError(), 1), Dead)
    narrow = Retry(permanent=(KeyError,), transient=(LookupError,))
    assert isinstance(narrow.outcome(KeyError(), 1), Dead)
    assert isinstance(narrow.outcome(IndexError(), 1), Retried)


def test_a_transient_subclass_of_permanent_is_retried():
    class Maybe(Permanent):
        pass

    assert isinstance(Retry(transient=(Maybe,)).outcome(Maybe(), 1), Retried)


@pytest.mark.parametrize(
    "options",
    [{"limit": -1}, {"first": -1}, {"cap": -1}, {"factor": 0.5}, {"jitter": 1}, {"jitter": -0.1}],
)
def test_a_policy_that_makes_no_sense_is_refused(options):
    with pytest.raises(ValueError, match=r"Retry\(limit="):
        Retry(**options)


def test_one_error_class_instead_of_a_tuple_is_refused_when_the_policy_is_made():
    with pytest.raises(ValueError, match=r"permanent.*tuple"):
        Retry(permanent=ValueError)


@pytest.mark.parametrize("options", [{"first": float("nan")}, {"cap": float("inf")}, {"cap": 1e15}])
def test_a_delay_that_no_calendar_holds_is_refused_when_the_policy_is_made(options):
    with pytest.raises(ValueError, match=r"Retry\("):
        Retry(**options)


def test_snooze_refuses_a_naive_datetime_and_says_how_to_make_it_aware():
    with pytest.raises(ValueError, match=r"is naive; pass an aware datetime"):
        Snooze(datetime(2026, 1, 1))


def test_snooze_refuses_anything_that_is_no_moment_and_no_delay():
    with pytest.raises(TypeError, match="aware datetime or a timedelta"):
        Snooze(60)


def test_snooze_refuses_a_delay_beyond_the_calendar():
    with pytest.raises(ValueError, match="longer than"):
        Snooze(timedelta.max)


def test_snooze_takes_an_aware_datetime_and_a_timedelta():
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert Snooze(moment).until == moment
    assert Snooze(timedelta(hours=1)).until == timedelta(hours=1)


def test_discard_refuses_a_reason_that_is_no_text():
    with pytest.raises(TypeError, match=r"Discard\(reason=42\)"):
        Discard(42)


def test_a_destination_that_is_too_busy_uses_up_no_attempt_and_is_asked_again_when_it_says():
    outcome = Retry(limit=0).outcome(Throttled("busy", seconds=7), 1, age=10.0)
    assert (outcome.after_seconds, outcome.uses_attempt) == (7, False)


def test_one_that_does_not_say_for_how_long_is_asked_ever_more_seldom():
    retry = Retry(first=60, jitter=0)
    waits = [retry.outcome(Throttled("busy"), 1, age=age).after_seconds for age in (0, 800, 4_000, 80_000)]
    assert waits == [60, 100, 480, 480]


def test_nobody_is_put_off_for_ever():
    week = Retry(delays=(86_400,) * 7)
    assert not week.outcome(Throttled("busy", seconds=7), 8, age=6 * 86_400).uses_attempt
    assert isinstance(week.outcome(Throttled("busy", seconds=7), 8, age=8 * 86_400), Dead)
    assert week.outcome(Throttled("busy", seconds=7), 1, age=8 * 86_400).uses_attempt
    assert isinstance(Retry().outcome(Throttled("busy"), 4, age=86_401), Dead)


def test_answers_are_values_that_can_be_raised():
    assert Snooze(timedelta(hours=1)) == Snooze(timedelta(hours=1)) != Snooze(timedelta(hours=2))
    assert Discard("a") == Discard("a") != Discard("b")
    assert len({Discard("a"), Discard("a")}) == 1
    assert pickle.loads(pickle.dumps(Discard("a"))) == Discard("a")
    with pytest.raises(Discard, match="a"):
        raise Discard("a")
