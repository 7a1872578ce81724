from __future__ import annotations

import json

import pytest
from django.core.management.base import CommandError

import duebox
from duebox.models import Delivery
from duebox.store import deliveries
from duebox.testing import drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def blocked(on):
    """One stream behind a dead letter, one behind a retry."""

    @on("order.*", name="shop.mirror", ordered=True)
    def mirror(event):
        if event.about[1] == "1":
            raise duebox.Permanent("no")
        raise ValueError("not yet")

    for number in (1, 1, 1, 2, 2):
        duebox.emit("order.paid", about=("order", number))
    drain(raises=False)
    return Delivery.objects.dead().get()


def test_where_all_moves_it_says_so(manage):
    assert manage("duebox", "deliveries", "blocked") == "No stream is blocked.\n"
    assert manage("duebox", "deliveries", "blocked", "--json") == ""


def test_blocked_streams_are_listed_with_the_way_out(manage, blocked):
    head, dead, retrying, way_out = manage("duebox", "deliveries", "blocked").splitlines()
    assert head.split()[:5] == ["waiting", "to", "stream", "head", "why"]
    assert dead.split()[:5] == ["2", "shop.mirror", "order:1", str(blocked.id), "dead"]
    assert retrying.split()[:2] == ["1", "shop.mirror"]
    assert "retrying, until" in retrying
    assert way_out.endswith("manage.py duebox deliveries retry HEAD, or deliveries discard HEAD")


def test_as_json_one_stream_a_line(manage, blocked):
    dead, retrying = map(json.loads, manage("duebox", "deliveries", "blocked", "--json").splitlines())
    assert (dead["why"], dead["head"], dead["waiting"], dead["until"]) == ("dead", blocked.id, 2, None)
    assert dead["since"] == blocked.died_at.isoformat()
    assert (retrying["why"], retrying["stream"], retrying["waiting"]) == ("retrying", "order:2", 1)
    assert retrying["until"] > retrying["since"]


def test_where_more_wait_than_are_counted_it_says_so(manage, blocked, monkeypatch):
    monkeypatch.setattr(deliveries, "COUNTED", 1)
    _, dead, retrying, _ = manage("duebox", "deliveries", "blocked").splitlines()
    assert (dead.split()[0], retrying.split()[0]) == ("1+", "1")
    dead, retrying = map(json.loads, manage("duebox", "deliveries", "blocked", "--json").splitlines())
    assert (dead["waiting"], dead["more_wait"]) == (1, True)
    assert (retrying["waiting"], retrying["more_wait"]) == (1, False)


def test_the_list_can_be_filtered_and_cut(manage, blocked, on):
    on("room.cleaned", name="nobody")(lambda event: None)
    assert len(manage("duebox", "deliveries", "blocked", "--json", "--limit", "1").splitlines()) == 1
    assert manage("duebox", "deliveries", "blocked", "--handler", "nobody") == "No stream is blocked.\n"


def test_a_parked_head_is_listed_as_such_and_a_discarded_one_lets_the_others_go(manage, blocked):
    manage("duebox", "deliveries", "park", str(blocked.id), "--note", "asks the supplier")
    assert json.loads(manage("duebox", "deliveries", "blocked", "--json").splitlines()[0])["why"] == "parked"
    manage("duebox", "deliveries", "discard", str(blocked.id), "--reason", "too late")
    (left,) = map(json.loads, manage("duebox", "deliveries", "blocked", "--json").splitlines())
    assert left["stream"] == "order:2"
    assert drain(raises=False).dead == 1
    assert Delivery.objects.dead().get().id > blocked.id


def test_a_subscriber_is_named_as_elsewhere_and_one_that_nobody_knows_is_refused(manage, blocked):
    assert len(manage("duebox", "deliveries", "blocked", "--handler", "shop.mirror", "--json").splitlines()) == 2
    with pytest.raises(CommandError, match=r"No handler is called 'shop\.miror'; did you mean 'shop\.mirror'"):
        manage("duebox", "deliveries", "blocked", "--handler", "shop.miror")
    Delivery.objects.filter(id=blocked.id).update(subscriber="to:gone")
    assert (
        json.loads(manage("duebox", "deliveries", "blocked", "--destination", "gone", "--json"))["head"] == blocked.id
    )
