"""Where the tests' database lives: one template per run, a clone per parallel process."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg import sql

FOLDER = Path(tempfile.gettempdir()) / f"duebox-tests-{os.getuid()}"
SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "8GB"}
"""The database of a test run is not needed after a power failure. Tests that crash a server start their own."""
_TEMPLATE_LOCK = 7_031_905


def databases(environment: Mapping[str, str]) -> dict[str, Any]:
    url = environment.get("DUEBOX_TEST_DATABASE_URL")
    entry = from_url(url) if url else _embedded(FOLDER)
    entry["NAME"] = environment.get("DUEBOX_TEST_NAME", entry["NAME"])
    entry["HOST"] = environment.get("DUEBOX_TEST_HOST", entry["HOST"])
    entry["PORT"] = environment.get("DUEBOX_TEST_PORT", entry["PORT"])
    entry["OPTIONS"] = json.loads(environment.get("DUEBOX_TEST_OPTIONS", "{}"))
    return {"default": entry, "other": dict(entry)}


def from_url(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/") or "postgres",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
    }


def _embedded(folder: Path) -> dict[str, Any]:
    from duebox import embedded

    return embedded.start(folder, settings=SETTINGS).database("postgres")


@contextmanager
def server(entry: Mapping[str, Any]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(
        host=entry["HOST"], port=entry["PORT"] or None, user=entry["USER"] or None,
        password=entry.get("PASSWORD") or None, dbname="postgres", autocommit=True,
    ) as connection:  # fmt: skip
        yield connection


@contextmanager
def template(entry: Mapping[str, Any], name: str) -> Iterator[bool]:
    """Holds the lock on the template; yields whether it has to be filled."""
    with server(entry) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [_TEMPLATE_LOCK])
        missing = not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
        if missing:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield missing


def clone(entry: Mapping[str, Any], source: str, name: str) -> None:
    with server(entry) as connection:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(source)))


def drop(entry: Mapping[str, Any], name: str) -> None:
    with server(entry) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


NOT_EMPTIED = {"django_content_type", "auth_permission", "duebox_audit_key"}
"""What `migrate` has filled. Django's own flush would empty and fill them again."""
_DELETE_ROWS = """
DO $$
DECLARE
    present name[] := array(
        SELECT relname FROM pg_class WHERE relname = ANY({tables}) AND pg_table_is_visible(oid) ORDER BY relname
    );
    table_name name;
    has_rows boolean;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOREACH table_name IN ARRAY present LOOP
        EXECUTE format('LOCK TABLE %I IN SHARE ROW EXCLUSIVE MODE', table_name);
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', table_name) INTO has_rows;
        IF has_rows THEN
            EXECUTE format('DELETE FROM %I', table_name);
        END IF;
    END LOOP;
END $$
"""


def delete_rows(connection: Any) -> None:
    """Empty the tables after a test that has committed. Most are empty, and a TRUNCATE of all of them takes longer. The
    locks wait for transactions of threads that the test has left, as TRUNCATE does. Triggers and foreign keys are
    off."""
    tables = sorted(set(connection.introspection.django_table_names(include_views=False)) - NOT_EMPTIED)
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(_DELETE_ROWS).format(tables=sql.Literal(tables)))
