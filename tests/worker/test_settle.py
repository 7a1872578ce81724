"""Whatever an outcome is made of, it is written down, and so are those of its neighbours."""

from __future__ import annotations

from enum import Enum

import pytest

import duebox
from duebox.events.outcomes import Delivered, Retried
from duebox.exceptions import Undelivered
from duebox.models import Attempt, Delivery
from duebox.worker.settle import settle
from tests.support import a_lease, claims_of, ended, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("configure")]


class Code(int, Enum):
    GONE = 410


class Coded(Exception):
    status = Code.GONE


class Raising(Exception):
    @property
    def status(self):
        return {}["status"]


class Mute(Undelivered):
    def __str__(self):
        raise ValueError("no words")


class Unreadable(str):
    def __getitem__(self, key):
        raise ValueError("no letters")


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize(("error", "status"), [(Coded(), 410), (Raising(), None)])
def test_a_status_is_kept_if_it_is_one(hire, on, configure, atomic, error, status):
    configure(THREADS=1)

    @on("a.b", name="bad", atomic=atomic)
    def bad(event):
        raise error

    duebox.emit("a.b")
    hire()
    kept = eventually(Attempt.objects.first)
    assert (kept.outcome, kept.status) == ("retried", status)
    assert Delivery.objects.get().lease is None


@pytest.mark.parametrize("atomic", [True, False])
def test_an_error_that_cannot_be_told_keeps_nobody_from_being_settled(hire, on, configure, atomic):
    configure(THREADS=1)
    on("a.b", name="good", atomic=False)(lambda event: None)

    @on("a.b", name="mute", atomic=atomic)
    def mute(event):
        raise Mute("whatever")

    duebox.emit("a.b")
    hire()
    eventually(lambda: Attempt.objects.count() == 2)
    assert Attempt.objects.get(subscriber="good").outcome == "delivered"
    told = Attempt.objects.get(subscriber="mute")
    assert (told.outcome, told.note.strip().splitlines()[-1]) == (
        "retried",
        "RuntimeError: its outcome could not be written down: ValueError",
    )
    left = Delivery.objects.get()
    assert (left.subscriber, left.lease, left.attempt) == ("mute", None, 1)


def test_what_was_delivered_is_delivered_whatever_was_said_of_it(hire, on, configure):
    configure(THREADS=1)
    on("a.b", name="it", atomic=False)(lambda event: Delivered(Unreadable("thanks")))
    duebox.emit("a.b")
    hire()
    assert eventually(Attempt.objects.first).outcome == "delivered"
    assert not Delivery.objects.exists()


def test_a_handler_that_raises_what_ctrl_c_raises_has_failed(hire, on, configure):
    configure(THREADS=1)

    @on("a.b", name="it", atomic=False)
    def handler(event):
        raise KeyboardInterrupt

    duebox.emit("a.b")
    hire()
    assert eventually(Attempt.objects.first).outcome == "retried"


def test_neighbours_of_an_outcome_that_cannot_be_written_do_not_count_as_lost(on):
    on("a.b", name="it")(lambda event: None)
    duebox.emit_many([duebox.NewEvent(type="a.b"), duebox.NewEvent(type="a.b")])
    lease = a_lease()
    good, bad = claims_of(lease, "it")
    assert settle("default", lease, [ended(good), ended(bad, Retried(60.0, Mute("whatever")))]) == set()
    assert sorted(Attempt.objects.values_list("outcome", flat=True)) == ["delivered", "retried"]
