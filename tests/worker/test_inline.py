"""Inline mode: delivered right after the commit, by the process that emitted."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from django.db import connection, transaction

import duebox
from duebox.models import Attempt, Delivery, Event
from tests.support import undone

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _inline(settings):
    settings.DUEBOX = {**settings.DUEBOX, "MODE": "inline"}


@pytest.fixture
def seen(on):
    seen = []
    on("a.*", name="it")(lambda event: seen.append(event.type))
    return seen


def test_in_autocommit_it_is_delivered_at_once(seen):
    duebox.emit("a.b")
    assert seen == ["a.b"]
    assert not Delivery.objects.exists()


def test_in_a_transaction_it_is_delivered_after_the_commit(seen):
    with transaction.atomic():
        duebox.emit("a.b")
        duebox.emit("a.c")
        assert seen == []
    assert seen == ["a.b", "a.c"]


def test_what_was_rolled_back_is_not_delivered(seen):
    with undone():
        duebox.emit("a.b")
    assert seen == []


def test_what_was_emitted_after_a_rolled_back_savepoint_is_delivered(seen):
    with transaction.atomic():
        with undone():
            duebox.emit("a.b")
        duebox.emit("a.c")
    assert seen == ["a.c"]


@pytest.mark.parametrize("atomic", [True, False])
def test_what_a_handler_emits_is_delivered_after_it(on, atomic):
    story = []

    @on("a.b", name="first", atomic=atomic)
    def first(event):
        duebox.emit("a.c")
        story.append("first")

    on("a.c", name="second")(lambda event: story.append("second"))
    duebox.emit("a.b")
    assert story == ["first", "second"]


def test_a_handler_that_fails_is_logged_and_not_felt_by_the_emitter(on, caplog):
    @on("a.b", name="it")
    def handler(event):
        raise ValueError("no luck")

    duebox.emit("a.b")
    assert "attempt failed: subscriber=it type=a.b" in caplog.text
    assert "Traceback" in caplog.text
    assert "ValueError: no luck" in caplog.text
    assert Attempt.objects.get().outcome == "retried"


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_delivery_that_loses_the_database_is_logged_and_not_felt_by_the_emitter(on, caplog, in_transaction):
    @on("a.b", name="it", atomic=False)
    def handler(event):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with transaction.atomic() if in_transaction else nullcontext():
        fact = duebox.emit("a.b")
    assert "attempt failed: subscriber=it type=a.b" in caplog.text
    assert Event.objects.get().id == fact.id
    assert Attempt.objects.get().outcome == "retried"


def test_switched_off_it_leaves_the_work_to_a_worker(settings, seen):
    settings.DUEBOX = {**settings.DUEBOX, "MODE": "worker"}
    duebox.emit("a.b")
    assert seen == []
    assert Delivery.objects.count() == 1
    settings.DUEBOX = {**settings.DUEBOX, "MODE": "inline"}
    duebox.emit("a.c")
    assert seen == ["a.b", "a.c"]


@pytest.mark.django_db(transaction=False)
def test_in_a_test_case_it_is_delivered_with_the_captured_hooks(seen, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        duebox.emit("a.b")
    assert seen == ["a.b"]
