"""The statements about schedules: what they write, what they leave alone, whom they wake."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, connections, transaction

import duebox
from duebox import clock
from duebox.events.fact import FactRow
from duebox.models import Delivery, Event, Schedule, ScheduleLog
from duebox.store import leases, schedules
from duebox.store.deliveries import seconds_to_next
from duebox.store.schedules import NextStep, Route, ScheduleLogLine, ScheduleRow
from duebox.testing import travel
from duebox.when import daily
from tests.support import a_lease, analyze, expire

pytestmark = pytest.mark.django_db

ANN = '{"id": "ann", "type": "user"}'
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
ONE = "00000000-0000-7000-8000-000000000001"
TWO = "00000000-0000-7000-8000-000000000002"


def a_row(key="it", due_at=NOON, **changes):
    values = dict.fromkeys(ScheduleRow._fields, "")
    values |= {
        "key": key, "status": "scheduled", "due_at": due_at, "occurrence": "2026-06-01T12:00", "zone": "UTC",
        "remaining": None, "actor": None, "intent": "{}", "type": "bell.rung", "version": 1, "data": "{}",
        "metadata": "{}",
    }  # fmt: skip
    return ScheduleRow(**{**values, **changes})


def a_step(row, **changes):
    values = dict.fromkeys(NextStep._fields, "")
    values |= {
        "id": row.id, "revision": row.revision, "status": "completed", "due_at": None, "fired": None, "remaining": None,
    }  # fmt: skip
    return NextStep(**{**values, **changes})


def a_fact(id=ONE, key=None, **changes):
    values = dict.fromkeys(FactRow._fields, "")
    values |= {
        "id": id, "type": "bell.rung", "version": 1, "occurred": NOON.timestamp(), "causation": None, "actor": None,
        "key": key, "data": '{"a": 1}', "metadata": "{}",
    }  # fmt: skip
    return FactRow(**{**values, **changes})


def stored(key="it"):
    return Schedule.objects.get(key=key)


# Write


def test_rows_are_inserted():
    schedules.write("default", [a_row("a"), a_row("b", data='{"ü": "\\"{,"}', remaining=3)], now=NOON)
    assert Schedule.objects.count() == 2
    row = stored("b")
    assert (row.data, row.remaining, row.revision, row.fired, row.fired_at) == ({"ü": '"{,'}, 3, 1, "", None)
    assert (row.created_at, row.updated_at) == (NOON, NOON)


def test_the_same_key_replaces_everything_but_what_has_been():
    schedules.write("default", [a_row(plan="p", type="bell.rung", remaining=3)], now=NOON)
    first = stored().id
    schedules.fire("default", [a_step(stored(), status="scheduled", due_at=NOON + HOUR, fired="x")], [], [], now=NOON)
    again = a_row(
        due_at=NOON + 2 * HOUR,
        type="gong.struck",
        zone="Asia/Tokyo",
        data='{"b": 2}',
        actor='{"id": "1", "type": "user"}',
    )
    schedules.write("default", [again], now=NOON + HOUR)
    row = stored()
    assert row.id == first
    assert (row.type, row.zone, row.data, row.actor, row.plan) == (
        "gong.struck",
        "Asia/Tokyo",
        {"b": 2},
        {"type": "user", "id": "1"},
        "",
    )
    assert (row.due_at, row.remaining, row.revision) == (NOON + 2 * HOUR, None, 3)
    assert (row.fired, row.fired_at, row.created_at, row.updated_at) == ("x", NOON, NOON, NOON + HOUR)


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "scheduled", "due_at": None},
        {"status": "paused", "due_at": NOON},
        {"status": "dreaming", "due_at": None},
        {"key": ""},
        {"type": ""},
        {"zone": ""},
    ],
    ids=str,
)
def test_a_row_that_contradicts_itself_is_refused_by_the_database(wrong):
    with pytest.raises(IntegrityError), transaction.atomic():
        schedules.write("default", [a_row(**wrong)])


def test_without_another_clock_the_time_is_that_of_the_database():
    schedules.write("default", [a_row()])
    assert abs(stored().created_at - datetime.now(UTC)) < timedelta(seconds=30)
    with travel(NOON):
        schedules.write("default", [a_row()])
    assert stored().updated_at == NOON


# Advance


def test_a_step_is_written_with_another_revision():
    schedules.write("default", [a_row(remaining=3)])
    row = stored()
    step = a_step(
        row, status="scheduled", due_at=NOON + HOUR, occurrence="next", local_time="local", marks="leap_moved",
        fired="last", remaining=2, zone_rules="rules", tz_release="2026f",
    )  # fmt: skip
    assert schedules.advance("default", [step], now=NOON) == {row.id}
    row = stored()
    assert (row.status, row.due_at, row.occurrence, row.local_time) == ("scheduled", NOON + HOUR, "next", "local")
    assert (row.marks, row.fired, row.fired_at, row.remaining) == ("leap_moved", "last", NOON, 2)
    assert (row.zone_rules, row.tz_release, row.revision, row.updated_at) == ("rules", "2026f", 2, NOON)


def test_a_step_without_a_firing_keeps_what_has_been():
    schedules.write("default", [a_row()])
    schedules.advance("default", [a_step(stored(), status="scheduled", due_at=NOON, fired="last")], now=NOON)
    schedules.advance("default", [a_step(stored(), status="paused")], now=NOON + HOUR)
    assert (stored().fired, stored().fired_at, stored().status) == ("last", NOON, "paused")


def test_a_row_that_was_changed_meanwhile_is_left_alone():
    schedules.write("default", [a_row("a"), a_row("b")])
    steps = [a_step(stored("a")), a_step(stored("b"))]
    schedules.write("default", [a_row("a", due_at=NOON + HOUR)])
    assert schedules.advance("default", steps) == {stored("b").id}
    assert (stored("a").status, stored("a").due_at) == ("scheduled", NOON + HOUR)


# Due and ahead


def test_what_is_due_is_known_to_the_instant_the_oldest_first():
    schedules.write("default", [a_row(key, due_at=NOON + n * SECOND) for n, key in enumerate("cab")])
    duebox.schedule("bell.rung", at=NOON + 100 * 365 * 24 * HOUR, key="far")
    assert [row.key for row in schedules.due("default", 10, now=NOON - timedelta.resolution).rows] == []
    assert [row.key for row in schedules.due("default", 10, now=NOON).rows] == ["c"]
    assert [row.key for row in schedules.due("default", 10, now=NOON + HOUR).rows] == ["c", "a", "b"]
    assert [row.key for row in schedules.due("default", 2, now=NOON + HOUR).rows] == ["c", "a"]


def test_what_rests_or_is_over_is_not_due():
    schedules.write("default", [a_row(status, status=status, due_at=None) for status in ("paused", "cancelled")])
    assert schedules.due("default", 10, now=NOON).rows == []
    assert schedules.ahead("default", 10, seconds=10**9) == []


def test_a_due_row_carries_what_firing_needs():
    given = a_row(
        plan="p", remaining=3, marks="m", local_time="l", zone_rules="r", tz_release="t", version=2, organization="7",
        aggregate_type="bell", aggregate_id="1", correlation_id="c", actor=ANN, intent='{"a": 1}', data='{"b": 2}',
        metadata='{"c": 3}',
    )  # fmt: skip
    schedules.write("default", [given])
    [row] = schedules.due("default", 1, now=NOON).rows
    assert (row.id, row.revision, row.fired) == (stored().id, 1, "")
    assert {name: getattr(row, name) for name in ScheduleRow._fields if name != "status"} == {
        name: value for name, value in given._asdict().items() if name != "status"
    }


def test_what_comes_soon_is_neither_due_nor_far():
    for number in range(-1, 5):
        schedules.write("default", [a_row(f"{number}", due_at=NOON + number * SECOND)])
    with travel(NOON):
        assert [row.key for row in schedules.ahead("default", 10, seconds=2.5)] == ["1", "2"]
        assert [row.key for row in schedules.ahead("default", 2, seconds=60)] == ["1", "2"]
        assert schedules.ahead("default", 10, seconds=0) == []


@pytest.mark.django_db(transaction=True)
def test_two_workers_take_different_rows_and_looking_ahead_takes_none(elsewhere):
    schedules.write("default", [a_row("a"), a_row("b", due_at=NOON + SECOND)])
    with transaction.atomic():
        assert [row.key for row in schedules.due("default", 1, now=NOON + HOUR).rows] == ["a"]
        other = elsewhere.execute("SELECT key FROM duebox_schedule ORDER BY due_at FOR UPDATE SKIP LOCKED").fetchall()
        assert other == [("b",)]
        elsewhere.rollback()
    with transaction.atomic(), travel(NOON - SECOND):
        schedules.ahead("default", 10, seconds=60)
        other = elsewhere.execute("SELECT count(*) FROM (SELECT FROM duebox_schedule FOR UPDATE SKIP LOCKED) AS s")
        assert other.fetchone() == (2,)
        elsewhere.rollback()


def test_it_is_known_how_long_until_the_next_one_is_due():
    assert seconds_to_next("default", [], now=NOON).schedule is None
    schedules.write("default", [a_row("a", due_at=NOON + HOUR), a_row("b", due_at=NOON + 2 * HOUR)])
    schedules.write("default", [a_row("resting", status="paused", due_at=None)])
    assert seconds_to_next("default", [], now=NOON).schedule == 3600
    assert seconds_to_next("default", [], now=NOON + 1.5 * HOUR).schedule == -1800


# Fire


def test_facts_and_deliveries_are_stored_and_the_schedules_go_on():
    schedules.write("default", [a_row("a"), a_row("b")])
    a, b = stored("a"), stored("b")
    steps = [a_step(a, fired="x"), a_step(b, status="scheduled", due_at=NOON + HOUR, fired="y")]
    facts = [(a.id, a_fact(ONE, "a/x")), (b.id, a_fact(TWO, "b/y"))]
    routes = [Route(TWO, "it", None, False), Route(TWO, "ordered", "bell:1", False)]
    found = schedules.fire("default", steps, facts, routes, now=NOON).deliveries
    assert sorted((one.event, one.subscriber, one.lease) for one in found if one.subscriber) == [
        (TWO, "it", None), (TWO, "ordered", None),
    ]  # fmt: skip
    assert [one for one in found if one.event == ONE] == [(ONE, None, None, None, None)]
    assert {str(event.id): (event.idempotency_key, event.data) for event in Event.objects.all()} == {
        ONE: ("a/x", {"a": 1}), TWO: ("b/y", {"a": 1}),
    }  # fmt: skip
    assert set(Delivery.objects.values_list("subscriber", "stream", "due_at")) == {
        ("it", None, NOON), ("ordered", "bell:1", NOON),
    }  # fmt: skip
    assert (stored("a").status, stored("a").fired, stored("b").due_at) == ("completed", "x", NOON + HOUR)


def test_of_a_schedule_that_was_changed_meanwhile_nothing_fires():
    schedules.write("default", [a_row("a"), a_row("b")])
    a, b = stored("a"), stored("b")
    schedules.write("default", [a_row("a", due_at=NOON + HOUR)])
    facts = [(a.id, a_fact(ONE, "a/x")), (b.id, a_fact(TWO, "b/x"))]
    routes = [Route(ONE, "it", None, False), Route(TWO, "it", None, False)]
    found = schedules.fire("default", [a_step(a), a_step(b)], facts, routes).deliveries
    assert [one.event for one in found] == [TWO]
    assert [str(event.id) for event in Event.objects.all()] == [TWO]
    assert [str(one.event_id) for one in Delivery.objects.all()] == [TWO]
    assert stored("a").due_at == NOON + HOUR


@pytest.mark.parametrize("status", ["paused", "cancelled", "completed", "failed"])
def test_what_is_not_scheduled_any_more_does_not_fire_whatever_its_revision(status):
    schedules.write("default", [a_row()])
    row = stored()
    Schedule.objects.update(status=status, due_at=None)
    found = schedules.fire("default", [a_step(row)], [(row.id, a_fact(ONE, "x"))], [Route(ONE, "it", None, False)])
    assert found == ([], {row.id})
    assert (Event.objects.count(), Delivery.objects.count(), stored().status) == (0, 0, status)


def test_an_occurrence_whose_event_exists_fires_no_second_one_but_goes_on():
    duebox.emit("bell.rung", idempotency_key="it/x")
    schedules.write("default", [a_row()])
    row = stored()
    found = schedules.fire(
        "default", [a_step(row, fired="x")], [(row.id, a_fact(ONE, "it/x"))], [Route(ONE, "it", None, False)]
    )
    assert found == ([], set())
    assert (Event.objects.count(), Delivery.objects.count(), stored().status) == (1, 0, "completed")


def test_several_facts_of_one_schedule_keep_their_order():
    schedules.write("default", [a_row()])
    row = stored()
    ids = [f"00000000-0000-7000-8000-{number:012}" for number in range(20)]
    facts = [(row.id, a_fact(each, f"it/{99 - n}")) for n, each in enumerate(ids)]
    schedules.fire("default", [a_step(row)], facts, [Route(each, "it", "bell:1", False) for each in ids])
    assert [str(one.event_id) for one in Delivery.objects.order_by("id")] == ids


def test_deliveries_for_the_worker_that_fires_are_born_under_its_lease():
    schedules.write("default", [a_row()])
    row, lease = stored(), a_lease()
    routes = [Route(ONE, "mine", None, True), Route(ONE, "theirs", None, False)]
    found = schedules.fire("default", [a_step(row)], [(row.id, a_fact())], routes, lease=lease, now=NOON).deliveries
    assert {one.subscriber: (one.lease, one.due) for one in found} == {
        "mine": (lease, NOON.timestamp()), "theirs": (None, NOON.timestamp()),
    }  # fmt: skip
    assert dict(Delivery.objects.values_list("subscriber", "lease")) == {"mine": lease, "theirs": None}


def test_a_worker_whose_lease_ran_out_fires_but_owns_nothing():
    schedules.write("default", [a_row()])
    row, lease = stored(), a_lease()
    expire(lease)
    [one], _ = schedules.fire(
        "default", [a_step(row)], [(row.id, a_fact())], [Route(ONE, "mine", None, True)], lease=lease
    )
    assert one.lease is None
    assert Delivery.objects.get().lease is None


# Tell


def test_the_schedule_log_stores_every_line_as_written():
    lines = [
        ScheduleLogLine("moved", "it", "x", "bell", "1", NOON, NOON + HOUR, note='because "of" {this}'),
        ScheduleLogLine("swept", "sweep", run="r1", event_id=ONE),
    ]
    schedules.write_log("default", lines, now=NOON)
    moved, swept = ScheduleLog.objects.order_by("id")
    assert (moved.what, moved.source, moved.occurrence, moved.at) == ("moved", "it", "x", NOON)
    assert (moved.aggregate_type, moved.aggregate_id, moved.event_id) == ("bell", "1", None)
    assert (moved.due_before, moved.due_after, moved.note) == (NOON, NOON + HOUR, 'because "of" {this}')
    assert (swept.run, str(swept.event_id), swept.due_before) == ("r1", ONE, None)
    assert (str(moved), str(swept)) == ("it/x: moved", "sweep: swept")


def test_nothing_to_tell_asks_nothing(django_assert_num_queries):
    with django_assert_num_queries(0):
        schedules.write_log("default", [])


def test_the_schedule_log_cannot_be_changed():
    schedules.write_log("default", [ScheduleLogLine("moved", "it")])
    with pytest.raises(Exception, match=r"duebox_schedule_log|append"), transaction.atomic():
        ScheduleLog.objects.update(note="never happened")


# Wake


@pytest.fixture
def woken(elsewhere):
    """A worker that sleeps and listens; tells how many times it was woken since the last question."""
    elsewhere.autocommit = True
    elsewhere.execute("LISTEN duebox")
    leases.set_mode("default", a_lease(), mode="listen", listening=True)

    def calls(*, patience=3.0):
        first = list(elsewhere.notifies(timeout=patience, stop_after=1))
        return len(first) + len(list(elsewhere.notifies(timeout=0.05)))

    return calls


@pytest.mark.django_db(transaction=True)
def test_a_schedule_that_comes_due_soon_wakes_a_sleeping_worker(woken):
    duebox.schedule("bell.rung", at=datetime.now(UTC) + 20 * SECOND, key="it")
    assert woken() == 1
    duebox.reschedule("it", at=datetime.now(UTC) + 10 * SECOND)
    assert woken() == 1


@pytest.mark.django_db(transaction=True)
def test_a_schedule_that_is_far_away_wakes_nobody(woken):
    duebox.schedule("bell.rung", at=datetime.now(UTC) + HOUR, key="it")
    duebox.cancel("it")
    assert woken(patience=0.2) == 0


@pytest.mark.django_db(transaction=True)
def test_a_schedule_that_is_resumed_and_comes_due_soon_wakes_a_sleeping_worker(woken):
    duebox.schedule("bell.rung", at=datetime.now(UTC) + 30 * SECOND, key="it")
    duebox.pause("it")
    assert woken() == 1
    duebox.resume("it")
    assert woken() == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_is_woken_when_the_transaction_is_committed_and_not_before(woken):
    with transaction.atomic():
        duebox.schedule("bell.rung", at=datetime.now(UTC) + 20 * SECOND)
        duebox.schedule("bell.rung", at=datetime.now(UTC) + 20 * SECOND)
        assert woken(patience=0.2) == 0
    assert woken() == 1


@pytest.mark.django_db(transaction=True)
def test_without_a_worker_that_listens_nobody_is_called(elsewhere):
    elsewhere.autocommit = True
    elsewhere.execute("LISTEN duebox")
    duebox.schedule("bell.rung", at=datetime.now(UTC) + 20 * SECOND)
    assert list(elsewhere.notifies(timeout=0.2)) == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mine", [True, False])
def test_firing_calls_others_only_for_what_the_worker_cannot_run_itself(woken, mine):
    schedules.write("default", [a_row(due_at=NOON + 10**5 * HOUR)])
    row = stored()
    schedules.fire("default", [a_step(row)], [(row.id, a_fact())], [Route(ONE, "it", None, mine)], lease=a_lease())
    assert woken(patience=0.2 if mine else 3.0) == (0 if mine else 1)


# However parameters reach the server


@pytest.mark.django_db(databases=["other"], transaction=True)
def test_everything_works_with_parameters_bound_by_the_server(on, monkeypatch):
    """Django's option server_side_binding: the server sees $1, not the value, and must find out its type."""
    connections["other"].close()
    monkeypatch.setitem(connections["other"].settings_dict, "OPTIONS", {"server_side_binding": True})
    heard = []
    on("bell.rung", name="it")(lambda event: heard.append(event.idempotency_key))
    try:
        with travel(NOON) as trip:
            duebox.schedule("bell.rung", {"a": 1}, repeat=daily("13:00"), zone="UTC", key="it", using="other")
            duebox.reschedule("it", repeat=daily("14:00"), using="other")
            duebox.pause("it", using="other")
            duebox.resume("it", using="other")
            assert [row.key for row in schedules.ahead("other", 5, seconds=86_400.0)] == ["it"]
            trip.run(timedelta(days=2), using="other")
            assert duebox.cancel("it", using="other") == 1
        assert heard == ["it/2026-06-01T14:00", "it/2026-06-02T14:00"]
        duebox.schedule("bell.rung", at=datetime.now(UTC) + HOUR, key="real", using="other")
        assert clock.override() is None
        assert 3500 < seconds_to_next("other", ["it"]).schedule <= 3600
    finally:
        connections["other"].close()


def test_the_search_for_what_is_due_does_not_look_at_what_is_not():
    row = a_row()
    schedules.write("default", [row._replace(key=f"{n}", due_at=NOON + (n + 1) * HOUR) for n in range(3000)])
    with connection.cursor() as cursor:
        analyze("duebox_schedule")
        cursor.execute(
            "EXPLAIN SELECT id FROM duebox_schedule WHERE status = 'scheduled' AND due_at <= %s "
            "ORDER BY due_at, id LIMIT 100 FOR UPDATE SKIP LOCKED",
            [NOON],
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "duebox_schedule_fire_due" in plan
    assert "Seq Scan" not in plan
