"""The pages of the Django admin, in a project that has it, on a real database."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import duebox
from duebox import deliveries
from duebox.contracts import PII
from duebox.destinations import registry
from duebox.destinations.webhooks import endpoints
from duebox.models import Attempt, AuditEntry, Delivery, Event, Schedule, ScheduleLog, WebhookEndpoint
from duebox.testing import drain, travel
from tests.app.planned import utc

ROOT = Path(__file__).parent.parent
LISTS = ["event", "schedule", "delivery", "deadletter", "auditentry", "webhookendpoint"]


@pytest.fixture(autouse=True)
def _urls(settings):
    """Those of the admin alone."""
    settings.ROOT_URLCONF = "tests.app.admin_urls"


@pytest.fixture
def login(db):
    """Signs in a member of staff who has these permissions, or everything."""
    from django.contrib.auth.models import Permission, User

    def sign_in(*permissions, superuser=False):
        user = User.objects.create(username=f"user{User.objects.count()}", is_staff=True, is_superuser=superuser)
        found = Permission.objects.filter(codename__in=permissions, content_type__app_label="duebox")
        assert len(found) == len(permissions)
        user.user_permissions.set(found)
        client = Client()
        client.force_login(user)
        client.user = user
        return client

    return sign_in


@pytest.fixture
def boss(login):
    return login(superuser=True)


@pytest.fixture
def failing(on):
    @on("order.paid", name="shop.ship", retry=0)
    def ship(event):
        raise ValueError("the printer has run out of paper")


@pytest.fixture
def dead(failing):
    """An event whose only delivery is dead."""
    fact = duebox.emit("order.paid", {"number": "A-1"}, about=("shop.order", 7), correlation_id="req-1")
    drain(raises=False)
    return Event.objects.get(id=fact.id)


def page(client, model, path="", **query):
    response = client.get(f"/admin/duebox/{model}/{path}", query)
    assert response.status_code == 200, response
    return response.content.decode()


def rows(html):
    """The cells of a list, by their names."""
    body = html.partition('id="result_list"')[2].partition("</table>")[0]
    found = []
    for line in re.findall(r"<tr>(.*?)</tr>", body.partition("<tbody>")[2], re.DOTALL):
        cells = re.findall(r'class="(?:[^"]*?)field-(\w+)[^"]*">(.*?)</t[dh]>', line, re.DOTALL)
        found.append({name: re.sub(r"<[^>]+>", "", cell).strip() for name, cell in cells})
    return found


def act(client, model, action, *ids, query="", **data):
    """Runs an action on rows; gives the messages that the next page shows."""
    posted = {"action": action, "_selected_action": [str(id) for id in ids], **data}
    response = client.post(f"/admin/duebox/{model}/{query}", posted, follow=True)
    assert response.status_code == 200
    return [str(each) for each in response.context.get("messages", ())]


def actions_of(client, model):
    html = page(client, model)
    return re.findall(r'<option value="(\w+)"', html.partition('name="action"')[2].partition("</select>")[0])


# Lists


@pytest.mark.parametrize("model", LISTS)
def test_an_empty_list_is_shown(boss, model):
    assert rows(page(boss, model)) == []


@pytest.mark.parametrize("model", LISTS)
def test_a_list_is_for_staff_with_the_permission_to_view_it(login, model):
    assert Client().get(f"/admin/duebox/{model}/").status_code == 302
    assert login().get(f"/admin/duebox/{model}/").status_code == 403
    assert login(f"view_{model}").get(f"/admin/duebox/{model}/").status_code == 200


@pytest.mark.parametrize("model", LISTS)
def test_nothing_is_added_changed_or_deleted(boss, model, dead):
    assert boss.get(f"/admin/duebox/{model}/add/").status_code == 403
    assert "delete_selected" not in actions_of(boss, model)


def test_an_event_is_read_only(boss, dead):
    html = page(boss, "event", f"{dead.pk}/change/")
    assert 'name="_save"' not in html
    assert 'name="type"' not in html
    assert boss.post(f"/admin/duebox/event/{dead.pk}/change/", {"type": "order.lost"}).status_code == 403
    assert boss.post(f"/admin/duebox/event/{dead.pk}/delete/", {"post": "yes"}).status_code == 403


def test_an_event_is_listed_with_its_status_entity_attempts_error_and_actor(login, failing, boss):
    duebox.emit("order.paid", about=("shop.order", 7), actor=boss.user, organization="org-1")
    drain(raises=False)
    [row] = rows(page(boss, "event"))
    assert (row["type"], row["state"], row["entity"], row["attempts"]) == ("order.paid", "FAILED", "shop.order:7", "1")
    assert row["last_error"] == "ValueError: the printer has run out of paper"
    assert (row["created_by"], row["organization"]) == (f"user:{boss.user.pk}", "org-1")


def test_the_status_of_an_event_is_told_by_its_deliveries(boss, on, failing):
    on("order.sent", name="shop.thank")(lambda event: None)
    for kind in ("order.sent", "order.paid"):
        duebox.emit(kind)
    drain(raises=False)
    duebox.emit("order.sent")
    found = [(row["type"], row["state"]) for row in rows(page(boss, "event"))]
    assert found == [("order.sent", "PROCESSING"), ("order.paid", "FAILED"), ("order.sent", "COMPLETED")]
    for status in ("processing", "failed", "completed"):
        [row] = rows(page(boss, "event", status=status))
        assert row["state"] == status.upper()


@pytest.mark.parametrize(
    ("word", "colour"),
    [
        ("scheduled", "scheduled"), ("processing", "processing"), ("completed", "completed"), ("failed", "failed"),
        ("cancelled", "cancelled"), ("dead", "failed"), ("running", "processing"), ("paused", "other"),
    ],
)  # fmt: skip
def test_a_badge_is_bold_and_in_capitals_and_has_the_colour_of_its_status(word, colour):
    from duebox.admin.display import badge

    assert badge(word) == f'<strong class="duebox-badge duebox-{colour}">{word.upper()}</strong>'


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_colours_of_badges_can_be_read_in_light_and_dark_mode():
    css = (ROOT / "src/duebox/static/duebox/admin.css").read_text()
    blocks = re.findall(r"(?:root|light\"\]|dark\"\]) \{([^}]+)\}", css)
    assert len(blocks) == 4
    for block, backgrounds in zip(blocks, ["#ffffff #f8f8f8", "#121212 #212121"] * 2, strict=True):
        colours = re.findall(r"--duebox-\w+: (#\w{6})", block)
        assert len(colours) == 6
        for colour in colours:
            for background in backgrounds.split():
                dark, light = sorted([luminance(colour), luminance(background)])
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (colour, background)
    signs = re.findall(r"^\.duebox-\w+::before \{ content: \"(\\\w+)", css, re.MULTILINE)
    assert len(set(signs)) == 6  # nobody has to tell colours apart


def test_no_page_has_a_style_or_a_script_of_its_own(boss, dead):
    delivery = Delivery.objects.get()
    schedule = duebox.schedule("order.paid", after=timedelta(days=1))
    duebox.audit("order.viewed", ("shop.order", 7))
    pages = [(model, "") for model in LISTS]
    pages += [("event", dead.pk), ("delivery", delivery.pk), ("deadletter", delivery.pk), ("schedule", schedule.pk)]
    pages += [("auditentry", AuditEntry.objects.get().pk)]
    for model, id in pages:
        html = page(boss, model, f"{id}/change/" if id else "")
        main = html.partition('<div id="content-main">')[2].partition("<footer")[0]
        assert main
        assert not re.search(r"<style|\sstyle=|<script(?![^>]*\bsrc=)|\son\w+=", main), model
        assert "duebox/admin.css" in html


def test_a_schedule_is_listed_with_its_time_zone_status_and_creator(boss):
    at = timezone.now().replace(microsecond=0) + timedelta(days=3)
    duebox.schedule("order.due", at=at, zone="Europe/Paris", about=("shop.order", 7), key="k", actor=boss.user)
    [row] = rows(page(boss, "schedule"))
    assert (row["event_type"], row["zone"], row["state"]) == ("order.due", "Europe/Paris", "SCHEDULED")
    assert (row["entity"], row["attempts"], row["created_by"]) == ("shop.order:7", "0", f"user:{boss.user.pk}")
    assert row["scheduled_time"].startswith(f"{at:%b}"[:3])


def test_schedules_come_in_the_order_of_their_time_and_others_are_a_click_away(boss):
    for days in (3, 1, 2):
        duebox.schedule("order.due", after=timedelta(days=days), key=f"in-{days}")
    duebox.cancel("in-2")
    assert [row["key"] for row in rows(page(boss, "schedule"))] == ["in-1", "in-3"]
    assert [row["key"] for row in rows(page(boss, "schedule", status="cancelled"))] == ["in-2"]
    assert [row["key"] for row in rows(page(boss, "schedule", status="all"))] == ["in-2", "in-1", "in-3"]
    html = page(boss, "schedule", status="cancelled", zone="UTC")
    assert '<a href="?zone=UTC">Scheduled</a>' in re.sub(r">\s+<", "><", html)


def test_the_attempts_and_the_error_of_a_schedule_are_those_of_what_it_fired_last(boss, failing):
    with travel(utc("2026-03-01 00:00")) as trip:
        duebox.schedule("order.paid", after=timedelta(hours=1), key="pay")
        trip.run(timedelta(hours=2), raises=False)
    [row] = rows(page(boss, "schedule", status="failed"))
    assert (row["key"], row["state"], row["attempts"]) == ("pay", "FAILED", "1")
    assert row["last_error"] == "ValueError: the printer has run out of paper"


def test_a_delivery_is_listed_with_its_event_error_and_state(boss, dead):
    [row] = rows(page(boss, "delivery"))
    assert (row["event_type"], row["receiver"], row["state"]) == ("order.paid", "shop.ship", "DEAD")
    assert (row["entity"], row["attempts"]) == ("shop.order:7", "1")
    assert row["last_error"] == "ValueError: the printer has run out of paper"


def test_dead_letters_are_dead_or_parked(boss, on, dead):
    on("order.sent", name="shop.thank")(lambda event: None)
    duebox.emit("order.sent")
    assert len(rows(page(boss, "delivery"))) == 2
    assert [row["event_type"] for row in rows(page(boss, "deadletter"))] == ["order.paid"]
    assert rows(page(boss, "deadletter", status="parked")) == []
    deliveries.park(state="dead", note="for later")
    assert [row["state"] for row in rows(page(boss, "deadletter", status="parked"))] == ["PARKED"]


def test_an_audit_entry_is_listed_and_shows_its_changes(boss):
    duebox.audit("order.paid", ("shop.order", 7), changes={"status": ("new", "paid")}, actor=boss.user)
    [row] = rows(page(boss, "auditentry"))
    assert (row["action"], row["entity"], row["changed"]) == ("order.paid", "shop.order:7", "status")
    assert row["created_by"] == f"user:{boss.user.pk}"
    html = page(boss, "auditentry", f"{row['id']}/change/")
    assert "&quot;paid&quot;" in html


# Filters, search and dates


@pytest.mark.parametrize("model", ["event", "schedule", "auditentry"])
def test_a_list_is_filtered_by_organization(boss, model):
    for name in ("org-1", "org-2"):
        duebox.emit("order.paid", organization=name)
        duebox.schedule("order.due", after=timedelta(days=1), organization=name)
        duebox.audit("order.paid", ("shop.order", 7), organization=name)
    assert len(rows(page(boss, model))) == 2
    html = page(boss, model, organization="org-2")
    assert len(rows(html)) == 1
    assert "?organization=org-1" in html


def test_events_are_filtered_by_type_also_by_one_that_is_not_declared(boss):
    duebox.emit("order.paid")
    duebox.emit("order.sent")
    html = page(boss, "event", type="order.sent")
    assert [row["type"] for row in rows(html)] == ["order.sent"]
    assert "?type=order.paid" in html
    assert rows(page(boss, "event", type="order.lost")) == []


def test_schedules_are_filtered_by_zone_and_by_when_they_were_created(boss):
    for zone in ("Europe/Paris", "Asia/Tokyo"):
        duebox.schedule("order.due", after=timedelta(days=1), zone=zone, key=zone)
    Schedule.objects.filter(key="Europe/Paris").update(created_at=timezone.now() - timedelta(days=20))
    assert [row["key"] for row in rows(page(boss, "schedule", zone="Asia/Tokyo"))] == ["Asia/Tokyo"]
    assert [row["key"] for row in rows(page(boss, "schedule", created="7"))] == ["Asia/Tokyo"]
    assert len(rows(page(boss, "schedule", created="30"))) == 2


def test_deliveries_are_filtered_by_state_and_receiver(boss, on, dead):
    on("order.sent", name="shop.thank")(lambda event: None)
    duebox.emit("order.sent")
    assert [row["receiver"] for row in rows(page(boss, "delivery", status="due"))] == ["shop.thank"]
    assert [row["receiver"] for row in rows(page(boss, "delivery", receiver="shop.ship"))] == ["shop.ship"]


def test_events_are_searched_by_id_entity_correlation_id_and_the_error_of_failed_ones(boss, dead):
    duebox.emit("order.sent", about=("shop.order", 8), correlation_id="req-2")
    assert len(rows(page(boss, "event"))) == 2
    for text in (str(dead.pk), "shop.order:7", "req-1", "run out of PAPER"):
        assert [row["id"] for row in rows(page(boss, "event", q=text))] == [str(dead.pk)], text
    assert rows(page(boss, "event", q="no such thing")) == []


def test_deliveries_are_searched_by_id_event_entity_correlation_id_and_error(boss, dead, on):
    on("order.sent", name="shop.thank")(lambda event: None)
    duebox.emit("order.sent")
    delivery = Delivery.objects.get(event_id=dead.pk)
    for model in ("delivery", "deadletter"):
        for text in (delivery.pk, dead.pk, "shop.order:7", "req-1", "out of paper"):
            assert [row["id"] for row in rows(page(boss, model, q=text))] == [str(delivery.pk)], text
        assert rows(page(boss, model, q="no such thing")) == []


def test_schedules_are_searched_by_key_id_entity_event_and_error(boss, failing):
    with travel(utc("2026-03-01 00:00")) as trip:
        fired = duebox.schedule("order.paid", after=timedelta(hours=1), key="pay", about=("shop.order", 7))
        duebox.schedule("order.paid", after=timedelta(days=1), key="later", about=("shop.order", 8))
        trip.run(timedelta(hours=2), raises=False)
    for text in ("pay", fired.pk, "shop.order:7", Event.objects.get().pk, "out of paper"):
        assert [row["key"] for row in rows(page(boss, "schedule", q=text, status="all"))] == ["pay"], text
    assert rows(page(boss, "schedule", q="no such thing", status="all")) == []


def test_audit_entries_are_searched_by_id_entity_actor_and_correlation_id(boss, login):
    from duebox.context.origins import bound

    with bound(correlation_id="req-9"):
        entry = duebox.audit("order.paid", ("shop.order", 7), actor=boss.user)
    duebox.audit("order.sent", ("shop.order", 8), actor=login().user)
    for text in (entry.pk, "shop.order:7", f"user:{boss.user.pk}", "req-9"):
        assert [row["id"] for row in rows(page(boss, "auditentry", q=text))] == [str(entry.pk)], text


@pytest.mark.parametrize("model", ["event", "auditentry"])
def test_a_date_is_chosen_step_by_step(boss, model):
    duebox.emit("order.paid")
    duebox.audit("order.paid", ("shop.order", 7))
    today = timezone.localtime()
    chosen = {"recorded_at__year": today.year, "recorded_at__month": today.month, "recorded_at__day": today.day}
    assert f"recorded_at__day={today.day}" in page(boss, model)
    assert len(rows(page(boss, model, **chosen))) == 1
    tomorrow = today + timedelta(days=1)
    other = {"recorded_at__year": tomorrow.year, "recorded_at__month": tomorrow.month, "recorded_at__day": tomorrow.day}
    assert rows(page(boss, model, **other)) == []
    assert rows(page(boss, model, recorded_at__year=today.year - 1)) == []
    assert rows(page(boss, model, recorded_at__year="9998")) == []


def test_years_and_months_are_offered_where_there_is_more_than_one(boss):
    with travel(utc("2026-11-18 00:00")):
        duebox.schedule("order.due", at=utc("2027-01-05 09:00"), key="near")
        duebox.schedule("order.due", at=utc("2028-03-05 09:00"), key="far")
    html = page(boss, "schedule")
    assert [f"due_at__year={year}" in html for year in (2026, 2027, 2028)] == [False, True, True]
    html = page(boss, "schedule", due_at__year=2028)
    assert [row["key"] for row in rows(html)] == ["far"]
    assert "due_at__month=3" in html
    assert "due_at__month=4" not in html
    assert "due_at__day=5" in page(boss, "schedule", due_at__year=2028, due_at__month=3)
    assert "due_at__year" not in page(boss, "schedule", status="cancelled")


@pytest.mark.parametrize(
    ("model", "lookup"),
    [("event", "data__number"), ("webhookendpoint", "secret__startswith"), ("auditentry", "changes__status__0")],
)
def test_no_column_can_be_guessed_by_a_lookup_in_the_url(boss, model, lookup):
    assert boss.get(f"/admin/duebox/{model}/", {lookup: "A"}).status_code == 400


# Payloads


def test_a_payload_is_masked_without_the_permission_to_view_it(login, dead, declare):
    delivery, schedule = (
        Delivery.objects.get(),
        duebox.schedule("order.due", {"number": "A-1"}, after=timedelta(days=1)),
    )
    views = [f"view_{model}" for model in ("event", "delivery", "deadletter", "schedule")]
    seen = {"event": dead.pk, "delivery": delivery.pk, "deadletter": delivery.pk, "schedule": schedule.pk}
    for model, id in seen.items():
        html = page(login(*views), model, f"{id}/change/")
        assert "A-1" not in html, model
        assert "**** (your account does not have the permission duebox.view_payload)" in html
        assert "A-1" in page(login(*views, "view_payload"), model, f"{id}/change/"), model


def test_personal_data_is_masked_for_everybody(boss, declare):
    @declare("person.invited")
    class Invited:
        email: Annotated[str, PII]
        team: str

    fact = duebox.emit(Invited(email="ann@example.com", team="blue"))
    html = page(boss, "event", f"{fact.id}/change/")
    assert "ann@example.com" not in html
    assert "blue" in html


# Actions


def test_failed_events_are_retried_and_others_are_left(boss, on, dead):
    on("order.sent", name="shop.thank")(lambda event: None)
    sent = duebox.emit("order.sent")
    drain()
    said = act(boss, "event", "retry_failed_events", dead.pk, sent.id)
    assert said == ["Retrying 1 failed event", "1 event left unchanged: not failed."]
    row = Delivery.objects.get()
    assert (row.status, row.attempt) == ("pending", 0)
    assert Attempt.objects.filter(outcome="redriven").get().note == f"retried by user:{boss.user.pk}"
    entry = AuditEntry.objects.get(action="delivery.retried")
    assert (entry.entity_type, entry.entity_id) == ("duebox.delivery", str(row.pk))
    assert (entry.actor["id"], entry.metadata) == (str(boss.user.pk), {"event_id": str(dead.pk)})


def test_an_event_whose_deliveries_are_parked_is_retried_among_the_dead_letters(boss, dead):
    deliveries.park(state="dead", note="for later")
    said = act(boss, "event", "retry_failed_events", dead.pk)
    why = "its deliveries are parked; retry them in the list of dead letters"
    assert said == ["Retrying 0 failed events", f"1 event left unchanged: {why}."]
    assert act(boss, "deadletter", "retry_failed_deliveries", Delivery.objects.get().pk) == [
        "Retrying 1 failed delivery"
    ]
    assert Delivery.objects.get().status == "pending"


def test_scheduled_schedules_are_cancelled_and_others_are_left(boss):
    ids = [duebox.schedule("order.due", after=timedelta(days=1), key=f"k{number}").pk for number in range(3)]
    duebox.cancel("k0")
    said = act(boss, "schedule", "cancel_schedules", *ids, query="?status=all")
    assert said == ["Cancelled 2 schedules", "1 schedule left unchanged: cancelled."]
    assert Schedule.objects.cancelled().count() == 3
    notes = ScheduleLog.objects.filter(source="k1").values_list("what", "note")
    assert list(notes) == [("cancelled", f"by user:{boss.user.pk}")]
    entries = AuditEntry.objects.filter(action="schedule.cancelled")
    assert {each.metadata["key"] for each in entries} == {"k1", "k2"}


def test_schedules_are_paused_and_resumed(boss):
    row = duebox.schedule("order.due", after=timedelta(days=1), key="k")
    assert act(boss, "schedule", "pause_schedules", row.pk) == ["Paused 1 schedule"]
    assert act(boss, "schedule", "pause_schedules", row.pk, query="?status=paused") == [
        "Paused 0 schedules", "1 schedule left unchanged: paused.",
    ]  # fmt: skip
    assert act(boss, "schedule", "resume_schedules", row.pk, query="?status=paused") == ["Resumed 1 schedule"]
    assert Schedule.objects.get().status == "scheduled"


def test_failed_schedules_are_retried_and_others_are_left(boss, failing):
    with travel(utc("2026-03-01 00:00")) as trip:
        failed = duebox.schedule("order.paid", after=timedelta(hours=1), key="pay")
        later = duebox.schedule("order.paid", after=timedelta(days=1), key="later")
        trip.run(timedelta(hours=2), raises=False)
    said = act(boss, "schedule", "retry_failed_schedules", failed.pk, later.pk, query="?status=all")
    assert said == ["Retrying 1 failed schedule", "1 schedule left unchanged: not failed."]
    assert Delivery.objects.get().status == "pending"


def test_dead_letters_are_parked_and_discarded_with_a_reason(boss, dead):
    id = Delivery.objects.get().pk
    response = boss.post("/admin/duebox/deadletter/", {"action": "park_deliveries", "_selected_action": [id]})
    assert 'name="reason"' in response.content.decode()
    assert Delivery.objects.get().status == "dead"
    assert act(boss, "deadletter", "park_deliveries", id, reason="wait for paper") == ["Parked 1 delivery"]
    assert Delivery.objects.get().status == "parked"
    assert act(boss, "deadletter", "park_deliveries", id, reason="again") == [
        "Parked 0 deliveries", "1 delivery left unchanged: it is parked already.",
    ]  # fmt: skip
    assert act(boss, "deadletter", "discard_deliveries", id, reason="a test order") == ["Discarded 1 delivery"]
    assert not Delivery.objects.exists()
    notes = list(
        Attempt.objects.filter(outcome__in=["parked", "discarded"]).order_by("id").values_list("note", flat=True)
    )
    who = f"user:{boss.user.pk}"
    assert notes == [f"parked by {who}: wait for paper", f"discarded by {who}: a test order"]
    entries = AuditEntry.objects.filter(action__startswith="delivery.").order_by("id")
    assert [(each.action, each.metadata["reason"]) for each in entries] == [
        ("delivery.parked", "wait for paper"), ("delivery.discarded", "a test order"),
    ]  # fmt: skip


def test_the_page_that_asks_for_a_reason_sends_any_number_of_rows_in_one_field(boss, failing, settings):
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 6
    for _ in range(8):
        duebox.emit("order.paid")
    drain(raises=False)
    first = Delivery.objects.order_by("id").first().pk
    posted = {"action": "park_deliveries", "_selected_action": [first], "select_across": "1", "index": "0"}
    html = boss.post("/admin/duebox/deadletter/", posted).content.decode()
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="(.*?)">', html.partition('id="content"')[2])
    body = urlencode([*fields, ("reason", "wait for paper")])
    response = boss.post("/admin/duebox/deadletter/", body, content_type="application/x-www-form-urlencoded")
    assert response.status_code == 302
    assert Delivery.objects.parked().count() == 8


@pytest.mark.parametrize("path", ["", "{}/change/"])
def test_an_event_that_is_deleted_while_its_page_is_read_is_left_out(boss, dead, path):
    def delete_after_it_is_read(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if sql.startswith("SELECT") and '"duebox_event"."metadata"' in sql:
            with connection.cursor() as cursor:
                cursor.cursor.execute("DELETE FROM duebox_event")
        return result

    with connection.execute_wrapper(delete_after_it_is_read):
        response = boss.get(f"/admin/duebox/event/{path.format(dead.pk)}")
    assert response.status_code == (302 if path else 200)


def test_an_event_that_is_deleted_before_its_payload_is_read_has_none(boss, dead):
    def delete_before_it_is_read(execute, sql, params, many, context):
        if sql.startswith("SELECT") and '"duebox_event"."data"' in sql:
            with connection.cursor() as cursor:
                cursor.cursor.execute("DELETE FROM duebox_event")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(delete_before_it_is_read):
        assert boss.get(f"/admin/duebox/event/{dead.pk}/change/").status_code == 200
    with connection.execute_wrapper(delete_before_it_is_read):
        assert boss.get(f"/admin/duebox/event/{dead.pk}/change/").status_code == 302


def test_a_reason_of_blanks_is_asked_for_again(boss, dead):
    posted = {"action": "discard_deliveries", "_selected_action": [Delivery.objects.get().pk], "reason": "  "}
    assert "Give a reason" in boss.post("/admin/duebox/deadletter/", posted).content.decode()
    assert Delivery.objects.exists()


def test_a_delivery_that_has_not_failed_is_not_retried(boss, on):
    on("order.sent", name="shop.thank")(lambda event: None)
    duebox.emit("order.sent")
    assert act(boss, "delivery", "retry_failed_deliveries", Delivery.objects.get().pk) == [
        "Retrying 0 failed deliveries", "1 delivery left unchanged: not failed, but due.",
    ]  # fmt: skip


def test_what_duebox_leaves_alone_is_reported_with_its_reason(boss, on, dead):
    from duebox.events import subscribers

    subscribers.remove("shop.ship")
    [said, why] = act(boss, "delivery", "retry_failed_deliveries", Delivery.objects.get().pk)
    assert said == "Retrying 0 failed deliveries"
    assert "this code has no handler or destination 'shop.ship'" in why


@pytest.mark.parametrize(
    ("model", "action", "permission"),
    [
        ("event", "retry_failed_events", "retry_delivery"),
        ("schedule", "cancel_schedules", "cancel_schedule"),
        ("schedule", "pause_schedules", "cancel_schedule"),
        ("schedule", "retry_failed_schedules", "retry_delivery"),
        ("delivery", "retry_failed_deliveries", "retry_delivery"),
        ("deadletter", "park_deliveries", "retry_delivery"),
        ("deadletter", "discard_deliveries", "discard_delivery"),
        ("webhookendpoint", "disable_endpoints", "change_webhookendpoint"),
    ],
)
def test_an_action_needs_its_permission(login, dead, model, action, permission):
    duebox.schedule("order.due", after=timedelta(days=1))
    assert action not in actions_of(login(f"view_{model}"), model)
    assert action in actions_of(login(f"view_{model}", permission), model)


def test_an_action_that_is_posted_without_its_permission_does_nothing(login, dead):
    row = duebox.schedule("order.due", after=timedelta(days=1))
    client = login("view_schedule", "view_deadletter", "retry_delivery")
    assert act(client, "schedule", "cancel_schedules", row.pk) == ["No action selected."]
    assert act(client, "deadletter", "discard_deliveries", Delivery.objects.get().pk, reason="x") == [
        "No action selected."
    ]
    assert Schedule.objects.get().status == "scheduled"
    assert Delivery.objects.get().status == "dead"


def test_an_action_takes_a_thousand_rows_and_names_the_rest(boss, monkeypatch):
    from duebox.admin import actions

    monkeypatch.setattr(actions, "MOST", 2)
    for number in range(3):
        duebox.schedule("order.due", after=timedelta(days=1 + number), key=f"k{number}")
    said = act(boss, "schedule", "cancel_schedules", Schedule.objects.first().pk, select_across="1")
    assert said == [
        "Cancelled 2 schedules",
        "An action takes 2 schedules at once; there are more. Repeat it for the others.",
    ]
    assert Schedule.objects.cancelled().count() == 2


# Endpoints


@pytest.fixture
def endpoint(db, settings):
    here = {"http": True, "ports": [1], "allow_private": ["127.0.0.1"], "timeout": 2.0}
    entry = {"BACKEND": "duebox.destinations.webhooks.Webhooks", "OPTIONS": here}
    settings.DUEBOX = {"UNDECLARED": "allow", "DESTINATIONS": {"hooks": entry}}
    url, headers = "http://127.0.0.1:1/hooks/secret-path", {"X-Token": "very-secret-header"}
    yield endpoints.create("org-1", url, ["order.*"], description="The shop", headers=headers)
    registry.subscriptions()["hooks"].destination().close()


def test_an_endpoint_is_shown_without_its_secrets(boss, endpoint):
    row = endpoint.endpoint
    listed, shown = page(boss, "webhookendpoint"), page(boss, "webhookendpoint", f"{row.pk}/change/")
    [cells] = rows(listed)
    assert (cells["organization"], cells["host"], cells["state"]) == ("org-1", "127.0.0.1", "ENABLED")
    for html in (listed, shown):
        for secret in (endpoint.secret, row.secret, row.headers, "secret-path", "very-secret-header"):
            assert secret not in html


def test_endpoints_are_searched_and_filtered(boss, endpoint):
    for text in (endpoint.endpoint.pk, "org-1", "shop"):
        assert len(rows(page(boss, "webhookendpoint", q=text))) == 1, text
    assert rows(page(boss, "webhookendpoint", q="nothing")) == []
    assert len(rows(page(boss, "webhookendpoint", status="enabled"))) == 1
    assert rows(page(boss, "webhookendpoint", status="disabled")) == []


def test_endpoints_are_disabled_enabled_paused_and_resumed_and_that_is_recorded(boss, endpoint):
    id = endpoint.endpoint.pk
    assert act(boss, "webhookendpoint", "disable_endpoints", id, reason="they moved") == ["Disabled 1 endpoint"]
    assert WebhookEndpoint.objects.get().disabled_reason == "they moved"
    assert act(boss, "webhookendpoint", "disable_endpoints", id, reason="again")[1] == (
        "1 endpoint left unchanged: it is disabled already."
    )
    assert act(boss, "webhookendpoint", "enable_endpoints", id) == ["Enabled 1 endpoint"]
    assert act(boss, "webhookendpoint", "pause_endpoints", id, reason="busy") == ["Paused 1 endpoint"]
    assert "paused since" in rows(page(boss, "webhookendpoint"))[0]["health"]
    assert act(boss, "webhookendpoint", "resume_endpoints", id) == ["Resumed 1 endpoint"]
    assert act(boss, "webhookendpoint", "resume_endpoints", id)[0] == "Resumed 0 endpoints"
    entries = AuditEntry.objects.filter(actor__id=str(boss.user.pk)).order_by("id")
    assert [each.action for each in entries] == [
        "endpoint.disabled", "endpoint.enabled", "endpoint.paused", "endpoint.resumed",
    ]  # fmt: skip


def test_a_test_event_that_does_not_arrive_is_reported(boss, endpoint):
    [said] = act(boss, "webhookendpoint", "test_endpoints", endpoint.endpoint.pk)
    assert said.startswith("127.0.0.1 of org-1: ")
    assert "ms)" in said
    assert AuditEntry.objects.get(action="endpoint.tested").actor["id"] == str(boss.user.pk)


# Many rows


def count_queries(client, model, **query):
    page(client, model, **query)  # the session and the content types are known after that
    with CaptureQueriesContext(
        connection,
    ) as captured:
        page(client, model, **query)
    return len(captured)


@pytest.mark.parametrize("model", ["event", "schedule", "delivery", "deadletter", "auditentry"])
def test_a_list_takes_the_same_number_of_queries_for_one_row_and_for_many(boss, failing, model):
    def add(numbers):
        with travel(utc("2026-03-01 00:00")) as trip:
            for number in numbers:
                duebox.schedule("order.paid", after=timedelta(hours=1), key=f"k{number}", about=("shop.order", number))
                duebox.audit("order.paid", ("shop.order", number))
            trip.run(timedelta(hours=2), raises=False)

    add(range(1))
    query = {"status": "all"} if model == "schedule" else {}
    one = count_queries(boss, model, **query)
    add(range(1, 8))
    assert len(rows(page(boss, model, **query))) == 8
    assert count_queries(boss, model, **query) == one
    assert one <= 16


def test_rows_are_counted_up_to_a_limit_and_the_page_says_so(boss, monkeypatch):
    from duebox.admin import change_list

    monkeypatch.setattr(change_list, "MOST_COUNTED", 3)
    for number in range(3):
        duebox.emit("order.paid", about=("shop.order", number))
    assert "There are more than" not in page(boss, "event")
    duebox.emit("order.paid")
    assert "There are more than 3" in page(boss, "event")


def test_a_filter_without_an_index_looks_at_the_newest_rows_and_the_page_says_so(boss, monkeypatch):
    from duebox.admin import change_list

    duebox.emit("order.paid")
    for _ in range(3):
        duebox.emit("order.sent")
    assert len(rows(page(boss, "event", type="order.paid"))) == 1
    monkeypatch.setattr(change_list, "WINDOW", 2)
    html = page(boss, "event", type="order.paid")
    assert rows(html) == []
    assert "Filters look at the first 2 rows" in html
    assert len(rows(page(boss, "event"))) == 4


@pytest.mark.parametrize("day", [1, 2, 10, 19, 20])
def test_the_first_id_of_a_time_is_found_by_halving(db, day):
    from duebox.admin.change_list import first_id

    for number in range(1, 20):
        row = duebox.schedule("order.due", after=timedelta(days=1), key=f"k{number}")
        Schedule.objects.filter(pk=row.pk).update(created_at=utc(f"2026-03-{number:02} 12:00"))
    Schedule.objects.filter(key="k7").delete()
    moment = utc(f"2026-03-{day:02} 00:00")
    found = Schedule.objects.filter(id__gte=first_id(Schedule.objects.all(), "created_at", moment))
    assert list(found) == list(Schedule.objects.filter(created_at__gte=moment))


# Without the admin


WITHOUT_ADMIN = """
import sys, django
from django.conf import settings
settings.configure(INSTALLED_APPS=["duebox"], USE_TZ=True, DATABASES={"default": {"ENGINE":
    "django.db.backends.postgresql", "NAME": "nothing"}})
django.setup()
from django.core.management import call_command
call_command("check")
print([name for name in sys.modules if name.startswith(("duebox.admin", "django.contrib.admin"))])
"""


def test_a_project_without_the_admin_starts_and_loads_nothing_of_it():
    environment = {**os.environ, "PYTHONPATH": "src:."}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ADMIN], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
