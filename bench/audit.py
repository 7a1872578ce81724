"""The audit log: how long a chain of a million entries takes to verify, and what an entry costs to write."""

from __future__ import annotations

import time

from django.db import connection, transaction

import duebox
from duebox.auditing import chain, verifying
from duebox.fact import Actor
from duebox.store import audits
from duebox.store.audits import Entry, Head, Opened

ORGANIZATIONS = 100
COLUMNS = (
    "id, organization, sequence, recorded_at, action, entity_type, entity_id, actor, impersonator, correlation_id, "
    "ip, user_agent, changes, metadata, previous_hash, hash"
)
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
    """So many entries over a hundred organizations, hashed as always, copied into the tables."""
    empty()
    heads: dict[str, Head] = {}
    with transaction.atomic(), connection.cursor() as cursor:
        with cursor.copy(f"COPY duebox_audit ({COLUMNS}) FROM STDIN") as copy:
            for start in range(0, count, 10_000):
                for row in _rows(range(start, min(start + 10_000, count)), heads):
                    values = row._asdict() | {"microseconds": row.recorded_at}
                    copy.write_row([*values.values()])
        cursor.executemany(
            "INSERT INTO duebox_audit_head (organization, sequence, hash, pruned_sequence, pruned_hash, seal) "
            "VALUES (%s, %s, %s, %s, %s, %s)",
            list(heads.values()),
        )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE duebox_audit")
        cursor.execute("VACUUM ANALYZE duebox_audit_head")


def _rows(numbers: range, heads: dict[str, Head]) -> list[audits.Row]:
    entries, opened = [], []
    for number in numbers:
        name = f"organization-{number % ORGANIZATIONS}"
        head = heads.get(name) or Head(name, 0, bytes(32), 0, bytes(32), b"")
        story = f"01937c6e-5c2f-7c11-8000-{number:012d}"
        actor = Actor("user", str(number % 1000)).to_json()
        entries.append(ENTRY._replace(organization=name, entity_id=str(number), actor=actor, correlation_id=story))
        opened.append(Opened(number + 1, 1_800_000_000_000_000 + number, CHANGES, "{}", head))
    rows, ends = chain.linked(entries, opened)
    heads |= {head.organization: head for head in ends}
    return rows


def verify(count: int) -> float:
    """Seconds to verify all of them."""
    begun = time.perf_counter()
    verdicts = list(verifying.verify("default"))
    took = time.perf_counter() - begun
    assert sum(each.entries for each in verdicts) == count, verdicts
    assert not any(each.flaws for each in verdicts), verdicts
    return took


def record(count: int) -> float:
    """Entries per second, each in a transaction of its own."""
    begun = time.perf_counter()
    for number in range(count):
        duebox.audit("member.updated", ("member", number), before={"role": "guest"}, after={"role": "admin"})
    return count / (time.perf_counter() - begun)


def empty() -> None:
    with connection.cursor() as cursor:
        audits.allow_truncate("default")
        cursor.execute("TRUNCATE duebox_audit, duebox_audit_head RESTART IDENTITY")
