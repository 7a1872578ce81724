from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone

import duebox
from duebox.destinations.registry import close_all
from duebox.destinations.webhooks.encryption import encrypted
from duebox.models import AuditEntry, Delivery, DestinationState, WebhookEndpoint
from duebox.store import destinations
from duebox.testing import drain
from tests.app.outside import Post

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def configured():
    settings = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {alias: {"BACKEND": "tests.app.outside.Post"} for alias in ("bus", "queue")},
        "ROUTES": [{"match": "*", "to": "bus"}],
    }
    with override_settings(DUEBOX=settings):
        yield
    Post.boxes.clear()


def run(capsys, *words):
    call_command("duebox", *words)
    return capsys.readouterr().out


def test_destinations_are_listed_with_what_waits(capsys):
    duebox.emit("order.paid", {})
    found = {each["name"]: each for each in map(json.loads, run(capsys, "destinations", "list", "--json").splitlines())}
    assert (found["to:bus"]["waiting"], found["to:queue"]["waiting"]) == (1, 0)
    assert "ok" in run(capsys, "destinations", "list")


def test_without_destinations_it_says_what_to_do(capsys):
    with override_settings(DUEBOX={}):
        assert "add one to DUEBOX['DESTINATIONS']" in run(capsys, "destinations", "list")


def test_a_destination_can_be_paused_and_resumed(capsys):
    duebox.emit("order.paid", {})
    assert "bus is paused" in run(capsys, "destinations", "pause", "bus", "--note", "moving house")
    assert "paused since" in run(capsys, "destinations", "list")
    assert "moving house" in run(capsys, "destinations", "list")
    assert drain().delivered == 0
    assert "is resumed" in run(capsys, "destinations", "resume", "bus")
    assert drain().delivered == 1
    assert "was neither paused" in run(capsys, "destinations", "resume", "bus")


def test_that_it_was_paused_and_resumed_is_in_the_audit_log(capsys):
    run(capsys, "destinations", "pause", "bus", "--note", "moving house")
    run(capsys, "destinations", "resume", "bus")
    run(capsys, "destinations", "resume", "bus")  # nothing happens
    paused, resumed = AuditEntry.objects.order_by("id")
    assert (paused.action, paused.entity_type, paused.entity_id) == ("destination.paused", "destination", "bus")
    assert paused.metadata["reason"] == "moving house"
    assert paused.actor
    assert resumed.action == "destination.resumed"


def test_who_paused_it_is_kept_where_no_note_is_given(capsys):
    run(capsys, "destinations", "pause", "bus")
    assert DestinationState.objects.get().paused_note.startswith("paused by ")


def test_one_that_is_left_alone_is_told_with_its_error(capsys):
    destinations.open_breaker("default", "to:bus", pause=60, longest=60, error="it is down", counts=True, probed=False)
    assert "no attempts until" in run(capsys, "destinations", "list")
    assert "it is down" in run(capsys, "destinations", "list")


def test_one_that_was_left_alone_until_a_while_ago_is_told_as_failing(capsys):
    destinations.open_breaker("default", "to:bus", pause=60, longest=60, error="it is down", counts=True, probed=False)
    DestinationState.objects.update(open_until=timezone.now() - timedelta(seconds=1))
    told = run(capsys, "destinations", "list")
    assert "no attempts" not in told
    assert "failing since" in told
    assert "it is down" in told


def test_a_row_is_short_enough_to_be_read(capsys):
    destinations.open_breaker("default", "to:bus", pause=60, longest=60, error="x" * 600, counts=True, probed=False)
    destinations.record_failure("default", "to:queue", "The answer was 500. " + "y" * 600, gap=60)
    for line in run(capsys, "destinations", "list").splitlines():
        assert len(line) < 200
        assert not re.search(r"\d\.\d", line)  # microseconds
    assert "y" * 50 in run(capsys, "destinations", "list")
    [bus, _] = map(json.loads, run(capsys, "destinations", "list", "--json").splitlines())
    assert bus["error"] == "x" * 500


@pytest.fixture
def renamed():
    """Something waits for `bus`, which is now called `coach`."""
    duebox.emit("order.paid", {})
    settings = {"UNDECLARED": "allow", "DESTINATIONS": {"coach": {"BACKEND": "tests.app.outside.Post"}}}
    with override_settings(DUEBOX=settings):
        yield


def test_one_that_is_not_configured_any_more_says_so(capsys, renamed):
    [bus, _] = [line for line in run(capsys, "destinations", "list").splitlines() if not line.startswith("destination")]
    assert bus.split()[:3] == ["bus", "1", "0"]
    assert bus.endswith("not configured: 1 waits; put 'bus' back into DUEBOX['DESTINATIONS'] until nothing does")
    found = {each["name"]: each for each in map(json.loads, run(capsys, "destinations", "list", "--json").splitlines())}
    assert (found["to:bus"]["configured"], found["to:coach"]["configured"]) == (False, True)


def test_a_part_of_one_that_is_not_configured_any_more_says_so(capsys, renamed):
    Delivery.objects.update(subscriber="to:bus/7")
    assert "put 'bus' back" in run(capsys, "destinations", "list")


def test_one_that_is_not_configured_any_more_and_that_nothing_waits_for_says_so(capsys, renamed):
    Delivery.objects.update(status="dead")
    assert "not configured; nothing waits" in run(capsys, "destinations", "list")


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_one_that_is_not_configured_any_more_is_refused_with_the_reason(renamed, verb):
    with pytest.raises(CommandError, match=r"'bus' is not configured any more; put it back into DUEBOX\['DESTINATIONS"):
        call_command("duebox", "destinations", verb, "bus")
    assert not DestinationState.objects.exists()


@pytest.mark.parametrize("words", [["list"], ["discard", "--reason", "x"], ["blocked"]])
def test_one_that_is_not_configured_any_more_is_known_by_what_waits_for_it(capsys, renamed, words):
    for stored in ("to:bus", "to:bus/7"):
        Delivery.objects.update(subscriber=stored)
        for name in ("bus", "to:bus", stored):
            run(capsys, "deliveries", *words, "--destination", name)
    with pytest.raises(CommandError, match="No destination is called 'bux'"):
        run(capsys, "deliveries", *words, "--destination", "bux")


def test_an_unknown_destination_is_refused_with_a_hint():
    with pytest.raises(CommandError, match="did you mean 'queue'"):
        call_command("duebox", "destinations", "pause", "queu")
    with pytest.raises(CommandError, match="has no endpoint"):
        call_command("duebox", "destinations", "pause", "bus/1")


def test_what_a_stranger_said_cannot_steer_the_terminal(capsys):
    destinations.open_breaker(
        "default", "to:bus", pause=60, longest=60, error="\x1b[31mred\n<p>", counts=True, probed=False
    )
    destinations.pause("default", "to:queue", "moving \x1b[31mhouse")
    told = run(capsys, "destinations", "list")
    assert "\x1b" not in told
    assert "\\x1b[31mred" in told
    assert "moving \\x1b[31mhouse" in told
    assert len(told.splitlines()) == 3


def test_pause_and_resume_as_json(capsys):
    assert json.loads(run(capsys, "destinations", "pause", "bus", "--note", "moving", "--json")) == {
        "name": "to:bus",
        "paused": True,
        "note": "moving",
    }
    assert json.loads(run(capsys, "destinations", "resume", "to:bus", "--json")) == {"name": "to:bus", "resumed": True}
    assert json.loads(run(capsys, "destinations", "resume", "bus", "--json")) == {"name": "to:bus", "resumed": False}


@pytest.fixture
def hooks():
    entry = {"BACKEND": "duebox.destinations.webhooks.Webhooks"}
    with override_settings(DUEBOX={"UNDECLARED": "allow", "DESTINATIONS": {"hooks": entry}}):
        yield
        close_all()


@pytest.mark.parametrize("id", ["123", "01937c6e-1111-7111-8111-11111111abcd"])
def test_an_endpoint_that_is_not_there_is_refused_with_where_to_look(hooks, id):
    for verb in ("pause", "resume"):
        with pytest.raises(CommandError, match=rf"'hooks/{id}' is not an endpoint; `duebox endpoints list` lists"):
            call_command("duebox", "destinations", verb, f"hooks/{id}")
    assert not DestinationState.objects.exists()


def test_an_endpoint_is_paused_by_its_id_however_it_is_written(hooks, capsys):
    row = WebhookEndpoint.objects.create(
        organization="7", url="https://example.com/", types=["*"], secret=encrypted("x")
    )
    run(capsys, "destinations", "pause", f"hooks/{str(row.pk).upper()}")
    assert DestinationState.objects.get().name == f"to:hooks/{row.pk}"


def test_one_that_was_removed_while_it_was_paused_can_be_resumed(hooks, capsys):
    name = "hooks/01937c6e-1111-7111-8111-11111111abcd"
    destinations.pause("default", f"to:{name}", "for a while")
    assert "is resumed" in run(capsys, "destinations", "resume", name)
