from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections

import duebox
from duebox.audit_log import prune, verify
from duebox.audit_log.seal import seal_all
from duebox.models import AuditEntry
from duebox.testing import travel

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.django_db(databases=["other"], transaction=True)
def test_everything_works_with_parameters_bound_by_the_server(monkeypatch):
    """Django's option server_side_binding: the server sees $1, not the value, and must find out its type."""
    connections["other"].close()
    monkeypatch.setitem(connections["other"].settings_dict, "OPTIONS", {"server_side_binding": True})
    try:
        with travel(START) as clock:
            for number in range(3):
                duebox.audit("a.b", ("a", number), after={"n": number}, organization="acme", using="other")
            clock.by(timedelta(days=400))
            duebox.audit("a.b", ("a", 4), using="other")
            assert seal_all("other")[0] == 4
            assert verify("other", since=clock.now).entries == 1
            assert verify("other", organization="acme").entries == 3
            assert prune("other", years=1).entries == 3
            assert verify("other").flaws == 0
            assert AuditEntry.objects.using("other").count() == 2
    finally:
        connections["other"].close()


@pytest.mark.django_db
def test_entries_are_written_in_the_order_given_under_ids_that_grow():
    first, second = (duebox.audit("a.b", ("a", number), organization="acme") for number in (1, 2))
    assert (first.writer_number, second.writer_number) == (1, 2)
    assert first.id < second.id
