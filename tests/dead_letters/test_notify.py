"""`duebox.delivery.dead`: told once, with its settlement, and only where somebody listens."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import duebox
from duebox.contracts.enforce import Own
from duebox.dead_letters import notify
from duebox.dead_letters.fingerprint import WORKER_LOST
from duebox.destinations.registry import destination_of
from duebox.events.emit import NewEvent, emit_many
from duebox.events.outcomes import Dead
from duebox.models import Attempt, Delivery, Event
from duebox.store import leases, operations
from duebox.testing import drain
from duebox.worker.lease import rescue
from duebox.worker.settle import settle
from tests.app import tasks as ours
from tests.app.outside import Post
from tests.support import a_lease, claims_of, ended, eventually, expire

pytestmark = pytest.mark.django_db

NO_TASK = {
    "task": "tests.app.tasks.no_task", "args": [], "kwargs": {}, "backend": "default", "queue": "default",
    "run_after": None,
}  # fmt: skip


@pytest.fixture
def mortal(on):
    @on("life.began", name="mortal")
    def mortal(event):
        raise duebox.Permanent(f"number {event.data['number']} is mortal")

    return mortal


@pytest.fixture
def heard(on):
    """What a handler of deaths was told."""
    told = []
    on("duebox.delivery.dead", name="listener")(lambda event: told.append(event))
    return told


def notices():
    return Event.objects.filter(type="duebox.delivery.dead").order_by("id")


def test_whoever_subscribes_is_told_of_a_death(mortal, heard):
    fact = duebox.emit("life.began", {"number": 7}, organization="acme", correlation_id="story")
    drain(raises=False)
    row = Delivery.objects.dead().get()
    (told,) = heard
    assert told.data == {
        "delivery_id": row.id,
        "event_id": str(fact.id),
        "event_type": "life.began",
        "subscriber": "mortal",
        "error": "duebox.exceptions.Permanent: number 7 is mortal",
        "fingerprint": row.fingerprint,
        "group": operations.groups("default")[0].id,
        "attempts": 1,
    }
    assert (told.organization, told.correlation_id, told.causation_id) == ("acme", "story", fact.id)
    assert told.about == ("delivery", str(row.id))


def test_where_nobody_subscribes_nothing_is_stored_and_no_transaction_is_opened(mortal):
    duebox.emit("life.began", {"number": 1})
    lease = a_lease()
    (mine,) = claims_of(lease, "mortal")
    with CaptureQueriesContext(connection) as captured:
        assert settle("default", lease, [ended(mine, Dead(ValueError()))]) == set()
    assert len(captured) == 1
    assert not notices().exists()


def test_every_death_of_a_delivery_is_told_once(mortal, heard):
    duebox.emit("life.began", {"number": 1})
    drain(raises=False)
    operations.retry("default", [Delivery.objects.get().id], note="again")
    drain(raises=False)
    assert len(heard) == 2
    assert len({event.idempotency_key for event in heard}) == 2
    assert drain(raises=False).delivered == 0


def test_the_death_of_a_listener_is_not_told(mortal, on):
    @on("duebox.delivery.dead", name="listener")
    def listener(event):
        raise duebox.Permanent("deaf")

    duebox.emit("life.began", {"number": 1})
    drain(raises=False)
    assert notices().count() == 1
    assert {row.subscriber for row in Delivery.objects.dead()} == {"mortal", "listener"}


def test_an_outcome_that_is_no_longer_ones_own_is_not_told(mortal, heard):
    duebox.emit("life.began", {"number": 1})
    stale = a_lease()
    (mine,) = claims_of(stale, "mortal")
    expire(stale)
    rescue("default", 5)
    assert settle("default", stale, [ended(mine, Dead(ValueError()))]) == {mine.id}
    assert not notices().exists()


def test_a_delivery_that_kills_its_workers_is_told_by_whoever_finds_them(heard, on):
    on("a.poison", name="poisoned")(lambda event: None)
    fact = duebox.emit("a.poison", organization="acme")
    for _ in range(2):
        lease = a_lease()
        (mine,) = claims_of(lease, "poisoned")
        assert not notices().exists()
        leases.announce_suspect("default", lease, mine.id)
        expire(lease)
        rescue("default", 2)
    drain()
    (told,) = heard
    assert (told.data["fingerprint"], told.data["event_id"], told.organization) == (WORKER_LOST, str(fact.id), "acme")
    assert told.data["error"] == "Workers were lost 2 times while running it; it may be the cause."


def test_a_notice_that_cannot_be_stored_does_not_keep_a_delivery_from_dying(mortal, heard, monkeypatch, caplog):
    monkeypatch.setattr(notify, "EVENT", "Not A Name")
    monkeypatch.setattr(notify, "is_wanted", lambda: True)
    duebox.emit("life.began", {"number": 1})
    drain(raises=False)
    assert Delivery.objects.dead().count() == 1
    assert "dead letters could not be announced" in caplog.text


def test_a_route_takes_deaths_to_a_destination(mortal, settings):
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {"alarm": {"BACKEND": "tests.app.outside.Post"}},
        "ROUTES": [{"match": "duebox.delivery.dead", "to": "alarm"}],
    }
    duebox.emit("life.began", {"number": 3})
    drain(raises=False)
    (told,) = Post.boxes["alarm"].facts
    assert told.data["error"] == "duebox.exceptions.Permanent: number 3 is mortal"


def test_a_route_for_everything_takes_no_deaths(mortal, settings):
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {"all": {"BACKEND": "tests.app.outside.Post"}},
        "ROUTES": [{"match": "*", "to": "all"}],
    }
    duebox.emit("life.began", {"number": 3})
    drain(raises=False)
    assert not notices().exists()


@pytest.mark.django_db(transaction=True)
def test_a_worker_tells_of_deaths_of_handlers_and_of_destinations(mortal, heard, settings, hire):
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "POLL_SECONDS": 0.1,
        "DESTINATIONS": {"wall": {"BACKEND": "tests.app.outside.Post"}},
        "ROUTES": [{"match": "life.began", "to": "wall"}],
    }
    destination_of("to:wall").answers = duebox.Permanent("the wall says no")
    hire()
    for number in range(20):
        duebox.emit("life.began", {"number": number})
    eventually(lambda: len(set(heard)) == 40)  # a listener in the company of one that fails may run twice
    eventually(lambda: Delivery.objects.dead().count() == Delivery.objects.count() == 40)
    told = sorted(event.data["delivery_id"] for event in set(heard))
    assert told == sorted(Delivery.objects.values_list("id", flat=True))
    assert Attempt.objects.filter(outcome="dead").count() == notices().count() == 40
    assert {event.data["subscriber"] for event in heard} == {"mortal", "to:wall"}


class TestTasks:
    """A task that dies is work of the project that was not done, although its event is one of Duebox's own."""

    pytestmark = pytest.mark.django_db(transaction=True)

    @pytest.fixture(autouse=True)
    def _backend(self, settings):
        settings.TASKS = {"default": {"BACKEND": "duebox.tasks.backend.DueboxBackend"}}
        ours.ran.clear()

    def test_whoever_subscribes_is_told_of_it(self, heard):
        result = ours.fail.enqueue("bad")
        drain(raises=False)
        (told,) = heard
        assert (told.data["event_type"], told.data["subscriber"]) == ("duebox.task", "duebox.tasks")
        assert told.data["event_id"] == result.id
        assert told.data["error"].startswith("duebox.exceptions.Permanent: tests.app.tasks.fail failed: ValueError")

    def test_one_that_kills_its_workers_is_told_too(self, heard):
        result = ours.note.enqueue()
        for _ in range(2):
            lease = a_lease()
            (mine,) = claims_of(lease, "duebox.tasks")
            leases.announce_suspect("default", lease, mine.id)
            expire(lease)
            rescue("default", 2)
        drain()
        assert [(told.data["event_id"], told.data["fingerprint"]) for told in heard] == [(result.id, WORKER_LOST)]

    def test_one_that_another_task_enqueued_is_told(self, heard):
        result = ours.note.enqueue()
        drain()
        emit_many([NewEvent(type=Own("duebox.task"), data=NO_TASK, causation_id=UUID(result.id))])
        drain(raises=False)
        assert len(heard) == 1

    def test_an_alarm_that_is_a_task_does_not_set_off_itself(self, mortal, on):
        @on("duebox.delivery.dead", name="alarm")
        def alarm(event):
            ours.fail.enqueue("deaf")

        duebox.emit("life.began", {"number": 1})
        drain(raises=False)
        assert ours.ran == ["deaf"]
        assert notices().count() == 1

    def test_nor_does_one_behind_a_destination(self, mortal, settings, hire):
        """A worker carries deaths there by the dozen; each task knows which of them it is for."""
        settings.DUEBOX = {
            "UNDECLARED": "allow",
            "POLL_SECONDS": 0.1,
            "DESTINATIONS": {
                "alarm": {
                    "BACKEND": "duebox.destinations.django_tasks.DjangoTask",
                    "OPTIONS": {"task": "tests.app.tasks.fail"},
                },
            },
            "ROUTES": [{"match": "duebox.delivery.dead", "to": "alarm"}],
        }
        for number in range(3):
            duebox.emit("life.began", {"number": number})
        hire()
        eventually(lambda: Delivery.objects.dead().filter(subscriber="duebox.tasks").count() == 3)
        eventually(lambda: Delivery.objects.dead().count() == Delivery.objects.count() == 6)
        assert notices().count() == 3
