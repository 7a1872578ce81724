"""The audit log: what an entry costs to write, how fast entries are sealed, and how long a million take to verify."""

from __future__ import annotations

import threading
import time

from django.db import connection, connections, transaction

import duebox
from duebox.audit_log import verify as look
from duebox.audit_log.record import write
from duebox.audit_log.seal import seal_all
from duebox.events.fact import Actor
from duebox.store import audit
from duebox.store.audit import Entry

ORGANIZATIONS = 100
CHANGES = '{"role": ["guest", "admin"], "email": ["hmac:5f2b8c1d9e3a4f60", "hmac:0b1c2d3e4f5a6978"]}'
ENTRY = Entry(
    organization="",
    action="member.updated",
    entity_type="member",
    entity_id="",
    actor=None,
    impersonator=None,
    correlation_id="",
    ip="192.0.2.7",
    user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    changes=CHANGES,
    metadata="{}",
)


def fill(count: int) -> None:
    """So many entries of a hundred organizations, not sealed."""
    empty()
    for start in range(0, count, 10_000):
        with transaction.atomic():
            write([_entry(number) for number in range(start, min(start + 10_000, count))], "default")


def _entry(number: int) -> Entry:
    return ENTRY._replace(
        organization=f"organization-{number % ORGANIZATIONS}",
        entity_id=str(number),
        actor=Actor("user", str(number % 1000)).to_json(),
        correlation_id=f"01937c6e-5c2f-7c11-8000-{number:012d}",
    )


def seal(count: int) -> float:
    """Entries per second that one worker seals."""
    begun = time.perf_counter()
    sealed, _ = seal_all("default")
    took = time.perf_counter() - begun
    assert sealed == count, sealed
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE duebox_audit, duebox_audit_seal")
    return count / took


def verify(count: int) -> float:
    """Seconds to verify all of them."""
    begun = time.perf_counter()
    verdict = look("default")
    took = time.perf_counter() - begun
    assert (verdict.entries, verdict.flaws) == (count, 0), verdict
    return took


def record(count: int) -> float:
    """Entries per second, each in a transaction of its own."""
    begun = time.perf_counter()
    for number in range(count):
        duebox.audit("member.updated", ("member", number), before={"role": "guest"}, after={"role": "admin"})
    return count / (time.perf_counter() - begun)


def record_together(count: int, writers: int = 8) -> float:
    """Entries per second of writers of one organization, each entry in a transaction of its own."""

    def run() -> None:
        try:
            for number in range(count // writers):
                duebox.audit("member.updated", ("member", number), after={"role": "admin"}, organization="acme")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(writers)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (time.perf_counter() - begun)


def empty() -> None:
    tables = (
        "duebox_audit, duebox_audit_batch, duebox_audit_seal, duebox_audit_head, duebox_audit_writer, "
        "duebox_audit_writer_sealed"
    )
    with connection.cursor() as cursor:
        audit.allow_truncate("default")
        cursor.execute(f"TRUNCATE {tables} RESTART IDENTITY")
