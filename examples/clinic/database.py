"""Which PostgreSQL the clinic lives on: the one in DATABASE_URL, else an embedded one in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

from duebox import embedded

_DJANGO_NAMES = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def database(url: str | None, folder: Path) -> dict[str, Any]:
    """An entry for Django's DATABASES."""
    return from_url(url) if url else start(folder).database("clinic")


def start(folder: Path) -> embedded.Embedded:
    # With commit timestamps the demo can tell how long after the commit, not after the insert, a handler started.
    return embedded.start(folder, settings={"track_commit_timestamp": "on"})


def from_url(url: str) -> dict[str, Any]:
    given = conninfo_to_dict(url)
    entry = {name: str(given.pop(key, "")) for key, name in _DJANGO_NAMES.items()}
    return {"ENGINE": "django.db.backends.postgresql", **entry, "OPTIONS": given}


def to_url(entry: dict[str, Any]) -> str:
    user, host, name = (quote(entry[key], safe="") for key in ("USER", "HOST", "NAME"))
    return f"postgresql://{user}@/{name}?host={host}&port={entry['PORT']}"
