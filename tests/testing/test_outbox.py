from __future__ import annotations

import pytest
from django.db import transaction
from django.test import TestCase, TransactionTestCase

import duebox
from duebox.exceptions import EndlessDrain
from duebox.testing import assert_emitted, captured, drain, refute_emitted
from tests.support import undone


def fail(event):
    raise ValueError("no luck")


@pytest.mark.django_db
class TestCaptured:
    def test_the_facts_of_the_block_are_given_in_order(self):
        duebox.emit("a.before")
        with captured() as facts:
            one, two = duebox.emit("a.b", {"a": 1}), duebox.emit("a.c")
        duebox.emit("a.after")
        assert facts == [one, two]
        assert facts[0].data == {"a": 1}

    def test_those_of_a_rolled_back_transaction_are_given_too(self):
        with captured() as facts, undone():
            duebox.emit("a.b")
        assert [fact.type for fact in facts] == ["a.b"]

    def test_it_ends_with_the_block_although_the_block_fails(self):
        with pytest.raises(ZeroDivisionError), captured() as facts:
            raise ZeroDivisionError
        duebox.emit("a.b")
        assert facts == []


@pytest.mark.django_db
class TestAssertions:
    @pytest.fixture(autouse=True)
    def _events(self):
        duebox.emit(
            "member.invited",
            {"role": "guest", "by": {"id": 1}},
            about=("member", 1),
            organization=7,
            idempotency_key="k",
        )
        duebox.emit("member.invited", {"role": "admin"}, about=("member", 2))

    def test_the_last_event_that_matches_is_given_back(self):
        assert assert_emitted("member.invited").data == {"role": "admin"}
        assert assert_emitted("member.invited", {"role": "guest"}).aggregate_id == "1"
        assert (
            assert_emitted("member.invited", about=("member", 1), organization=7, idempotency_key="k").data["role"]
            == "guest"
        )
        assert assert_emitted("member.invited", {"by": {"id": 1}}, count=1)
        assert assert_emitted("member.invited", count=2)

    def test_a_failure_says_what_was_asked_and_shows_what_is_there(self):
        with pytest.raises(AssertionError) as caught:
            assert_emitted("member.invited", {"role": "owner"}, about=("member", 3))
        assert str(caught.value).splitlines() == [
            "no event 'member.invited' with data={'role': 'owner'}, about=('member', 3).",
            "The last events, newest first:",
            "  member.invited about member:2 {'role': 'admin'}",
            "  member.invited about member:1 {'by': {'id': 1}, 'role': 'guest'}",
        ]

    def test_a_wrong_count_is_a_failure_with_both_numbers(self):
        with pytest.raises(AssertionError, match=r"^2 events instead of 1 'member.invited'\."):
            assert_emitted("member.invited", count=1)

    def test_what_was_not_emitted_can_be_refuted(self):
        refute_emitted("member.left")
        refute_emitted("member.invited", {"role": "owner"})
        refute_emitted("member.invited", organization=8)
        refute_emitted("member.invited", idempotency_key="other")

    def test_a_refutation_that_fails_shows_what_is_there(self):
        with pytest.raises(AssertionError) as caught:
            refute_emitted("member.invited", {"role": "admin"})
        message = str(caught.value)
        assert message.startswith("1 events 'member.invited' with data={'role': 'admin'}, none was expected.\n")
        assert "member:2 {'role': 'admin'}" in message


@pytest.mark.django_db
def test_where_nothing_was_emitted_a_failure_says_so():
    with pytest.raises(AssertionError, match=r"^no event 'a.b'\.\nNo event was emitted at all\.$"):
        assert_emitted("a.b")


@pytest.mark.django_db(databases=["default", "other"])
def test_the_alias_of_the_settings_is_looked_at_unless_one_is_given(settings):
    duebox.emit("a.b")
    assert_emitted("a.b")
    refute_emitted("a.b", using="other")
    settings.DUEBOX = {**settings.DUEBOX, "DATABASE": "other"}
    refute_emitted("a.b")
    assert_emitted("a.b", using="default")


@pytest.mark.django_db
class TestDrain:
    def test_the_first_error_of_a_handler_is_raised_at_the_end(self, on):
        seen = []
        on("a.b", name="bad")(fail)
        on("a.*", name="good")(lambda event: seen.append(event.type))
        duebox.emit("a.b")
        duebox.emit("a.c")
        with pytest.raises(ValueError, match="no luck"):
            drain()
        assert seen == ["a.b", "a.c"]

    def test_by_option_errors_are_only_counted(self, on):
        on("a.b", name="bad")(fail)
        duebox.emit("a.b")
        assert drain(raises=False).retried == 1

    def test_handlers_that_feed_themselves_are_stopped(self, on):
        on("a.b", name="it")(lambda event: duebox.emit("a.b") and None)
        duebox.emit("a.b")
        with pytest.raises(EndlessDrain, match=r"drain\(limit=...\)"):
            drain(limit=10)


class InTestCase(TestCase):
    """Django's own TestCase: everything happens in a transaction that is never committed."""

    def tearDown(self):
        duebox.events.subscribers.remove("in.test.case")

    def test_emit_drain_and_assert_work(self):
        @duebox.on("a.b", name="in.test.case")
        def handler(event):
            duebox.emit("a.c", {"from": event.type})

        with captured() as facts:
            duebox.emit("a.b")
            assert drain().delivered == 1
        assert [fact.type for fact in facts] == ["a.b", "a.c"]
        assert_emitted("a.c", {"from": "a.b"})

    def test_an_atomic_handler_that_fails_does_not_break_the_transaction_of_the_test(self):
        duebox.on("a.b", name="in.test.case")(fail)
        duebox.emit("a.b")
        with self.assertRaisesMessage(ValueError, "no luck"):
            drain()
        assert_emitted("a.b")


class InTransactionTestCase(TransactionTestCase):
    def test_emit_drain_and_assert_work(self):
        seen = []
        duebox.on("a.b", name="in.transaction.test.case")(lambda event: seen.append(event.type))
        try:
            with transaction.atomic():
                duebox.emit("a.b")
            drain()
        finally:
            duebox.events.subscribers.remove("in.transaction.test.case")
        assert seen == ["a.b"]
