"""An endpoint that keeps failing is warned about, then left alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from duebox.destinations.webhooks import endpoints as api
from duebox.events.outcomes import Discard
from duebox.models import Event, WebhookEndpoint
from tests.destinations.conformance import a_fact

pytestmark = pytest.mark.django_db


@pytest.fixture
def part(add, hooks):
    row = add("7", description="billing")
    WebhookEndpoint.objects.update(enabled_at=timezone.now() - timedelta(days=30))
    hooks.forget(row.pk)
    return hooks.part(str(row.pk))


def ago(**time):
    return timezone.now() - timedelta(**time)


def warnings():
    return [event.data["percent"] for event in Event.objects.filter(type="duebox.endpoint.failing").order_by("id")]


def test_a_short_failure_is_nobodys_business(part):
    part.fails_since(ago(days=2.4))
    assert not Event.objects.exists()


def test_its_owner_is_warned_as_time_runs_out_once_for_each_step(part):
    since = ago(days=2.6)
    part.fails_since(since)
    part.fails_since(since)
    assert warnings() == [50]
    part.fails_since(ago(days=4.6))  # another story
    assert warnings() == [50, 50, 70, 90]


def test_a_warning_says_who_since_when_and_until_when(part):
    since = ago(days=3)
    part.fails_since(since)
    told = Event.objects.get()
    assert told.organization == "7"
    assert told.aggregate_id == str(part.row.pk)
    assert {name: told.data[name] for name in ("endpoint", "host", "description", "percent")} == {
        "endpoint": str(part.row.pk), "host": "127.0.0.1", "description": "billing", "percent": 50,
    }  # fmt: skip
    assert set(told.data) == {"endpoint", "host", "description", "percent", "failing_since", "disabled_at"}


def test_two_workers_warn_once(part, hooks):
    since = ago(days=3)
    part.fails_since(since)
    hooks.recipient(part.row).fails_since(since)
    assert warnings() == [50]


def test_at_the_end_it_is_disabled(part, hooks):
    part.fails_since(ago(days=5.1))
    row = WebhookEndpoint.objects.get()
    assert row.disabled_at is not None
    assert row.disabled_reason.startswith("every try since ")
    [told] = Event.objects.all()
    assert told.type == "duebox.endpoint.disabled"
    assert told.data["reason"] == row.disabled_reason
    hooks.forget(row.pk)
    [result] = hooks.part(str(row.pk)).deliver([a_fact("public.order.paid")])
    assert isinstance(result, Discard)


def test_one_that_was_enabled_again_has_all_its_time(part, hooks):
    part.fails_since(ago(days=6))
    row = api.enable(WebhookEndpoint.objects.get())
    hooks.forget(row.pk)
    hooks.part(str(row.pk)).fails_since(ago(days=6))
    row.refresh_from_db()
    assert row.disabled_at is None


def test_a_new_url_has_all_its_time(part, hooks, receiver):
    api.change(part.row, url=receiver.url + "/new")
    hooks.forget(part.row.pk)
    hooks.part(str(part.row.pk)).fails_since(ago(days=6))
    assert not Event.objects.exists()


def test_the_time_is_an_option_and_0_is_for_ever(configure, receiver, db):
    hooks = configure(receiver.port, disable_after_days=0)
    row = api.create("7", receiver.url, ["*"]).endpoint
    WebhookEndpoint.objects.update(enabled_at=ago(days=300))
    hooks.part(str(row.pk)).fails_since(ago(days=200))
    assert not Event.objects.exists()
    hooks = configure(receiver.port, disable_after_days=0.5)
    hooks.part(str(row.pk)).fails_since(ago(hours=7))
    assert warnings() == [50]
