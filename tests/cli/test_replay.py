from __future__ import annotations

import json
from datetime import timedelta
from uuid import UUID

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

import duebox
from duebox.models import Attempt, Delivery
from duebox.testing import drain

pytestmark = pytest.mark.django_db

YESTERDAY = ("--since", (timezone.now() - timedelta(days=1)).isoformat())
TOMORROW = ("--until", (timezone.now() + timedelta(days=1)).isoformat())


@pytest.fixture
def facts(on):
    """Three events that one handler has seen, and a new one that has not."""
    on("order.*", name="shop.old")(lambda event: None)
    made = [duebox.emit("order.paid", {"number": number}) for number in range(3)]
    drain()
    on("order.*", name="shop.new")(lambda event: None)
    return made


def test_one_event_is_resent_and_the_history_says_by_whom(manage, facts):
    assert (
        manage("duebox", "events", "replay", "resend", str(facts[0].id), "--to", "shop.old") == "1 sent to shop.old.\n"
    )
    assert Delivery.objects.get().event_id == facts[0].id
    assert Attempt.objects.get(outcome="replayed").note.startswith("replayed by ")


def test_what_is_missing_is_counted_first_and_then_sent(manage, facts):
    words = ("duebox", "events", "replay", "missing", "--to", "shop.new", *YESTERDAY)
    assert manage(*words, "--dry-run") == "3 would be sent to shop.new.\nDry run: nothing was changed.\n"
    assert not Delivery.objects.exists()
    assert manage(*words) == "3 sent to shop.new.\n"
    assert drain().delivered == 3


def test_all_of_a_time_are_sent_again_and_open_ones_are_left_alone(manage, facts):
    duebox.emit("order.paid", {"number": 3})
    told = manage("duebox", "events", "replay", "bulk", "--to", "shop.old", *YESTERDAY, *TOMORROW, "--type", "order.*")
    assert told.splitlines() == [
        "3 sent to shop.old.",
        "1 skipped: one of their deliveries is still open, due or dead.",
    ]


def test_dead_letters_of_a_subscriber_are_recovered(manage, facts):
    duebox.emit("order.paid")
    Delivery.objects.filter(subscriber="shop.new").update(status="dead", died_at=timezone.now())
    assert (
        manage("duebox", "events", "replay", "recover", "--to", "shop.new", *YESTERDAY)
        == "0 sent to shop.new, 1 retried.\n"
    )
    assert not Delivery.objects.dead().exists()


def test_as_json(manage, facts):
    told = json.loads(
        manage("duebox", "events", "replay", "missing", "--to", "shop.new", *YESTERDAY, "--json", "--rate", "50")
    )
    assert told == {"added": 3, "retried": 0, "still_open": 0, "dry_run": False}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["missing", "--to", "shop.nwe", *YESTERDAY],
            "No handler or destination is called 'shop.nwe'; did you mean 'shop.new'",
        ),
        (["missing", "--to", "shop.new", "--since", "soon"], "--since"),
        (["missing", "--to", "shop.new"], "--since"),
        (["bulk", "--to", "shop.new", *YESTERDAY], "--until"),
        (["bulk", "--to", "shop.new", *YESTERDAY, *TOMORROW, "--rate", "0"], "'0' is not a number above 0"),
        (["missing", "--to", "shop.new", "--since", ""], "--since is empty"),
        (["resend", str(UUID(int=0)), "--to", "shop.new"], "There is no event 00000000-0000-0000-0000-000000000000"),
        (["bulk", "--to", "shop.new", "--since", "2026-02-01", "--until", "2026-01-31"], "is not after the beginning"),
        (
            ["missing", "--to", "shop.new", "--since", "2026-02-01", "--until", "2026-02-01"],
            "is not after the beginning",
        ),
        (["resend", "17", "--to", "shop.new"], "'17' is not the id of an event"),
        (["missing", "--to", "shop.new", *YESTERDAY, "--type", "ordr.paid"], "No event type is like 'ordr.paid'"),
    ],
)
def test_what_cannot_be_meant_is_refused(manage, facts, words, problem):
    with pytest.raises(CommandError, match=problem):
        manage("duebox", "events", "replay", *words)
    assert not Delivery.objects.exists()
