"""What a call outside of a transaction leads to: the change and the event could part, so it is a mistake."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import TestCase, override_settings

import duebox
from duebox.contracts.enforce import Own
from duebox.exceptions import OutsideTransaction, OutsideTransactionWarning
from duebox.models import Event, Schedule
from duebox.testing import drain, travel

pytestmark = pytest.mark.django_db(transaction=True)
A_DAY = timedelta(days=1)
CALLS = {
    "emit": lambda: duebox.emit("member.invited"),
    "emit_many": lambda: duebox.emit_many([duebox.NewEvent(type="member.invited")]),
    "schedule": lambda: duebox.schedule("member.invited", after=A_DAY),
    "aemit": lambda: async_to_sync(duebox.aemit)("member.invited"),
    "aemit_many": lambda: async_to_sync(duebox.aemit_many)([duebox.NewEvent(type="member.invited")]),
    "aschedule": lambda: async_to_sync(duebox.aschedule)("member.invited", after=A_DAY),
}


@pytest.fixture
def outside(settings):
    def choose(choice):
        settings.DUEBOX = {"UNDECLARED": "allow", "OUTSIDE_TRANSACTION": choice}

    settings.DUEBOX = {"UNDECLARED": "allow"}
    return choose


@pytest.fixture
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("outside")
def test_by_default_a_call_outside_of_a_transaction_warns_and_is_carried_out(name):
    with pytest.warns(OutsideTransactionWarning, match=rf"^duebox\.{name}\(\) was called outside of a transaction"):
        CALLS[name]()
    assert Event.objects.count() + Schedule.objects.count() == 1


@pytest.mark.parametrize("name", CALLS)
def test_it_may_be_refused(name, outside):
    outside("refuse")
    with pytest.raises(
        OutsideTransaction, match=rf"^duebox\.{name}\(\) was called outside .*(atomic\(\)|duebox\.atomically)"
    ):
        CALLS[name]()
    assert Event.objects.count() + Schedule.objects.count() == 0


@pytest.mark.usefixtures("no_warning")
@pytest.mark.parametrize("name", CALLS)
def test_it_may_be_allowed(name, outside):
    outside("allow")
    CALLS[name]()
    assert Event.objects.count() + Schedule.objects.count() == 1


@pytest.mark.usefixtures("no_warning")
@pytest.mark.parametrize("name", ["emit", "emit_many", "schedule"])
def test_in_a_transaction_there_is_nothing_to_say(name, outside):
    outside("refuse")
    with transaction.atomic():
        CALLS[name]()


@pytest.mark.usefixtures("no_warning")
def test_a_transaction_without_atomic_is_one_as_well(outside):
    outside("refuse")
    transaction.set_autocommit(False)
    try:
        duebox.emit("member.invited")
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)
    assert not Event.objects.exists()


@pytest.mark.usefixtures("no_warning")
def test_atomically_is_a_transaction(outside):
    outside("refuse")
    async_to_sync(duebox.atomically)(CALLS["emit"])
    assert Event.objects.count() == 1


def sites(calls):
    """The lines that are warned about under Python's own filters, in order."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        calls()
    return [(each.filename, each.lineno) for each in found]


def line_of(function, offset):
    return function.__code__.co_filename, function.__code__.co_firstlineno + offset


@pytest.mark.usefixtures("outside")
def test_each_line_that_calls_is_named_once():
    def calls():
        for _ in range(3):
            duebox.emit("member.invited")
            duebox.emit_many([duebox.NewEvent(type="member.invited")])

    assert sites(calls) == [line_of(calls, 2), line_of(calls, 3)]


@pytest.mark.usefixtures("outside")
def test_in_async_code_the_line_that_awaits_is_named():
    async def invite():
        await duebox.aemit("member.invited")

    async def calls():
        await invite()
        await invite()

    assert sites(async_to_sync(calls)) == [line_of(invite, 1)]


@pytest.mark.usefixtures("no_warning")
@pytest.mark.parametrize("atomic", [True, False])
def test_what_a_handler_emits_is_not_warned_about_since_its_delivery_is_retried_until_it_returns(on, outside, atomic):
    on("member.invited", name="it", atomic=atomic)(lambda event: duebox.emit("member.left"))
    with transaction.atomic():
        duebox.emit("member.invited")
    outside("refuse")
    drain()
    assert Event.objects.filter(type="member.left").exists()


@pytest.mark.usefixtures("no_warning")
def test_what_duebox_emits_itself_is_not_warned_about(outside):
    outside("refuse")
    duebox.emit(Own("duebox.draft"))
    duebox.schedule(Own("duebox.draft"), after=A_DAY)


@pytest.mark.usefixtures("no_warning")
def test_a_moment_that_comes_while_a_test_travels_is_not_warned_about(on, outside):
    heard = []
    on("member.invited", name="it")(heard.append)
    with travel(datetime(2026, 6, 1, 12, tzinfo=UTC)) as clock:
        with transaction.atomic():
            duebox.schedule("member.invited", after=A_DAY)
        outside("refuse")
        clock.run(2 * A_DAY)
    assert len(heard) == 1


@override_settings(DUEBOX={"UNDECLARED": "allow", "OUTSIDE_TRANSACTION": "refuse"})
class InATestCase(TestCase):
    def test_the_transaction_of_a_test_case_is_one(self):
        duebox.emit("member.invited")
