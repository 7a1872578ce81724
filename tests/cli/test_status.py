"""`duebox status`: its numbers, what it calls a problem, and its exit code."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import duebox
from duebox.audit_log.seal import seal_all
from duebox.events import subscribers
from duebox.models import Delivery, Schedule, Worker
from duebox.observe.status import status
from duebox.store import deliveries
from duebox.testing import drain
from tests.support import a_lease, analyze

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
        run("--max-dead", "0")
    assert "dead        1" in run("--max-dead", "1")


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


def test_the_thresholds_say_from_when_on_something_is_wrong(run, due):
    a_lease()
    Delivery.objects.update(due_at=timezone.now() - timedelta(minutes=5))
    duebox.emit("a.b")
    assert "Nothing is wrong." in run("--max-age", "600")
    with pytest.raises(CommandError, match=r"2 due, more than 1; the workers are too few or too slow"):
        run("--max-age", "600", "--max-due", "1")
    duebox.schedule("a.b", after=timedelta(hours=1), key="it")
    Schedule.objects.update(due_at=timezone.now() - timedelta(minutes=5))
    assert "0 overdue" in run("--max-age", "600", "--max-overdue", "600")


def test_too_many_that_wait_for_their_next_try_are_a_problem_where_that_is_asked_for(run, on):
    @on("a.b", name="it")
    def it(event):
        raise ValueError("not yet")

    duebox.emit("a.b")
    drain(raises=False)
    assert "retrying    1" in run()
    with pytest.raises(CommandError, match="1 retrying; look at their errors"):
        run("--max-retrying", "0")


def test_audit_entries_that_are_not_sealed_are_counted_and_after_a_while_a_problem(run):
    duebox.audit("member.invited", ("member", 1))
    duebox.audit("member.removed", ("member", 1))
    assert "audit       2 not sealed" in run()
    assert status().oldest_unsealed_seconds < 60
    with pytest.raises(CommandError, match="2 audit entries are not sealed, the first of them for"):
        run("--max-unsealed", "0")
    seal_all("default")
    assert (status().unsealed, status().oldest_unsealed_seconds) == (0, None)


@pytest.mark.parametrize(("option", "value"), [("--max-age", "-1"), ("--max-age", "soon"), ("--max-dead", "-1")])
def test_a_threshold_that_is_no_number_is_refused(run, option, value):
    with pytest.raises(CommandError, match=re.escape(repr(value))):
        run(option, value)


def test_many_for_a_destination_that_is_gone_do_not_count_as_due(monkeypatch):
    monkeypatch.setattr(deliveries.backlog, "__kwdefaults__", {"most": 3})
    Delivery.objects.bulk_create(Delivery(event_id=uuid4(), subscriber="to:gone") for _ in range(9))
    found = status()
    assert (found.due, "due" in found.more, found.orphaned[0].more) == (0, False, True)


LARGE = {"duebox_event", "duebox_delivery", "duebox_attempt", "duebox_schedule", "duebox_schedule_log", "duebox_audit"}


@pytest.mark.parametrize("share", [0.02, 1.0], ids=["few", "all"])
def test_no_query_of_it_reads_a_large_table_from_end_to_end(share, on):
    """Neither where few rows are dead, due or to come, nor where all of them are."""
    on("a.b", name="it")(lambda event: None)
    fill(30_000, share)
    with CaptureQueriesContext(connection) as captured:
        status()
    assert len(captured.captured_queries) == 2
    for query in captured.captured_queries:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {query['sql']}")
            plan = cursor.fetchone()[0]
        assert read_whole(plan if isinstance(plan, list) else json.loads(plan)) & LARGE == set()


def fill(rows, share):
    """Of everything a share is dead, waits, is to come soon; the rest is to come in a year."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO duebox_delivery (event_id, subscriber, stream, status, due_at) "
            "SELECT gen_random_uuid(), CASE n %% 2 WHEN 0 THEN 'it' ELSE 'to:bus' END, 'stream:' || n, CASE "
            "WHEN n > %(rows)s * %(share)s THEN 'pending' WHEN n %% 3 = 0 THEN 'dead' WHEN n %% 3 = 1 THEN 'waiting' "
            "ELSE 'parked' END, now() + (n > %(rows)s * %(share)s)::int * interval '1 year' "
            "FROM generate_series(1, %(rows)s) AS n",
            {"rows": 4 * rows, "share": share},
        )
        cursor.execute(
            "INSERT INTO duebox_schedule (key, due_at, zone, intent, type, data, metadata) "
            "SELECT 'key:' || n, now() + CASE WHEN n <= %(rows)s * %(share)s THEN interval '30 s' "
            "ELSE interval '1 year' END, 'UTC', '{}', 'a.b', '{}', '{}' FROM generate_series(1, %(rows)s) AS n",
            {"rows": rows, "share": share},
        )
        cursor.execute(
            "INSERT INTO duebox_audit (action, entity_type, entity_id, changes, metadata, writer, writer_number) "
            "SELECT 'a.b', 'member', '1', '{}', '{}', 1 + n %% 5, n / 5 FROM generate_series(5, %(rows)s) AS n",
            {"rows": rows},
        )
        cursor.execute(
            "INSERT INTO duebox_audit_writer (id, process_id, number) SELECT n, n, 100 FROM generate_series(1, 5) AS n"
        )
        analyze("duebox_delivery", "duebox_schedule", "duebox_audit", "duebox_audit_writer")


def read_whole(plan):
    """The tables that a plan reads from end to end."""
    found = set()
    for node in plan if isinstance(plan, list) else [plan]:
        if node.get("Node Type") == "Seq Scan":
            found.add(node["Relation Name"])
        for below in (node.get("Plan"), node.get("Plans")):
            found |= read_whole(below) if below else set()
    return found
