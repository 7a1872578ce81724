"""`explain`: the text for each situation that somebody asks about, and that its lines are in order and JSON-able."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import duebox
from duebox import deliveries
from duebox.context import bound
from duebox.events import subscribers
from duebox.exceptions import NotFound
from duebox.models import Delivery, DestinationState, Event
from duebox.observe import records
from duebox.observe.explain import explain, past_of, present_of
from duebox.observe.find import find
from duebox.observe.lines import span
from duebox.observe.records import load
from duebox.schedules.tzdata_update import rezone
from duebox.testing import drain, travel
from duebox.when import CatchUp, Timetable, daily, zones
from tests.app.people import Appointment
from tests.app.planned import Reminders, declare, utc
from tests.schedules.test_tzdata_update import OLD_VANCOUVER, VANCOUVER, WALL, built
from tests.support import a_lease

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forget_plans")]
NEW_YORK = "America/New_York"


def lines(text, **options):
    """What is said, one entry for each line, by kind."""
    return [(line.kind, line.text) for line in explain(str(text), **options).lines]


def said(kind, text, **options):
    """The only line of a kind."""
    [found] = [each for word, each in lines(text, **options) if word == kind]
    return found


@pytest.fixture
def mail(on):
    """A handler that fails as often as it is told."""
    told = {"failures": 0}

    @on("order.paid", name="mail", retry=duebox.Retry(limit=2))
    def handle(event):
        if told["failures"]:
            told["failures"] -= 1
            raise ValueError("no connection")

    return told


def emitted(**options):
    return duebox.emit("order.paid", about=("shop.order", 42), **options)


def drained_at_once():
    """Deliver what is due, and what waits for its next try as if it were due."""
    drain(raises=False)
    Delivery.objects.filter(status="pending").update(due_at=timezone.now())
    drain(raises=False)


# The fifteen situations


def test_late(mail):
    event = emitted(actor=7)
    Delivery.objects.update(due_at=timezone.now() - timedelta(seconds=90))
    drain()
    assert said("recorded", event.id) == "order.paid about shop.order:42 was recorded by user:7."
    assert re.fullmatch(
        r"Handler 'mail' handled order\.paid in [\d.]+ ms, 1 min 30 s late\.", said("delivered", event.id)
    )


def test_retried(mail):
    mail["failures"] = 1
    event = emitted()
    drained_at_once()
    failed = said("failed", event.id)
    assert re.search(
        r"^Handler 'mail' failed to handle order\.paid at attempt 1 in [\d.]+ ms, [\d.]+ ms after it was due: ", failed
    )
    assert "ValueError: no connection. The next attempt was set for " in failed
    assert re.search(r"handled order\.paid in [\d.]+ ms at attempt 2, ", said("delivered", event.id))


def test_dead(mail):
    mail["failures"] = 3
    event = emitted()
    drained_at_once()
    drained_at_once()
    row = Delivery.objects.get()
    assert "at attempt 3 in" in lines(event.id)[3][1]
    assert lines(event.id)[3][1].endswith("ValueError: no connection. It became a dead letter.")
    now = lines(event.id)[-1][1]
    assert now.startswith("order.paid to handler 'mail' is a dead letter since ")
    assert now.endswith(f"no worker takes it. Retry it: manage.py duebox deliveries retry {row.id}.")


def test_redriven(mail):
    mail["failures"] = 3
    event = emitted()
    drained_at_once()
    drained_at_once()
    deliveries.retry([Delivery.objects.get().id], by="ann")
    drain()
    assert said("retried", event.id) == (
        "order.paid to handler 'mail' was retried by ann: it became due again, with all its attempts."
    )
    assert [kind for kind, _ in lines(event.id)][-1] == "delivered"


def test_cancelled_by_a_move(booked, trip):
    with bound(actor=7):
        booked.starts_at = trip.now + timedelta(hours=1)
        booked.save()
    trip.by(timedelta(minutes=1))
    assert said("missed", f"app.Reminders:{booked.pk}:-P1D") == (
        f"'app.Reminders:{booked.pk}:-P1D' was taken back: its row was changed (plan app.Reminders, by user:7), and "
        "the new time had passed; it was due at 2026-03-28 10:00 Europe/London."
    )
    assert said("completed", f"app.Reminders:{booked.pk}:-P1D").endswith("has nothing to fire, and never fired.")


def test_skipped_in_a_gap_of_the_clocks():
    with travel(utc("2026-03-07 00:00")) as trip:
        table = Timetable(rule=daily("02:30"), zone=NEW_YORK, gap="skip")
        duebox.schedule("report.due", repeat=table, key="report")
        trip.run(utc("2026-03-10 00:00"))
        assert said("skipped", "report") == (
            "'report' was skipped for 2026-03-08 02:30 America/New_York: that time did not exist, since clocks jumped "
            "from 02:00 to 03:00, and its rule skips such times (gap='skip')."
        )
        assert [kind for kind, _ in lines("report")].count("fired") == 2


def test_only_the_newest_deliveries_are_shown_and_no_event_is_said_to_have_none(on, monkeypatch):
    monkeypatch.setattr(records, "MOST_LINES", 2)
    for name in ("mail", "ledger"):
        on("order.paid", name=name)(lambda event: None)
    with bound(correlation_id="req-1"):
        for _ in range(2):
            duebox.emit("order.paid")
    found = load(find("req-1"))
    assert [row.id for row in found.deliveries] == list(Delivery.objects.order_by("id").values_list("id", flat=True))[
        2:
    ]
    assert found.more == ("only the newest 2 deliveries are shown",)
    assert not [line for line in present_of(found) if line.kind == "no_handler"]


def test_a_delivery_is_explained_where_newer_ones_of_its_event_are_too_many(on, monkeypatch):
    monkeypatch.setattr(records, "MOST_LINES", 1)
    for name in ("mail", "ledger"):
        on("order.paid", name=name)(lambda event: None)
    duebox.emit("order.paid")
    first = Delivery.objects.order_by("id").first()
    assert [row.id for row in load(find(str(first.id))).deliveries] == [first.id]


def test_what_deliveries_wait_behind_is_looked_up_for_all_of_them_at_once(on):
    @on("order.*", name="ledger", ordered=True)
    def refuse(event):
        raise duebox.Permanent("account is closed")

    def count_queries():
        with CaptureQueriesContext(connection) as found:
            assert len(load(find("req-1")).heads) == Delivery.objects.count() - 1
        return len(found)

    def emit(many):
        with bound(correlation_id="req-1"):
            for _ in range(many):
                duebox.emit("order.paid", about=("order", 1))

    emit(2)
    drain(raises=False)
    few = count_queries()
    emit(4)
    assert count_queries() == few


def test_blocked_behind_a_dead_head(on):
    @on("order.*", name="ledger", ordered=True)
    def handle(event):
        raise duebox.Permanent("account is closed")

    emitted()
    drain(raises=False)
    second = emitted()
    head = Delivery.objects.earliest("id")
    blocked = said("blocked", second.id)
    assert blocked.startswith(
        f"order.paid to handler 'ledger' waits behind delivery {head.id} (order.paid, {head.event_id}) of the stream "
        "shop.order:42, which is a dead letter since "
    )
    assert "duebox.exceptions.Permanent: account is closed. It goes on after: " in blocked
    assert blocked.endswith(f"manage.py duebox deliveries retry {head.id}, or deliveries discard {head.id}.")


def test_paused(trip):
    duebox.schedule("report.due", repeat=daily("09:00"), zone="Europe/London", key="report")
    with bound(actor=7):
        duebox.pause("report")
    trip.by(timedelta(days=2))
    assert [text for kind, text in lines("report") if kind == "paused"] == [
        "'report' was paused by user:7; it was due at 2026-03-01 09:00 Europe/London.",
        "The schedule 'report' is paused since 2026-03-01 00:00 Europe/London by user:7, and does not fire until it is "
        "resumed: manage.py duebox schedules resume report.",
    ]


def test_deduplicated(mail):
    event = emitted(idempotency_key="order-42")
    with bound(correlation_id="request-2", actor=8):
        assert not emitted(idempotency_key="order-42").created
    assert said("deduplicated", event.id) == (
        "order.paid was emitted again with the same idempotency key (by user:8, correlation id request-2); nothing was "
        "stored."
    )


def test_missed_in_downtime(trip, on):
    on("report.due", name="report")(lambda event: None)
    duebox.schedule("report.due", repeat=daily("09:00"), zone="Europe/London", key="report")
    trip.by(timedelta(days=3, hours=12))
    drain()
    assert said("missed", "report") == (
        "'report' missed 3 occurrences, from 2026-03-01 09:00 Europe/London to 2026-03-03 09:00 Europe/London: no "
        "worker fired it in time; the next look was 3 d 3 h later, and by catch_up 'latest' only the newest is fired."
    )
    assert said("fired", "report").endswith("for 2026-03-04 09:00 Europe/London, 3 h late.")


def test_no_handler(on):
    event = emitted()
    assert said("no_handler", event.id) == (
        "order.paid did nothing: no handler or destination took it when it was recorded, and none does today. Write "
        "one under @duebox.on('order.paid')."
    )
    on("order.paid", name="mail")(lambda event: None)
    assert said("no_handler", event.id).endswith(
        f"today handler 'mail' would. Send it: manage.py duebox events replay resend {event.id} --to mail."
    )


def test_expired(mail):
    event = emitted(expires=timedelta(milliseconds=1))
    time.sleep(0.002)
    drain()
    assert re.fullmatch(
        r"Handler 'mail' was not run for order\.paid, because it had expired \(.+\); it was due at .+\.",
        said("expired", event.id),
    )


def test_plan_condition_false(booked, trip):
    booked.status = "declined"
    booked.save()
    trip.by(timedelta(minutes=1))
    key = f"app.Reminders:{booked.pk}:-P1D"
    assert said("plan", key) == (
        "Plan app.Reminders plans no appointment.reminder: the condition when() of the plan is false for the row."
    )
    [first, now] = [text for kind, text in lines(key) if kind == "cancelled"]
    assert first == (
        f"'{key}' was cancelled by plan app.Reminders; now the condition when() of the plan is false for the row; it "
        "was due at 2026-03-28 10:00 Europe/London."
    )
    assert now.startswith(
        f"The schedule '{key}' is cancelled since 2026-03-01 00:00 Europe/London (plan app.Reminders)"
    )


def test_moved_by_a_zone_update(tmp_path):
    with travel(utc("2026-06-01 00:00")) as trip:
        with zones.using(built(tmp_path, "2025b", Vancouver=OLD_VANCOUVER)):
            duebox.schedule("it.happened", at=WALL, zone=VANCOUVER, key="it")
        rezone("default")
        trip.by(timedelta(hours=1))
        release = zones.current().release
        assert said("moved", "it") == (
            "'it' was moved from 2026-11-15 17:00 UTC to 2026-11-15 16:00 UTC by an update of the zone database (zone "
            f"database 2025b to {release}); clocks in America/Vancouver show 2026-11-15 09:00, as they were to."
        )


def test_not_yet_due(trip, on):
    on("report.due", name="report")(lambda event: None)
    policy = CatchUp(window=timedelta(hours=2))
    duebox.schedule("report.due", repeat=daily("09:00"), zone="Europe/London", key="report", catch_up=policy)
    assert said("next", "report") == (
        "The schedule 'report' fires for 2026-03-01 09:00 Europe/London, in 9 h, then for 2026-03-02 09:00, 2026-03-03 "
        "09:00, 2026-03-04 09:00."
    )
    assert said("risk", "report") == (
        "What could stop report: no worker is alive now (start one: manage.py duebox worker); it is not fired if no "
        "worker looks within 2 h after its time; it is paused or cancelled."
    )


# Others


def test_due_while_no_worker_is_alive_and_while_one_is(mail):
    event = emitted()
    assert said("no_worker", event.id).endswith("and no worker is alive. Start one: manage.py duebox worker.")
    a_lease()
    assert said("due", event.id).endswith("the worker that is alive should take it now.")


def test_a_handler_that_this_code_does_not_have(mail):
    event = emitted()
    subscribers.remove("mail")
    assert said("no_handler", event.id).startswith(
        "order.paid to handler 'mail' waits for 'mail', which this code does not have; if it was renamed"
    )


def test_a_destination_that_is_paused():
    event = emitted()
    Delivery.objects.create(event_id=event.id, subscriber="to:bus")
    subscribers.add(subscribers.Subscriber(name="to:bus", pattern="order.none", handler=lambda event: None))
    DestinationState.objects.create(name="to:bus", paused_at=timezone.now(), paused_note="maintenance")
    try:
        held = said("paused", event.id)
    finally:
        subscribers.remove("to:bus")
    assert held.startswith("order.paid to destination 'bus' is held back: the destination was paused at ")
    assert held.endswith("(maintenance). Resume it: manage.py duebox destinations resume bus.")


def test_cancelled_by_a_person_and_restored(booked, trip):
    key = f"app.Reminders:{booked.pk}:-P1D"
    with bound(actor=7):
        duebox.cancel(key)
    trip.by(timedelta(hours=1))
    [first, now] = [text for kind, text in lines(key) if kind == "cancelled"]
    assert first == f"'{key}' was cancelled by user:7; it was due at 2026-03-28 10:00 Europe/London."
    assert now.endswith(f"does not fire until it is restored: manage.py duebox schedules restore {key}.")
    duebox.restore(key)
    assert said("restored", key) == f"'{key}' was restored; it is due at 2026-03-28 10:00 Europe/London."


def test_a_plan_that_says_no_at_the_last_moment(trip, ann):
    plan = declare(Reminders, still_valid=lambda self, rows: rows.exclude(status="booked"))
    row = Appointment.objects.create(person=ann, starts_at=utc("2026-03-03 09:00"))
    trip.run(timedelta(days=1, hours=12))
    assert said("skipped", f"{plan.name}:{row.pk}:-P1D") == (
        f"'app.Reminders:{row.pk}:-P1D' did not fire at 2026-03-02 09:00 Europe/London: still_valid() of plan "
        "app.Reminders did not return the row any more."
    )


def test_an_entity_that_was_never_planned_for(reminders, ann):
    row = Appointment.objects.create(person=ann, starts_at=utc("2026-03-29 09:00"), status="declined")
    assert lines(f"app.Appointment:{row.pk}") == [
        (
            "plan",
            "Plan app.Reminders plans no appointment.reminder: the condition when() of the plan is false for the row.",
        )
    ]


def test_a_schedule_that_a_plan_never_made_leads_to_its_row(reminders):
    with pytest.raises(NotFound, match=r"planned nothing, ask for its row: duebox explain app\.appointment:5$"):
        explain("app.Reminders:5:-P1D")


def test_an_entity_with_everything_about_it_in_order(booked, trip, on):
    on("appointment.reminder", name="sms")(lambda event: None)
    trip.run(utc("2026-03-28 12:00"))
    found = explain(f"app.appointment:{booked.pk}")
    assert [line.kind for line in found.past if line.kind != "delivered"] == ["scheduled"] * 4 + ["fired"]
    assert found.target.kind == "entity"
    assert [line.kind for line in found.present].count("next") == 3
    assert list(found.present) == sorted(found.present, key=lambda line: line.at)


def test_a_request_with_what_it_caused(on):
    @on("order.paid", name="ledger")
    def book(event):
        duebox.emit("invoice.sent", about=event.about)

    with bound(correlation_id="request-1", actor=7):
        first = emitted()
    drain()
    second = Event.objects.get(type="invoice.sent")
    texts = [text for _, text in lines("request-1")]
    assert f"invoice.sent about shop.order:42 was recorded by user:7, caused by order.paid ({first.id})." in texts
    assert f"It caused invoice.sent ({second.id})." in [text for _, text in lines(first.id)]


def test_the_explanation_is_json_with_local_times_and_their_zone(mail):
    event = emitted()
    drain()
    told = json.loads(json.dumps(explain(str(event.id)).as_dict()))
    [recorded, delivered] = told["past"]
    assert (recorded["kind"], delivered["kind"]) == ("recorded", "delivered")
    assert recorded["details"]["zone"] == told["zone"]
    assert datetime.fromisoformat(recorded["local"])
    assert delivered["details"]["attempt"] == 1
    assert told["present"] == []


def test_the_lines_are_made_from_loaded_rows_without_a_query(booked, mail, django_assert_num_queries):
    event = emitted()
    drain()
    for name in (str(event.id), f"app.appointment:{booked.pk}", f"app.Reminders:{booked.pk}:-P1D"):
        loaded = load(find(name))
        with django_assert_num_queries(0):
            assert past_of(loaded)
            present_of(loaded)


def test_a_line_cannot_be_changed(mail):
    [line] = [line for line in explain(str(emitted().id)).lines if line.kind == "recorded"]
    with pytest.raises(AttributeError):
        line.text = "another"


def test_many_events_are_cut_and_it_says_so(monkeypatch, mail):
    monkeypatch.setattr(records, "MOST_EVENTS", 2)
    for _ in range(3):
        emitted()
    found = explain("shop.order:42")
    assert [line.kind for line in found.past].count("recorded") == 2
    assert found.more == ("only the newest 2 events are shown",)


def test_what_changed_in_the_row_and_who_did_it_is_among_the_lines_of_its_entity():
    with bound(actor=7):
        duebox.audit("order.discounted", ("shop.order", 42), changes={"discount": (0, 10)})
    assert said("changed", "shop.order:42") == "shop.order:42 was changed by user:7: order.discounted, discount."


def test_a_delivery_of_an_event_that_was_deleted_is_explained_by_itself():
    row = Delivery.objects.create(event_id=uuid4(), subscriber="mail", status="dead", died_at=timezone.now())
    assert said("dead", row.id).startswith("An event that is gone to handler 'mail' is a dead letter since ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 ms"), (0.0004, "0.4 ms"), (0.012, "12 ms"), (1.5, "1.5 s"), (60, "1 min"), (90, "1 min 30 s"),
        (7_800, "2 h 10 min"), (40_000, "11 h"), (90_000, "1 d 1 h"), (31 * 86_400, "31 d"),
    ],
)  # fmt: skip
def test_a_span_has_no_more_than_two_units(seconds, text):
    assert span(seconds) == text
