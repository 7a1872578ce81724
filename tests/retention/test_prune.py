from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import duebox
from duebox import clock
from duebox.exceptions import IdempotencyConflict, InvalidReplay, NotReady
from duebox.models import Attempt, Delivery, Event, Schedule, ScheduleLog, TaskRun, WebhookReceipt
from duebox.retention import prune
from duebox.store import replay, retention
from duebox.testing import travel
from duebox.when import anniversary
from duebox.worker.background_threads import Retention
from duebox.worker.drain import drain
from duebox.worker.watchdog import Watchdog
from tests.support import eventually

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def handled(declare, on):
    declare("thing.done")(type("ThingDone", (), {"__annotations__": {"n": int}}))

    @on("thing.done", name="retention.handler")
    def handler(event):
        if event.data["n"] < 0:
            raise duebox.Permanent("a number below zero")


def days(many):
    """Look at the tables so many days from now."""
    return travel(timezone.now() + timedelta(days=many))


def removed(**options):
    return {each.what: each.removed for each in prune(rest=lambda seconds: False, **options)}


def test_an_event_leaves_with_its_history_30_days_after_it_was_delivered():
    event = duebox.emit("thing.done", {"n": 1})
    drain()
    TaskRun.objects.create(
        event_id=event.id, status="SUCCESSFUL", started_at=timezone.now(), last_attempted_at=timezone.now()
    )
    with days(29):
        assert removed()["events"] == 0
    with days(31):
        assert removed()["events"] == 1
    assert not Event.objects.exists()
    assert not Attempt.objects.exists()
    assert not TaskRun.objects.exists()


def test_an_event_with_an_open_delivery_stays():
    duebox.emit("thing.done", {"n": 1})
    with days(400):
        assert removed()["events"] == 0
    assert Event.objects.count() == Delivery.objects.count() == 1


def test_an_event_stays_as_long_as_its_dead_letter_which_leaves_after_90_days():
    duebox.emit("thing.done", {"n": -1})
    drain()
    with days(89):
        counts = removed()
        assert (counts["dead letters"], counts["events"]) == (0, 0)
        assert Attempt.objects.filter(outcome="dead").exists(), "the error is kept with the dead letter"
    with days(91):
        counts = removed()
        assert (counts["dead letters"], counts["events"]) == (1, 1)
    assert not Event.objects.exists()
    assert not Delivery.objects.exists()


def test_a_dead_letter_that_blocks_its_stream_stays_until_somebody_decides(on):
    @on("thing.done", name="retention.ordered", ordered=True)
    def ordered(event):
        raise duebox.Permanent

    for _ in range(2):
        duebox.emit("thing.done", {"n": 1}, about=("thing", 1))
    drain()
    assert sorted(Delivery.objects.values_list("status", flat=True)) == ["dead", "waiting"]
    with days(91):
        assert removed()["dead letters"] == 0


def test_lines_about_failures_leave_after_7_days_and_how_a_delivery_ended_stays_with_its_event():
    event = duebox.emit("thing.done", {"n": -1})
    drain()
    Delivery.objects.all().delete()
    line = {"event_id": event.id, "delivery_id": 1, "subscriber": "x", "number": 1, "due_at": timezone.now()}
    Attempt.objects.create(outcome="delivered", **line)
    with days(6):
        assert removed()["attempts"] == 0
    with days(8):
        assert removed()["attempts"] == 1
    assert list(Attempt.objects.values_list("outcome", flat=True)) == ["delivered"]


def test_what_is_younger_stays_and_none_keeps_all(settings):
    settings.DUEBOX = {**settings.DUEBOX, "RETENTION_EVENTS_DAYS": None}
    duebox.emit("thing.done", {"n": 1})
    drain()
    with days(400):
        assert "events" not in removed()
    assert Event.objects.count() == 1


def test_a_dry_run_counts_and_removes_nothing():
    for n in (1, 2, -1):
        duebox.emit("thing.done", {"n": n})
    drain()
    with days(91):
        dry = removed(dry_run=True)
        assert (dry["events"], dry["dead letters"]) == (2, 1)
        assert Event.objects.count() == 3


def test_large_tables_are_walked_page_by_page_over_what_stays(monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 2)
    for n in range(7):
        duebox.emit("thing.done", {"n": n})
        if n % 3:
            drain()
    rests = []
    with days(31):
        [found] = [each for each in prune(rest=lambda seconds: rests.append(seconds)) if each.what == "events"]
    open_ones = set(Delivery.objects.values_list("event_id", flat=True))
    assert set(Event.objects.values_list("id", flat=True)) == open_ones
    assert found.removed == 7 - len(open_ones)
    assert len(rests) >= 3
    assert min(rests) >= 0.05


def test_it_ends_where_rest_says_so_and_goes_on_there_with_cursors(monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 2)
    for n in range(5):
        duebox.emit("thing.done", {"n": n})
    drain()
    cursors = {}
    with days(31):
        prune(rest=lambda seconds: True, cursors=cursors)
        assert Event.objects.count() == 3
        prune(rest=lambda seconds: False, cursors=cursors)
    assert Event.objects.count() == 0


# Idempotency keys


def test_a_key_is_remembered_for_a_year_without_the_payload():
    first = duebox.emit("thing.done", {"n": 1}, idempotency_key="k", about=("thing", 7))
    drain()
    with days(31):
        assert removed()["events"] == 0
        row = Event.objects.get()
        assert (row.data, row.actor, row.aggregate_id) == ({}, None, "7")
        assert not Attempt.objects.exists()
        again = duebox.emit("thing.done", {"n": 1}, idempotency_key="k", about=("thing", 7))
        assert (again.id, again.created) == (first.id, False)
        other = duebox.emit("thing.done", {"n": 2}, idempotency_key="k", about=("thing", 7))
        assert (other.id, other.created) == (first.id, False), "the first payload is not known any more"
        with pytest.raises(IdempotencyConflict):
            duebox.emit("thing.done", {"n": 1}, idempotency_key="k", about=("thing", 8))
    with days(364):
        assert removed()["events"] == 0
    with days(366):
        assert removed()["events"] == 1
        assert duebox.emit("thing.done", {"n": 1}, idempotency_key="k").created


def test_an_event_without_its_payload_is_not_sent_again():
    event = duebox.emit("thing.done", {"n": 1}, idempotency_key="k")
    drain()
    with days(31):
        removed()
    with pytest.raises(InvalidReplay, match="payload of event"):
        replay.resend(event.id, to="retention.handler")
    since = timezone.now() - timedelta(days=1)
    done = replay.bulk(to="retention.handler", since=since, until=timezone.now() + timedelta(days=1))
    assert done.added == 0


def test_the_key_of_an_occurrence_is_remembered_by_its_schedule():
    with travel(datetime(2026, 3, 1, tzinfo=UTC)) as trip:
        duebox.schedule("thing.done", {"n": 1}, at=datetime(2026, 3, 1, 9), zone="UTC", key="once")
        trip.run(timedelta(days=1))
    with days(31):
        assert removed()["events"] == 1
    assert not Event.objects.exists()


# Schedules


def test_ended_schedules_leave_after_30_days_and_live_ones_stay():
    with travel(datetime(2026, 3, 1, tzinfo=UTC)) as trip:
        for key in ("fires", "cancelled"):
            duebox.schedule("thing.done", {"n": 1}, at=datetime(2026, 3, 1, 9), zone="UTC", key=key)
        duebox.schedule("thing.done", {"n": 1}, at=datetime(2027, 3, 1, 9), zone="UTC", key="to come")
        trip.run(timedelta(days=1))
        Schedule.objects.filter(key="cancelled").update(status="cancelled")
        trip.by(timedelta(days=28))
        assert removed()["schedules"] == 0
        trip.by(timedelta(days=3))
        assert removed(dry_run=True)["schedules"] == 2
        assert removed()["schedules"] == 2
    assert [row.key for row in Schedule.objects.all()] == ["to come"]


def test_a_schedule_that_somebody_opted_out_of_is_remembered():
    with travel(datetime(2026, 3, 1, tzinfo=UTC)) as trip:
        duebox.schedule("thing.done", {"n": 1}, at=datetime(2026, 3, 2, 9), zone="UTC", key="k")
        duebox.cancel("k")
        Schedule.objects.update(opt_out="key")
        trip.by(timedelta(days=400))
        assert removed()["schedules"] == 0


def test_an_anniversary_that_fired_is_remembered_until_its_year_is_over():
    rule = anniversary(datetime(1990, 3, 2).date(), at="09:00")
    with travel(datetime(2026, 3, 1, tzinfo=UTC)) as trip:
        duebox.schedule("thing.done", {"n": 1}, repeat=rule, zone="UTC", key="birthday")
        trip.run(timedelta(days=2))
        assert Schedule.objects.get().fired == "2026"
        duebox.cancel("birthday")
        Schedule.objects.update(opt_out="")
        trip.by(timedelta(days=60))
        assert removed()["schedules"] == 0
        trip.to(datetime(2027, 2, 1, tzinfo=UTC))
        assert removed()["schedules"] == 1


def test_the_log_of_schedules_and_receipts_leave_after_their_time():
    for age in (5, 8, 29, 31):
        at = clock.now() - timedelta(days=age)
        ScheduleLog.objects.create(what="moved", source=str(age), at=at)
        WebhookReceipt.objects.create(source="acme", webhook_id=str(age), received_at=at)
    ScheduleLog.objects.create(what="moved", source="new")
    # Ids grow with time: here the oldest came last, so a page that holds something young is the last one.
    counts = removed()
    assert (counts["schedule log"], counts["receipts"]) == (1, 3)
    assert {line.source for line in ScheduleLog.objects.all()} == {"5", "8", "29", "new"}


# Beside others


@pytest.mark.django_db(transaction=True)
def test_an_event_that_is_being_sent_again_stays(elsewhere):
    event = duebox.emit("thing.done", {"n": 1})
    drain()
    elsewhere.execute("SELECT FROM duebox_event WHERE id = %s FOR KEY SHARE", [event.id])
    with days(31):
        assert removed()["events"] == 0
        elsewhere.rollback()
        assert removed()["events"] == 1


@pytest.mark.django_db(transaction=True)
def test_an_event_with_a_key_that_is_sent_again_before_it_is_locked_keeps_its_payload(elsewhere, monkeypatch):
    event = duebox.emit("thing.done", {"n": 1}, idempotency_key="once")
    drain()
    read = retention._old_events

    def read_and_send_again(using, params):
        found = read(using, params)
        elsewhere.execute(
            "INSERT INTO duebox_delivery (event_id, subscriber, due_at) VALUES (%s, 'retention.handler', now())",
            [event.id],
        )
        elsewhere.commit()
        return found

    monkeypatch.setattr(retention, "_old_events", read_and_send_again)
    with days(31):
        [events] = [each for each in prune(rest=lambda seconds: True) if each.what == "events"]
    assert (events.removed, events.bare) == (0, 0)
    assert Event.objects.get().data == {"n": 1}


def test_an_event_of_a_host_whose_clock_is_slow_stays_until_it_is_old_by_the_clock_of_the_database():
    slow = timezone.now() - timedelta(days=400)
    Event.objects.create(id=retention.first_id(slow), type="thing.done", data={"n": 1}, occurred_at=slow)
    assert (removed()["events"], Event.objects.get().data) == (0, {"n": 1})
    with days(31):
        assert removed()["events"] == 1


def test_the_key_of_an_event_that_only_carries_the_metadata_of_a_schedule_is_remembered():
    duebox.emit(
        "thing.done", {"n": 1}, idempotency_key="once", metadata={"schedule": {"key": "report"}, "sweep": "reminders"}
    )
    drain()
    with days(31):
        assert removed()["events"] == 0
    assert Event.objects.get().idempotency_key == "once"


def test_dead_letters_behind_a_page_of_blocked_streams_leave_too(on, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 2)

    @on("thing.done", name="ordered", ordered=True)
    def ordered(event):
        raise duebox.Permanent("no")

    for number in range(3):
        duebox.emit("thing.done", {"n": 1}, about=("thing", number))
        duebox.emit("thing.done", {"n": 1}, about=("thing", number))
    duebox.emit("thing.done", {"n": -1}, about=("thing", "alone"))
    drain()
    blocked = Delivery.objects.filter(status="waiting").count()
    dead = Delivery.objects.dead().count()
    assert (blocked, dead) == (3, 5)
    with days(91):
        assert removed()["dead letters"] == 2
    assert Delivery.objects.dead().count() == 3


@pytest.mark.django_db(transaction=True)
def test_a_transaction_around_it_has_its_settings_back(settings):
    duebox.emit("thing.done", {"n": 1})
    drain()
    with transaction.atomic(), days(31):
        assert removed()["events"] == 1
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('duebox.allows', true), current_setting('synchronous_commit')")
            assert cursor.fetchone() == ("", "on")


@pytest.mark.django_db(transaction=True)
def test_nothing_is_removed_in_a_transaction_that_does_not_see_what_others_commit():
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with pytest.raises(
            NotReady, match="READ COMMITTED transactions; those of database 'default' are REPEATABLE READ"
        ):
            prune()


@pytest.mark.django_db(transaction=True)
def test_what_another_process_removes_is_left_to_it(elsewhere):
    duebox.emit("thing.done", {"n": 1})
    drain()
    elsewhere.execute("SELECT pg_advisory_xact_lock(hashtextextended('duebox retention', 0))")
    with days(31):
        assert removed(patient=False)["events"] == 0
        threading.Timer(0.3, elsewhere.rollback).start()
        assert sum(each.removed for each in prune()) == 1


@pytest.mark.django_db(transaction=True)
def test_a_locked_table_is_not_waited_for(elsewhere):
    duebox.emit("thing.done", {"n": 1})
    drain()
    elsewhere.execute("LOCK TABLE duebox_event IN SHARE MODE")  # as while an index is made
    with days(31):
        assert removed(patient=False)["events"] == 0
    assert Event.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_removes_what_is_old_and_logs_it(hire, tune, caplog):
    tune(first_prune_seconds=0.01)
    WebhookReceipt.objects.create(source="acme", webhook_id="a", received_at=timezone.now() - timedelta(days=8))
    with caplog.at_level(logging.INFO, logger="duebox.retention"):
        hire()
        eventually(lambda: not WebhookReceipt.objects.exists())
        eventually(lambda: "removed: 1 receipts older than 7 days" in caplog.text)


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_may_not_delete_says_so_and_goes_on(caplog):
    WebhookReceipt.objects.create(source="acme", webhook_id="a", received_at=timezone.now() - timedelta(days=8))
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE duebox_webhook_receipt RENAME TO elsewhere")
    try:
        Retention("default", Watchdog()).prune_safely()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO duebox_webhook_receipt")
    assert "old rows not removed" in caplog.text


def test_every_statement_finds_its_rows_by_an_index(monkeypatch):
    for n in range(3):
        duebox.emit("thing.done", {"n": n}, idempotency_key=f"k{n}" if n else None)
    drain()
    with days(31), CaptureQueriesContext(connection) as captured, transaction.atomic():
        removed()
    statements = [each["sql"] for each in captured if "duebox_" in each["sql"] and "WITH" in each["sql"]]
    assert len(statements) >= 5
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL duebox.allows = 'erase'")
        for sql in statements:
            cursor.execute("EXPLAIN " + sql)
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert "Seq Scan on duebox" not in plan, plan
