"""Names and errors from elsewhere, and a payload of 50 MB, on every page of the dashboard and of the classic admin."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from duebox import deliveries
from tests.hostile import ACCEPTED, HOSTILE, LONG, MARK, SETTINGS, Scene, huge

pytestmark = pytest.mark.django_db
MOST = 1_000_000
"""Characters of a page."""


@pytest.fixture
def boss(settings):
    settings.DUEBOX = SETTINGS
    client = Client()
    client.force_login(User.objects.create(username="boss", is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def classic(boss, settings):
    """Without the dashboard, whose pages stand above those of the admin."""
    settings.ROOT_URLCONF = "tests.app.admin_urls"
    return boss


def dashboard_lists(scene):
    group = deliveries.groups()[0].id
    return [
        "", "events/", "events/?state=dead", f"events/?about={quote(f'shop.order:{scene.event.aggregate_id}')}",
        "dead-letters/", f"dead-letters/{group}/", f"dead-letters/{group}/retry/",
        f"deliveries/{scene.delivery.id}/retry/", "schedules/", f"schedules/?key={quote(scene.schedule.key)}",
        f"schedules/{scene.schedule.id}/", f"schedules/{scene.schedule.id}/pause/", "schedules/calendar/",
        "schedules/plans/", "schedules/log/", "destinations/", f"destinations/endpoints/{scene.endpoint.id}/",
        f"explain/?q={scene.event.id}", f"explain/?q={quote(f'shop.order:{scene.event.aggregate_id}')}",
        f"explain/?as=schedule&q={quote(scene.schedule.key)}", "catalogue/", "workers/", "audit/",
    ]  # fmt: skip


def dashboard_details(scene):
    return [f"events/{scene.event.id}/"]


def admin_lists(scene):
    return [
        "event/", "schedule/", "delivery/", "deadletter/", "auditentry/", "webhookendpoint/",
        f"event/?q={quote(scene.event.correlation_id)}", f"schedule/?q={quote(scene.schedule.key)}",
    ]  # fmt: skip


def admin_details(scene):
    return [
        f"event/{scene.event.id}/change/", f"schedule/{scene.schedule.id}/change/",
        f"delivery/{scene.delivery.id}/change/", f"deadletter/{scene.delivery.id}/change/",
        f"webhookendpoint/{scene.endpoint.id}/change/",
    ]  # fmt: skip


def looked_at(client, path):
    response = client.get(f"/admin/duebox/{path}")
    text = response.content.decode()
    assert response.status_code == 200, (path, response.status_code, text[:2000])
    assert len(text) < MOST, (path, len(text))
    return text


def is_escaped(text):
    """No tag comes out of a value, and no value out of its attribute: its quotes are escaped, too."""
    return MARK not in text and not re.search("['\"](<|&lt;)script(>|&gt;)alert", text)


@pytest.mark.parametrize("text", [ACCEPTED, HOSTILE, LONG], ids=["accepted", "hostile", "long"])
def test_every_page_of_the_dashboard_shows_hostile_names_and_errors_as_text(boss, on, text):
    scene = Scene(on, text)
    pages = {path: looked_at(boss, path) for path in dashboard_lists(scene) + dashboard_details(scene)}
    assert [path for path, page in pages.items() if not is_escaped(page)] == []
    for path in (f"events/{scene.event.id}/", "schedules/", f"destinations/endpoints/{scene.endpoint.id}/"):
        assert "&lt;script&gt;alert(1)" in pages[path], path


@pytest.mark.parametrize("text", [ACCEPTED, HOSTILE, LONG], ids=["accepted", "hostile", "long"])
def test_every_page_of_the_admin_shows_hostile_names_and_errors_as_text(classic, on, text):
    scene = Scene(on, text)
    pages = {path: looked_at(classic, path) for path in admin_lists(scene) + admin_details(scene)}
    assert [path for path, page in pages.items() if not is_escaped(page)] == []
    for path in admin_details(scene):
        assert "&lt;script&gt;alert(1)" in pages[path], path


def reads_a_payload(query):
    return bool(re.search(r'"duebox_(event|schedule)"\."data"', query["sql"].partition(" FROM ")[0]))


@pytest.mark.parametrize("pages", [dashboard_lists, admin_lists], ids=["dashboard", "admin"])
def test_no_list_reads_payloads(boss, on, settings, pages):
    if pages is admin_lists:
        settings.ROOT_URLCONF = "tests.app.admin_urls"
    scene = Scene(on, ACCEPTED)
    reading = []
    for path in pages(scene):
        with CaptureQueriesContext(connection) as queries:
            looked_at(boss, path)
        reading += [(path, each["sql"]) for each in queries if reads_a_payload(each)]
    assert reading == []


@pytest.mark.soak
def test_a_payload_of_50_mb_is_cut_on_every_page_that_shows_it(boss, on, settings):
    scene = Scene(on, ACCEPTED, huge())
    pages = [looked_at(boss, path) for path in dashboard_details(scene)]
    settings.ROOT_URLCONF = "tests.app.admin_urls"
    pages += [looked_at(boss, path) for path in admin_details(scene)[:-1]]
    for text in pages:
        assert "cut after 100,000 characters" in text
        assert is_escaped(text)
