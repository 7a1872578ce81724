"""Endpoints as an application makes and changes them."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from duebox.destinations.webhooks import endpoints as api
from duebox.destinations.webhooks import filters
from duebox.destinations.webhooks.encryption import decrypted, encrypted
from duebox.exceptions import Blocked, InvalidDestination, InvalidEndpoint, InvalidEvent, InvalidSecret
from duebox.models import DestinationState, Event, WebhookEndpoint
from duebox.store import destinations
from tests.destinations.webhooks.receiver import Reply

pytestmark = pytest.mark.django_db


def test_a_new_endpoint_is_enabled_and_its_secret_is_given_once(hooks, receiver):
    row, secret = api.create("7", receiver.url, ["order.*"], description="billing")
    stored = WebhookEndpoint.objects.get()
    assert stored.pk == row.pk
    assert secret.startswith("whsec_")
    assert decrypted(stored.secret) == secret
    assert (stored.types, stored.description, stored.disabled_at) == (["order.*"], "billing", None)
    assert list(WebhookEndpoint.objects.enabled().of("7")) == [row]


def test_an_organization_may_be_a_row(hooks, receiver):
    owner = api.create("1", receiver.url, ["*"]).endpoint
    assert api.create(owner, receiver.url, ["*"]).endpoint.organization == str(owner.pk)


@pytest.mark.parametrize("organization", [None, ""])
def test_an_endpoint_belongs_to_an_organization(hooks, receiver, organization):
    with pytest.raises((InvalidEndpoint, InvalidEvent)):
        api.create(organization, receiver.url, ["*"])
    with pytest.raises(IntegrityError), transaction.atomic():
        WebhookEndpoint.objects.create(organization="", url=receiver.url, secret="x")


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/",
        "http://169.254.169.254/",
        "http://127.0.0.2/",
        "ftp://127.0.0.1/",
        "http://user:pass@127.0.0.1/",
        "http://127.0.0.1:22/",
        "http://[::1]/",
        "http://2130706434/",
        "no url",
    ],
)
def test_an_address_that_is_not_allowed_is_refused_when_it_is_saved(hooks, url):
    with pytest.raises(Blocked):
        api.create("7", url, ["*"])
    assert not WebhookEndpoint.objects.exists()


def test_https_only_is_the_default(configure):
    configure(http=False)
    with pytest.raises(Blocked, match="https"):
        api.create("7", "http://93.184.216.34/", ["*"])


def test_a_name_that_cannot_be_resolved_yet_may_be_saved(hooks, monkeypatch):
    def unknown(*args, **kwargs):
        raise socket.gaierror(-2, "unknown")

    object.__setattr__(hooks.guard, "resolver", unknown)
    assert api.create("7", "http://soon.example/", ["*"]).endpoint.host == "soon.example"


def test_a_name_that_leads_inside_is_refused(hooks):
    object.__setattr__(hooks.guard, "resolver", lambda host, port, **_: [(2, 1, 6, "", ("10.0.0.1", port))])
    with pytest.raises(Blocked, match="private"):
        api.create("7", "http://inside.example/", ["*"])


@pytest.mark.parametrize("types", [[], "order.paid", ["Order.Paid"], ["*.*"], ["a*"], ["order..paid"], [""], [7]])
def test_types_that_mean_nothing_are_refused(hooks, receiver, types):
    with pytest.raises(InvalidEndpoint):
        api.create("7", receiver.url, types)


def test_types_are_stored_without_the_prefix_and_once(hooks, receiver):
    row = api.create("7", receiver.url, ["public.order.paid", "order.paid", "public.*"]).endpoint
    assert row.types == ["order.paid", "*"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"},
        {"content-length": "5"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"webhook-id": "1"},
        {"Webhook-Signature": "v1,x"},
        {"Proxy-Authorization": "x"},
        {"X-Forwarded-For": "x"},
        {"User-Agent": "x"},
        {"X-A": "a\r\nX-B: b"},
        {"X-A": "a\nb"},
        {"X-A": "a\x00"},
        {"X-A": ""},
        {"X-A": "ä"},
        {"X-A": " padded "},
        {"X-A\r\nX-B": "b"},
        {"X A": "b"},
        {"X-A:": "b"},
        {"": "b"},
        {"X-A": "1", "x-a": "2"},
        {"X-A": "x" * 5000},
        {"X-A": 5},
        {f"X-{number}": "x" for number in range(21)},
    ],
)
def test_headers_that_could_change_the_request_are_refused(hooks, receiver, headers):
    with pytest.raises(InvalidEndpoint) as refused:
        api.create("7", receiver.url, ["*"], headers=headers)
    assert "\r" not in str(refused.value)
    assert "v1,x" not in str(refused.value)


def test_headers_of_an_organization_are_its_own():
    given = {"Authorization": "Bearer abc def", "X-Api-Key": "~"}
    assert filters.checked_headers(given) == given


@pytest.mark.parametrize("rate", [-1, True, "5", float("nan"), float("inf"), 1e9])
def test_a_rate_is_a_number(hooks, receiver, rate):
    with pytest.raises(InvalidEndpoint):
        api.create("7", receiver.url, ["*"], rate=rate)
    row = api.create("7", receiver.url, ["*"], rate=5).endpoint
    with pytest.raises(InvalidEndpoint):
        api.change(row, rate=rate)
    row.refresh_from_db()
    assert row.rate == 5


def left_alone(row):
    """Its breaker is open."""
    name = f"to:hooks/{row.pk}"
    destinations.open_breaker("default", name, pause=600, longest=600, error="no", counts=True, probed=False)
    return name


def state_of(name):
    gate = DestinationState.objects.get(name=name)
    return gate.open_until is not None, gate.paused_at is not None


def test_an_endpoint_that_is_enabled_again_or_moves_is_not_left_alone_any_longer(add, receiver):
    row = api.disable(add(), "down")
    name = left_alone(row)
    api.enable(row)
    assert state_of(name) == (False, False)
    left_alone(row)
    api.change(row, types=["order.*"], url=receiver.url)
    assert state_of(name) == (True, False)  # still at the same place
    api.change(row, url=receiver.url + "/moved")
    assert state_of(name) == (False, False)


def test_what_people_have_paused_stays_paused(add, receiver):
    row = add()
    name = left_alone(row)
    destinations.pause("default", name, "under repair")
    api.change(row, url=receiver.url + "/moved")
    api.enable(row)
    assert state_of(name)[1]


def test_what_is_not_given_does_not_change(add, receiver):
    row = add("7", "order.*", headers={"X-A": "b"}, rate=5)
    api.change(row, types=["invoice.*"])
    row.refresh_from_db()
    assert (row.types, row.url, row.rate) == (["invoice.*"], receiver.url, 5)
    assert decrypted(row.headers) == '{"X-A": "b"}'
    api.change(row, headers={}, rate=0, description="new")
    row.refresh_from_db()
    assert (row.headers, row.rate, row.description) == ("", None, "new")


def test_a_change_is_held_to_the_same(add):
    row = add()
    with pytest.raises(Blocked):
        api.change(row, url="http://10.0.0.1/")
    with pytest.raises(InvalidEndpoint):
        api.change(row, headers={"Host": "x"})
    row.refresh_from_db()
    assert row.host == "127.0.0.1"


def test_of_three_secrets_the_oldest_ends(add):
    row = add()
    api.rotate(row)
    second = row.secret
    api.rotate(row, overlap=timedelta(hours=1))
    row.refresh_from_db()
    assert row.previous_secret == second
    assert timedelta(minutes=59) < row.previous_until - timezone.now() < timedelta(minutes=61)
    with pytest.raises(InvalidEndpoint):
        api.rotate(row, overlap=timedelta(seconds=-1))


def test_disabling_says_why_and_enabling_forgets_it(add):
    row = api.disable(add(), "their server burnt down")
    assert row.disabled_reason == "their server burnt down"
    assert str(row).endswith("disabled")
    assert Event.objects.filter(type="duebox.endpoint.disabled").count() == 1
    api.disable(row, "again")
    assert Event.objects.filter(type="duebox.endpoint.disabled").count() == 1
    api.enable(row)
    row.refresh_from_db()
    assert (row.disabled_at, row.disabled_reason) == (None, "")


def test_a_test_is_sent_as_everything_is(add, receiver):
    row = add()
    tried = api.test(row)
    assert (tried.ok, tried.status, tried.text, tried.error) == (True, 200, "ok", "")
    assert 0 < tried.took_ms < 10_000
    [got] = receiver.got
    assert got.event["type"] == "duebox.webhook.test"
    assert got.event["workspace_id"] == "7"
    from standardwebhooks import Webhook

    assert Webhook(decrypted(row.secret)).verify(got.body, got.headers)


def test_a_test_says_what_went_wrong_and_changes_nothing(add, receiver):
    row = add()
    receiver.reply = lambda got: Reply(410, b"gone")
    assert api.test(row)[::2] == (410, "gone")
    WebhookEndpoint.objects.update(url="http://10.0.0.1/")
    row.refresh_from_db()
    tried = api.test(row)
    assert (tried.ok, tried.status, tried.text) == (False, None, "")
    assert "private" in tried.error
    assert row.disabled_at is None


def test_a_disabled_endpoint_can_be_tested(add):
    assert api.test(api.disable(add(), "why")).ok


def test_without_a_destination_for_webhooks_there_are_no_endpoints(db):
    with pytest.raises(InvalidDestination, match=r"duebox\.destinations\.webhooks\.Webhooks"):
        api.create("7", "https://example.com/", ["*"])


def test_new_keys_encrypt_and_old_ones_decrypt(add, settings):
    row = add(headers={"X-A": "b"})
    api.rotate(row)
    secret = decrypted(row.secret)
    old, new = "o" * 32, "n" * 32
    settings.DUEBOX = {**settings.DUEBOX, "WEBHOOK_KEYS": [old]}
    assert decrypted(row.secret) == secret  # made of SECRET_KEY
    assert api.reencrypt() == 1
    settings.DUEBOX = {**settings.DUEBOX, "WEBHOOK_KEYS": [new, old]}
    settings.SECRET_KEY = "another one"
    row.refresh_from_db()
    assert decrypted(row.secret) == secret
    assert api.reencrypt() == 1
    settings.DUEBOX = {**settings.DUEBOX, "WEBHOOK_KEYS": [new]}
    row.refresh_from_db()
    assert decrypted(row.secret) == secret
    assert decrypted(row.headers) == '{"X-A": "b"}'
    assert decrypted(row.previous_secret).startswith("whsec_")


def test_the_fallbacks_of_the_project_decrypt(settings):
    token = encrypted("whsec_x")
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another one"
    assert decrypted(token) == "whsec_x"
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(InvalidSecret, match="SECRET_KEY_FALLBACKS"):
        decrypted(token)


def test_a_key_that_is_too_short_is_refused_and_not_quoted(settings):
    settings.DUEBOX = {"WEBHOOK_KEYS": ["sesame"]}
    with pytest.raises(InvalidSecret, match="32 characters") as refused:
        encrypted("x")
    assert "sesame" not in str(refused.value)
