"""`duebox endpoints`, as an operator types it."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from standardwebhooks import Webhook

import duebox
from duebox.destinations.webhooks.encryption import decrypted
from duebox.models import AuditEntry, WebhookEndpoint
from duebox.worker.drain import drain
from tests.destinations.webhooks.receiver import Reply

pytestmark = pytest.mark.django_db


def run(*words):
    out = StringIO()
    call_command("duebox", "endpoints", *map(str, words), stdout=out)
    return out.getvalue()


def as_json(*words):
    return json.loads(run(*words, "--json"))


@pytest.fixture
def row(hooks, receiver):
    run("add", "7", receiver.url + "/path-secret", "--types", "order.paid,invoice.*", "--description", "billing")
    return WebhookEndpoint.objects.get()


def test_add_prints_the_id_and_the_secret_once(hooks, receiver):
    made = as_json(
        "add", "7", receiver.url, "--types", "order.*", "--header", "X-Token: a:b", "--rate", "5", "--description", "b"
    )
    row = WebhookEndpoint.objects.get()
    assert made["id"] == str(row.pk)
    assert made["secret"] == decrypted(row.secret)
    assert (row.types, row.rate, json.loads(decrypted(row.headers))) == (["order.*"], 5, {"X-Token": "a:b"})
    assert run("add", "8", receiver.url).splitlines()[1].startswith("whsec_")


def test_list_shows_hosts_but_no_secrets_and_no_paths(row):
    text = run("list")
    for shown in (str(row.pk), "127.0.0.1", "order.paid,invoice.*", "billing", "enabled"):
        assert shown in text
    every = text + run("list", "--json") + run("show", row.pk) + run("show", row.pk, "--json")
    for hidden in ("path-secret", row.secret, decrypted(row.secret)):
        assert hidden not in every
    assert as_json("list", "--organization", "8") == []
    assert run("list", "--organization", "8") == "No endpoints.\n"


def test_show_tells_the_last_attempts_with_status_time_and_answer(row, receiver, public):
    receiver.reply = lambda got: Reply(503, b"we are\x1b[31m closed")
    duebox.emit("order.paid", {"total": 1}, about=("order", 1), organization="7")
    drain()
    text = run("show", row.pk)
    assert "retried  503" in text
    assert " ms  public.order.paid  The answer was 503. we are\\x1b[31m closed" in text
    [attempt] = as_json("show", row.pk)["attempts"]
    assert (attempt["status"], attempt["outcome"], attempt["number"]) == (503, "retried", 1)


def test_show_before_anything_was_sent(row):
    assert "Nothing was sent yet." in run("show", row.pk)


def test_rotate_prints_the_new_secret_and_both_sign(row, receiver):
    old = decrypted(row.secret)
    new = run("rotate", row.pk).strip()
    run("test", row.pk)
    for secret in (old, new):
        assert Webhook(secret).verify(receiver.got[0].body, receiver.got[0].headers)
    assert as_json("rotate", row.pk, "--overlap-hours", "0")["secret"].startswith("whsec_")
    assert WebhookEndpoint.objects.get().previous_secret == ""


@pytest.mark.parametrize("hours", ["1e12", "nan", "-1", "inf", "soon", "8761"])
def test_an_overlap_that_cannot_be_meant_is_refused(row, hours):
    with pytest.raises(CommandError, match=f"'{hours}' is not a number of hours from 0 to 8,760"):
        run("rotate", row.pk, "--overlap-hours", hours)
    assert WebhookEndpoint.objects.get().secret == row.secret


def test_an_answer_cannot_steer_the_terminal(row, receiver):
    receiver.reply = lambda got: Reply(200, b"\x1b[31mred")
    assert run("test", row.pk).startswith("200 \\x1b[31mred (")
    assert as_json("test", row.pk)["text"] == "\x1b[31mred"


def test_test_prints_the_answer_and_fails_if_it_was_not_taken(row, receiver):
    assert run("test", row.pk).startswith("200 ok (")
    assert as_json("test", row.pk)["ok"] is True
    receiver.reply = lambda got: Reply(404, b"nobody")
    with pytest.raises(CommandError, match="did not accept the test event"):
        run("test", row.pk)


def test_change_sets_what_is_given_and_leaves_the_rest(row, receiver):
    told = as_json("change", row.pk, "--types", "order.*,member.*", "--rate", "2", "--header", "X-A: b")
    assert (told["types"], told["rate"], told["description"]) == (["order.*", "member.*"], 2, "billing")
    text = run("change", str(row.pk)[:13], "--url", receiver.url + "/moved", "--description", "")
    assert text == "127.0.0.1 of 7 is changed.\n"
    row.refresh_from_db()
    assert (row.url, row.description, row.types) == (receiver.url + "/moved", "", ["order.*", "member.*"])
    assert json.loads(decrypted(row.headers)) == {"X-A": "b"}
    run("change", row.pk, "--no-headers", "--rate", "0")
    row.refresh_from_db()
    assert (row.headers, row.rate) == ("", None)
    assert {entry.action for entry in AuditEntry.objects.all()} == {"endpoint.created", "endpoint.changed"}


def test_a_change_of_nothing_or_of_what_cannot_be_is_refused(row):
    with pytest.raises(CommandError, match="There is nothing to change; pass --url, --types"):
        run("change", row.pk)
    with pytest.raises(CommandError, match="only public addresses"):
        run("change", row.pk, "--url", "http://10.0.0.1/")
    with pytest.raises(CommandError, match="not allowed with argument"):
        run("change", row.pk, "--no-headers", "--header", "X-A: b")


def test_disable_and_enable(row):
    assert "moving" in run("disable", row.pk, "--reason", "moving")
    assert as_json("show", row.pk)["disabled_reason"] == "moving"
    assert "disabled: moving" in run("list")
    assert "is enabled" in run("enable", row.pk)
    assert WebhookEndpoint.objects.get().disabled_at is None


def test_remove(row):
    run("remove", row.pk)
    assert not WebhookEndpoint.objects.exists()


def test_an_endpoint_is_found_by_the_beginning_of_its_id(row):
    assert as_json("show", str(row.pk)[:13])["id"] == str(row.pk)


@pytest.mark.parametrize("id", ["ffffffff-ffff-7fff-8fff-ffffffffffff", "zzz"])
def test_one_that_is_not_there_is_said(hooks, id):
    with pytest.raises(CommandError, match="No endpoint has the id"):
        run("show", id)


def test_what_cannot_be_stored_is_said_without_a_traceback(hooks, receiver):
    with pytest.raises(CommandError, match="only public addresses"):
        run("add", "7", "http://10.0.0.1/")
    with pytest.raises(CommandError, match="must look like"):
        run("add", "7", receiver.url, "--types", "Order")
    with pytest.raises(CommandError, match="Name: value"):
        run("add", "7", receiver.url, "--header", "nonsense")


@pytest.mark.parametrize(
    ("url", "option"),
    [("https://10.0.0.1/", "allow_private"), ("https://example.com:9911/", "ports")],
    ids=["an address", "a port"],
)
def test_an_operator_learns_which_option_allows_a_url_that_is_blocked(hooks, row, url, option):
    said = rf"allow(ed|) ?.*\. To allow it, set {option} in the OPTIONS of DUEBOX\['DESTINATIONS'\]\['hooks'\]\.$"
    with pytest.raises(CommandError, match=said):
        run("add", "7", url)
    with pytest.raises(CommandError, match=said):
        run("change", row.pk, "--url", url)


@pytest.mark.parametrize("url", ["ftp://example.com/", "https://0.0.0.0/", "https://user@example.com/"])
def test_no_option_is_named_for_what_none_allows(hooks, url):
    with pytest.raises(CommandError) as raised:
        run("add", "7", url)
    assert "To allow it" not in str(raised.value)


def test_reencrypt_says_how_many(row):
    assert run("reencrypt") == "1 endpoint under the newest key.\n"
