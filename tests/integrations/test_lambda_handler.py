from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connections
from django.utils import timezone

import duebox
from duebox.destinations.envelope import envelope
from duebox.integrations import redeliver
from duebox.integrations.lambda_handler import handler
from duebox.models import Attempt, Delivery, WebhookEndpoint, Worker
from duebox.store import operations
from tests.app.models import Effect
from tests.app.outside import Post
from tests.destinations.stages import aws
from tests.support import eventually

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("default::ResourceWarning"),
]

SCHEDULED = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
PING = {"duebox": "due"}
# As Lambda does it: import the module, call the function.
RUN = """
import json, sys, time
started = time.monotonic()
from duebox.integrations.lambda_handler import handler
class Context:
    def get_remaining_time_in_millis(self):
        return int(1000 * (float(sys.argv[2]) + started - time.monotonic()))
print(json.dumps(handler(json.loads(sys.argv[1]), Context())))
"""


class Context:
    def __init__(self, seconds=20.0):
        self._ends_at = time.monotonic() + seconds

    def get_remaining_time_in_millis(self):
        return int((self._ends_at - time.monotonic()) * 1000)


@pytest.fixture
def queue(settings):
    """A queue as the only destination, for everything about orders."""
    with aws.SQS() as stage:
        settings.DUEBOX = {
            "UNDECLARED": "allow", "DESTINATIONS": {"queue": stage.entry()},
            "ROUTES": [{"match": "order.*", "to": "queue"}],
        }  # fmt: skip
        yield stage


def message(body, name="m-1"):
    return {"messageId": name, "eventSource": "aws:sqs", "body": body if isinstance(body, str) else json.dumps(body)}


@pytest.mark.parametrize("event", [SCHEDULED, PING, {}, None, "anything"])
def test_whatever_invokes_it_delivers_what_is_due_and_says_how_much(event):
    duebox.emit("ledger.posted", {"account": 1, "sequence": 1}, about=("account", 1))
    assert handler(event, Context()) == {
        "delivered": 3, "discarded": 0, "expired": 0, "snoozed": 0, "retried": 0, "dead": 0, "lost": 0,
    }  # fmt: skip
    assert not Delivery.objects.exists()
    assert not Worker.objects.exists()


def test_a_warm_function_delivers_again_through_the_same_client(queue):
    for number in (1, 2):
        duebox.emit("order.paid", {"number": number})
        assert handler(SCHEDULED, Context())["delivered"] == 1
    assert [each.data["number"] for each in queue.received()] == [1, 2]


def test_a_function_that_is_frozen_holds_no_connection(elsewhere):
    before = sessions(elsewhere)
    handler(PING, Context())
    eventually(lambda: sessions(elsewhere) <= before)


def sessions(elsewhere):
    """Of clients of this database, by the id of their process."""
    mine = connections["default"].settings_dict["NAME"]
    clients = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
    return {pid for (pid,) in elsewhere.execute(clients, [mine])}


def lambda_process(event, seconds):
    name = connections["default"].settings_dict["NAME"]
    settings = {"DJANGO_SETTINGS_MODULE": "tests.settings", "DUEBOX_TEST_NAME": name, "PYTHONPATH": "src:."}
    return subprocess.Popen(
        [sys.executable, "-c", RUN, json.dumps(event), str(seconds)],
        env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_cold_function_sets_django_up_by_itself():
    duebox.emit("ledger.posted", {"account": 1, "sequence": 1}, about=("account", 1))
    out, err = lambda_process(SCHEDULED, 30).communicate(timeout=120)
    assert json.loads(out)["delivered"] == 3, err
    assert Effect.objects.count() == 3


def test_it_ends_before_its_time_is_over_and_gives_back_what_did_not_end():
    """The function has ten seconds, its handler wants thirty."""
    duebox.emit("nap.asked", {"seconds": 30})
    duebox.emit("ledger.posted", {"account": 1, "sequence": 1}, about=("account", 1))
    process = lambda_process(SCHEDULED, 10)
    started = time.monotonic()
    out, err = process.communicate(timeout=120)
    assert time.monotonic() - started < 10 + 10, err  # and the time that Python needs to start and to end
    assert json.loads(out)["delivered"] == 3
    [left] = Delivery.objects.all()
    assert (left.subscriber, left.lease, left.attempt, left.rescues) == ("nap.sleeps", None, 0, 0)
    assert not Worker.objects.exists()


def test_a_dead_letter_that_comes_back_from_a_queue_is_redriven(queue):
    fact = duebox.emit("order.paid", {"number": 1})
    with queue.refusing({str(fact.id)}):
        assert handler(SCHEDULED, Context())["dead"] == 1
    result = handler({"Records": [message(envelope(fact))]}, Context())
    assert (result["delivered"], result["batchItemFailures"]) == (1, [])
    assert [each.id for each in queue.received()] == [str(fact.id)]
    assert "message m-1 came back" in Attempt.objects.get(outcome="redriven").note


def test_a_message_whose_delivery_is_parked_stays_in_the_queue_with_the_way_out(queue, caplog):
    fact = duebox.emit("order.paid", {"number": 1})
    with queue.refusing({str(fact.id)}):
        handler(SCHEDULED, Context())
    [letter] = operations.find("default", states=["dead"])
    operations.park("default", [letter.id], note="the shop is closed")
    record = {"Records": [message(envelope(fact))]}
    assert handler(record, Context())["batchItemFailures"] == [{"itemIdentifier": "m-1"}]
    assert (
        f"id=m-1 reason=it is parked; make it due again: manage.py duebox deliveries retry {letter.id}" in caplog.text
    )
    assert Delivery.objects.get().status == "parked"
    operations.retry("default", [letter.id], note="it is open")
    assert handler(record, Context())["batchItemFailures"] == []
    assert [each.id for each in queue.received()] == [str(fact.id)]


def test_a_message_whose_endpoint_is_disabled_stays_in_the_queue_with_the_way_out(queue, caplog):
    fact = duebox.emit("order.paid", {"number": 1})
    with queue.refusing({str(fact.id)}):
        handler(SCHEDULED, Context())
    endpoint = WebhookEndpoint.objects.create(
        organization="7", url="https://example.com/", types=["*"], secret="encrypted", disabled_at=timezone.now()
    )
    Delivery.objects.update(subscriber=f"to:hooks/{endpoint.pk}")
    result = handler({"Records": [message(envelope(fact))]}, Context())
    assert result["batchItemFailures"] == [{"itemIdentifier": "m-1"}]
    assert f"hooks/{endpoint.pk} is disabled; enable it first: manage.py duebox endpoints enable" in caplog.text


def test_an_event_that_still_waits_is_not_doubled(queue):
    fact = duebox.emit("order.paid", {"number": 1})
    result = handler({"Records": [message(envelope(fact)), message(envelope(fact), "m-2")]}, Context())
    assert (result["delivered"], result["batchItemFailures"]) == (1, [])
    assert [each.id for each in queue.received()] == [str(fact.id)]


def test_an_event_that_was_delivered_goes_again_to_the_destination_that_is_named(queue, monkeypatch):
    """It comes wrapped, as from the dead-letter queue of a rule."""
    fact = duebox.emit("order.paid", {"number": 1})
    handler(SCHEDULED, Context())
    monkeypatch.setenv(redeliver.VARIABLE, "queue")
    wrapped = {"detail-type": "order.paid", "source": "shop", "detail": json.loads(envelope(fact))}
    result = handler({"Records": [message(wrapped)]}, Context())
    assert (result["delivered"], result["batchItemFailures"]) == (1, [])
    assert [each.id for each in queue.received()] == [str(fact.id)] * 2


@pytest.fixture
def line(settings, monkeypatch):
    """A destination that keeps order, for everything about orders; what comes back goes there again."""
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {
            "line": {"BACKEND": "tests.app.outside.Single", "ORDERED": True},
            "hooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks"},
        },
        "ROUTES": [{"match": "order.*", "to": "line"}],
    }
    monkeypatch.setenv(redeliver.VARIABLE, "line")
    yield
    Post.boxes.clear()


def test_what_is_sent_once_more_has_its_stream_and_the_history_tells_of_it(line):
    fact = a_delivered_one(about=("order", 7))
    assert redeliver.take_back([message(envelope(fact))]) == []
    [again] = Delivery.objects.all()
    assert (again.subscriber, again.stream) == ("to:line", "order:7")
    told = Attempt.objects.get(event_id=fact.id, outcome="replayed")
    assert (told.delivery_id, told.subscriber, told.note) == (again.id, "to:line", "replayed: message m-1 came back")


def test_a_message_that_comes_twice_at_the_same_time_is_sent_once_more_only_once(line):
    fact = a_delivered_one()
    both = [threading.Thread(target=take_one_back, args=(envelope(fact), name)) for name in ("m-1", "m-2")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(20)
    assert Delivery.objects.count() == Attempt.objects.filter(outcome="replayed").count() == 1


def take_one_back(body, name):
    try:
        redeliver.take_back([message(body, name)])
    finally:
        connections.close_all()


def test_a_destination_of_many_places_cannot_be_sent_to_again(line, monkeypatch, caplog):
    monkeypatch.setenv(redeliver.VARIABLE, "line,hooks")
    fact = a_delivered_one()
    assert redeliver.take_back([message(envelope(fact))]) == ["m-1"]
    assert "is many places" in caplog.text
    assert not Delivery.objects.exists()


def test_a_reaction_of_another_that_waits_does_not_stand_for_the_destination(queue, monkeypatch, on):
    """The event goes on to a handler here, too; that it waits there says nothing about the queue."""
    on("order.paid", name="it")(lambda event: duebox.Snooze(timedelta(hours=1)))
    fact = a_delivered_one()
    records = {"Records": [message(envelope(fact))]}
    assert handler(records, Context())["batchItemFailures"] == [{"itemIdentifier": "m-1"}]
    monkeypatch.setenv(redeliver.VARIABLE, "queue")
    assert handler(records, Context())["batchItemFailures"] == []
    assert [each.id for each in queue.received()] == [str(fact.id)] * 2


def test_what_cannot_be_taken_back_stays_in_the_queue_and_the_rest_goes(queue, caplog):
    delivered, waits = a_delivered_one(), duebox.emit("order.paid", {"number": 1})
    unknown = {"event_id": str(uuid4()), "event_type": "order.paid"}
    bodies = [envelope(waits), "not json", "[]", {"event_id": "7"}, unknown, envelope(delivered)]
    result = handler({"Records": [message(body, f"m-{number}") for number, body in enumerate(bodies)]}, Context())
    assert result["batchItemFailures"] == [{"itemIdentifier": f"m-{number}"} for number in range(1, 6)]
    assert str(waits.id) in {each.id for each in queue.received()}
    assert "set DUEBOX_REDELIVER_TO" in caplog.text


def test_a_body_that_is_nested_too_deeply_keeps_its_own_message_only(queue):
    deep = {"messageId": "deep", "eventSource": "aws:sqs", "body": "[" * 200_000}
    fact = duebox.emit("order.paid", {"number": 1})
    good = {"messageId": "good", "eventSource": "aws:sqs", "body": json.dumps({"event_id": str(fact.id)})}
    result = handler({"Records": [deep, good]}, Context())
    assert result["batchItemFailures"] == [{"itemIdentifier": "deep"}]
    assert result["delivered"] == 1


def test_a_name_that_is_no_destination_is_said(queue, monkeypatch, caplog):
    monkeypatch.setenv(redeliver.VARIABLE, "queue, elsewhere")
    result = handler({"Records": [message(envelope(a_delivered_one()))]}, Context())
    assert result["batchItemFailures"] == [{"itemIdentifier": "m-1"}]
    assert "DUEBOX_REDELIVER_TO names elsewhere" in caplog.text


def test_a_message_that_comes_back_for_ever_stays_where_it_is_in_the_end(queue, monkeypatch):
    monkeypatch.setenv(redeliver.VARIABLE, "queue")
    monkeypatch.setattr(redeliver, "MOST_DELIVERED", 3)
    record = {"Records": [message(envelope(a_delivered_one()))]}
    kept = [handler(record, Context())["batchItemFailures"] for _ in range(3)]
    assert [len(each) for each in kept] == [0, 0, 1]


def test_records_of_others_are_nobodys_events():
    assert "batchItemFailures" not in handler({"Records": [{"eventSource": "aws:s3"}]}, Context())


def a_delivered_one(**options):
    fact = duebox.emit("order.paid", {"number": 7}, **options)
    handler(SCHEDULED, Context())
    assert Attempt.objects.filter(event_id=fact.id, outcome="delivered").exists()
    return fact


@pytest.mark.parametrize("event", [None, [], "x", {}, {"Records": None}, {"Records": [None]}, {"Records": [{}]}])
def test_whatever_invokes_it_delivers(event):
    assert "batchItemFailures" not in handler(event, Context())


def test_a_message_without_an_id_keeps_all_of_its_batch():
    """An empty name is what Lambda takes for that."""
    result = handler({"Records": [{"eventSource": "aws:sqs", "body": "{}"}]}, Context())
    assert result["batchItemFailures"] == [{"itemIdentifier": ""}]
