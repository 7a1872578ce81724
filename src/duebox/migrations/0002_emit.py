"""Inserts one event, its deliveries and the wake-up.

A function, because the server keeps its plans, also where a pooler stands in between and prepared statements do not
work. Another service that shares the database may call it as well.
"""

from __future__ import annotations

from importlib import import_module

from django.db import migrations

PostgresOnly = import_module("duebox.migrations.0001_initial").PostgresOnly

EMIT = """
CREATE OR REPLACE FUNCTION duebox_emit(
    new_id uuid, new_type text, new_version smallint, occurred float8, new_aggregate_type text, new_aggregate_id text,
    new_organization text, correlation text, causation uuid, new_actor text, new_producer text, key text,
    new_data jsonb, new_metadata jsonb, subscribers text[], streams text[], moment timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO duebox_event (
        id, type, version, occurred_at, aggregate_type, aggregate_id, organization,
        correlation_id, causation_id, actor, producer, idempotency_key, data, metadata
    )
    VALUES (
        new_id, new_type, new_version, to_timestamp(occurred), new_aggregate_type, new_aggregate_id, new_organization,
        correlation, causation, new_actor, new_producer, key, new_data, new_metadata
    )
    ON CONFLICT (type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO duebox_delivery (event_id, subscriber, stream, due_at)
    SELECT new_id, route.subscriber, route.stream, coalesce(moment, statement_timestamp())
    FROM unnest(subscribers, streams) AS route (subscriber, stream);
    -- NOTIFY in every commit halves concurrent inserts, so it is sent only while a worker sleeps by it.
    IF FOUND AND EXISTS (SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp()) THEN
        PERFORM pg_notify('duebox', '');
    END IF;
    RETURN true;
END $$;
"""

UNEMIT = """
DROP FUNCTION duebox_emit(
    uuid, text, smallint, float8, text, text, text, text, uuid, text, text, text, jsonb, jsonb, text[], text[],
    timestamptz
);
"""


class Migration(migrations.Migration):
    dependencies = [("duebox", "0001_initial")]

    operations = [PostgresOnly(EMIT, UNEMIT)]
