"""`duebox slo` and `duebox advise`: tables for people, JSON, and exit codes."""

from __future__ import annotations

import json

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

from duebox.observe.rollup import MINUTE
from duebox.store import rollup as store
from tests.observe.test_slo import counted

pytestmark = pytest.mark.django_db


@pytest.fixture
def now():
    moment = timezone.now().replace(second=0, microsecond=0)
    store.set_progress("default", "first", moment)
    store.set_progress("default", "again", moment - 15 * MINUTE)
    return moment


def test_the_objectives_are_a_table(manage, now):
    counted("subscriber", "shop.bill", now=now, delivered=9_995, retried=5)
    page = manage("duebox", "slo")
    assert "objective" in page
    [line] = [line for line in page.splitlines() if line.startswith("Delivery success")]
    assert line.split() == ["Delivery", "success", "99.95", "%", "99.9", "%", "99.5", "%", "0.50", "0.50", "ok"]


def test_nothing_was_counted_yet(manage):
    assert "No minute was counted yet" in manage("duebox", "slo")


def test_a_broken_objective_is_an_error(manage, now):
    counted("subscriber", "shop.bill", now=now, delivered=90, retried=10)
    with pytest.raises(CommandError, match=r"Delivery success is 90 %, beyond the alert threshold of 99\.5 %"):
        manage("duebox", "slo")


def test_the_objectives_as_json(manage, now):
    counted("subscriber", "shop.bill", now=now, delivered=9_995, retried=5)
    found = json.loads(manage("duebox", "slo", "--json"))
    assert found["state"] == "ok"
    assert found["absent"] == []
    [delivery] = [each for each in found["objectives"] if each["name"] == "delivery_success"]
    assert delivery["value"] == pytest.approx(99.95)
    assert found["counted_until"] == now.isoformat()


def test_advice_for_people(quiet_server, manage, now):
    assert "Nothing needs to change." in manage("duebox", "advise")
    counted("subscriber", "shop.bill", now=now, delivered=90, dead=10)
    page = manage("duebox", "advise")
    assert "High failure rate: 10, the threshold is 5" in page
    assert "Investigate failure causes" in page


def test_advice_as_json(quiet_server, manage, now):
    counted("subscriber", "shop.bill", now=now, delivered=90, dead=10)
    found = json.loads(manage("duebox", "advise", "--json"))
    assert found["evolution_needed"] is True
    [one] = found["recommendations"]
    assert set(one) == {"issue", "current", "threshold", "recommendation"}
    assert found["metrics"]["completed_24h"] == 90
