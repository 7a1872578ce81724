"""Replay: stored events again, or to somebody who was not there."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from django.db import connections
from django.utils import timezone

import duebox
from duebox.events.identities import uuid7
from duebox.exceptions import InvalidReplay
from duebox.models import Attempt, Delivery, Event, WebhookEndpoint
from duebox.store import destinations, operations, replay
from duebox.store.destinations import NewSentTask, disable, fan_out
from duebox.store.replay import Manner
from duebox.testing import drain
from tests.app.outside import Post

pytestmark = pytest.mark.django_db


@pytest.fixture
def since():
    return timezone.now() - timedelta(seconds=1)


@pytest.fixture
def seen(on):
    got = []
    on("order.*", name="shop.mirror")(got.append)
    return got


@pytest.fixture
def bus(settings):
    """A destination that takes orders above 100, and one that takes all of them."""
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {"bus": {"BACKEND": "tests.app.outside.Post"}, "risk": {"BACKEND": "tests.app.outside.Post"}},
        "ROUTES": [
            {"match": "order.*", "to": "bus"},
            {
                "match": {"event_type": [{"prefix": "order."}], "data": {"total": [{"numeric": [">", 100]}]}},
                "to": "risk",
            },
        ],
    }


@pytest.fixture
def hooks(settings, declare):
    """Webhooks of two organizations; public orders of both."""

    @declare("order.paid", public={"total"})
    class OrderPaid:
        total: int

    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {"hooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks"}},
    }

    def endpoint(organization, *types):
        return WebhookEndpoint.objects.create(
            organization=organization, url="https://example.com/", types=list(types) or ["*"], secret="encrypted"
        )

    return endpoint


def paid(number=1, type="order.paid", **options):
    return duebox.emit(type, {"total": number}, about=("order", number), organization="7", **options)


def due(name):
    return list(Delivery.objects.filter(subscriber=name).order_by("id").values_list("event_id", flat=True))


def test_one_event_is_sent_again_under_its_own_id(seen):
    fact = paid()
    drain()
    fresh = replay.resend(fact.id, to="shop.mirror", manner=Manner(by="ann"))
    drain()
    assert [event.id for event in seen] == [fact.id, fact.id]
    line = Attempt.objects.get(outcome="replayed")
    assert (line.delivery_id, line.event_id, line.note) == (fresh, fact.id, "replayed by ann: resend")


def test_what_a_task_reported_of_the_delivery_before_does_not_count_for_a_new_one(bus):
    fact = duebox.emit("order.paid", {"total": 5})
    drain()
    destinations.write_sent_tasks("default", "to:bus", [NewSentTask(str(fact.id), str(fact.id), "shop.pay")], 60)
    destinations.end_sent_task("default", str(fact.id), "shop.pay")
    assert destinations.read_sent_tasks("default", "to:bus", [str(fact.id)])
    replay.resend(fact.id, to="to:bus", manner=Manner(by="Ann"))
    assert not destinations.read_sent_tasks("default", "to:bus", [str(fact.id)])


def test_an_event_that_is_still_open_is_not_sent_twice(on):
    on("order.*", name="shop.broken")(lambda event: 1 / 0)
    fact = paid()
    for _ in range(2):
        with pytest.raises(InvalidReplay, match=r"order.paid .* is still open for 'shop.broken'"):
            replay.resend(fact.id, to="shop.broken")
        Delivery.objects.update(status="dead")


def test_an_event_goes_to_nobody_who_does_not_take_it_and_never_did(seen, on):
    on("invoice.*", name="shop.invoices")(lambda event: None)
    fact = paid()
    with pytest.raises(InvalidReplay, match=r"'shop.invoices' does not take order.paid"):
        replay.resend(fact.id, to="shop.invoices")
    with pytest.raises(InvalidReplay, match="There is no event"):
        replay.resend(uuid7(), to="shop.mirror")
    with pytest.raises(InvalidReplay, match="'17' is not the id of an event"):
        replay.resend("17", to="shop.mirror")


def test_what_it_got_before_it_may_get_again_whatever_its_pattern_is_now(seen, on):
    fact = paid()
    drain()
    duebox.events.subscribers.remove("shop.mirror")
    on("invoice.*", name="shop.mirror")(seen.append)
    replay.resend(fact.id, to="shop.mirror")
    assert due("shop.mirror") == [fact.id]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("shop.miror", "did you mean 'shop.mirror'"), ("bsu", "did you mean 'bus'"), ("zzz", "there are: .*shop.mirror")],
)
def test_a_name_that_nobody_has_is_refused_with_a_near_one(bus, seen, name, hint, since):
    for verb in (replay.missing, replay.recover):
        with pytest.raises(InvalidReplay, match=f"No handler or destination is called '{name}'; {hint}"):
            verb(to=name, since=since)


def test_a_new_handler_gets_what_it_has_missed_and_nothing_twice(seen, on, since):
    facts = [paid(number) for number in range(5)]
    paid(9, type="invoice.paid")
    drain()
    late = []
    on("order.*", name="shop.late")(late.append)
    facts.append(paid(6))
    drain()
    assert replay.missing(to="shop.late", since=since, manner=Manner(dry_run=True)).added == 5
    assert not Delivery.objects.exists()
    assert replay.missing(to="shop.late", since=since).as_dict() == {"added": 5, "retried": 0, "still_open": 0}
    assert replay.missing(to="shop.late", since=since).as_dict() == {"added": 0, "retried": 0, "still_open": 0}
    drain()
    assert sorted(event.id for event in late) == sorted(fact.id for fact in facts)
    assert replay.missing(to="shop.late", since=since).added == 0
    assert len(seen) == 6


def test_what_was_delivered_under_an_older_name_is_not_missing(seen, on, since):
    paid()
    drain()
    duebox.events.subscribers.remove("shop.mirror")
    on("order.*", name="shop.twin", aliases=["shop.mirror"])(seen.append)
    assert replay.missing(to="shop.twin", since=since).added == 0


def test_events_come_in_batches_in_their_order_and_at_a_rate(seen, on, since, monkeypatch):
    facts = [paid(number) for number in range(7)]
    on("order.*", name="shop.late")(lambda event: None)
    monkeypatch.setattr(replay, "BATCH", 3)
    parts = []
    replay.missing(to="shop.late", since=since, manner=Manner(rate=4, progress=parts.append))
    assert parts == [3, 3, 1]
    rows = list(Delivery.objects.filter(subscriber="shop.late").order_by("id"))
    assert [row.event_id for row in rows] == [fact.id for fact in facts]
    assert all(0.1 < (two.due_at - one.due_at).total_seconds() < 0.4 for one, two in pairwise(rows))


def test_a_time_is_cut_by_the_ids_of_events(seen, on):
    def at(minute):
        return datetime(2026, 3, 1, 12, minute, tzinfo=UTC)

    for minute in range(5):
        number = replay.first_id(at(minute)).int | 7 << 76 | 2 << 62 | 1
        Event.objects.create(id=UUID(int=number), type="order.paid", occurred_at=at(minute))
    assert replay.bulk(to="shop.mirror", since=at(1), until=at(3)).added == 2
    assert replay.missing(to="shop.mirror", since=at(3)).added == 2
    assert replay.missing(to="shop.mirror", since=at(0), until=at(1)).added == 1
    assert Delivery.objects.count() == 5


def test_bulk_sends_all_of_a_time_again_but_leaves_alone_what_is_open(seen, since):
    old = [paid(number) for number in range(3)]
    drain()
    paid(3)
    until = timezone.now() + timedelta(seconds=1)
    assert replay.bulk(to="shop.mirror", since=since, until=until).as_dict() == {
        "added": 3,
        "retried": 0,
        "still_open": 1,
    }
    drain()
    assert sorted(event.id for event in seen[4:]) == [fact.id for fact in old]


def test_bulk_can_be_narrowed_by_type_and_organization(seen, since):
    paid(1)
    paid(2, type="order.shipped")
    duebox.emit("order.paid", {"total": 1}, organization="8")
    drain()
    until = timezone.now() + timedelta(seconds=1)
    counted = [
        replay.bulk(to="shop.mirror", since=since, until=until, manner=Manner(dry_run=True), **narrow).added
        for narrow in ({}, {"type": "order.paid"}, {"type": "*.shipped"}, {"organization": "8"})
    ]
    assert counted == [3, 2, 1, 1]


@pytest.mark.parametrize(("given", "near"), [("order_paid", "order.paid"), ("oder.*", "order.paid")])
def test_a_type_that_nobody_knows_is_refused_with_a_near_one(seen, since, declare, given, near):
    declare("order.paid")(type("OrderPaid", (), {"__annotations__": {"total": int}}))
    paid(1)
    until = timezone.now() + timedelta(seconds=1)
    said = f"No event type is like {given!r}, neither a declared one nor that of an event that was asked for; "
    for again in (lambda: replay.missing(to="shop.mirror", since=since, type=given),
                  lambda: replay.bulk(to="shop.mirror", since=since, until=until, type=given)):  # fmt: skip
        with pytest.raises(InvalidReplay, match=re.escape(f"{said}did you mean {near!r}?")):
            again()


def test_a_type_that_is_declared_or_stored_is_no_mistake(seen, since, declare):
    declare("order.cancelled")(type("OrderCancelled", (), {}))
    paid(1)
    drain()
    until = timezone.now() + timedelta(seconds=1)
    assert replay.bulk(to="shop.mirror", since=since, until=until, type="order.cancelled").added == 0
    assert replay.bulk(to="shop.mirror", since=since, until=until, type="order.paid").added == 1
    assert replay.missing(to="shop.mirror", since=since, type="order.paid").added == 0


def test_a_route_with_a_pattern_is_asked_about_each_event(bus, since):
    for total in (50, 150, 99, 101):
        paid(total)
    Delivery.objects.all().delete()
    assert replay.missing(to="risk", since=since).added == 2
    assert replay.missing(to="to:bus", since=since).added == 4
    drain()
    assert [fact.data["total"] for fact in Post.boxes["risk"].facts] == [150, 101]
    assert len(Post.boxes["bus"].facts) == 4


def test_the_replayed_events_of_an_aggregate_keep_their_order(on, since):
    got = []
    for number in range(3):
        duebox.emit("order.paid", {"number": number}, about=("order", 1))
    on("order.*", name="shop.ordered", ordered=True)(lambda event: got.append(event.data["number"]))
    replay.missing(to="shop.ordered", since=since)
    assert set(Delivery.objects.values_list("stream", flat=True)) == {"order:1"}
    drain()
    assert got == [0, 1, 2]


def test_what_failed_since_then_is_recovered(on, since):
    healthy = []

    @on("order.*", name="shop.moody")
    def moody(event):
        if not healthy:
            raise duebox.Permanent("not today")
        healthy.append(event.id)

    facts = [paid(number) for number in range(4)]
    drain(raises=False)
    ids = list(Delivery.objects.order_by("id").values_list("id", flat=True))
    operations.park("default", ids[:1], note="aside")
    Delivery.objects.filter(id=ids[3]).update(died_at=since - timedelta(days=1))
    assert replay.recover(to="shop.moody", since=since, manner=Manner(dry_run=True)).retried == 3
    assert replay.recover(to="shop.moody", since=since, manner=Manner(by="ann")).retried == 3
    healthy.append(None)
    drain()
    assert sorted(healthy[1:]) == [fact.id for fact in facts[:3]]
    assert set(Attempt.objects.filter(outcome="redriven").values_list("note", flat=True)) == {
        "replayed by ann: recover"
    }
    assert Delivery.objects.dead().count() == 1


def test_what_an_endpoint_missed_while_it_was_disabled_is_recovered_once(hooks, since):
    endpoint = hooks("7")
    name = f"to:hooks/{endpoint.pk}"
    disable("default", endpoint.pk, "410 Gone")
    paid(1)
    paid(2)
    drain()
    assert Attempt.objects.filter(subscriber=name, outcome="discarded").count() == 2
    with pytest.raises(InvalidReplay, match="is disabled; enable it first"):
        replay.recover(to=name, since=since)
    WebhookEndpoint.objects.update(disabled_at=None, disabled_reason="")
    assert replay.recover(to=name, since=since, manner=Manner(dry_run=True)).added == 2
    assert replay.recover(to=name, since=since).added == 2
    assert replay.recover(to=name, since=since).added == 0
    assert due(name) == list(Event.objects.filter(type="public.order.paid").order_by("id").values_list("id", flat=True))


def test_a_new_endpoint_gets_what_its_own_organization_has_missed_and_nothing_else(hooks, since):
    paid(1)
    duebox.emit("order.paid", {"total": 2}, organization="8")
    duebox.emit("order.shipped", {"total": 3}, organization="7")
    drain()
    mine, other = hooks("7", "order.paid"), hooks("8", "invoice.*")
    assert replay.missing(to=f"to:hooks/{mine.pk}", since=since).added == 1
    assert replay.missing(to=f"hooks/{other.pk}", since=since).added == 0
    (event,) = due(f"to:hooks/{mine.pk}")
    found = Event.objects.get(id=event)
    assert (found.type, found.organization) == ("public.order.paid", "7")


@pytest.mark.parametrize("type", ["order.paid", "public.order.paid", "order.*", "*.paid", "*"])
def test_for_webhooks_the_type_of_a_public_event_may_be_written_without_its_prefix(hooks, since, type):
    paid(1)
    drain()
    endpoint = hooks("7")
    dry = Manner(dry_run=True)
    assert replay.missing(to=f"hooks/{endpoint.pk}", since=since, type=type, manner=dry).added == 1
    until = timezone.now() + timedelta(seconds=1)
    assert replay.bulk(to="fan-out:hooks", since=since, until=until, type=type, manner=dry).added == 1


def test_a_type_that_is_not_public_is_no_type_for_an_endpoint(hooks, since, declare):
    declare("order.shipped")(type("OrderShipped", (), {"__annotations__": {"total": int}}))
    paid(1, type="order.shipped")
    endpoint = hooks("7")
    with pytest.raises(InvalidReplay, match=r"No event type is like 'public\.order\.shipped'"):
        replay.missing(to=f"hooks/{endpoint.pk}", since=since, type="order.shipped")


def test_an_event_that_is_not_public_is_refused_with_its_public_twin(hooks):
    fact, secret = paid(1), paid(2, type="order.shipped")
    drain()
    endpoint = hooks("7")
    twin = Event.objects.get(type="public.order.paid")
    for name in (f"to:hooks/{endpoint.pk}", "fan-out:hooks"):
        said = f"send the public event of order.paid: manage.py duebox events replay resend {twin.id} --to {name}"
        with pytest.raises(InvalidReplay, match=f"{name}' takes public events only; {said}$"):
            replay.resend(fact.id, to=name)
        with pytest.raises(
            InvalidReplay, match=f"{name}' takes public events only, and order.shipped has no public event"
        ):
            replay.resend(secret.id, to=name)
    replay.resend(twin.id, to=f"to:hooks/{endpoint.pk}")
    assert due(f"to:hooks/{endpoint.pk}") == [twin.id]


def test_a_public_event_never_goes_to_an_endpoint_of_another_organization(hooks, since):
    endpoint = hooks("8")
    paid(1)
    event = Event.objects.get(type="public.order.paid")
    name = f"to:hooks/{endpoint.pk}"
    Attempt.objects.create(
        event_id=event.id, delivery_id=1, subscriber=name, number=1, outcome="delivered", due_at=timezone.now()
    )
    with pytest.raises(InvalidReplay, match="There is no event"):
        replay.resend(event.id, to=name)
    until = timezone.now() + timedelta(seconds=1)
    assert replay.bulk(to=name, since=since, until=until, organization="7").added == 0
    assert due(name) == []


def test_what_the_fan_out_has_still_to_do_is_not_done_by_a_replay_as_well(hooks, since):
    endpoint = hooks("7")
    paid(1)
    name = f"to:hooks/{endpoint.pk}"
    assert replay.missing(to=name, since=since).as_dict() == {"added": 0, "retried": 0, "still_open": 1}
    Delivery.objects.filter(subscriber="fan-out:hooks").delete()
    fan_out("default", "hooks", [str(Event.objects.get(type="public.order.paid").id)])
    assert replay.missing(to=name, since=since).still_open == 1


def test_webhooks_as_a_whole_are_no_target(hooks, since):
    with pytest.raises(InvalidReplay, match="'hooks' is many places; name one of them, as in 'to:hooks/<id>'"):
        replay.missing(to="hooks", since=since)
    with pytest.raises(InvalidReplay, match="Nothing is known of 'to:hooks/nobody'"):
        replay.missing(to="hooks/nobody", since=since)


@pytest.mark.django_db(transaction=True)
def test_two_replays_of_the_same_at_the_same_time_add_each_event_once(on, since, monkeypatch):
    monkeypatch.setattr(replay, "BATCH", 10)
    for number in range(100):
        paid(number)
    on("order.*", name="shop.late")(lambda event: None)
    ready, added = threading.Barrier(3), []

    def go():
        try:
            ready.wait()
            added.append(replay.missing(to="shop.late", since=since).added)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(added) == 100
    assert len(set(due("shop.late"))) == Delivery.objects.count() == 100
