"""Async code has the same functions under names that begin with a, and a transaction for a change and its events."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection

import duebox
from duebox import NewEvent
from duebox.models import Event, Schedule
from duebox.testing import drain, travel
from duebox.when import daily
from tests.app.models import Account

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
FORMS = [
    "emit", "emit_many", "schedule", "reschedule", "cancel", "restore", "pause", "resume", "upcoming", "upcoming_of",
]  # fmt: skip


def wait_for(function, *args, **options):
    return async_to_sync(function)(*args, **options)


def test_many_events_are_emitted_from_async_code():
    facts = wait_for(duebox.aemit_many, [NewEvent(type="member.invited"), NewEvent(type="member.left", data={"a": 1})])
    assert [(event.type, event.data) for event in Event.objects.order_by("id")] == [
        ("member.invited", {}),
        ("member.left", {"a": 1}),
    ]
    assert [fact.id for fact in facts] == list(Event.objects.order_by("id").values_list("id", flat=True))


def test_a_schedule_is_made_moved_paused_resumed_seen_and_cancelled_from_async_code():
    async def story():
        row = await duebox.aschedule("bell.rung", repeat=daily("09:00"), zone="Asia/Tokyo", key="it")
        assert row.due_at == datetime(2026, 6, 2, 0, tzinfo=UTC)
        assert await duebox.areschedule("it", zone="UTC") == 1
        assert [one.local for one in await duebox.aupcoming(key="it", days=1.5)] == ["2026-06-02T09:00"]
        assert await duebox.apause("it") == 1
        assert await duebox.aupcoming(key="it") == []
        assert await duebox.aresume("it") == 1
        assert await duebox.acancel("it") == 1
        assert await duebox.arestore("it") == 1
        assert await duebox.acancel("it") == 1

    with travel(NOON):
        wait_for(story)
    assert Schedule.objects.get().status == "cancelled"


@pytest.mark.parametrize("name", FORMS)
def test_an_async_form_takes_what_the_plain_one_takes(name):
    plain, form = getattr(duebox, name), getattr(duebox, f"a{name}")
    assert inspect.signature(form) == inspect.signature(plain)
    assert inspect.iscoroutinefunction(form)
    assert form.__name__ == f"a{name}"


def test_what_is_scheduled_in_an_async_handler_belongs_to_its_transaction(on):
    @on("bell.rung", name="it", retry=duebox.Retry(limit=0))
    async def handler(event):
        await duebox.aschedule("bell.heard", after=timedelta(hours=1), key="later")
        raise LookupError

    duebox.emit("bell.rung")
    assert drain(raises=False).dead == 1
    assert not Schedule.objects.exists()


# One transaction


def open_account(counter, *, fail=False):
    account = Account.objects.create(counter=counter)
    fact = duebox.emit("account.opened", {"counter": counter}, about=account)
    assert connection.in_atomic_block
    if fail:
        raise LookupError("after the emit")
    return fact


@pytest.mark.django_db(transaction=True)
def test_a_row_and_its_event_are_committed_together():
    fact = wait_for(duebox.atomically, open_account, 7)
    assert (Account.objects.get().counter, Event.objects.get().id) == (7, fact.id)


@pytest.mark.django_db(transaction=True)
def test_or_neither_is():
    with pytest.raises(LookupError):
        wait_for(duebox.atomically, open_account, 7, fail=True)
    assert (Account.objects.count(), Event.objects.count()) == (0, 0)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_the_transaction_may_be_one_of_another_database():
    def emit_and_fail():
        duebox.emit("account.opened", using="other")
        raise LookupError

    with pytest.raises(LookupError):
        wait_for(duebox.atomically, emit_and_fail, using="other")
    assert not Event.objects.using("other").exists()


async def open_later(counter):
    await Account.objects.acreate(counter=counter)


@pytest.mark.parametrize("function", [open_later, lambda counter: open_later(counter)])
def test_an_async_function_in_a_transaction_is_refused_with_the_repair(function):
    with pytest.raises(TypeError, match=r"runs a plain function.*write it with def"):
        wait_for(duebox.atomically, function, 7)


# The plain functions in async code


CALLS = {
    "emit": lambda: duebox.emit("member.left"),
    "emit_many": lambda: duebox.emit_many([NewEvent(type="member.left")]),
    "schedule": lambda: duebox.schedule("bell.rung", after=timedelta(hours=1)),
    "reschedule": lambda: duebox.reschedule("it", after=timedelta(hours=1)),
    "cancel": lambda: duebox.cancel("it"),
    "pause": lambda: duebox.pause("it"),
    "resume": lambda: duebox.resume("it"),
    "restore": lambda: duebox.restore("it"),
    "upcoming": lambda: duebox.upcoming(),
    "upcoming_of": lambda: duebox.upcoming_of([Account(pk=1)]),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_plain_function_in_async_code_names_the_one_to_await(name):
    async def view():
        CALLS[name]()

    with pytest.raises(SynchronousOnlyOperation) as caught:
        wait_for(view)
    assert str(caught.value).startswith(
        f"duebox.{name}() cannot use the database in async code; write `await duebox.a{name}("
    )
    assert "duebox.atomically" in str(caught.value)
