"""A route to webhooks narrows what they take by themselves, which is every public event. It cannot widen it."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured

import duebox
from duebox.destinations.registry import close_all
from duebox.destinations.webhooks import endpoints as api
from duebox.worker.drain import drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def route(settings, hooks):
    """Adds a route to the settings that the other fixtures have made."""

    def to_hooks(match, *beside):
        bus = {"BACKEND": "tests.app.outside.Post"}
        destinations = {**settings.DUEBOX["DESTINATIONS"], "bus": bus}
        routes = [{"match": match, "to": ["hooks", *beside]}, {"match": "order.*", "to": "bus"}]
        settings.DUEBOX = {**settings.DUEBOX, "DESTINATIONS": destinations, "ROUTES": routes}

    yield to_hooks
    close_all()


def mistakes():
    return [each.msg for each in run_checks(tags=["duebox"], databases=[]) if each.id == "duebox.E009"]


@pytest.mark.parametrize("match", ["order.*", "*", "*.paid", "order.paid"])
def test_a_route_that_takes_no_public_event_is_refused_with_the_repair(route, public, match):
    route(match)
    [said] = mistakes()
    assert said == (
        f"DUEBOX['DESTINATIONS']['hooks']: A route to it matches {match!r}, but Webhooks accepts only types that begin "
        f"with 'public.'; write 'public.{match}', or leave the route out."
    )
    with pytest.raises(ImproperlyConfigured, match="Nothing is emitted until that is repaired"):
        duebox.emit("order.paid", {"total": 1}, about=("order", 1), organization="7")


def test_events_of_duebox_itself_cannot_be_made_public(route):
    route("duebox.*")
    assert mistakes()[0].endswith("begin with 'public.'; leave the route out.")


def test_webhooks_in_a_route_for_everybody_are_refused_as_well(route, public):
    route("*", "bus")
    assert "write 'public.*'" in mistakes()[0]


@pytest.mark.parametrize(
    "match", [{"data": {"total": [1]}}, {"event_type": ["order.paid"]}, {"event_type": [{"prefix": "order."}]}]
)
def test_a_pattern_that_can_match_no_public_event_is_refused(route, public, match):
    route(match)
    [said] = mistakes()
    assert said.endswith("name a type that begins with 'public.' under 'event_type', or leave the route out.")


@pytest.mark.parametrize(
    ("match", "types"),
    [
        ("public.*", ["order.paid", "order.shipped"]),
        ("public.order.paid", ["order.paid"]),
        ("public.*.shipped", ["order.shipped"]),
        ({"event_type": [{"prefix": "public."}], "data": {"total": [2]}}, ["order.shipped"]),
    ],
)
def test_a_route_narrows_what_is_sent(route, public, receiver, match, types):
    route(match)
    assert mistakes() == []
    api.create("7", receiver.url, ["*"])
    duebox.emit("order.paid", {"total": 1}, about=("order", 1), organization="7")
    duebox.emit("order.shipped", {"total": 2}, about=("order", 1), organization="7")
    drain()
    assert sorted(got.event["type"] for got in receiver.got) == types
