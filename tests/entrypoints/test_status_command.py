"""`duebox status`: its numbers, what it calls a problem, and its exit code."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

import duebox
from duebox import subscribers
from duebox.models import Delivery, Schedule, Worker
from duebox.status import status
from duebox.testing import drain
from tests.support import a_lease

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(manage):
    return lambda *words: manage("duebox", "status", *words)


@pytest.fixture
def due(on):
    on("a.b", name="it")(lambda event: None)
    duebox.emit("a.b")
    return Delivery.objects.get()


@pytest.fixture
def orphaned(on, due):
    subscribers.remove("it")


def test_without_anything_to_do_nothing_is_wrong(run):
    assert "Nothing is wrong." in run()


def test_what_is_due_without_a_worker_is_a_problem_with_its_repair(run, due):
    with pytest.raises(CommandError, match=r"1 due and no worker is running; start one: manage\.py duebox worker"):
        run()


def test_what_is_due_with_a_worker_is_no_problem(run, due):
    a_lease()
    assert "workers     1" in run()


def test_what_has_been_due_for_too_long_is_a_problem_although_a_worker_runs(run, due):
    a_lease()
    Delivery.objects.update(due_at=timezone.now() - timedelta(minutes=5))
    with pytest.raises(CommandError, match="The oldest delivery has been due for 5 min"):
        run()


def test_a_worker_whose_lease_ran_out_does_not_count(due):
    a_lease()
    Worker.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert status().workers == 0


def test_deliveries_to_a_handler_that_was_removed_are_a_problem_that_names_it(run, orphaned):
    a_lease()
    with pytest.raises(CommandError, match="1 delivery waits for 'it', which this code does not have") as raised:
        run()
    assert "aliases=" in str(raised.value)
    assert "deliveries discard --state orphaned --handler it" in str(raised.value)


def test_a_dead_letter_is_a_problem_only_where_that_is_asked_for(run, on):
    @on("a.b", name="it")
    def it(event):
        raise duebox.Permanent("no such address")

    duebox.emit("a.b")
    drain(raises=False)
    assert "dead        1" in run()
    with pytest.raises(CommandError, match=r"1 dead; look at the causes: manage\.py duebox deliveries groups"):
        run("--strict")


def test_a_delivery_that_waits_for_its_next_try_counts_as_retrying(on):
    @on("a.b", name="it")
    def it(event):
        raise ValueError("not yet")

    duebox.emit("a.b")
    drain(raises=False)
    assert (status().due, status().retrying, status().dead) == (0, 1, 0)


def test_schedules_are_counted_by_when_they_fire_and_overdue_ones_are_a_problem(run):
    for hours in (0.005, 0.5, 12, 48):
        duebox.schedule("a.b", after=timedelta(hours=hours), key=f"in:{hours}")
    found = status()
    spans = (found.schedules_next_minute, found.schedules_next_hour, found.schedules_next_day)
    assert (*spans, found.schedules_overdue) == (1, 2, 3, 0)
    Schedule.objects.filter(key="in:48").update(due_at=timezone.now() - timedelta(hours=3))
    with pytest.raises(CommandError, match="1 overdue, the first of them for 3 h; a worker fires them"):
        run()


def test_as_json_it_has_every_number_and_the_problems(due):
    printed = StringIO()
    with pytest.raises(CommandError):
        call_command("duebox", "status", "--json", stdout=printed)
    found = json.loads(printed.getvalue())
    assert (found["due"], found["workers"], len(found["problems"])) == (1, 0, 1)
    assert found.keys() >= {"oldest_due_seconds", "retrying", "dead", "schedules_next_hour", "orphaned", "listening"}
