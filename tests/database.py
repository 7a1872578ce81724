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

    return embedded.database(folder, "postgres")


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
