"""Which types an endpoint may want: those of declared public events."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from duebox.destinations.webhooks import endpoints as api
from duebox.destinations.webhooks import filters
from duebox.exceptions import InvalidEndpoint
from duebox.models import WebhookEndpoint

pytestmark = pytest.mark.django_db


@pytest.fixture
def strict(settings, hooks, public, declare):
    @declare("order.packed")
    class OrderPacked:
        total: int

    settings.DUEBOX = {**settings.DUEBOX, "UNDECLARED": "refuse"}


@pytest.mark.parametrize("types", [["order.paid"], ["public.order.paid"], ["order.*"], ["*.shipped"], ["*"]])
def test_what_is_declared_and_public_may_be_wanted(strict, receiver, types):
    assert api.create("7", receiver.url, types).endpoint.types


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("ordr.paid", "No public event matches 'ordr.paid'; did you mean 'order.paid'?"),
        ("order.packed", "No public event matches 'order.packed'; did you mean 'order.paid'?"),  # it is not public
        ("ordr.*", "No public event matches 'ordr.*'; did you mean 'order.*'?"),
        ("*.shiped", "No public event matches '*.shiped'; did you mean '*.shipped'?"),
        ("zzz", "No public event matches 'zzz'; there are: order.paid, order.shipped."),
    ],
)
def test_what_can_never_come_is_refused_with_what_is_near(strict, receiver, wanted, said):
    with pytest.raises(InvalidEndpoint) as refused:
        api.create("7", receiver.url, ["order.paid", wanted])
    assert str(refused.value) == said
    assert not WebhookEndpoint.objects.exists()


def test_a_change_is_held_to_the_same(strict, receiver):
    row = api.create("7", receiver.url, ["order.paid"]).endpoint
    with pytest.raises(InvalidEndpoint, match=r"did you mean 'order\.paid'"):
        api.change(row, types=["ordr.paid"])
    WebhookEndpoint.objects.update(types=["once.known"])
    row.refresh_from_db()
    api.change(row, description="what is not given is not looked at")


def test_where_nothing_is_public_that_is_said(settings, hooks, receiver):
    settings.DUEBOX = {**settings.DUEBOX, "UNDECLARED": "refuse"}
    with pytest.raises(InvalidEndpoint, match=r"declare one with public=\{...\}"):
        api.create("7", receiver.url, ["order.paid"])


def test_the_names_of_many_are_cut(monkeypatch):
    monkeypatch.setattr(filters, "_public", lambda: [f"thing_{number}.made" for number in range(40)])
    [said] = filters.unmet(["zzz"])
    assert said.endswith("thing_9.made, … (40 in all).")


def test_the_command_refuses_it_or_where_anything_may_be_emitted_says_so(strict, receiver, settings):
    words = ("duebox", "endpoints", "add", "7", receiver.url, "--types", "ordr.paid,order.*")
    with pytest.raises(CommandError, match=r"did you mean 'order\.paid'"):
        call_command(*words)
    settings.DUEBOX = {**settings.DUEBOX, "UNDECLARED": "allow"}
    err = StringIO()
    call_command(*words, stdout=StringIO(), stderr=err)
    assert err.getvalue() == "No public event matches 'ordr.paid'; did you mean 'order.paid'?\n"
    err = StringIO()
    call_command(
        "duebox", "endpoints", "change", str(WebhookEndpoint.objects.get().pk), "--types", "order.pad",
        stdout=StringIO(), stderr=err,
    )  # fmt: skip
    assert "order.pad" in err.getvalue()
