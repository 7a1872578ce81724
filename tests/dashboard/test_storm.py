"""An event storm while somebody looks at the dashboard. DUEBOX_STORM is the number of events, 20,000 by default."""

from __future__ import annotations

import os
import re
import threading
import time

import pytest
from django.db import connection

import duebox
from duebox.observe import advise
from duebox.worker.worker import Worker
from tests.support import eventually

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.django_db(transaction=True)]
EVENTS = int(os.environ.get("DUEBOX_STORM", "20000"))
FULL = EVENTS >= 200_000
SLO = {} if FULL else {"publish_seconds": {"target": 1.0, "alert": 3.0}}


def test_the_overview_stays_live_in_a_storm_and_says_what_to_do(browser, on, settings, monkeypatch):
    settings.DUEBOX = {"UNDECLARED": "allow", "OUTSIDE_TRANSACTION": "allow", "SLO": SLO}
    if not FULL:
        monkeypatch.setitem(advise.THRESHOLDS, "oldest_due_seconds", 5.0)
    on("order.paid", name="receipts")(lambda event: None)
    browser.open()
    browser.script("window.same = true")
    looks = Looks(browser)
    storm = threading.Thread(target=emit_all)
    storm.start()
    while storm.is_alive():
        looks.look()
    storm.join()
    assert browser.shows("Deliveries are due and no worker is running")
    assert eventually(lambda: looks.look() or tile_is_bad(browser, "Publish latency"), 90.0)
    assert eventually(lambda: looks.look() or "Deliveries wait" in browser.text, 120.0)
    assert "no worker runs: manage.py duebox worker" in browser.text
    drained = threading.Thread(target=drain_all)
    drained.start()
    while drained.is_alive():
        looks.look()
    assert eventually(lambda: re.search(r"Due now\n0\b", browser.text), 30.0)
    assert browser.script("return window.same")
    assert browser.complaints() == []
    assert len(looks.seen) > 3
    assert looks.longest_pause < 15.0
    print(f"{EVENTS:,} events: {len(looks.seen)} changes seen, the longest pause {looks.longest_pause:.1f} s")


class Looks:
    """What the page showed as due and delivered, and the longest time in which that did not change."""

    def __init__(self, browser):
        self.browser = browser
        self.seen = []
        self.changed = time.monotonic()
        self.longest_pause = 0.0

    def look(self):
        found = self.browser.script("return document.querySelector('#live').innerText")
        if not self.seen or found != self.seen[-1]:
            self.seen.append(found)
            self.changed = time.monotonic()
        self.longest_pause = max(self.longest_pause, time.monotonic() - self.changed)
        time.sleep(0.2)
        assert "Too slow" not in found


def tile_is_bad(browser, label):
    labels = browser.chromium.find_elements("css selector", ".tiles-levels .tile-bad .tile-label")
    return any(label in each.text for each in labels)


def emit_all():
    try:
        for start in range(0, EVENTS, 1000):
            duebox.emit_many(
                duebox.NewEvent(type="order.paid", data={"number": number}, about=("order", number))
                for number in range(start, min(start + 1000, EVENTS))
            )
    finally:
        connection.close()


def drain_all():
    try:
        Worker(until_idle=True).run()
    finally:
        connection.close()
