from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

import duebox
from duebox.models import AuditEntry, Event, WebhookReceipt

pytestmark = pytest.mark.django_db


def received(days):
    WebhookReceipt.objects.create(
        source="acme", webhook_id=str(days), received_at=timezone.now() - timedelta(days=days)
    )


def test_prune_says_what_was_removed_and_what_remains(manage):
    received(8)
    received(6)
    lines = manage("duebox", "prune").splitlines()
    assert lines[0].split() == ["what", "days", "removed", "remaining"]
    assert lines[-1].split() == ["receipts", "7", "1", "1"]
    assert WebhookReceipt.objects.count() == 1


def test_a_dry_run_of_prune_removes_nothing(manage):
    received(8)
    told = manage("duebox", "prune", "--dry-run")
    assert told.endswith("Dry run: nothing was changed.\n")
    found = [json.loads(line) for line in manage("duebox", "prune", "--dry-run", "--json").splitlines()]
    assert [(each["what"], each["removed"], each["remaining"]) for each in found][-1] == ("receipts", 1, 1)


def test_prune_says_so_where_nothing_is_ever_removed(manage, settings):
    names = ("EVENTS", "ATTEMPTS", "DEAD_LETTERS", "SCHEDULES", "SCHEDULE_LOG", "RECEIPTS")
    settings.DUEBOX = {**settings.DUEBOX, **{f"RETENTION_{name}_DAYS": None for name in names}}
    assert manage("duebox", "prune") == "Nothing is ever removed: all RETENTION settings are None.\n"


@pytest.fixture
def customer(declare):
    declare("customer.changed")(type("CustomerChanged", (), {"__annotations__": {"email": str}}))
    return duebox.emit("customer.changed", {"email": "ann@example.org"}, about=("shop.customer", 42))


def test_erase_says_what_is_gone_and_who_did_it_is_on_record(manage, customer):
    assert "events" in manage("duebox", "erase", "shop.customer:42", "--dry-run")
    assert Event.objects.get().data
    told = json.loads(manage("duebox", "erase", "shop.customer:42", "--reason", "request 17", "--json"))
    assert (told["entity"], told["events"], told["dry_run"]) == ("shop.customer:42", 1, False)
    assert Event.objects.get().data == {}
    assert AuditEntry.objects.get(action="duebox.erased").actor["type"] == "operator"


def test_erase_refuses_what_nobody_knows_and_what_is_still_open(manage, customer, on):
    with pytest.raises(CommandError, match=r"Nothing is stored by the name 'shop.customer:43'"):
        manage("duebox", "erase", "shop.customer:43")
    on("customer.changed", name="cli.open")(lambda event: None)
    duebox.emit("customer.changed", {"email": "ann@example.org"}, about=("shop.customer", 42))
    with pytest.raises(CommandError, match=r"1 open deliveries.*--force"):
        manage("duebox", "erase", "shop.customer:42")
    manage("duebox", "erase", "shop.customer:42", "--force")
    assert [event.data for event in Event.objects.all()] == [{}, {}]
