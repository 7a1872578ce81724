"""Streams that do not move are found without a look at everything that stands in them."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from duebox.events.identities import uuid7
from duebox.models import Delivery
from duebox.store import deliveries
from duebox.store.run_sql import statement
from tests.support import analyze

pytestmark = pytest.mark.django_db

MANY = 40_000


def stand(stream, status="waiting", *, count=1, subscriber="shop.mirror", **columns):
    """So many deliveries at the end of a stream; gives the first."""
    rows = [
        Delivery(event_id=uuid7(), subscriber=subscriber, stream=stream, status=status, **columns) for _ in range(count)
    ]
    return Delivery.objects.bulk_create(rows)[0]


def crowd(stream):
    """Half of the many, behind the head of a stream."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO duebox_delivery (event_id, subscriber, stream, status) "
            "SELECT gen_random_uuid(), 'shop.mirror', %s, 'waiting' FROM generate_series(1, %s)",
            [stream, MANY // 2],
        )


def later(**time):
    return timezone.now() + timedelta(**time)


@pytest.fixture
def crowded():
    """Two streams, each with a crowd behind its head, and a crowd that asks for no order in front of them."""
    stand(None, "pending", count=2_000)
    dead = stand("order:1", "dead", died_at=timezone.now())
    retrying = stand("order:2", "pending", attempt=1, due_at=later(minutes=5))
    for stream in ("order:1", "order:2"):
        crowd(stream)
    analyze("duebox_delivery")
    return dead, retrying


def rows_read(plan):
    """By all scans of tables and indexes together, those included that a condition put aside."""
    own = 0
    if "Relation Name" in plan:
        found = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        own = found * plan["Actual Loops"]
    return own + sum(rows_read(below) for below in plan.get("Plans", ()))


@pytest.mark.parametrize("subscriber", [None, "shop.mirror"])
@pytest.mark.large
def test_a_crowd_behind_two_heads_is_not_looked_at_one_by_one(crowded, subscriber):
    with connection.cursor() as cursor:
        sql = statement("dead_streams")
        params = {"subscriber": subscriber, "limit": 50, "look": 1000, "most": deliveries.COUNTED + 1, "now": None}
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
        found = cursor.fetchone()[0]
    plan = json.loads(found) if isinstance(found, str) else found
    assert rows_read(plan[0]["Plan"]) < 3 * deliveries.COUNTED


@pytest.mark.large
def test_how_many_stand_behind_is_counted_up_to_a_limit(crowded):
    dead, retrying = crowded
    found = deliveries.blocked("default")
    assert [(each.stream, each.head, each.why) for each in found] == [
        ("order:1", dead.id, "dead"),
        ("order:2", retrying.id, "retrying"),
    ]
    assert [(each.waiting, each.more_wait) for each in found] == [(deliveries.COUNTED, True)] * 2
    assert found[0].as_dict()["waiting"] == deliveries.COUNTED
    assert found[0].as_dict()["more_wait"] is True


def test_up_to_the_limit_the_number_is_exact():
    stand("order:1", "dead", died_at=timezone.now())
    stand("order:1", count=deliveries.COUNTED)
    [found] = deliveries.blocked("default")
    assert (found.waiting, found.more_wait) == (deliveries.COUNTED, False)


def test_what_moves_is_not_listed():
    stand("running", "pending", lease=7)
    stand("due", "pending")
    stand("about to be let go")
    for stream in ("running", "due", "about to be let go"):
        stand(stream)
    stand("alone", "pending", attempt=1, due_at=later(minutes=5))
    stand(None, "dead", died_at=timezone.now())
    assert deliveries.blocked("default") == []


def test_a_dead_or_parked_head_is_listed_though_nobody_waits_yet():
    stand("order:1", "dead", died_at=timezone.now())
    stand("order:2", "parked", died_at=timezone.now())
    stand("order:2", "pending")  # nobody has looked at it since it came
    found = deliveries.blocked("default")
    assert [(each.stream, each.why, each.waiting) for each in found] == [
        ("order:2", "parked", 1),
        ("order:1", "dead", 0),
    ]


def test_a_dead_one_that_is_not_the_head_blocks_nobody_yet():
    stand("order:1", "pending", lease=7)
    stand("order:1", "dead", died_at=timezone.now())
    stand("order:1")
    assert deliveries.blocked("default") == []


def test_the_same_stream_of_two_subscribers_is_two():
    for subscriber in ("a", "b", "c"):
        stand("order:1", "pending", subscriber=subscriber, due_at=later(hours=1))
        stand("order:1", subscriber=subscriber)
    assert [each.subscriber for each in deliveries.blocked("default")] == ["a", "b", "c"]
    [only] = deliveries.blocked("default", subscriber="b")
    assert (only.subscriber, only.why) == ("b", "snoozed")


def test_those_with_the_most_behind_them_come_first_whatever_their_name():
    for count, stream in enumerate(("z", "b", "m", "a"), start=1):
        stand(stream, "dead", died_at=timezone.now())
        stand(stream, count=count)
    assert [each.stream for each in deliveries.blocked("default", limit=3)] == ["a", "m", "b"]
