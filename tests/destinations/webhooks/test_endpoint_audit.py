"""Whatever happens to an endpoint is in the audit log: who, what, why, and nothing that is a secret."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from duebox.audit_log import verify
from duebox.audit_log.archive import as_dict
from duebox.cli.output import operator
from duebox.context import bound
from duebox.destinations.webhooks import endpoints as api
from duebox.destinations.webhooks.encryption import decrypted
from duebox.events.outcomes import Discard
from duebox.models import AuditEntry, Event, WebhookEndpoint
from duebox.store import destinations
from tests.destinations.conformance import a_fact
from tests.destinations.webhooks.receiver import Reply
from tests.support import undone

pytestmark = pytest.mark.django_db
ANN, WORKER = {"type": "user", "id": "ann"}, {"type": "system", "id": "duebox.worker"}


ACTS = (
    lambda row: api.change(row, types=["a.*"]),
    lambda row: api.rotate(row),
    lambda row: api.disable(row, "why"),
    lambda row: api.pause(row),
    lambda row: api.remove(row),
)


def entries(row):
    return list(AuditEntry.objects.about(row).order_by("id"))


def actions(row):
    return [entry.action.removeprefix("endpoint.") for entry in entries(row)]


def last(row):
    return entries(row)[-1]


def test_a_new_endpoint_is_recorded_with_who_asked_and_in_which_story(add):
    with bound(actor="ann", correlation_id="story-1"):
        row = add("7", "order.*", description="billing", rate=5)
    [made] = entries(row)
    assert (made.action, made.organization, made.actor) == ("endpoint.created", "7", ANN)
    assert made.correlation_id == "story-1"
    shown = {name: new for name, (_, new) in made.changes.items()}
    assert (shown["host"], shown["types"], shown["description"]) == ("127.0.0.1", ["order.*"], "billing")
    assert (shown["rate"], shown["state"], shown["secret"]) == (5, "enabled", "****")


def test_a_change_is_recorded_old_to_new_and_only_what_differs(add, receiver):
    row = add("7", "order.*")
    api.change(row, types=["invoice.*"], description="books", url=receiver.url)
    assert last(row).action == "endpoint.changed"
    assert last(row).changes == {"types": [["order.*"], ["invoice.*"]], "description": ["", "books"]}


def test_old_is_what_the_table_says_and_not_what_somebody_remembers(add):
    row = add("7", "order.*")
    stale = WebhookEndpoint.objects.get()
    api.change(row, types=["invoice.*"])
    api.change(stale, types=["*"])
    assert last(row).changes == {"types": [["invoice.*"], ["*"]]}


def test_what_changes_nothing_leaves_no_entry(add, receiver):
    row = add("7", "order.*")
    api.change(row, types=["order.*"], url=receiver.url)
    api.enable(row)
    api.disable(row, "moving")
    api.disable(row, "moving on")
    assert actions(row) == ["created", "disabled"]


def test_a_moved_url_shows_its_host_and_that_it_is_another_but_not_its_path(add, receiver):
    row = add("7", path="/first-secret?token=one")
    api.change(row, url=receiver.url + "/second-secret?token=two")
    assert set(last(row).changes) == {"url"}  # the host is the same
    old, new = last(row).changes["url"]
    assert old != new
    assert old.startswith("hmac:")


def test_of_headers_the_names_are_shown_and_of_values_that_they_changed(add):
    row = add("7", headers={"X-Token": "first-token", "X-Plain": "same"})
    api.change(row, headers={"X-Token": "second-token", "X-Plain": "same"})
    old, new = last(row).changes["headers"]
    assert set(old) == set(new) == {"X-Token", "X-Plain"}
    assert old["X-Token"] != new["X-Token"]
    assert old["X-Plain"] == new["X-Plain"]


def test_no_secret_is_in_any_entry(add, receiver):
    row = add("7", path="/path-secret?query-secret", headers={"X-Token": "header-secret"})
    hidden = ["path-secret", "query-secret", "header-secret", "moved-secret", "other-secret"]
    hidden += [decrypted(row.secret), row.secret, row.headers]
    api.change(row, url=receiver.url + "/moved-secret", headers={"X-Token": "other-secret"})
    hidden += [api.rotate(row), row.secret, row.headers]
    api.remove(api.enable(api.disable(row, "moving")))
    told = json.dumps([as_dict(entry) for entry in AuditEntry.objects.all()])
    assert [each for each in hidden if each in told or each.removeprefix("whsec_") in told] == []
    assert AuditEntry.objects.count() == 6


def test_headers_whose_key_is_lost_can_be_replaced_all_the_same(add, settings):
    row = add("7", headers={"X-Token": "a"})
    settings.SECRET_KEY = "another one, and the old one is gone"
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY": "of its own"}
    api.change(row, headers={"X-Token": "b"})
    old, new = last(row).changes["headers"]
    assert old == "****"
    assert set(new) == {"X-Token"}


def test_a_new_secret_is_recorded_with_how_long_the_old_one_signs(add):
    row = add("7")
    with bound(actor="ann"):
        api.rotate(row, overlap=timedelta(hours=1))
    assert (last(row).action, last(row).actor) == ("endpoint.secret_rotated", ANN)
    assert last(row).changes["secret"] == ["****", "****"]
    assert last(row).changes["previous_until"] == [None, row.previous_until.isoformat()]
    api.rotate(row, overlap=timedelta())
    assert actions(row) == ["created", "secret_rotated", "secret_rotated"]


def test_disabled_by_hand_enabled_and_removed(add):
    row = add("7")
    with bound(actor="ann"):
        api.disable(row, "their server burnt down")
    assert (last(row).action, last(row).actor) == ("endpoint.disabled", ANN)
    assert last(row).changes == {"state": ["enabled", "disabled"]}
    assert last(row).metadata["reason"] == "their server burnt down"
    pk = api.enable(row).pk
    assert last(row).changes == {"state": ["disabled", "enabled"]}
    api.remove(row)
    gone = AuditEntry.objects.about("duebox.webhookendpoint", pk).last()
    assert (gone.action, gone.organization) == ("endpoint.removed", "7")
    assert gone.changes["host"] == ["127.0.0.1", None]


def test_a_reason_of_any_length_fits(add):
    api.disable(add("7"), "long " * 20_000)
    assert AuditEntry.objects.doing("endpoint.disabled").get().metadata["reason"].startswith("long long")


def test_paused_and_resumed(add):
    row = add("7")
    with bound(actor="ann"):
        api.pause(row, "under repair")
    assert (last(row).action, last(row).actor) == ("endpoint.paused", ANN)
    assert last(row).changes == {"paused": [False, True]}
    assert last(row).metadata["reason"] == "under repair"
    assert api.resume(row)
    assert (last(row).action, last(row).changes) == ("endpoint.resumed", {"paused": [True, False]})
    assert not api.resume(row)
    assert actions(row) == ["created", "paused", "resumed"]


def test_one_whose_breaker_somebody_closes_is_resumed(add):
    row = add("7")
    destinations.open_breaker(
        "default", f"to:hooks/{row.pk}", pause=60, longest=60, error="no", counts=True, probed=False
    )
    assert api.resume(row)
    assert last(row).changes == {"breaker_open": [True, False]}


def test_the_commands_record_who_ran_them(add, capsys):
    row = add("7")
    call_command("duebox", "destinations", "pause", f"hooks/{row.pk}", "--note", "under repair")
    call_command("duebox", "destinations", "resume", f"hooks/{row.pk}")
    call_command("duebox", "endpoints", "rotate", str(row.pk))
    call_command("duebox", "endpoints", "disable", str(row.pk))
    call_command("duebox", "endpoints", "enable", str(row.pk))
    call_command("duebox", "endpoints", "remove", str(row.pk))
    assert actions(row) == ["created", "paused", "resumed", "secret_rotated", "disabled", "enabled", "removed"]
    assert all(entry.actor == {"type": "operator", "id": operator()} for entry in entries(row)[1:])
    assert all(entry.correlation_id for entry in entries(row)[1:])


def test_one_that_failed_for_too_long_is_recorded_as_given_up_by_the_worker(add, hooks):
    row = add("7")
    WebhookEndpoint.objects.update(enabled_at=timezone.now() - timedelta(days=30))
    hooks.forget(row.pk)
    hooks.part(str(row.pk)).fails_since(timezone.now() - timedelta(days=6))
    assert (last(row).action, last(row).actor, last(row).organization) == ("endpoint.disabled", WORKER, "7")
    assert last(row).changes == {"state": ["enabled", "disabled"]}
    assert last(row).metadata["reason"].startswith("every try since ")


def test_one_that_is_gone_is_recorded_with_the_event_that_found_out(add, hooks, receiver):
    row = add("7")
    receiver.reply = lambda got: Reply(410, b"")
    fact = a_fact("public.order.paid")
    hooks.part(str(row.pk)).deliver([fact])
    assert (last(row).action, last(row).actor) == ("endpoint.disabled", WORKER)
    assert last(row).metadata == {"reason": "410 Gone", "event_id": str(fact.id)}
    assert last(row).correlation_id == fact.correlation_id
    assert Event.objects.get(type="duebox.endpoint.disabled").correlation_id == fact.correlation_id


def test_rolled_back_it_never_happened(add):
    row = add("7")
    for act in ACTS:
        with undone():
            act(row)
        row = WebhookEndpoint.objects.get()
    assert actions(row) == ["created"]
    assert (row.types, row.disabled_at) == (["*"], None)


def test_where_it_cannot_be_recorded_nothing_changes(add, monkeypatch):
    row = add("7", "order.*")

    def broken(*args, **kwargs):
        raise RuntimeError("no log")

    monkeypatch.setattr("duebox.audit_log.record.write", broken)
    for act in ACTS:
        with pytest.raises(RuntimeError):
            act(row)
        row = WebhookEndpoint.objects.get()
    assert (row.types, row.disabled_at, row.previous_secret) == (["order.*"], None, "")
    assert not destinations.states("default")


def test_the_chain_holds(add):
    row = add("7")
    api.rotate(row)
    api.disable(row, "why")
    assert verify("default").flaws == 0


@pytest.mark.django_db(transaction=True)
def test_a_worker_does_not_wait_for_one_who_holds_the_row_and_tries_again(add, hooks, receiver, elsewhere):
    row = add("7")
    WebhookEndpoint.objects.update(enabled_at=timezone.now() - timedelta(days=30))
    hooks.forget(row.pk)
    part, since = hooks.part(str(row.pk)), timezone.now() - timedelta(days=6)
    elsewhere.execute("SELECT FROM duebox_webhook_endpoint FOR NO KEY UPDATE")
    started = time.monotonic()
    part.fails_since(since)
    receiver.reply = lambda got: Reply(410, b"")
    assert part.deliver([a_fact("public.order.paid")]) == [Discard("The answer was 410.")]
    assert time.monotonic() - started < 5
    assert actions(row) == ["created"]
    elsewhere.rollback()
    part.fails_since(since)
    assert actions(row) == ["created", "disabled"]


@pytest.mark.django_db(transaction=True)
def test_who_holds_the_log_and_wants_the_endpoint_does_not_meet_who_holds_the_endpoint_and_wants_the_log(add):
    row, errors = add("7"), []

    def work(number):
        try:
            for turn in range(10):
                if number:
                    api.change(WebhookEndpoint.objects.get(), description=f"{turn}")
                else:
                    api.disable(api.enable(WebhookEndpoint.objects.get()), f"{turn}")
        except Exception as error:
            errors.append(error)
        finally:
            connections["default"].close()

    threads = [threading.Thread(target=work, args=[number]) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert verify("default").flaws == 0
    assert row.pk == WebhookEndpoint.objects.get().pk
