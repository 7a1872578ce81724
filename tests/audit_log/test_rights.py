from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from django.db import IntegrityError, ProgrammingError, connection

from tests.audit_log.support import fill, flaw
from tests.support import undone

pytestmark = pytest.mark.django_db
GUIDE = Path(__file__).parents[2] / "docs/howto/audit.md"


@pytest.fixture
def as_role():
    """From here on this session has the rights of another role, with more of them than the guide gives."""
    name = f"duebox_test_{os.getpid()}"
    tables = (
        "duebox_audit, duebox_audit_batch, duebox_audit_entry, duebox_audit_erasure, duebox_audit_head, "
        "duebox_audit_seal, duebox_audit_writer, duebox_audit_writer_sealed"
    )
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {name} NOSUPERUSER NOLOGIN")
        cursor.execute(f"GRANT USAGE ON SCHEMA public TO {name}")
        cursor.execute(f"GRANT ALL ON {tables} TO {name}")
        cursor.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {name}")

        def become():
            cursor.execute("SET LOCAL duebox.audit_allows = ''")
            cursor.execute(f"SET LOCAL ROLE {name}")
            return cursor

        yield become
        cursor.execute("RESET ROLE")


def test_a_role_with_all_rights_on_the_tables_cannot_change_them_either(as_role):
    fill(3)
    cursor = as_role()
    for deed in (
        "UPDATE duebox_audit SET actor = '[]'",
        "DELETE FROM duebox_audit",
        "DELETE FROM duebox_audit_head",
        "UPDATE duebox_audit_seal SET hash = ''",
        "DELETE FROM duebox_audit_seal",
        "TRUNCATE duebox_audit",
        "TRUNCATE duebox_audit_seal",
        "TRUNCATE duebox_audit_head",
    ):
        with pytest.raises(IntegrityError, match=f"is append-only, so {deed.split()[0]} is refused"), undone():
            cursor.execute(deed)


@pytest.mark.parametrize(
    "deed",
    [
        "SET session_replication_role = replica",
        "ALTER TABLE duebox_audit DISABLE TRIGGER ALL",
        "ALTER TABLE duebox_audit DISABLE TRIGGER duebox_audit_is_append_only",
        "DROP TRIGGER duebox_audit_is_append_only ON duebox_audit",
        "CREATE OR REPLACE FUNCTION duebox_audit_refuse() RETURNS trigger LANGUAGE sql AS ''",
    ],
)
def test_a_role_that_is_neither_superuser_nor_owner_cannot_switch_the_triggers_off(as_role, deed):
    cursor = as_role()
    with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"), undone():
        cursor.execute(deed)


def test_a_role_with_the_rights_of_the_guide_can_write_and_read(as_role):
    fill(1)
    as_role().execute("RESET ROLE")
    [rights] = re.findall(r"```sql\n(REVOKE.+?)```", GUIDE.read_text(), re.DOTALL)
    with connection.cursor() as cursor:
        cursor.execute(rights.replace("FROM app;", f"FROM duebox_test_{os.getpid()};"))
    cursor = as_role()
    fill(2, "acme", "bolt")
    assert flaw() is None
    for deed in ("UPDATE duebox_audit SET actor = NULL", "DELETE FROM duebox_audit", "TRUNCATE duebox_audit_head"):
        with pytest.raises(ProgrammingError, match="permission denied"), undone():
            cursor.execute(deed)


def test_a_role_that_may_delete_cannot_deceive_the_trigger_by_temporary_tables(as_role):
    fill(2)
    cursor = as_role()
    cursor.execute("CREATE TEMPORARY TABLE duebox_audit_head (pruned_sequence bigint) ON COMMIT DROP")
    cursor.execute("INSERT INTO duebox_audit_head VALUES (1000)")
    with pytest.raises(IntegrityError, match="is append-only, so DELETE is refused"), undone():
        cursor.execute("DELETE FROM public.duebox_audit")
