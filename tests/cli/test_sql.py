from __future__ import annotations

from contextlib import contextmanager

import pytest
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.utils import timezone

import duebox
from duebox.models import Delivery, Event

ARN = "arn:aws:lambda:eu-central-1:123456789012:function:duebox"
# What Aurora's extension has, as far as its signature goes; it notes who was called.
EXTENSION = """
CREATE SCHEMA aws_lambda;
CREATE SCHEMA aws_commons;
CREATE TYPE aws_commons._lambda_function_arn_1 AS (function_name text, region text);
CREATE TABLE aws_lambda.invoked (function_name text, payload json, region text, invocation_type text);
CREATE FUNCTION aws_lambda.invoke(
    function_name text, payload json, region text DEFAULT NULL, invocation_type text DEFAULT 'RequestResponse',
    log_type text DEFAULT 'None', context json DEFAULT NULL, qualifier varchar(128) DEFAULT NULL,
    OUT status_code int, OUT answer json, OUT executed_version text, OUT log_result text
) LANGUAGE sql AS $$
    INSERT INTO aws_lambda.invoked VALUES (function_name, payload, region, invocation_type);
    SELECT 202, NULL::json, NULL, NULL
$$;
CREATE FUNCTION aws_lambda.invoke(
    function_name aws_commons._lambda_function_arn_1, payload json, invocation_type text DEFAULT 'RequestResponse',
    log_type text DEFAULT 'None', context json DEFAULT NULL, qualifier varchar(128) DEFAULT NULL,
    OUT status_code int, OUT answer json, OUT executed_version text, OUT log_result text
) LANGUAGE sql AS $$ SELECT 500, NULL::json, NULL, NULL $$;
"""
WITHOUT = """
DROP TRIGGER IF EXISTS duebox_wake_lambda ON duebox_delivery;
DROP FUNCTION IF EXISTS duebox_wake_lambda();
DROP SCHEMA IF EXISTS aws_lambda CASCADE;
DROP SCHEMA IF EXISTS aws_commons CASCADE;
"""


def execute(text):
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def trigger(text):
    execute(EXTENSION)
    try:
        execute(text)
        yield
    finally:
        execute(WITHOUT)


@pytest.fixture
def pinged(transactional_db, manage, on):
    """Who was invoked, by the trigger as it is printed."""
    on("a.b", name="it")(lambda event: None)
    with trigger(manage("duebox", "sql", "trigger", "--function", ARN)):
        yield lambda: execute("SELECT function_name, payload, region, invocation_type FROM aws_lambda.invoked")


def test_an_event_that_is_stored_wakes_the_function(pinged):
    duebox.emit("a.b")
    assert pinged() == [(ARN, {"duebox": "due"}, None, "Event")]


def test_a_transaction_pings_once(pinged):
    with transaction.atomic():
        for _ in range(3):
            duebox.emit_many(duebox.NewEvent(type="a.b") for _ in range(5))
    assert len(pinged()) == 1
    duebox.emit("a.b")
    assert len(pinged()) == 2


def test_what_is_due_later_or_concerns_nobody_wakes_nobody(pinged):
    duebox.emit("nobody.cares")
    Delivery.objects.create(
        event_id=duebox.emit("x.y").id, subscriber="it", due_at=timezone.now() + timezone.timedelta(hours=1)
    )
    assert pinged() == []


def test_a_ping_that_fails_does_not_fail_what_stores_the_event(pinged):
    execute("DROP SCHEMA aws_lambda CASCADE")
    with transaction.atomic():
        duebox.emit("a.b")
        duebox.emit("a.b")
    assert Event.objects.filter(type="a.b").count() == 2
    assert Delivery.objects.filter(subscriber="it").count() == 2


def test_the_region_is_passed_on(transactional_db, manage, on):
    on("a.b", name="it")(lambda event: None)
    with trigger(manage("duebox", "sql", "trigger", "--function", "duebox", "--region", "eu-west-1")):
        duebox.emit("a.b")
        assert execute("SELECT function_name, region FROM aws_lambda.invoked") == [("duebox", "eu-west-1")]


def test_it_can_be_run_twice(pinged, manage):
    execute(manage("duebox", "sql", "trigger", "--function", ARN))
    duebox.emit("a.b")
    assert len(pinged()) == 1


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("trigger",),
        ("trigger", "--function", "x'; DROP TABLE duebox_event; --"),
        ("trigger", "--function", ARN, "--region", "'"),
        ("another-trigger", "--function", ARN),
    ],
)
def test_what_cannot_be_meant_is_refused(manage, words):
    with pytest.raises(CommandError):
        manage("duebox", "sql", *words)
