"""What the pages show and do, by Django's test client."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import quote, unquote
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone

import duebox
from duebox import deliveries
from duebox.audit_log.seal import seal_all
from duebox.context.origins import bound
from duebox.contracts import PII
from duebox.dashboard import audit as audit_page
from duebox.dashboard import calendar, dead_letters, destinations, overview, page, snapshot, workers
from duebox.destinations.webhooks import endpoints
from duebox.destinations.webhooks.encryption import decrypted
from duebox.models import Attempt, AuditEntry, Delivery, DestinationState, Event, Schedule
from duebox.observe import browse, records
from duebox.schedules.plans import plans
from duebox.store import operations
from duebox.testing import drain
from duebox.when import cron

pytestmark = pytest.mark.django_db
ROOT = "/admin/duebox/"


@pytest.fixture
def dead(on):
    """Three deliveries that died of the same cause."""

    @on("order.paid", name="receipts")
    def refuse(event):
        raise duebox.Permanent("no paper")

    for number in range(3):
        duebox.emit("order.paid", {"email": "ann@example.com"}, about=("order", number), correlation_id=f"req-{number}")
    drain(raises=False)
    return operations.groups("default")[0]


def text_of(client, path="", **query):
    response = client.get(f"{ROOT}{path}", query)
    assert response.status_code == 200, response.content.decode()
    return response.content.decode()


def confirm(client, path, *, meanwhile=None, follow=False, **given):
    """Looks at the dry run of an action, then sends its form."""
    fields = dict(re.findall(r'<input type="hidden" name="(ids|state)" value="(.*?)">', text_of(client, path)))
    if meanwhile:
        meanwhile()
    return client.post(f"{ROOT}{path}", {**fields, **given}, follow=follow)


def test_what_is_due_without_a_worker_has_a_red_banner(reader, on):
    on("a.b", name="it")(lambda event: None)
    duebox.emit("a.b")
    assert "Deliveries are due and no worker is running." in text_of(reader)


def test_the_status_is_read_once_a_second_for_all_viewers(reader, django_assert_num_queries):
    """What is left is the session, the user, the permissions, and the time limit of the page."""
    text_of(reader)
    with django_assert_num_queries(8):
        text_of(reader)


def test_an_event_that_is_deleted_before_its_payload_is_read_is_not_found(reader, dead):
    def delete_before_it_is_read(execute, sql, params, many, context):
        if sql.startswith("SELECT") and '"duebox_event"."data"' in sql:
            with connection.cursor() as cursor:
                cursor.cursor.execute("DELETE FROM duebox_event")
        return execute(sql, params, many, context)

    id = Event.objects.first().id
    with connection.execute_wrapper(delete_before_it_is_read):
        assert reader.get(f"{ROOT}events/{id}/").status_code == 404


@pytest.mark.parametrize("path", ["events/", "dead-letters/", "schedules/", "destinations/", "workers/"])
def test_a_list_takes_a_fixed_number_of_queries(reader, dead, path, django_assert_max_num_queries):
    with django_assert_max_num_queries(22):
        text_of(reader, path)


def test_events_are_filtered_by_what_the_url_says(reader, dead):
    duebox.emit("mail.sent")
    assert "mail.sent" not in text_of(reader, "events/", type="order.*")
    assert text_of(reader, "events/", about="order:1").count("order:1</a>") == 1
    assert "order:2</a>" in text_of(reader, "events/", correlation_id="req-2")
    assert "No event matches the filters" in text_of(reader, "events/", organization="nobody")
    assert "No event matches the filters" in text_of(reader, "events/", until="2020-01-01")


def test_events_come_a_page_at_a_time_behind_a_cursor(reader, monkeypatch):
    monkeypatch.setattr(browse, "LIMIT", 2)
    ids = [duebox.emit("a.b").id for _ in range(5)]
    page = browse.events(limit=2)
    assert [row.id for row in page.rows] == ids[:-3:-1]
    following = browse.events(before=page.rows[-1].id, limit=2)
    assert [row.id for row in following.rows] == [ids[2], ids[1]]
    assert browse.events(before=following.rows[-1].id, limit=2).older is None


def test_a_filter_without_an_index_looks_at_a_window_and_says_where_to_go_on(reader, monkeypatch):
    monkeypatch.setattr(browse, "WINDOW", 3)
    first = duebox.emit("rare.thing_happened")
    for _ in range(5):
        duebox.emit("a.b")
    page = browse.events(browse.EventFilters(type="rare.thing_happened"))
    assert (page.rows, page.looked) == ([], 3)
    assert "Look at older ones" in text_of(reader, "events/", type="rare.thing_happened")
    assert [row.id for row in browse.events(browse.EventFilters(type="rare.*"), before=UUID(page.older)).rows] == [
        first.id
    ]


@pytest.mark.parametrize("path", ["events/", "events/?state=dead", "schedules/", "schedules/?state=paused", "audit/"])
@pytest.mark.parametrize("cursor", ["x", "2030-01-01T00:00~1", "0001-01-01T00:00+14:00~1", "9" * 5000, "1~"])
def test_a_cursor_that_no_page_has_given_is_not_found(operator, path, cursor):
    join = "&" if "?" in path else "?"
    assert operator.get(f"{ROOT}{path}{join}before={quote(cursor)}").status_code == 404


@pytest.mark.parametrize("path", ["events/?type=a%00b", "explain/?q=a%00b", "destinations/a%00b/pause/"])
def test_a_text_that_the_database_cannot_store_is_refused(operator, path):
    assert operator.get(f"{ROOT}{path}").status_code == 400


def test_explain_answers_for_a_number_of_any_length(reader):
    assert "Nothing is stored" in text_of(reader, "explain/", q="9" * 4301)


def test_a_state_lists_the_deliveries_that_are_in_it(reader, dead):
    assert text_of(reader, "events/", state="dead").count("no paper") == 3
    assert "No delivery is running" in text_of(reader, "events/", state="running")


def test_a_state_that_does_not_exist_is_refused_with_those_that_do(reader):
    response = reader.get(f"{ROOT}events/", {"state": "gone"})
    assert response.status_code == 400
    assert "is not a state of a delivery" in response.content.decode()


def test_the_data_of_an_event_is_masked_unless_it_is_permitted(reader, operator, dead):
    path = f"events/{Event.objects.first().id}/"
    assert "ann@example.com" not in text_of(reader, path)
    assert "****" in text_of(reader, path)
    assert "ann@example.com" in text_of(operator, path)


def test_of_a_declared_type_only_what_is_personal_is_masked(reader, declare, emit):
    @declare("member.joined")
    class MemberJoined:
        email: Annotated[str, PII]
        role: str

    event = emit(MemberJoined(email="ann@example.com", role="admin"))
    page = text_of(reader, f"events/{event.id}/")
    assert "ann@example.com" not in page
    assert "admin" in page


def test_an_event_that_does_not_exist_is_not_found(reader):
    assert reader.get(f"{ROOT}events/01a1ede4-99c7-7738-8151-a0d6d0b63539/").status_code == 404


def test_an_event_shows_its_history_its_cause_and_its_effects(reader, on):
    on("order.paid", name="receipts")(lambda event: duebox.emit("receipt.written"))
    event = duebox.emit("order.paid")
    drain()
    page = text_of(reader, f"events/{event.id}/")
    assert "handled order.paid" in page
    assert "It caused receipt.written" in page
    assert "Caused by" in text_of(reader, f"events/{Event.objects.get(type='receipt.written').id}/")


def test_a_long_chain_of_causes_is_shown_up_to_a_depth(reader):
    cause = None
    for _ in range(90):
        cause = duebox.emit("step.taken", correlation_id="req-1", causation_id=cause).id
    page = text_of(reader, f"events/{cause}/")
    assert page.count('class="depth-20"') == 70
    assert page.count('class="depth-19"') == 1


def test_effects_follow_their_cause():
    first, second = (duebox.emit("order.paid", correlation_id="req-1") for _ in range(2))
    effect = duebox.emit("receipt.written", correlation_id="req-1", causation_id=first.id)
    rows = browse.causes(list(Event.objects.all()))
    assert [(event.id, depth) for event, depth in rows] == [(first.id, 0), (effect.id, 1), (second.id, 0)]


def test_explain_tells_what_happened_or_what_was_looked_for(reader, dead):
    assert "It became a dead letter" in text_of(reader, "explain/", q="order:1")
    assert "Nothing is stored by the name" in text_of(reader, "explain/", q="nothing")


def test_explain_shows_entries_of_the_audit_log_only_to_those_who_may_see_it(reader, operator, monkeypatch):
    monkeypatch.setattr(records, "MOST_LINES", 1)
    with bound(correlation_id="req-1"):
        duebox.emit("order.paid", about=("order", 1))
        duebox.audit("order.refunded", ("order", 1))
        duebox.audit("order.refunded", ("order", 1))
    with bound(correlation_id="req-2"):
        duebox.audit("member.removed", ("member", 42))
    for query in ("order:1", "req-1"):
        assert "order.refunded" in text_of(operator, "explain/", q=query)
        assert "audit entries are shown" in text_of(operator, "explain/", q=query)
        shown = text_of(reader, "explain/", q=query)
        assert "order.paid" in shown
        assert "order.refunded" not in shown
        assert "audit entries" not in shown
    for query in ("member:42", "req-2"):
        assert "member.removed" in text_of(operator, "explain/", q=query)
        assert "Nothing is stored by the name" in text_of(reader, "explain/", q=query)


def test_explain_answers_for_a_model_that_has_no_table(reader):
    assert "Nothing is stored" in text_of(reader, "explain/", q="duebox_dashboard.dashboardpermission:1")


def test_dead_letters_are_listed_by_cause(reader, dead):
    page = text_of(reader, "dead-letters/")
    assert "<strong>3</strong>" in page
    assert "no paper" in page


def test_a_dry_run_says_how_many_and_changes_nothing(operator, dead):
    page = text_of(operator, f"dead-letters/{dead.id}/retry/")
    assert "<strong>3</strong> would be retried" in page
    assert Delivery.objects.dead().count() == 3
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("verb", ["retry", "park", "discard"])
def test_those_who_may_only_read_cannot_act(reader, dead, verb):
    for method in (reader.get, reader.post):
        response = method(f"{ROOT}dead-letters/{dead.id}/{verb}/", {"why": "because"})
        assert response.status_code == 403
        assert "duebox_dashboard.redrive" in response.content.decode()
    assert Delivery.objects.dead().count() == 3


def test_an_action_is_done_once_and_recorded_with_who_did_it(operator, dead):
    response = confirm(operator, f"dead-letters/{dead.id}/park/", why="the printer is repaired", follow=True)
    assert "3 parked: order.paid to receipts." in response.content.decode()
    assert Delivery.objects.parked().count() == 3
    entries = AuditEntry.objects.order_by("entity_id")
    assert {each.entity_id for each in entries} == {str(row.id) for row in Delivery.objects.all()}
    entry = entries[0]
    assert (entry.action, entry.entity_type, entry.metadata["reason"]) == (
        "delivery.parked", "duebox.delivery", "the printer is repaired",
    )  # fmt: skip
    assert entry.actor["type"] == "user"
    assert entry.ip == "127.0.0.1"
    assert "parked by user" in Attempt.objects.filter(outcome="parked").first().note


def test_giving_up_needs_a_reason(operator, dead):
    response = confirm(operator, f"dead-letters/{dead.id}/discard/", why=" ")
    assert response.status_code == 400
    assert "Enter a reason" in response.content.decode()
    assert Delivery.objects.dead().count() == 3


def test_one_click_takes_only_so_many(operator, dead, monkeypatch):
    monkeypatch.setattr(dead_letters, "MOST_AT_ONCE", 2)
    confirm(operator, f"dead-letters/{dead.id}/retry/")
    assert Delivery.objects.dead().count() == 1


def test_a_rate_that_is_no_number_is_refused(operator, dead):
    response = confirm(operator, f"dead-letters/{dead.id}/retry/", rate="fast")
    assert response.status_code == 400
    assert "is not a number above 0" in response.content.decode()


def test_one_delivery_is_retried(operator, dead):
    one = Delivery.objects.dead().first()
    confirm(operator, f"deliveries/{one.id}/retry/")
    assert Delivery.objects.dead().count() == 2
    assert AuditEntry.objects.get().entity_id == str(one.id)


def test_what_died_after_the_dry_run_is_left_as_it_is(operator, dead):
    def one_more():
        duebox.emit("order.paid", {}, about=("order", 9))
        drain(raises=False)

    path = f"dead-letters/{dead.id}/discard/"
    response = confirm(operator, path, meanwhile=one_more, why="no printer", follow=True)
    assert "3 discarded" in response.content.decode()
    assert Delivery.objects.dead().count() == 1


def test_what_has_another_state_since_the_dry_run_is_left_as_it_is(operator, dead):
    one = Delivery.objects.dead().first()
    park = lambda: deliveries.park([one.id], note="it is looked at")  # noqa: E731
    response = confirm(operator, f"dead-letters/{dead.id}/discard/", meanwhile=park, why="no printer", follow=True)
    assert "2 discarded: order.paid to receipts. 1 left as they are." in response.content.decode()
    assert Delivery.objects.get().id == one.id


def test_a_delivery_that_has_another_state_than_was_shown_is_left_as_it_is(operator, dead):
    one = Delivery.objects.dead().first()
    park = lambda: deliveries.park([one.id], note="it is looked at")  # noqa: E731
    response = confirm(operator, f"deliveries/{one.id}/discard/", meanwhile=park, why="no printer")
    assert response.status_code == 400
    assert "none of what was shown is still dead; it is parked now." in response.content.decode()
    assert Delivery.objects.filter(id=one.id).exists()


@pytest.mark.parametrize("ids", ["", "x", "1,,2", "9" * 5000])
def test_an_action_without_what_its_dry_run_showed_does_nothing(operator, dead, ids):
    response = operator.post(f"{ROOT}dead-letters/{dead.id}/discard/", {"why": "no printer", "ids": ids})
    assert response.status_code == 400
    assert "does not name the deliveries that were shown" in response.content.decode()
    assert Delivery.objects.dead().count() == 3


def test_schedules_are_listed_paused_and_cancelled(operator, reader):
    duebox.schedule("report.due", {}, repeat=cron("0 9 * * *"), zone="Europe/Paris", key="daily")
    duebox.schedule("review.due", {}, at=timezone.now() + timedelta(minutes=5), key="review")
    page = text_of(reader, "schedules/")
    assert "at 09:00" in page.lower()
    assert "2 in the next day" in page
    row = Schedule.objects.get(key="daily")
    assert reader.post(f"{ROOT}schedules/{row.id}/cancel/").status_code == 403
    operator.post(f"{ROOT}schedules/{row.id}/pause/")
    assert Schedule.objects.get(key="daily").status == "paused"
    assert "daily" in text_of(reader, "schedules/", state="paused")
    operator.post(f"{ROOT}schedules/{row.id}/cancel/")
    assert Schedule.objects.get(key="daily").status == "cancelled"
    assert list(AuditEntry.objects.order_by("id").values_list("action", flat=True)) == [
        "schedule.paused", "schedule.cancelled",
    ]  # fmt: skip


def test_schedules_come_a_page_at_a_time_in_the_order_in_which_they_fire():
    moment = timezone.now() + timedelta(hours=1)
    for number in range(5):
        duebox.schedule("review.due", {}, at=moment, key=f"review:{number}")
    page = browse.schedules(limit=2)
    found = [row.key for row in page.rows]
    while page.older:
        page = browse.schedules(after=page.older, limit=2)
        found += [row.key for row in page.rows]
    assert found == [f"review:{number}" for number in range(5)]


def test_a_preview_marks_what_clock_changes_do(reader):
    page = text_of(reader, "schedules/preview/", cron="30 1 * * *", zone="Europe/London", **{"from": "2027-03-27"})
    assert "gap shifted forward" in page
    assert "Sun 2027-03-28 01:30 → 02:30<" in page  # the clocks show 02:30 then
    assert page.count("→") == 1


def test_a_schedule_shows_what_the_clocks_will_show_when_they_change(reader):
    gap = datetime(2027, 3, 28, 1, 30)
    duebox.schedule("report.wanted", at=gap, zone="Europe/London", key="report:night")
    page = text_of(reader, f"schedules/{Schedule.objects.get().pk}/")
    assert "2027-03-28 01:30 → 02:30<" in page


def test_a_rule_that_cannot_be_followed_is_refused(reader):
    response = reader.get(f"{ROOT}schedules/preview/", {"cron": "61 * * * *"})
    assert response.status_code == 400
    assert "This rule is not valid" in response.content.decode()


def month_of(moment):
    return f"{timezone.localtime(moment):%Y-%m}"


def test_the_calendar_shows_each_occurrence_with_its_repetitions(reader):
    first = timezone.now().replace(day=1, hour=12) + timedelta(days=40)
    duebox.schedule("report.wanted", repeat=cron("0 9 * * *"), at=first, key="report:daily")
    duebox.schedule("review.asked", at=first, key="review:1")
    text = text_of(reader, "schedules/calendar/", month=month_of(first))
    days_left = (first.replace(day=28) + timedelta(days=4)).replace(day=1) - first
    assert text.count("report.wanted") >= days_left.days - 1
    assert text.count(f">{timezone.localtime(first):%H:%M}</time> review.asked") == 1
    assert "review.asked" in text


def test_the_calendar_counts_where_there_are_many_schedules(reader, monkeypatch):
    monkeypatch.setattr(calendar, "MOST_SCHEDULES", 2)
    first = timezone.now().replace(day=1, hour=12) + timedelta(days=40)
    for number in range(3):
        duebox.schedule("review.asked", at=first, key=f"review:{number}")
    text = text_of(reader, "schedules/calendar/", month=month_of(first))
    assert "review.asked" not in text
    assert re.search(r'class="many" href="(.*?)">3</a>', text)
    listed = re.search(r'class="many" href="/admin/duebox/(.*?)"', text)[1]
    assert text_of(reader, unquote(listed.replace("&amp;", "&")).replace("+", "%2B")).count("review.asked") == 3


def test_a_rule_that_fires_too_often_is_counted_in_the_calendar(reader):
    duebox.schedule("tick.due", repeat=cron("* * * * *"), key="tick")
    assert "counted at its next time only" in text_of(reader, "schedules/calendar/")


@pytest.mark.parametrize("month", ["", "x", "2020-01", "0000-13", "9999-12", "2026-1"])
def test_a_month_that_is_none_or_in_the_past_is_this_one_or_the_last_that_is_shown(reader, month):
    shown = text_of(reader, "schedules/calendar/", month=month)
    assert f"{timezone.localtime():%B %Y}" in shown or month == "9999-12"


def test_the_schedule_log_shows_what_was_cancelled_and_what_was_missed(reader):
    duebox.schedule("review.asked", after=timedelta(hours=1), key="review:1")
    duebox.cancel("review:1")
    assert "review:1" in text_of(reader, "schedules/log/")
    assert "review:1" in text_of(reader, "schedules/log/", what="cancelled")
    assert "No schedule was missed" in text_of(reader, "schedules/log/", what="missed")


def test_the_plans_are_listed_with_their_models(reader):
    text = text_of(reader, "schedules/plans/")
    for plan in plans():
        assert f"?plan={quote(plan.name)}" in text


def test_a_destination_is_paused_and_resumed(operator, reader, settings):
    settings.DUEBOX = {"DESTINATIONS": {"bus": {"BACKEND": "tests.app.outside.Post"}}}
    assert reader.post(f"{ROOT}destinations/bus/pause/").status_code == 403
    operator.post(f"{ROOT}destinations/bus/pause/", {"note": "repair"})
    assert DestinationState.objects.get().paused_note == "repair"
    assert "repair" in text_of(reader, "destinations/")
    resume = lambda: operator.post(f"{ROOT}destinations/bus/resume/", follow=True).content.decode()  # noqa: E731
    assert "bus is resumed." in resume()
    assert "bus was not paused, and its circuit breaker was not open. Nothing has changed." in resume()
    assert DestinationState.objects.get().paused_at is None
    assert AuditEntry.objects.filter(action="destination.paused", actor__type="user").exists()


def test_a_destination_that_does_not_exist_is_not_found(operator):
    assert operator.get(f"{ROOT}destinations/nothing/pause/").status_code == 404


def test_the_catalogue_shows_fields_and_receivers(reader, declare, on):
    @declare("order.paid", owner="shop")
    class OrderPaid:
        """An order was paid."""

        number: str

    on("order.paid", name="receipts")(lambda event: None)
    assert "An order was paid." in text_of(reader, "catalogue/")
    page = text_of(reader, "catalogue/order.paid/")
    assert "receipts" in page
    assert "number" in page
    assert reader.get(f"{ROOT}catalogue/order.unknown/").status_code == 404


def test_the_audit_log_is_searched_and_verified(operator):
    duebox.audit("member.removed", ("member", 42), changes={"role": ("admin", None)}, actor=7)
    duebox.audit("member.invited", ("member", 43), actor=8)
    page = text_of(operator, "audit/", about="member:42")
    assert "member.removed" in page
    assert "member.invited" not in page
    assert "member.invited" in text_of(operator, "audit/", actor="8")
    assert "as written" in text_of(operator, "audit/verify/")


def test_a_log_that_is_too_long_to_verify_names_the_command(operator, monkeypatch):
    duebox.audit("member.removed", ("member", 42))
    seal_all("default")
    monkeypatch.setattr(audit_page, "VERIFY_SECONDS", -1.0)
    assert "manage.py duebox audit verify" in text_of(operator, "audit/verify/")


def slow(using):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(5)")


def test_a_page_that_is_too_slow_says_so(reader, monkeypatch):
    monkeypatch.setattr(workers, "database_time", slow)
    monkeypatch.setattr(page, "PAGE_SECONDS", 0.1)
    response = reader.get(f"{ROOT}workers/")
    assert response.status_code == 503
    assert "did not answer within" in response.content.decode()


def test_a_part_of_a_page_that_is_too_slow_leaves_the_others(reader, monkeypatch):
    monkeypatch.setattr(snapshot, "STATEMENT_SECONDS", 0.1)
    monkeypatch.setattr(overview, "levels", snapshot.Snapshot(slow))
    shown = text_of(reader)
    assert "Too slow: the database did not answer in time." in shown
    assert "Due now" in shown


def test_latest_attempts_that_are_too_slow_are_not_said_to_be_none(reader, monkeypatch):
    monkeypatch.setattr(snapshot, "STATEMENT_SECONDS", 0.1)
    monkeypatch.setattr(overview, "latest_attempts", snapshot.Snapshot(slow))
    shown = text_of(reader)
    assert "Too slow: the database did not answer in time." in shown
    assert "Nothing was delivered yet" not in shown


def test_the_workers_are_shown_where_the_status_is_too_slow(reader, monkeypatch):
    monkeypatch.setattr(snapshot, "STATEMENT_SECONDS", 0.1)
    monkeypatch.setattr(overview, "snapshot", snapshot.Snapshot(slow))
    assert "No worker is running" in text_of(reader, "workers/")


def test_an_answer_that_took_longer_than_its_lifetime_is_kept_for_that_lifetime():
    asked = []

    def ask(using):
        asked.append(using)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.3)")
        return len(asked)

    kept = snapshot.Snapshot(ask, 0.2)
    assert (kept.get("default"), kept.get("default")) == (1, 1)


@pytest.fixture
def endpoint(settings):
    options = {"http": True, "ports": [9], "allow_private": ["127.0.0.1"], "timeout": 2.0}
    hooks = {"BACKEND": "duebox.destinations.webhooks.Webhooks", "OPTIONS": options}
    settings.DUEBOX = {"UNDECLARED": "allow", "DESTINATIONS": {"hooks": hooks}}
    return endpoints.create("acme", "http://127.0.0.1:9/in", ["order.paid"], description="the shop").endpoint


def test_a_test_of_an_endpoint_holds_no_transaction_and_is_recorded(operator, endpoint, monkeypatch):
    open_blocks, outside = [], len(connection.savepoint_ids)
    send = endpoints.test
    monkeypatch.setattr(endpoints, "test", lambda row: open_blocks.append(len(connection.savepoint_ids)) or send(row))
    operator.post(f"{ROOT}destinations/endpoints/{endpoint.pk}/test/")
    assert open_blocks == [outside]
    entry = AuditEntry.objects.get(action="endpoint.tested")
    assert (entry.entity_id, entry.actor["type"]) == (str(endpoint.pk), "user")


def rotated(client, endpoint, **given):
    path = f"{ROOT}destinations/endpoints/{endpoint.pk}/rotate/"
    replaces = re.search(r'name="replaces" value="(.*?)"', client.get(path).content.decode())[1]
    return client.post(path, {"replaces": replaces, "overlap": "24 hours", **given})


def test_a_secret_is_rotated_shown_once_and_recorded(operator, reader, endpoint):
    assert reader.get(f"{ROOT}destinations/endpoints/{endpoint.pk}/rotate/").status_code == 403
    before = decrypted(endpoint.secret)
    answer = rotated(operator, endpoint)
    assert "no-store" in answer.headers["Cache-Control"]
    endpoint.refresh_from_db()
    secret = decrypted(endpoint.secret)
    assert secret != before
    assert secret in answer.content.decode()
    assert decrypted(endpoint.previous_secret) == before
    assert secret not in text_of(operator, f"destinations/endpoints/{endpoint.pk}/")
    entry = AuditEntry.objects.get(action="endpoint.secret_rotated")
    assert (entry.entity_id, entry.actor["type"]) == (str(endpoint.pk), "user")
    assert secret not in str(entry.changes)


def test_a_secret_that_has_leaked_ends_at_once(operator, endpoint):
    rotated(operator, endpoint, overlap="not at all")
    endpoint.refresh_from_db()
    assert (endpoint.previous_secret, endpoint.previous_until) == ("", None)


def test_a_form_that_is_sent_twice_rotates_once(operator, endpoint):
    """The second time would end the secret that the receiver still has."""
    path = f"{ROOT}destinations/endpoints/{endpoint.pk}/rotate/"
    replaces = re.search(r'name="replaces" value="(.*?)"', operator.get(path).content.decode())[1]
    form = {"replaces": replaces, "overlap": "24 hours"}
    assert operator.post(path, form).status_code == 200
    again = operator.post(path, form)
    assert again.status_code == 400
    assert "Nothing was done" in again.content.decode()
    assert AuditEntry.objects.filter(action="endpoint.secret_rotated").count() == 1


@pytest.mark.parametrize("given", [{"overlap": ""}, {"overlap": "1 year"}, {"replaces": "x"}])
def test_a_form_that_the_page_did_not_make_rotates_nothing(operator, endpoint, given):
    assert rotated(operator, endpoint, **given).status_code == 400
    assert not AuditEntry.objects.filter(action="endpoint.secret_rotated").exists()


def test_endpoints_with_something_waiting_come_first_and_count_for_their_destination(reader, endpoint, monkeypatch):
    monkeypatch.setattr(destinations, "MOST_ENDPOINTS", 1)
    last = endpoints.create("zoo", "http://127.0.0.1:9/in", ["order.paid"], description="the zoo").endpoint
    for _ in range(3):
        Delivery.objects.create(event_id=duebox.emit("a.b").id, subscriber=f"to:hooks/{last.pk}")
    text = text_of(reader, "destinations/")
    assert "the zoo" in text
    assert "the shop" not in text
    assert "Only 1 are shown" in text
    assert re.search(r"<td>hooks</td>.*?<td class=\"num\">3</td>", text, re.DOTALL)


def test_of_many_dead_letters_the_newest_are_grouped(reader, dead, monkeypatch):
    monkeypatch.setattr(operations, "GROUPED", 2)
    assert "<strong>2</strong>" in text_of(reader, "dead-letters/")


def test_an_endpoint_is_tested_disabled_and_enabled(operator, reader, endpoint):
    path = f"destinations/endpoints/{endpoint.pk}/"
    assert "the shop" in text_of(reader, "destinations/")
    assert "Nothing was sent to it yet" in text_of(reader, path)
    assert reader.post(f"{ROOT}{path}disable/").status_code == 403
    assert "it failed" in operator.post(f"{ROOT}{path}test/", follow=True).content.decode()
    operator.post(f"{ROOT}{path}disable/", {"note": "it moves"})
    assert "it moves" in text_of(reader, path)
    operator.post(f"{ROOT}{path}enable/")
    endpoint.refresh_from_db()
    assert endpoint.disabled_at is None
