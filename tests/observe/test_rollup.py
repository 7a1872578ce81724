"""Minutes are counted once they have ended, again when late commits are there, and read without reading events."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction

from duebox.exceptions import InvalidAction
from duebox.models import Attempt, Rollup
from duebox.observe import rollup
from duebox.observe.rollup import (
    ALL,
    BOUNDS_MS,
    METRICS,
    Histogram,
    counted_until,
    percentile,
    roll_up,
    series,
    totals,
)
from duebox.store import rollup as store
from duebox.store.run_sql import statement
from tests.observe.rollup_rows import NOON, at, attempt, event, fired, logged
from tests.support import analyze

pytestmark = pytest.mark.django_db


def count_all(now):
    while roll_up(now=now):
        pass


def counts(metric, minutes=3, **options):
    return [point.count for point in series(metric, NOON, at(minutes), **options)]


def test_events_are_counted_by_type_in_the_minute_of_their_emission():
    event(at(0, 0))
    event(at(0, 59.9))
    event(at(2), "order.sent")
    count_all(at(3, 6))
    assert counts("emitted") == [2, 0, 1]
    assert counts("emitted", name="order.paid") == [2, 0, 0]
    assert counts("emitted", name="order.sent") == [0, 0, 1]


def test_attempts_are_counted_by_subscriber_and_outcome():
    for outcome in ("delivered", "delivered", "retried", "dead", "snoozed"):
        attempt(at(0, 30), outcome=outcome)
    for outcome in ("discarded", "expired", "rescued", "redriven"):
        attempt(at(0, 30), outcome=outcome, late_ms=None)
    attempt(at(0, 31), "shop.mail", number=2)
    count_all(at(1, 6))
    found = totals("subscriber", NOON, at(1))
    assert list(found) == [ALL, "shop.bill", "shop.mail"]
    bill = found["shop.bill"]
    assert (bill.count, bill.delivered, bill.retried, bill.dead) == (5, 2, 1, 1)
    assert (bill.snoozed, bill.discarded, bill.expired, bill.rescued) == (1, 1, 1, 1)
    assert (found[ALL].delivered, found[ALL].repeated) == (3, 1)
    assert counts("delivered", 1) == [3]


def test_endpoints_of_webhooks_are_summed_by_their_destination():
    attempt(at(0, 1), "to:hooks/0190-a")
    attempt(at(0, 2), "to:hooks/0190-b")
    count_all(at(1, 6))
    assert set(totals("subscriber", NOON, at(1))) == {ALL, "to:hooks"}
    assert counts("delivered", 1, name="to:hooks") == [2]


def test_lateness_and_duration_are_histograms_with_sums():
    attempt(at(0, 10), late_ms=3, took_ms=100)
    attempt(at(0, 20), late_ms=5, took_ms=1000, number=2)
    count_all(at(1, 6))
    [total] = [found for name, found in totals("subscriber", NOON, at(1)).items() if name == "shop.bill"]
    assert total.lateness.counts == (0, 0, 1, 1)  # below 4 ms and below 8 ms
    assert total.lateness.total_ms == pytest.approx(8)
    assert total.lateness.mean_ms == pytest.approx(4)
    assert total.commit_to_start.counts == (0, 0, 1)  # of the first attempt only
    assert total.duration.count == 2
    assert total.duration.total_ms == pytest.approx(1100)
    [point] = series("lateness", NOON, at(1), name="shop.bill")
    assert point.histogram == total.lateness


def test_more_than_an_hour_late_is_in_the_last_bucket():
    attempt(at(0, 10), late_ms=5 * 3600 * 1000)
    count_all(at(1, 6))
    [point] = series("lateness", NOON, at(1))
    assert len(point.histogram.counts) == len(BOUNDS_MS) + 1
    assert percentile(point.histogram, 0.99) == BOUNDS_MS[-1]


def test_what_schedules_fire_is_counted_with_its_lateness():
    fired(at(0, 5), late_seconds=2)
    event(at(0, 6))
    count_all(at(1, 6))
    assert counts("fired", 1) == [1]
    [point] = series("schedule_lateness", NOON, at(1), name="visit.reminded")
    assert point.histogram.mean_ms == pytest.approx(2000)
    assert counts("emitted", 1) == [2]


@pytest.mark.parametrize("due", ["soon", "2026-02-31T10:00:00+00:00", "2026-13-01T10:00:00+00:00", 5, None, {"a": 1}])
def test_metadata_that_is_not_of_a_schedule_stops_no_count(due):
    event(at(0, 5), metadata={"schedule": {"due": due}})
    count_all(at(1, 6))
    assert counts("emitted", 1) == [1]


def test_lines_of_the_schedule_log_are_counted_with_their_occurrences():
    logged(at(0, 5), occurrences=3)
    logged(at(1, 5), "skipped")
    count_all(at(3, 6))
    assert counts("missed") == [3, 0, 0]
    assert counts("skipped") == [0, 1, 0]


def test_a_minute_is_counted_when_it_has_ended_and_not_before():
    event(at(0, 1))
    event(at(1, 1))
    count_all(at(1, 30))
    assert counts("emitted") == [1, 0, 0]
    assert counted_until() == at(1)
    assert roll_up(now=at(2, 4)) == 0  # its last attempts may not be committed
    assert roll_up(now=at(2, 6)) == 1
    assert counts("emitted") == [1, 1, 0]


def test_what_is_committed_late_is_counted_later_and_nothing_twice():
    event(at(0, 1))
    attempt(at(0, 1))
    count_all(at(1, 6))
    event(at(0, 2))  # as if their transactions had ended now
    attempt(at(0, 2))
    count_all(at(10))
    assert counts("emitted", 1) == [1]
    count_all(at(21))
    assert counts("emitted", 1) == [2]
    assert counts("delivered", 1) == [2]
    count_all(at(90))
    assert counts("emitted", 1) == [2]


def test_counting_the_same_minutes_again_changes_nothing():
    event(at(0, 1))
    attempt(at(0, 1))
    count_all(at(90))
    before = list(Rollup.objects.exclude(kind="gauge").exclude(kind="progress").order_by("pk").values())
    Rollup.objects.filter(kind="progress").delete()
    count_all(at(90))
    assert list(Rollup.objects.exclude(kind="gauge").exclude(kind="progress").order_by("pk").values()) == before


def test_a_time_without_workers_is_caught_up_in_parts():
    event(at(0, 1))
    event(at(25, 1))
    assert [roll_up(now=at(26, 6)) for _ in range(3)] == [10, 10, 6]
    assert counts("emitted", 26) == [1] + [0] * 24 + [1]


def test_a_clock_that_was_set_back_counts_again():
    event(at(0, 1))
    count_all(at(30))
    event(at(1, 1))
    count_all(at(2, 6))
    assert counted_until() == at(2)
    count_all(at(3, 6))
    assert counts("emitted") == [1, 0, 0]  # counted the second time only
    count_all(at(40))
    assert counts("emitted") == [1, 1, 0]


def test_a_clock_that_steps_back_by_a_minute_leaves_no_minute_without_its_second_count():
    event(at(0, 1))
    for minute in range(1, 25):
        count_all(at(minute, 6))
    event(at(6, 1))  # committed late; the second count has come to minute 5
    count_all(at(23, 6))
    count_all(at(40))
    assert counts("emitted", 8) == [1, 0, 0, 0, 0, 0, 1, 0]


def test_hours_give_the_same_sums_as_their_minutes():
    for minute in range(0, 200, 7):
        attempt(at(minute, 1), late_ms=minute * 10 + 1)
        fired(at(minute, 2), late_seconds=minute)
    count_all(at(240))
    assert Rollup.objects.filter(span=60, minute__gte=NOON).exists()
    by_minute = series("lateness", NOON, at(180))
    by_hour = series("lateness", NOON, at(180), timedelta(hours=1))
    assert [point.count for point in by_hour] == [
        sum(each.count for each in by_minute[i : i + 60]) for i in (0, 60, 120)
    ]
    odd = totals("subscriber", at(3), at(197))[ALL]
    assert odd.count == len([minute for minute in range(0, 200, 7) if 3 <= minute < 197])
    assert sum(point.count for point in series("attempts", at(3), at(197))) == odd.count
    plain = totals("subscriber", at(3), at(197), histograms=False)[ALL]
    assert (plain.count, plain.lateness.counts, plain.lateness.total_ms) == (odd.count, (), odd.lateness.total_ms)
    assert list(totals("subscriber", at(3), at(197), "shop.bill")) == ["shop.bill"]
    whole = totals("schedule", NOON, at(200))["visit.reminded"].lateness
    assert whole.total_ms == pytest.approx(sum(range(0, 200, 7)) * 1000)


def test_above_a_thousand_names_the_rarest_are_counted_together(monkeypatch):
    monkeypatch.setattr(store, "MOST_NAMES", 2)
    for name, number in (("a.done", 3), ("b.done", 2), ("c.done", 1), ("d.done", 1)):
        for _ in range(number):
            event(at(0, 1), name)
    count_all(at(1, 6))
    found = totals("event", NOON, at(1))
    assert {name: total.count for name, total in found.items()} == {ALL: 7, "a.done": 3, "b.done": 2, "other": 2}
    for _ in range(5):
        event(at(0, 1), "d.done")
    count_all(at(30))
    found = totals("event", NOON, at(1))
    assert {name: total.count for name, total in found.items()} == {ALL: 12, "d.done": 6, "a.done": 3, "other": 3}


def test_minutes_are_kept_for_thirty_days():
    event(at(0, 1))
    count_all(at(1, 6))
    assert Rollup.objects.filter(minute=NOON, span=1).exists()
    roll_up(now=NOON + timedelta(days=30, minutes=1))
    assert not Rollup.objects.filter(minute=NOON, span=1).exists()


def test_what_is_older_than_thirty_days_is_not_counted():
    event(at(0, 1))
    event(at(0, 1) + timedelta(days=40))
    roll_up(now=NOON + timedelta(days=40, minutes=1, seconds=6))
    assert counted_until() == NOON + timedelta(days=10, minutes=1) + timedelta(minutes=10)


def test_after_a_year_without_workers_only_what_is_kept_is_counted():
    event(at(0, 1))
    count_all(at(1, 6))
    now = NOON + timedelta(days=365, minutes=1, seconds=6)
    assert roll_up(now=now) == 10
    assert counted_until() == now - timedelta(days=30, seconds=6) + timedelta(minutes=10)


def test_readings_that_fail_leave_the_counts_alone(monkeypatch, caplog):
    def status(using):
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    monkeypatch.setattr(rollup, "status", status)
    event(at(0, 1))
    assert roll_up(now=at(1, 6)) == 1
    assert counts("emitted", 1) == [1]
    assert "gauges of a minute not stored: division by zero" in caplog.text


def test_each_minute_has_readings_of_what_is_open():
    event(at(0, 1))
    count_all(at(1, 6))
    names = set(Rollup.objects.filter(kind="gauge", minute=at(1)).values_list("name", flat=True))
    assert names == {"due", "oldest_due_ms", "retrying", "dead", "workers"}


def test_nothing_was_counted_yet():
    assert counted_until() is None
    assert counts("emitted") == [0, 0, 0]
    assert totals("event", NOON, at(1)) == {}
    assert roll_up() == 0


def test_steps_are_filled_with_zeros_and_begin_at_the_minute():
    event(at(3, 1))
    count_all(at(20))
    points = series("emitted", at(0, 30), at(10), timedelta(minutes=5))
    assert [(point.at, point.count) for point in points] == [(at(0), 1), (at(5), 0)]


def test_bad_questions_get_an_answer_that_names_the_repair():
    with pytest.raises(InvalidAction, match="no metric 'sent'; known are emitted"):
        series("sent", NOON, at(1))
    with pytest.raises(InvalidAction, match="must be whole minutes"):
        series("emitted", NOON, at(1), timedelta(seconds=90))
    with pytest.raises(InvalidAction, match="no kind 'events'; known are event"):
        totals("events", NOON, at(1))
    with pytest.raises(InvalidAction, match=r"at most 1, such as 0\.99"):
        percentile(Histogram((1,)), 99)


@pytest.mark.parametrize(
    ("counted", "share", "expected"),
    [
        ((), 0.99, None),
        ((0, 0), 0.5, None),
        ((100,), 0.5, 0.5),
        ((0, 0, 10), 1.0, 4.0),
        ((0, 0, 10), 0.5, 3.0),
        ((99, 0, 0, 1), 0.99, 1.0),
        ((99, 0, 0, 1), 0.995, 6.0),
    ],
)
def test_a_percentile_is_found_in_its_bucket(counted, share, expected):
    found = percentile(Histogram(counted), share)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.django_db(transaction=True)
def test_two_workers_do_not_roll_up_at_the_same_time():
    event(at(0, 1))
    answers = []

    def other():
        answers.append(roll_up(now=at(1, 6)))
        connection.close()

    with transaction.atomic():
        assert roll_up(now=at(1, 6)) == 1
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(10)
    assert answers == [0]
    assert counts("emitted", 1) == [1]


@pytest.mark.parametrize("name", ["rollup_attempts", "rollup_events", "rollup_log"])
def test_a_minute_is_read_by_its_keys_and_not_by_the_whole_table(name):
    for minute in range(20):
        for second in range(20):
            moment = at(minute, second)
            {"rollup_attempts": attempt, "rollup_events": event, "rollup_log": logged}[name](moment)
    table = {"rollup_attempts": "duebox_attempt", "rollup_events": "duebox_event", "rollup_log": "duebox_schedule_log"}
    analyze(table[name])
    params = {"bounds": "{1,2}", "since": at(19), "before": at(20), "from": 1, "until": 2}
    if name == "rollup_events":
        params |= {"from": store._first_id(at(19)), "until": store._first_id(at(20))}
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + statement(name), params)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Index Cond" in plan
    assert "Seq Scan" not in plan


def test_the_first_id_of_a_time_is_found_where_ids_are_missing():
    rows = [attempt(at(minute)).id for minute in range(12)]
    Attempt.objects.filter(id__in=rows[3:6]).delete()
    for index, expected in ((0, 0), (3, 6), (6, 6), (11, 11)):
        [(found,)] = store.run("rollup_attempts_from", "default", {"moment": at(index)})
        assert (rows[2] if expected == 6 else rows[expected] - 1) < found <= rows[expected]
    [(end,)] = store.run("rollup_attempts_from", "default", {"moment": at(99)})
    assert end == rows[-1] + 1


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_can_be_read(metric):
    event(at(0, 1))
    count_all(at(1, 6))
    assert len(series(metric, NOON, at(2))) == 2
