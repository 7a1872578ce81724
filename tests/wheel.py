"""Duebox as a user has it: a wheel that was built from this checkout, in an empty virtual environment.

Used by what follows the documentation to the letter, and by the cases of the source documents (`tests.sources`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from tests.database import databases, drop, server

ROOT = Path(__file__).resolve().parents[1]


@cache
def uv() -> str:
    found = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found, "uv is missing; run: make setup"
    return found


def build(folder: Path) -> Path:
    """Build the wheel into a folder."""
    _run([uv(), "build", "--quiet", "--wheel", "--out-dir", folder, ROOT])
    [wheel] = folder.glob("duebox-*.whl")
    return wheel


def environment(folder: Path, *requirements: str) -> Path:
    """Make a virtual environment with these packages, and nothing else. Returns its `bin` folder."""
    _run([uv(), "venv", "--quiet", "--python", sys.executable, folder])
    _run([uv(), "pip", "install", "--quiet", "--python", folder / "bin" / "python", *requirements])
    return folder / "bin"


def clean_environment(binaries: Path, **more: str) -> dict[str, str]:
    """Variables for a process that knows nothing of this checkout."""
    unwanted = ("DJANGO_", "DUEBOX_", "PYTHON", "VIRTUAL_ENV", "PYTEST_", "COVERAGE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return {**kept, "PATH": f"{binaries}{os.pathsep}{kept['PATH']}", "PYTHONUNBUFFERED": "1", **more}


@cache
def _server_of_the_tests() -> dict[str, Any]:
    entry: dict[str, Any] = databases(os.environ)["default"]
    return entry


@contextmanager
def database(prefix: str) -> Iterator[dict[str, Any]]:
    """An empty database on the server of the tests, as an entry of DATABASES."""
    entry = {**_server_of_the_tests(), "NAME": f"{prefix}_{uuid.uuid4().hex[:12]}"}
    with server(entry) as connection:
        connection.execute(f"CREATE DATABASE {entry['NAME']}")
    try:
        yield entry
    finally:
        drop(entry, entry["NAME"])


def conninfo(entry: Mapping[str, Any]) -> str:
    """The same for libpq."""
    names = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD", "dbname": "NAME"}
    return make_conninfo(**{name: entry[key] for name, key in names.items() if entry.get(key)})


def connect(entry: Mapping[str, Any]) -> psycopg.Connection:
    return psycopg.connect(conninfo(entry), autocommit=True)


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
