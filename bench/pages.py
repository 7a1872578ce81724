"""Every page of the dashboard and of the admin, and `duebox status`, with millions of events: milliseconds for the
answer, and those of them that the database took.

Nothing is answered from a cache of the dashboard: each request is the first one of its second.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

PAGE_MS, DATABASE_MS, STATUS_MS = 300.0, 50.0, 100.0
REPEAT = 3
ENDPOINTS = 2_000


def measure(old: int) -> dict[str, object]:
    """In a process of its own, whose settings have the admin."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "bench.page_settings"}
    done = subprocess.run(
        [sys.executable, "-m", "bench.pages", str(old)], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return {"page_events": old, "pages": json.loads(done.stdout)}


def rows(result: dict[str, Any]) -> list[tuple[str, str, str, str, float | None]]:
    found = []
    for name, (wall, database) in result["pages"].items():
        limit = STATUS_MS if name.startswith("command") else PAGE_MS
        slow = "  TOO SLOW" if wall > limit or database > DATABASE_MS else ""
        found.append((name, f"{wall:,.0f} ms", f"at most {limit:.0f} and {DATABASE_MS:.0f}",
                      f"database {database:,.1f} ms{slow}", None))  # fmt: skip
    return found


def main(old: int) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, run_syncdb=True)
    begun = time.perf_counter()
    fill(old)
    print(f"    filled in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    try:
        print(json.dumps(measured()))
    finally:
        empty()


# The tables

TABLES = (
    "duebox_event", "duebox_delivery", "duebox_attempt", "duebox_schedule", "duebox_schedule_log", "duebox_worker",
    "duebox_destination_state", "duebox_rollup", "duebox_webhook_endpoint",
)  # fmt: skip
EVENT_ID = """(lpad(to_hex({first}::bigint + (n * {step}::float8)::bigint), 12, '0')
    || '7' || substr(md5(n::text), 1, 3)
    || '8' || substr(md5(n::text), 4, 15))::uuid"""
"""The id of the event number n: later ones have higher ids."""
ENDPOINT_ID = "md5('endpoint' || {n} % {endpoints})::uuid"
FILL = {
    "events": """
        INSERT INTO duebox_event (id, type, occurred_at, recorded_at, aggregate_type, aggregate_id, organization,
            correlation_id, data, metadata)
        SELECT {id}, 'bench.type_' || n % 40, at, at, 'account', (n % 100000)::text, 'org-' || n % 500,
            md5('request' || n / 3), jsonb_build_object('text', repeat('x', 200)), '{{}}'
        FROM generate_series(1, {old}) n, to_timestamp(({first} + n * {step}) / 1000) at""",
    "attempts": """
        INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, started_at, settled_at,
            took_ms)
        SELECT {id}, n, CASE WHEN n % 10 = 0 THEN 'to:webhooks/' || {endpoint} ELSE 'handler-' || n % 10 END, 1,
            CASE WHEN n % 30 = 0 THEN 'retried' ELSE 'delivered' END, at, at, at, 3.5
        FROM generate_series({old} - {old} / 5, {old}) n, to_timestamp(({first} + n * {step}) / 1000) at""",
    # 200 groups; half of the dead letters are in the first twenty of them.
    "dead letters": """
        INSERT INTO duebox_delivery (event_id, subscriber, status, due_at, attempt, died_at, fingerprint)
        SELECT {id}, CASE WHEN n % 5 = 0 THEN 'to:bus' ELSE 'handler-' || n % 5 END,
            CASE WHEN n % 20 = 0 THEN 'parked' ELSE 'dead' END, at, 12, at,
            substr(md5('cause' || CASE WHEN n % 2 = 0 THEN 0 ELSE n / 40 % 9 + 1 END), 1, 16)
        FROM generate_series({old} - {many}, {old} - 1) n, to_timestamp(({first} + n * {step}) / 1000) at""",
    "errors": """
        INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, started_at, settled_at,
            took_ms, note)
        SELECT event_id, id, subscriber, 12, 'dead', due_at, due_at, died_at, 20.0,
            'Traceback (most recent call last):' || repeat(E'\n  File "handlers.py", line 42, in charge', 20)
            || E'\nValueError: no price'
        FROM duebox_delivery WHERE status IN ('dead', 'parked')""",
    # Half of what is pending waits for a paused destination, a fifth is due, the rest failed or goes to endpoints.
    "pending": """
        INSERT INTO duebox_delivery (event_id, subscriber, status, stream, due_at, attempt)
        SELECT {id}, CASE WHEN n % 2 = 0 THEN 'to:bus' WHEN n % 10 IN (1, 3) THEN 'to:webhooks/' || {endpoint}
            ELSE 'handler-' || n % 5 END,
            CASE WHEN n % 20 = 5 THEN 'waiting' ELSE 'pending' END, CASE WHEN n % 20 = 5 THEN 'account:' || n % 400 END,
            CASE WHEN n % 10 = 7 THEN {now} + interval '1 hour' * random() ELSE {now} - interval '1 s' END,
            CASE WHEN n % 10 = 7 THEN 2 ELSE 0 END
        FROM generate_series({old} - 4 * {many}, {old} - 1) n""",
    # Of a million schedules 850,000 are to come within a year, 5,000 of them in the next hour.
    "schedules": """
        INSERT INTO duebox_schedule (key, plan, status, due_at, occurrence, local_time, fired, fired_at, zone,
            zone_rules, tz_release, intent, type, aggregate_type, aggregate_id, organization, data, metadata)
        SELECT 'reminder:' || n, 'reminders',
            CASE WHEN n % 20 = 0 THEN 'paused' WHEN n % 10 = 1 THEN 'completed' WHEN n % 100 = 2 THEN 'cancelled'
                ELSE 'scheduled' END,
            CASE WHEN n % 20 = 0 OR n % 10 = 1 OR n % 100 = 2 THEN NULL
                ELSE {now} + CASE WHEN n % 200 = 4 THEN interval '1 hour' ELSE interval '365 days' END * random() END,
            occurrence, local_time, CASE WHEN n % 10 = 1 THEN '2026-01-01T09:00:00' ELSE '' END,
            CASE WHEN n % 10 = 1 THEN {now} - interval '1 day' END, zone, zone_rules, tz_release, intent, type,
            'account', (n % 100000)::text, 'org-' || n % 500, data, metadata
        FROM duebox_schedule, generate_series(1, {old} / 5) n WHERE key = 'first'""",
    "schedule log": """
        INSERT INTO duebox_schedule_log (at, what, source, occurrence, aggregate_type, aggregate_id, due_before,
            due_after)
        SELECT {now} - interval '30 days' * random(), CASE WHEN n % 3 = 0 THEN 'missed' ELSE 'moved' END,
            'reminder:' || n, '2026-01-01T09:00:00', 'account', (n % 100000)::text, {now}, {now} + interval '1 hour'
        FROM generate_series(1, {old} / 20) n""",
    "endpoints": """
        INSERT INTO duebox_webhook_endpoint (id, organization, url, types, secret)
        SELECT {endpoint}, 'org-' || n % 500, 'https://example.com/hooks/' || n, '[]', ''
        FROM generate_series(0, {endpoints} - 1) n""",
    "destinations": """
        INSERT INTO duebox_destination_state (name, paused_at, paused_note, failing_since, error)
        SELECT 'to:bus', {now}, 'maintenance', NULL::timestamptz, '' UNION ALL
        SELECT 'to:webhooks/' || {endpoint}, NULL, '', {now} - interval '1 hour', 'HTTP 503'
        FROM generate_series(0, 99) n""",
    "workers": """
        INSERT INTO duebox_worker (name, mode, listening, expires_at)
        SELECT 'worker-' || n, 'listen', true, {now} + interval '1 day' FROM generate_series(1, 20) n""",
    "rollup": """
        INSERT INTO duebox_rollup (span, kind, name, minute, count, delivered, retried, dead, lateness, wait, duration)
        SELECT span, kind, name, minute, 100, 95, 4, 1, h, h, h
        FROM (VALUES (1, 2 * 1440), (60, 30 * 24)) spans (span, number)
        CROSS JOIN (
            SELECT 'event' AS kind, 'bench.type_' || n AS name FROM generate_series(0, 39) n UNION ALL
            SELECT 'subscriber', 'handler-' || n FROM generate_series(0, 9) n UNION ALL
            SELECT kind, name FROM (VALUES ('event', ''), ('subscriber', ''), ('subscriber', 'to:bus'),
                ('subscriber', 'to:webhooks'), ('schedule', ''), ('gauge', 'dead'), ('gauge', 'due')) more (kind, name)
        ) names
        CROSS JOIN LATERAL generate_series(1, number) place
        CROSS JOIN LATERAL (SELECT date_bin(span * interval '1 minute', {now}, 'epoch')
            - place * span * interval '1 minute' AS minute, ARRAY[1,2,3,4,5,6,7,8,9,10,11,12] AS h) made
        UNION ALL
        SELECT 0, 'progress', name, date_trunc('minute', {now}), 0, 0, 0, 0, NULL, NULL, NULL
        FROM (VALUES ('first'), ('again')) passes (name)""",
    "audit log": """
        INSERT INTO duebox_audit (recorded_at, organization, action, entity_type, entity_id, actor, correlation_id,
            changes, metadata, writer, writer_number)
        SELECT {now} - interval '30 days' * (1 - n / ({old} / 25)::float8) - interval '2 hours', 'org-' || n % 500,
            CASE WHEN n % 7 = 0 THEN 'delivery.retried' ELSE 'member.updated' END, 'member', (n % 10000)::text,
            jsonb_build_object('type', 'user', 'id', (n % 1000)::text), md5('request' || n), '{{}}', '{{}}', 0, n
        FROM generate_series(1, {old} / 25) n""",
}


def fill(old: int) -> None:
    """Events of 30 days, attempts of the last fifth, a fifth as many schedules; what waits, and what failed."""
    import duebox
    from bench import audit
    from duebox import when

    empty()
    duebox.schedule("bench.plain", {"text": "x" * 100}, repeat=when.daily("09:00"), zone="Europe/Berlin", key="first")
    now = time.time()
    month = 30 * 86_400 * 1000
    given = {
        "old": old,
        "many": min(50_000, old // 20),
        "endpoints": ENDPOINTS,
        "first": int(now * 1000) - month,
        "step": month / old,
        "now": f"to_timestamp({now:.0f})",
    }
    given["id"] = EVENT_ID.format(**given)
    given["endpoint"] = ENDPOINT_ID.format(n="n", **given)
    execute("SET synchronous_commit = off")
    for what, sql in FILL.items():
        begun = time.perf_counter()
        execute(sql.format(**given))
        print(f"    {what}: {time.perf_counter() - begun:.1f} s", file=sys.stderr)
    for number in range(2_000):
        audit.write([audit._entry(number)], "default")
    audit.seal(2_000)
    for table in (*TABLES, "duebox_audit", "duebox_audit_seal"):
        execute(f"VACUUM ANALYZE {table}")
    execute("CHECKPOINT")


def empty() -> None:
    from bench import audit, stage

    stage.empty()
    audit.empty()
    execute(f"TRUNCATE {', '.join(TABLES)} RESTART IDENTITY")


def execute(sql: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)


# The pages


def measured() -> dict[str, tuple[float, float]]:
    """By name the milliseconds of the answer and of the database, medians."""
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    user, _ = User.objects.get_or_create(username="bench", is_staff=True, is_superuser=True)
    client.force_login(user)

    def ask(path: str) -> Callable[[], None]:
        def get() -> None:
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.status_code, answer.content[:2000])

        return get

    asked = {f"{name}": ask(path) for name, path in paths()}
    for name in ("status", "slo", "advise"):
        asked[f"command: {name}"] = lambda name=name: _command(name)
    return {name: timed(get) for name, get in asked.items()}


def _command(name: str) -> None:
    from django.core.management import CommandError, call_command

    with suppress(SystemExit, CommandError):  # it says that something is wrong
        call_command("duebox", name, stdout=io.StringIO())


def paths() -> Iterator[tuple[str, str]]:
    from django.urls import reverse

    from duebox import deliveries
    from duebox.models import Attempt, AuditEntry, Delivery, Event, Schedule, WebhookEndpoint

    def page(name: str, *args: object, **query: str) -> tuple[str, str]:
        asked = "&".join(f"{key}={value}" for key, value in query.items())
        title = " ".join([name.replace("_", " "), *query.values()])
        return f"dashboard: {title}", reverse(f"duebox_dashboard:{name}", args=args) + (f"?{asked}" if asked else "")

    def listed(model: str, *args: object, **query: str) -> tuple[str, str]:
        asked = "&".join(f"{key}={value}" for key, value in query.items())
        what = "change" if args else "changelist"
        title = f"admin: {model}{' page' if args else ''} {' '.join(query.values())}".rstrip()
        return title, reverse(f"admin:duebox_{model}_{what}", args=args) + (f"?{asked}" if asked else "")

    dead = Delivery.objects.filter(status="dead").order_by("id")[0]
    event = Event.objects.get(id=dead.event_id)
    schedule = Schedule.objects.filter(status="scheduled").order_by("due_at")[0]
    endpoint = WebhookEndpoint.objects.order_by("id")[0]
    entry = AuditEntry.objects.order_by("-id")[0]
    [group] = deliveries.groups(limit=1)
    yield page("overview")
    yield page("events")
    yield page("events", type="bench.type_7")
    yield page("events", type="bench.no_such")
    yield page("events", about="account:77")
    yield page("events", correlation_id=event.correlation_id)
    yield page("events", organization="org-7")
    for state in ("due", "retrying", "running", "waiting", "dead", "parked", "scheduled", "orphaned"):
        yield page("events", state=state)
    yield page("events", state="dead", type="bench.type_7")
    yield page("events", state="due", organization="org-7")
    yield page("event", event.id)
    for name in (str(event.id), "account:77", schedule.key):
        yield page("explain", q=name)
    yield page("dead_letters")
    yield page("dead_letters", state="parked")
    yield page("group", group.id)
    for verb in ("retry", "park", "discard"):
        yield page("act_on_group", group.id, verb)
    yield page("act_on_delivery", dead.id, "retry")
    for state in ("scheduled", "paused", "completed", "cancelled", "failed", "processing"):
        yield page("schedules", state=state)
    yield page("schedules", span="week")
    yield page("schedules", type="bench.no_such")
    yield page("schedule", schedule.id)
    yield page("preview", cron="0 9 * * *")
    yield page("calendar")
    yield page("plans")
    yield page("schedule_log")
    yield page("schedule_log", what="missed")
    yield page("schedule_log", what="cancelled")
    yield page("rotate_secret", endpoint.id)
    yield page("destinations")
    yield page("endpoint", endpoint.id)
    for name in ("workers", "catalogue", "audit", "verify"):
        yield page(name)
    yield page("event_type", "bench.paid")
    yield page("audit", about="member:77")
    yield page("audit", actor="77")
    yield page("audit", action="delivery.retried")
    yield page("audit", action="no.such")
    yield listed("event")
    yield listed("event", event.id)
    for state in ("failed", "processing", "completed"):
        yield listed("event", status=state)
    yield listed("event", type="bench.no_such")
    yield listed("event", q="account:77")
    yield listed("event", q="no%20price")
    yield listed("delivery")
    yield listed("delivery", dead.id)
    yield listed("delivery", status="retrying")
    yield listed("deadletter")
    yield listed("deadletter", dead.id)
    yield listed("schedule")
    yield listed("schedule", schedule.id)
    for state in ("scheduled", "completed", "failed", "processing"):
        yield listed("schedule", status=state)
    yield listed("auditentry")
    yield listed("auditentry", entry.id)
    yield listed("webhookendpoint")
    yield listed("webhookendpoint", endpoint.id)
    assert Attempt.objects.filter(event_id=event.id).exists()


def timed(get: Callable[[], None]) -> tuple[float, float]:
    """The medians after a first request, which loads templates and plans."""
    from duebox.dashboard.snapshot import forget_all

    walls, databases = [], []
    for _ in range(REPEAT + 1):
        forget_all()
        with clocked() as spent:
            begun = time.perf_counter()
            get()
            walls.append((time.perf_counter() - begun) * 1000)
        databases.append(sum(spent) * 1000)
    return round(statistics.median(walls[1:]), 1), round(statistics.median(databases[1:]), 1)


@contextmanager
def clocked() -> Iterator[list[float]]:
    """The seconds that each statement took."""
    from django.db import connection

    spent: list[float] = []

    def run(execute: Any, *args: Any) -> Any:
        begun = time.perf_counter()
        try:
            return execute(*args)
        finally:
            spent.append(time.perf_counter() - begun)

    with connection.execute_wrapper(run):
        yield spent


if __name__ == "__main__":
    main(int(sys.argv[1]))
