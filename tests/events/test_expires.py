"""An event with a moment after which nobody wants it: a delivery that has not started by then is not run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

import duebox
from duebox.exceptions import InvalidEvent
from duebox.models import Attempt, Delivery, Event
from duebox.testing import drain, travel
from duebox.when import CatchUp, daily
from tests.app.outside import Post

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def trip():
    with travel(NOON) as clock:
        yield clock


@pytest.fixture
def heard(on):
    found = []
    on("offer.made", name="it")(lambda event: found.append(event.data.get("number")))
    return found


def history():
    return list(Attempt.objects.order_by("id").values_list("subscriber", "outcome"))


@pytest.mark.parametrize("expires", [HOUR, NOON + HOUR])
def test_a_delivery_that_has_not_started_by_then_is_not_run(trip, heard, expires):
    fact = duebox.emit("offer.made", expires=expires)
    assert fact.expires_at == NOON + HOUR
    trip.by(HOUR)
    drained = drain()
    assert heard == []
    assert (drained.outcome_counts.expired, drained.dead) == (1, 0)
    assert not Delivery.objects.exists()
    [line] = Attempt.objects.all()
    assert (line.outcome, line.number, line.started_at, line.took_ms) == ("expired", 0, None, None)
    assert line.note == "its event expired at 2026-06-01T13:00:00+00:00"
    assert Event.objects.completed().get().id == fact.id


def test_one_that_starts_before_is_run(trip, heard):
    duebox.emit("offer.made", {"number": 1}, expires=HOUR)
    trip.by(HOUR - timedelta.resolution)
    drain()
    assert heard == [1]
    assert history() == [("it", "delivered")]


def test_a_handler_sees_when_its_event_expires(trip, on):
    seen = []
    on("offer.made", name="it")(lambda event: seen.append(event.expires_at))
    duebox.emit_many([duebox.NewEvent(type="offer.made", expires=HOUR), duebox.NewEvent(type="offer.made")])
    drain()
    assert seen == [NOON + HOUR, None]


@pytest.mark.parametrize("atomic", [True, False])
def test_a_retry_that_comes_too_late_is_not_run(trip, on, atomic):
    tries = []

    @on("offer.made", name="it", atomic=atomic, retry=duebox.Retry(delays=(7200.0,), jitter=0))
    def fail(event):
        tries.append(event)
        raise ValueError

    duebox.emit("offer.made", expires=HOUR)
    drain(raises=False)
    trip.by(3 * HOUR)
    drain(raises=False)
    assert len(tries) == 1
    assert history() == [("it", "retried"), ("it", "expired")]
    assert Attempt.objects.get(outcome="expired").number == 1


def test_each_handler_has_its_own_fate(trip, on):
    ran = []
    on("offer.made", name="quick")(lambda event: ran.append("quick"))
    on("offer.made", name="slow")(lambda event: duebox.Snooze(2 * HOUR) if not ran.count("slow") else None)
    duebox.emit("offer.made", expires=HOUR)
    drain()
    trip.by(3 * HOUR)
    drain()
    assert sorted(history()) == [("quick", "delivered"), ("slow", "expired"), ("slow", "snoozed")]


def test_an_expired_head_does_not_block_its_stream(trip, on):
    ran = []
    on("offer.made", name="it", ordered=True)(lambda event: ran.append(event.data["number"]))
    about = ("customer", 1)
    duebox.emit("offer.made", {"number": 1}, about=about, expires=HOUR)
    duebox.emit("offer.made", {"number": 2}, about=about)
    duebox.emit("offer.made", {"number": 3}, about=about, expires=HOUR)
    duebox.emit("offer.made", {"number": 4}, about=about, expires=3 * HOUR)
    trip.by(2 * HOUR)
    drain()
    assert ran == [2, 4]
    assert not Delivery.objects.exists()


def test_a_destination_does_not_get_what_has_expired(trip, settings):
    entry = {"BACKEND": "tests.app.outside.Post"}
    settings.DUEBOX = {
        "UNDECLARED": "allow", "DESTINATIONS": {"post": entry}, "ROUTES": [{"match": "offer.*", "to": "post"}]
    }  # fmt: skip
    duebox.emit("offer.made", {"number": 1}, expires=HOUR)
    duebox.emit("offer.made", {"number": 2}, expires=3 * HOUR)
    trip.by(2 * HOUR)
    drain()
    assert [fact.data["number"] for call in Post.boxes["post"].calls for fact in call] == [2]
    assert sorted(history()) == [("to:post", "delivered"), ("to:post", "expired")]


def test_the_public_event_expires_with_its_event(trip, declare, settings):
    settings.DUEBOX = {}

    class OfferMade:
        number: int

    made = declare("offer.made", public={"number"})(OfferMade)
    duebox.emit(made(number=1), organization=7, metadata={"ip": "10.0.0.1"}, expires=HOUR)
    twin = Event.objects.get(type="public.offer.made")
    assert twin.metadata == {"duebox.expires_at": "2026-06-01T13:00:00+00:00"}


@pytest.mark.parametrize(("expires", "moment"), [(HOUR, NOON + 3 * HOUR), (NOON + 4 * HOUR, NOON + 4 * HOUR)])
def test_of_a_schedule_it_counts_from_the_due_moment(trip, heard, expires, moment):
    duebox.schedule("offer.made", {"number": 1}, at=NOON + 2 * HOUR, expires=expires, key="it")
    trip.to(moment)
    drain()
    assert heard == []
    assert [(event.type, event.metadata["duebox.expires_at"]) for event in Event.objects.all()] == [
        ("offer.made", moment.isoformat())
    ]
    assert history() == [("it", "expired")]


def test_a_schedule_that_fires_in_time_is_delivered_and_its_metadata_stay(trip, heard):
    duebox.schedule("offer.made", {"number": 1}, at=NOON + HOUR, expires=HOUR, metadata={"source": "shop"}, key="it")
    duebox.reschedule("it", at=NOON + 5 * HOUR)
    trip.run(6 * HOUR)
    assert heard == [1]
    assert Event.objects.get().metadata["source"] == "shop"
    assert Event.objects.get().metadata["duebox.expires_at"] == (NOON + 6 * HOUR).isoformat()


def test_after_downtime_each_occurrence_expires_by_itself(trip, heard):
    duebox.schedule(
        "offer.made", {"number": 1}, repeat=daily("13:00"), zone="UTC", expires=2 * HOUR, catch_up=CatchUp(mode="all")
    )
    trip.to(NOON + timedelta(days=2, hours=2))
    drain()
    assert heard == [1]
    assert sorted(history()) == [("it", "delivered"), ("it", "expired"), ("it", "expired")]


@pytest.mark.parametrize(
    ("expires", "said"),
    [
        (datetime(2026, 6, 1), "is naive; make it aware"),
        (timedelta(0), "is not in the future"),
        (timedelta(days=40_000), "longer than a century"),
        (60, r"pass an aware datetime or a timedelta, such as timedelta\(seconds=60\)"),
        ("soon", "pass an aware datetime or a timedelta"),
    ],
)
@pytest.mark.parametrize("how", [duebox.emit, lambda *args, **options: duebox.schedule(*args, after=HOUR, **options)])
def test_what_is_no_moment_is_refused(how, expires, said):
    with pytest.raises(InvalidEvent, match=rf"^expires=.*{said}"):
        how("offer.made", expires=expires)


def test_an_event_that_is_emitted_in_sql_expires(heard):
    with connection.cursor() as cursor:
        cursor.execute("SELECT duebox_emit('offer.made', expires => now() - interval '1 second')")
        cursor.execute("SELECT duebox_emit('offer.made', '{\"number\": 2}', expires => now() + interval '1 hour')")
    drain()
    assert heard == [2]
    assert sorted(history()) == [("duebox.route", "delivered"), ("duebox.route", "expired"), ("it", "delivered")]
    left = Event.objects.order_by("id").last()
    assert timezone.now() < datetime.fromisoformat(left.metadata["duebox.expires_at"]) < timezone.now() + HOUR


def test_an_expiry_that_nobody_can_read_counts_for_nothing(heard):
    duebox.emit("offer.made", {"number": 1}, metadata={"duebox.expires_at": "soon"})
    drain()
    assert heard == [1]
