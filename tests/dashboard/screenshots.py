"""`make screenshots`: every page, light and dark, at the width of a desk and of a phone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from duebox.models import Event, Schedule
from duebox.store import operations
from tests.dashboard.scene import Scene, forget_attempts_without_events

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
FOLDER = Path(os.environ.get("DUEBOX_SCREENSHOTS", "docs/images/dashboard"))


def test_take(browser, on, declare, settings):
    scene = Scene(on, declare, settings).play(hour=True)
    forget_attempts_without_events()
    dead = scene.dead()
    [group, *_] = operations.groups("default")
    pages = {
        "overview": "",
        "events": "events/",
        "event": f"events/{Event.objects.get(id=dead.event_id).id}/",
        "explain": f"explain/?q={dead.event_id}",
        "dead-letters": "dead-letters/",
        "group": f"dead-letters/{group.id}/",
        "retry": f"dead-letters/{group.id}/retry/",
        "schedules": "schedules/",
        "schedule": f"schedules/{Schedule.objects.get(key='report:daily').id}/",
        "preview": "schedules/preview/?cron=30+1+*+*+*&zone=Europe%2FLondon&from=2027-03-26",
        "calendar": "schedules/calendar/",
        "plans": "schedules/plans/",
        "schedule-log": "schedules/log/",
        "destinations": "destinations/",
        "workers": "workers/",
        "catalogue": "catalogue/",
        "event-type": "catalogue/order.paid/",
        "audit": "audit/",
        "verify": "audit/verify/",
        "empty": "events/?state=parked",
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        for width in (1280, 390):
            for name, path in pages.items():
                if width == 390 and scheme == "dark" and name not in ("overview", "events"):
                    continue
                browser.size(width, 900)
                browser.open(path)
                height = browser.script("return document.documentElement.scrollHeight")
                browser.size(width, max(700, min(height, 1000 if width == 1280 else 1800)))
                kind = "" if width == 1280 else "-phone"
                assert browser.chromium.save_screenshot(str(FOLDER / f"{name}-{scheme}{kind}.png"))
    browser.scheme("light")
