from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection, transaction

from duebox.auditing import prune
from duebox.exceptions import NotReady
from duebox.testing import travel
from tests.app.members import Club, Member
from tests.auditing.support import entries, fill, flawed, sql

pytestmark = pytest.mark.django_db
GUIDE = Path(__file__).parents[2] / "docs/howto/audit.md"
GONE = (
    r"The head of organization 'acme' is gone from duebox_audit_head, though duebox_audit has entries of it, so "
    r"nothing can be added; run `manage\.py duebox audit verify`, then put the row back as docs/howto/audit\.md says "
    r'under "A head that is gone"\.'
)


def put_the_head_back():
    """As the guide says."""
    [repair] = re.findall(r"```sql\n(INSERT INTO duebox_audit_head.+?)```", GUIDE.read_text(), re.DOTALL)
    with connection.cursor() as cursor:
        cursor.execute(repair)


def test_a_head_that_was_removed_is_missed_by_the_next_who_writes():
    fill(3, "acme", "bolt", "acme")
    sql("DELETE FROM duebox_audit_head WHERE organization = 'acme'")
    with pytest.raises(NotReady, match=GONE), transaction.atomic():
        fill(1)
    with pytest.raises(NotReady, match=GONE), transaction.atomic():
        fill(2, "bolt", "acme")
    fill(1, "bolt")


def test_a_head_that_was_removed_is_missed_by_the_next_who_saves():
    club = Club.objects.create()
    member = Member.objects.create(club=club)
    sql("DELETE FROM duebox_audit_head")
    with pytest.raises(NotReady, match=f"The head of organization '{club.pk}' is gone"), transaction.atomic():
        member.save()


def test_a_head_that_was_removed_is_missed_also_where_the_oldest_entries_were_pruned():
    """The next entry would take the place of the first, which is free."""
    with travel(datetime(2026, 1, 1, tzinfo=UTC)) as clock:
        fill(3)
        clock.by(timedelta(days=366))
        list(prune("default", years=1))
        sql("DELETE FROM duebox_audit_head")
        with pytest.raises(NotReady, match=GONE), transaction.atomic():
            fill(1)
        put_the_head_back()
        fill(1)
        assert [entry.sequence for entry in entries()] == [4, 5, 6]
        assert flawed()["acme"].flaws == 1


def test_a_head_that_was_put_back_is_doubted_and_the_chain_goes_on():
    fill(3)
    sql("DELETE FROM duebox_audit_head")
    put_the_head_back()
    fill(1)
    assert [(entry.sequence, entry.action) for entry in entries()[3:]] == [
        (4, "audit.head_doubted"), (5, "member.updated"),
    ]  # fmt: skip
    verdict = flawed()["acme"]
    assert (verdict.flaws, verdict.first.sequence) == (1, 4)
