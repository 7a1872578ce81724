"""The dashboard in a real browser: it is live, its actions work, and nothing is wrong with its pages."""

from __future__ import annotations

import pathlib

import pytest

import duebox
from duebox.models import AuditEntry, Delivery, DestinationState, Schedule
from duebox.store import operations
from duebox.testing import drain
from tests.dashboard.scene import Scene
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
AXE = pathlib.Path(__file__).with_name("axe.min.js").read_text()


@pytest.fixture
def scene(on, declare, settings):
    return Scene(on, declare, settings).play()


def test_every_page_is_sound(browser, scene):
    """With data: no complaint in the console, no violation of the policy, no horizontal scrolling on a phone, and
    nothing serious for axe."""
    [group, *_] = operations.groups("default")
    pages = [
        "", "events/", "events/?state=dead", f"events/{scene.dead().event_id}/", f"explain/?q={scene.dead().event_id}",
        "dead-letters/", f"dead-letters/{group.id}/", f"dead-letters/{group.id}/retry/", "schedules/",
        f"schedules/{Schedule.objects.get(key='report:daily').id}/", "schedules/preview/?cron=30+1+*+*+*", "workers/",
        "schedules/calendar/", "schedules/plans/", "schedules/log/",
        "destinations/", "destinations/bus/pause/", "catalogue/", "catalogue/order.paid/", "audit/", "audit/verify/",
    ]  # fmt: skip
    found: dict[str, list[str]] = {}
    browser.size(390)
    for path in pages:
        browser.open(path)
        wrong = browser.complaints()
        wide = browser.script("return document.documentElement.scrollWidth")
        if wide > 390:
            wrong.append(f"is {wide} px wide")
        if browser.script(HIDDEN):
            wrong.append("does not show its own name in the navigation")
        browser.script(AXE)
        wrong += browser.chromium.execute_async_script(SERIOUS)
        if wrong:
            found[path] = wrong
    browser.size(1280)
    assert found == {}


HIDDEN = """
const current = document.querySelector(".bar nav [aria-current]");
if (!current) return false;
const place = current.getBoundingClientRect();
return place.left < 0 || place.right > window.innerWidth;
"""
SERIOUS = """
const done = arguments[arguments.length - 1];
axe.run(document).then((result) => done(
  result.violations.filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`)
));
"""


def test_the_overview_shows_what_happens_without_being_loaded_again(browser, on):
    on("order.paid", name="receipts")(lambda event: None)
    browser.open()
    assert browser.shows("Nothing was delivered yet")
    browser.script("window.same = true")
    duebox.emit("order.paid")
    assert browser.shows("Deliveries are due and no worker is running")
    drain()
    assert browser.shows("receipts")
    assert browser.script("return window.same")
    assert browser.complaints() == []


def test_a_filter_leads_to_a_list_of_what_matches(browser, scene):
    browser.open("events/")
    assert "receipt.written" in browser.text
    browser.fill("type", "order.*")
    browser.click("Filter")
    assert eventually(lambda: "type=order" in browser.chromium.current_url)
    assert browser.shows("order.paid")
    assert eventually(lambda: "receipt.written" not in browser.text)


def test_a_dead_letter_is_retried_and_delivered(browser, scene):
    event = scene.dead().event_id
    browser.open("dead-letters/")
    browser.click("order.paid")
    browser.click("Retry all")
    assert browser.shows("3 would be retried")
    browser.click("Retry 3")
    assert browser.shows("3 retried: order.paid to insurance.report")
    scene.broken = False
    drain(only="insurance.report")
    assert not Delivery.objects.dead().exists()
    browser.open(f"events/{event}/")
    assert browser.shows("Handler 'insurance.report' handled order.paid")
    assert AuditEntry.objects.filter(action="delivery.retried").count() == 3


def test_a_destination_is_paused(browser, scene):
    browser.open("destinations/bus/pause/")
    browser.fill("note", "it is repaired")
    browser.click("Pause it")
    assert browser.shows("bus is paused")
    assert browser.shows("it is repaired")
    assert DestinationState.objects.get(name="to:bus").paused_at


def test_a_schedule_is_cancelled(browser, scene):
    row = Schedule.objects.get(key="review:3")
    browser.open(f"schedules/{row.id}/")
    browser.click("Cancel")
    browser.click("Cancel it")
    assert browser.shows("The schedule review:3 is cancelled.")
    row.refresh_from_db()
    assert row.status == "cancelled"
