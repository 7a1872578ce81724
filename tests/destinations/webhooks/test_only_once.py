"""Every destination for webhooks would send to every endpoint, so there is one."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured

import duebox
from duebox.destinations.registry import subscriptions
from duebox.destinations.webhooks import Webhooks
from duebox.models import Event

BACKEND = "duebox.destinations.webhooks.Webhooks"


class Looser(Webhooks):
    """One of their own, which serves the same endpoints."""

    only_once = True


def two(settings, second):
    entries = {
        "strict": {"BACKEND": BACKEND},
        "loose": {"BACKEND": second, "OPTIONS": {"allow_private": ["10.0.0.0/8"]}},
    }
    settings.DUEBOX = {"UNDECLARED": "allow", "DESTINATIONS": entries}


@pytest.mark.parametrize("second", [BACKEND, f"{__name__}.Looser"])
def test_a_second_one_is_found_by_the_check_and_stops_every_emission(settings, db, second):
    two(settings, second)
    [found] = [each for each in run_checks(tags=["duebox"], databases=[]) if each.id == "duebox.E009"]
    assert found.msg == (
        "DUEBOX['DESTINATIONS']['loose']: 'strict' is a Webhooks too, and only one is allowed; "
        "each would send everything."
    )
    with pytest.raises(ImproperlyConfigured, match="'strict' is a Webhooks"):
        duebox.emit("order.paid", {}, organization="7")
    assert not Event.objects.exists()
    assert subscriptions() == {}


def test_one_of_ones_own_is_fine_alone(settings):
    settings.DUEBOX = {"DESTINATIONS": {"loose": {"BACKEND": f"{__name__}.Looser"}}}
    assert not [each for each in run_checks(tags=["duebox"], databases=[]) if each.id == "duebox.E009"]
    assert set(subscriptions()) == {"loose"}


def test_other_destinations_may_be_there_several_times(settings):
    entry = {"BACKEND": "tests.app.outside.Post"}
    settings.DUEBOX = {"DESTINATIONS": {"one": entry, "two": entry}}
    assert not [each for each in run_checks(tags=["duebox"], databases=[]) if each.id == "duebox.E009"]
    assert set(subscriptions()) == {"one", "two"}
