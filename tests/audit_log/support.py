"""What tests of the audit log say: fill it, seal it, read it, verify it, tamper with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from duebox.audit_log import Verdict, verify
from duebox.audit_log.record import write
from duebox.audit_log.seal import seal_all
from duebox.models import AuditEntry
from duebox.store.audit import Entry

PLAIN = Entry(
    organization="acme",
    action="member.updated",
    entity_type="member",
    entity_id="1",
    actor='{"id": "ann", "type": "user"}',
    impersonator='{"id": "bob", "type": "user"}',
    correlation_id="story-1",
    ip="192.0.2.7",
    user_agent="Firefox",
    changes='{"role": ["guest", "admin"]}',
    metadata='{"reason": "promoted"}',
)


def write_some(count: int, *organizations: str) -> None:
    """So many entries, dealt out to the organizations in turn, not sealed."""
    names = organizations or ("acme",)
    write([PLAIN._replace(organization=names[n % len(names)], entity_id=str(n + 1)) for n in range(count)], "default")


def fill(count: int, *organizations: str) -> None:
    """So many sealed entries."""
    write_some(count, *organizations)
    seal_all("default")


def entries(**which: object) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(**which).select_related("seal").order_by("id"))


def the_entry() -> AuditEntry:
    [found] = entries()
    return found


def flaw(**options: object) -> str | None:
    """The first thing that is wrong with the log."""
    verdict = verify("default", **options)
    return str(verdict.first) if verdict.flaws else None


def found(**options: object) -> Verdict:
    return verify("default", **options)


@contextmanager
def superuser() -> Iterator[None]:
    """Nothing holds this session back, neither a trigger nor a constraint."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield
        cursor.execute("SET LOCAL session_replication_role = origin")


def sql(text: str, *params: object) -> int:
    """Run as a superuser who knows what he does; gives how many rows were hit."""
    with superuser(), connection.cursor() as cursor:
        cursor.execute(text, params)
        return cursor.rowcount
