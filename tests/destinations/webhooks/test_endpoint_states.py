"""How an endpoint fares, as `duebox endpoints` tells it; and its short id, as other commands take it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from duebox.destinations.webhooks import endpoints as api
from duebox.models import DestinationState, WebhookEndpoint
from duebox.store import destinations

pytestmark = pytest.mark.django_db
THEN = datetime(2026, 9, 1, 10, 30, 15, 123456, UTC)


def run(*words):
    out = StringIO()
    call_command("duebox", *map(str, words), stdout=out)
    return out.getvalue()


@pytest.fixture
def row(add):
    WebhookEndpoint.objects.filter(pk=(made := add()).pk).update(enabled_at=THEN - timedelta(days=1))
    return made


def gate(row, **columns):
    DestinationState.objects.update_or_create(name=f"to:hooks/{row.pk}", defaults=columns)


def everywhere(row, text):
    return text in run("endpoints", "list") and text in run("endpoints", "show", row.pk)


def as_json(row):
    [listed] = json.loads(run("endpoints", "list", "--json"))
    shown = json.loads(run("endpoints", "show", row.pk, "--json"))
    assert listed.items() <= shown.items()
    return listed


def test_one_that_is_well_is_enabled(row):
    assert run("endpoints", "list").splitlines()[1].split()[-1] == "enabled"
    told = as_json(row)
    names = ("paused_at", "paused_note", "open_until", "failing_since", "gives_up_at", "error")
    assert [told[name] for name in names] == [None, "", None, None, None, ""]


def test_one_that_is_paused_says_since_when_and_why(row):
    gate(row, paused_at=THEN, paused_note="they move \x1b[31mhouse")
    assert everywhere(row, "enabled; paused since 2026-09-01 10:30 UTC: they move \\x1b[31mhouse")
    assert as_json(row)["paused_at"] == "2026-09-01T10:30:15.123456+00:00"


def test_where_all_webhooks_are_paused_each_of_them_is(row):
    destinations.pause("default", "to:hooks", "for the night")
    assert everywhere(row, "UTC: for the night")
    assert as_json(row)["paused_note"] == "for the night"


def test_one_that_is_left_alone_says_until_when_and_by_which_error(row):
    until = timezone.now() + timedelta(minutes=5)
    gate(row, open_until=until, error="The answer was 500.\nTraceback")
    assert everywhere(row, f"enabled; no attempts until {until:%Y-%m-%d %H:%M} UTC: ")
    assert as_json(row)["open_until"] == until.isoformat()


def test_when_that_is_over_it_is_not_said_any_more(row):
    gate(row, open_until=timezone.now() - timedelta(seconds=1), error="it was down")
    assert "no attempts" not in run("endpoints", "list")
    assert as_json(row)["open_until"] is None


def test_one_that_fails_says_since_when_and_when_it_is_given_up(row):
    gate(row, failing_since=THEN, failed_at=THEN + timedelta(hours=1), error="The answer was 500.")
    assert everywhere(
        row, "enabled; failing since 2026-09-01 10:30 UTC, disabled at 2026-09-06 10:30 UTC: The answer was 500."
    )
    assert as_json(row)["gives_up_at"] == (THEN + timedelta(days=5)).isoformat()


def test_what_was_before_it_was_enabled_again_does_not_count(row):
    gate(row, failing_since=THEN - timedelta(days=3), failed_at=THEN)
    assert as_json(row)["failing_since"] == (THEN - timedelta(days=1)).isoformat()


def test_one_that_was_only_asked_to_wait_is_not_failing(row):
    gate(row, failing_since=THEN, failed_at=THEN - timedelta(seconds=1), open_until=timezone.now() + timedelta(hours=1))
    assert as_json(row)["failing_since"] is None


def test_where_nobody_is_ever_given_up_no_date_is_said(configure, receiver):
    configure(receiver.port, disable_after_days=0)
    row = api.create("7", receiver.url, ["*"]).endpoint
    gate(row, failing_since=timezone.now(), failed_at=timezone.now(), error="no")
    assert "disabled at" not in run("endpoints", "show", row.pk)


def test_one_that_is_disabled_says_only_that(row):
    api.disable(row, "moved")
    gate(row, failing_since=THEN, failed_at=THEN)
    assert "disabled: moved" in run("endpoints", "list")
    assert "failing" not in run("endpoints", "list")


def test_the_list_asks_twice_however_many_there_are(add, django_assert_num_queries):
    for _ in range(5):
        gate(add(), failing_since=THEN, failed_at=THEN)
    with django_assert_num_queries(2):
        run("endpoints", "list")


def test_the_beginning_of_an_id_is_enough_to_pause_and_to_resume(row):
    short = f"hooks/{str(row.pk)[:13].upper()}"
    assert f"{short} is paused" in run("destinations", "pause", short)
    assert DestinationState.objects.get().name == f"to:hooks/{row.pk}"
    assert run("destinations", "resume", f"to:{short}") == f"to:{short} is resumed.\n"


def test_an_id_that_several_begin_with_is_refused(add):
    add(), add()
    for words in (
        ("destinations", "pause", "hooks/0"),
        ("endpoints", "show", "0"),
        ("deliveries", "list", "--destination", "hooks/0"),
    ):
        with pytest.raises(CommandError, match=r"Several endpoints have the id '0'; `duebox endpoints list`"):
            run(*words)
