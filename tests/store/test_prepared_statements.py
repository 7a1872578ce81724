"""The server keeps the plans of the worker's functions, so they must be right whatever becomes of the tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from duebox.events.fact import FactRow
from duebox.models import Delivery, Event, Schedule
from duebox.store import deliveries, run_sql, schedules
from duebox.store.deliveries import Claim
from duebox.store.schedules import NextStep, Route
from tests.store.test_schedules import a_fact, a_row, a_step
from tests.support import a_lease, claims_of, ended

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 3_000
NO_STEP = a_step(Schedule(id=0, revision=0))
NO_CLAIM = ended(Claim((0, "it", None, 0, 0, 0.0, *a_fact()), 0))
TABLES = ["duebox_delivery", "duebox_event", "duebox_schedule"]


def whole_tables_read() -> dict[str, int]:
    """How often this transaction has read each table from one end to the other."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, seq_scan FROM pg_stat_xact_user_tables WHERE relname = ANY(%s)", [TABLES])
        return dict(cursor.fetchall())


def claim_settle_and_fire(lease: int, steps: list[NextStep], facts: list[tuple[int, FactRow]]) -> int:
    claims = claims_of(lease, "it", limit=200)
    deliveries.settle("default", lease, [ended(claim) for claim in claims] or [NO_CLAIM])
    deliveries.seconds_to_next("default", ["it"])
    routes = [Route(fact.id, "it", None, False) for _, fact in facts]
    fired = schedules.fire("default", steps, facts, routes, lease=lease).deliveries
    return len(claims) + len(fired)


def test_plans_that_were_made_while_the_tables_were_empty_do_not_read_whole_tables_when_they_are_full():
    lease = a_lease()
    _vacuum()
    for _ in range(8):  # the server may keep a plan from the sixth time on
        assert claim_settle_and_fire(lease, [NO_STEP], [(0, a_fact())]) == 0
    _fill()
    due = list(Schedule.objects.filter(status="scheduled").order_by("id")[:200])
    steps = [a_step(each) for each in due]
    facts = [(each.id, a_fact(_uuid(number), key=f"fired/{number}")) for number, each in enumerate(due)]
    with transaction.atomic():
        before = whole_tables_read()
        assert claim_settle_and_fire(lease, steps, facts) == 400
        assert whole_tables_read() == before


def test_a_plan_that_became_slow_is_made_anew(monkeypatch):
    """On an empty table the planner may prefer to read a whole index, which no count of table scans shows."""
    monkeypatch.setattr(run_sql, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(run_sql, "DISCARD_AGAIN_SECONDS", 0.0)
    lease = a_lease()
    _vacuum()
    for _ in range(8):
        assert claims_of(lease, "it", limit=200) == []
    _fill()
    claims_of(lease, "it", limit=200)  # by the plan from before; it is slow, so that the next one is planned anew
    monkeypatch.setattr(run_sql, "SLOW_SECONDS", float("inf"))
    with transaction.atomic():
        before = rows_fetched()
        assert len(claims_of(lease, "it", limit=200)) == 200
        fetched = {table: count - before[table] for table, count in rows_fetched().items()}
    assert fetched["duebox_event"] == 200
    assert fetched["duebox_delivery"] <= 4 * 200


def test_firing_reads_no_other_schedules_where_the_statistics_are_of_a_time_when_few_were_scheduled():
    """The index of what is scheduled looks small to the server then."""
    lease = a_lease()
    schedules.write("default", [a_row(key=f"old {number}", status="completed", due_at=None) for number in range(MANY)])
    _vacuum()
    _fill()
    with connection.cursor() as cursor:
        cursor.execute("DISCARD PLANS")
    due = list(Schedule.objects.filter(status="scheduled").order_by("id")[:20])
    facts = [(each.id, a_fact(_uuid(number), key=f"fired/{number}")) for number, each in enumerate(due)]
    routes = [Route(fact.id, "it", None, False) for _, fact in facts]
    with transaction.atomic():
        before = rows_fetched()["duebox_schedule"]
        fired = schedules.fire("default", [a_step(each) for each in due], facts, routes, lease=lease)
        assert len(fired.deliveries) == 20
        assert rows_fetched()["duebox_schedule"] - before <= 4 * 20


def rows_fetched() -> dict[str, int]:
    """How many rows of each table this transaction has fetched by an index."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = ANY(%s)", [TABLES])
        return dict(cursor.fetchall())


def _vacuum() -> None:
    """So that the server knows that they are empty."""
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"VACUUM ANALYZE {table}")


def _fill() -> None:
    """Without statistics, as right after a burst."""
    past = datetime.now(UTC) - timedelta(minutes=1)
    Event.objects.bulk_create([Event(type="a.b", data={}, version=1, occurred_at=past) for _ in range(MANY)])
    ids = Event.objects.values_list("id", flat=True)
    Delivery.objects.bulk_create([Delivery(event_id=each, subscriber="it", due_at=past) for each in ids])
    schedules.write("default", [a_row(key=f"row {number}", due_at=past) for number in range(MANY)])


def _uuid(number: int) -> str:
    return f"00000000-0000-7000-9000-{number:012d}"
