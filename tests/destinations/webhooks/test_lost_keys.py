"""A key that is missing is a mistake of the project: it is not held against the endpoints, and a check finds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.utils import timezone

import duebox
from duebox.destinations.webhooks import endpoints as api
from duebox.destinations.webhooks.encryption import decrypted, readable
from duebox.events.outcomes import Discard
from duebox.exceptions import Throttled
from duebox.models import Attempt, Delivery, DestinationState, Event, WebhookEndpoint
from duebox.store import destinations
from tests.destinations.conformance import a_fact
from tests.destinations.webhooks.receiver import Reply
from tests.support import eventually

pytestmark = pytest.mark.django_db
MANAGE = Path(__file__).parents[2] / "manage.py"


@pytest.fixture
def lose(settings):
    def key():
        settings.SECRET_KEY = "another one"

    return key


def warnings(**options):
    found = run_checks(tags=["duebox"], **{"databases": ["default"], **options})
    return [each for each in found if each.id == "duebox.W014"]


def test_it_asks_for_patience_and_says_the_repair(add, hooks, lose, receiver):
    row = add()
    lose()
    results = hooks.part(str(row.pk)).deliver([a_fact("public.order.paid"), a_fact("public.order.paid")])
    assert [(type(each), each.seconds) for each in results] == [(Throttled, 300), (Throttled, 300)]
    assert "WEBHOOK_KEYS" in str(results[0])
    assert results[0] is not results[1]
    assert receiver.got == []
    assert "WEBHOOK_KEYS" in api.test(row).error


def test_a_disabled_endpoint_misses_its_events_all_the_same(add, hooks, lose):
    row = api.disable(add(), "moving")
    lose()
    [result] = hooks.part(str(row.pk)).deliver([a_fact("public.order.paid")])
    assert result == Discard("the endpoint is disabled: moving")


def test_nobody_is_warned_and_nothing_is_disabled(add, hooks, lose):
    row = add()
    WebhookEndpoint.objects.update(enabled_at=timezone.now() - timedelta(days=30))
    name = f"to:hooks/{row.pk}"
    destinations.record_failure("default", name, "no key", gap=60)
    lose()
    hooks.part(str(row.pk)).fails_since(timezone.now() - timedelta(days=6))
    row.refresh_from_db()
    assert row.disabled_at is None
    assert not Event.objects.exists()
    assert DestinationState.objects.get(name=name).failing_since is None  # nor later, by whoever has the key again


@pytest.mark.django_db(transaction=True)
def test_events_wait_until_the_key_is_there_again(configure, receiver, public, hire, lose, settings):
    hooks = configure(receiver.port)
    row, key = api.create("7", receiver.url, ["*"]).endpoint, settings.SECRET_KEY
    lose()
    hire()
    for number in range(3):
        duebox.emit("order.paid", {"total": number}, about=("order", number), organization="7")
    gate = eventually(
        lambda: DestinationState.objects.filter(name=f"to:hooks/{row.pk}", open_until__isnull=False).first()
    )
    assert "cannot be decrypted" in gate.error
    assert gate.open_until - timezone.now() > timedelta(minutes=4)
    waiting = Delivery.objects.filter(subscriber=gate.name)
    assert {(each.status, each.attempt) for each in waiting} == {("pending", 0)}
    out = StringIO()
    call_command("duebox", "endpoints", "list", stdout=out)
    assert "enabled; no attempts until" in out.getvalue()
    assert "failing" not in out.getvalue()
    settings.SECRET_KEY = key
    hooks.forget(row.pk)
    receiver.reply = lambda got: Reply(500)
    Delivery.objects.update(due_at=timezone.now())
    api.resume(row)
    eventually(lambda: Attempt.objects.filter(status=500).exists())


def test_a_new_secret_keeps_no_older_one_that_cannot_be_read(add, hooks, lose, receiver):
    row = add()
    lose()
    new = api.rotate(row)
    row.refresh_from_db()
    assert (decrypted(row.secret), row.previous_secret, row.previous_until) == (new, "", None)
    assert api.test(row).ok


def test_headers_that_cannot_be_read_are_given_again(add, lose, receiver):
    row = add(headers={"X-A": "b"})
    lose()
    out, err = StringIO(), StringIO()
    call_command("duebox", "endpoints", "rotate", str(row.pk), stdout=out, stderr=err)
    assert out.getvalue().startswith("whsec_")
    said = f"manage.py duebox endpoints change {row.pk} --header 'NAME: VALUE', or --no-headers"
    assert said in err.getvalue()
    row.refresh_from_db()
    assert api.test(row).error.startswith("The headers of an endpoint cannot be decrypted")
    api.change(row, headers={"X-A": "c"})
    assert api.test(row).ok
    assert receiver.got[0].headers["x-a"] == "c"


def test_who_can_read_everything_is_told_nothing_besides(add):
    err = StringIO()
    call_command("duebox", "endpoints", "rotate", str(add(headers={"X-A": "b"}).pk), stdout=StringIO(), stderr=err)
    assert err.getvalue() == ""


def test_readable_is_what_can_be_decrypted(add, lose):
    row = add()
    assert readable(row.secret)
    assert readable("")
    lose()
    assert not readable(row.secret)


def test_W014_the_check_of_a_database_counts_the_endpoints_that_cannot_be_read(add, lose):
    row = add(headers={"X-A": "b"})
    assert warnings() == []
    lose()
    add()
    [found] = warnings()
    assert found.msg == f"1 of 2 webhook endpoints cannot be sent to, because the encryption key is missing: {row.pk}."
    assert "DUEBOX['WEBHOOK_KEYS']" in found.hint
    assert "SECRET_KEY_FALLBACKS" in found.hint
    assert warnings(databases=[]) == []


def test_W014_headers_count_and_an_older_secret_while_it_signs(add, lose):
    rows = [add(headers={"X-A": "b"}), add(), add()]
    kept = rows[1].secret
    lose()
    api.rotate(rows[0])
    for row, until in zip(rows[1:], [timedelta(hours=1), timedelta(hours=-1)], strict=True):
        api.rotate(row)
        WebhookEndpoint.objects.filter(pk=row.pk).update(previous_secret=kept, previous_until=timezone.now() + until)
    [found] = warnings()
    assert all(str(row.pk) in found.msg for row in rows[:2])
    assert str(rows[2].pk) not in found.msg


def test_W014_of_many_a_few_are_named(add, lose):
    for _ in range(7):
        add()
    lose()
    [found] = warnings()
    assert found.msg.startswith("7 of 7 webhook endpoints")
    assert found.msg.endswith(" and 2 more.")


def test_W014_without_webhooks_nobody_is_asked(add, lose, settings):
    add()
    lose()
    settings.DUEBOX = {"UNDECLARED": "allow"}
    assert warnings() == []


def test_W014_a_database_that_does_not_answer_fails_no_check():
    entry = {"BACKEND": "duebox.destinations.webhooks.Webhooks"}
    done = subprocess.run(
        [sys.executable, str(MANAGE), "check", "--tag", "duebox", "--database", "default"],
        env={
            **os.environ,
            "DUEBOX_TEST_DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing",
            "DUEBOX_TEST_SETTINGS": json.dumps({"DESTINATIONS": {"hooks": entry}}),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
